# The history of runs when the database changes around it: dump and restore, takeover from the portable edition, another
# schema, event triggers, a standby, a subscriber, DROP EXTENSION.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = PostgreSQL::Test::Cluster->new('server');
$node->init(allows_streaming => 'logical');
configure($node, "max_prepared_transactions = 5\n");
$node->start;
sub sql { return $node->safe_psql(@_); }
my $runs = q[SELECT string_agg(name || ' ' || outcome, ', ' ORDER BY ended_at, name)
	FROM shedlock_history() WHERE name <> ''];
my $run = q[DO $$ BEGIN PERFORM shedlock_acquire('%s', '1 min'); PERFORM shedlock_release('%s'); END $$];
sub ran { return sprintf $run, $_[0], $_[0]; }

sql('postgres', 'CREATE ROLE "The.Team" LOGIN; CREATE ROLE reader; CREATE ROLE admin');
for my $edition (qw(extension portable))
{
	sql('postgres', qq[CREATE DATABASE $edition OWNER "The.Team"]);
	# Row security that somebody's event trigger switches on for every new table, as Supabase does.
	sql($edition, q[CREATE FUNCTION secure() RETURNS event_trigger LANGUAGE plpgsql AS $$
		DECLARE made record;
		BEGIN
			FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE command_tag = 'CREATE TABLE' LOOP
				EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', made.object_identity);
			END LOOP;
		END $$;
		CREATE EVENT TRIGGER secure ON ddl_command_end EXECUTE FUNCTION secure();
		CREATE SCHEMA jobs AUTHORIZATION "The.Team"; GRANT USAGE ON SCHEMA jobs TO PUBLIC;
		ALTER DATABASE ] . $edition . q[ SET search_path = jobs]);
	my $install = $edition eq 'extension' ? 'CREATE EXTENSION shedlock SCHEMA jobs;' : '\i portable/shedlock.sql';
	sql($edition, qq[SET ROLE "The.Team";\n$install] . q[
		SELECT shedlock_grant('reader', read_only => true), shedlock_grant('admin', admin => true)]);
	# An administrator may keep a history, although the table will belong to another role; also within a DDL command,
	# which is reported to event triggers.
	sql($edition, 'SET ROLE admin; CREATE TEMP TABLE t AS SELECT shedlock_keep_history() IS NULL;' . ran('before'));
	is(sql($edition, "SET ROLE reader; $runs"), 'before done', "$edition: row security hides no row from a reader");
	is(sql($edition, "SELECT relowner::regrole FROM pg_class WHERE oid = 'shedlock_history'::regclass"), '"The.Team"',
		'... and the table belongs to the owner of the locks');

	# Dump and restore, while it is kept and while it is not.
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$edition.sql";
	for my $state (qw(kept not_kept))
	{
		sql($edition, 'SELECT shedlock_keep_history(false)') if $state eq 'not_kept';
		$node->command_ok([ 'pg_dump', '-f', $file, '-d', $node->connstr($edition) ], "$edition: pg_dump while $state");
		sql('postgres', "CREATE DATABASE ${edition}_$state");
		$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $file,
				'-d', $node->connstr("${edition}_$state") ], '... is restored');
		is(sql("${edition}_$state", 'SET search_path = jobs; ' . ran('after') . "; $runs"),
			'before done' . ($state eq 'kept' ? ', after done' : ''), '... and it is still ' . $state =~ s/_/ /r);
	}
	sql($edition, 'SELECT shedlock_keep_history()');
}

# The extension takes over from the portable edition.
sql('portable', 'SET ROLE "The.Team"; CREATE EXTENSION shedlock SCHEMA jobs');
is(sql('portable', ran('taken over') . "; $runs"), 'before done, taken over done',
	'the extension takes the history over');
# The functions in another schema; then both tables.
sql('extension', 'CREATE SCHEMA elsewhere; ALTER EXTENSION shedlock SET SCHEMA elsewhere');
is(sql('extension', 'SET search_path = elsewhere; ' . ran('moved') . "; $runs"), 'before done, moved done',
	'the history is in the schema of the table, wherever the functions are');
sql('extension', 'ALTER TABLE jobs.shedlock SET SCHEMA elsewhere');
like(($node->psql('extension', 'SET search_path = elsewhere; ' . ran('x') . "; $runs"))[2], qr/there is no history/,
	'... and stays behind when only that table is moved');
sql('extension', 'ALTER TABLE jobs.shedlock_history SET SCHEMA elsewhere');
is(sql('extension', 'SET search_path = elsewhere; ' . ran('together') . "; $runs"),
	'before done, moved done, together done', '... until it follows');
# A crash; and what was prepared before it.
sql('extension', q[SET search_path = elsewhere; BEGIN; SELECT shedlock_acquire('p', '1 h');
	SELECT shedlock_complete('p'); PREPARE TRANSACTION 'p']);
$node->stop('immediate');
$node->start;
is(sql('extension', "SET search_path = elsewhere; $runs"), 'before done, moved done, together done',
	'a prepared completion is not recorded yet');
is(sql('extension', "SET search_path = elsewhere; COMMIT PREPARED 'p'; $runs"),
	'before done, moved done, together done, p done', '... but by its commit, even after a crash');
# A subscriber gets the rows, and those that are deleted.
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
sql('extension', 'CREATE PUBLICATION everything FOR ALL TABLES');
my $schema = PostgreSQL::Test::Utils::tempdir() . '/schema.sql';
$node->command_ok([ 'pg_dump', '-s', '-t', 'elsewhere.shedlock*', '-O', '-x', '-f', $schema,
		'-d', $node->connstr('extension') ],
	'the tables are copied to a subscriber');
$subscriber->safe_psql('postgres', "CREATE SCHEMA elsewhere;\n\\i $schema");
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION everything
	CONNECTION '" . $node->connstr('extension') =~ s/'/''/gr . "' PUBLICATION everything");
$subscriber->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_subscription_rel WHERE srsubstate = 'r'");
sql('extension', "SET search_path = elsewhere; " . ran('published')
		. q[; DELETE FROM shedlock_history WHERE name IN ('before', 'p')]);
$node->wait_for_catchup('everything');
is($subscriber->safe_psql('postgres', q[SELECT string_agg(name, ', ' ORDER BY ended_at)
		FROM elsewhere.shedlock_history WHERE name <> '']),
	'moved, together, published', '... which gets its rows, and loses those that are deleted');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION everything');
$subscriber->stop;
# On a standby it can be read.
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('extension', "SET search_path = elsewhere; $runs"), 'moved done, together done, published done',
	'a standby shows the history');
is($standby->safe_psql('extension', q[SET search_path = elsewhere;
		SELECT count(*) FROM shedlock_history('{moved}')]), 1, '... by name, too');
$standby->stop;

sql('extension', 'DROP EXTENSION shedlock');
is(sql('extension', q[SELECT count(*) FROM elsewhere.shedlock_history WHERE name = 'moved']), 1,
	'DROP EXTENSION leaves the table');
$node->stop;
done_testing();
