# The portable edition: how it is installed and leaves, what an open transaction of Java's does to it, and how the extension takes over from it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = PostgreSQL::Test::Cluster->new('portable');
$node->init;
configure($node, "synchronous_commit = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE team; CREATE ROLE others; CREATE ROLE app; CREATE ROLE "On ""Call"');

# A database with a schema of the team's; what psql says of the file when the team runs it.
my $file = 'extension/portable/shedlock.sql';
sub run_file
{
	my ($database, $path, $role) = @_;
	my ($out, $error) = ('', '');
	my $ok = IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-c', 'SET ROLE ' . ($role // 'team'), '-f', $path ], '>', \$out, '2>', \$error);
	return ($ok, $error);
}
sub database
{
	my ($name, $before) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, "CREATE SCHEMA jobs AUTHORIZATION team; ALTER DATABASE $name SET search_path = jobs; GRANT USAGE ON SCHEMA jobs TO PUBLIC; " . ($before // ''));
}
sub sql { return $node->safe_psql(@_); }
sub refuses
{
	my ($database, $role, $message, $what) = @_;
	my ($done, $error) = run_file($database, $file, $role);
	ok(!$done && $error =~ $message, $what) or diag($error);
	is(sql($database, q[SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock']), $_[4] // 0, '... and nothing is left');
}

database('shop');
ok((run_file('shop', $file))[0], 'an ordinary role installs it');
my $held = sql('shop', q[SELECT shedlock_acquire_token('held', '1 h')]);
ok((run_file('shop', $file))[0], '... twice');
is(sql('shop', qq[SELECT shedlock_extend_token('held', $held, '1 h')]), 't', '... and a lock that was held is');
is(sql('shop', q[SELECT edition, version FROM shedlock_version()]), 'portable|' . (slurp_file('extension/shedlock.control') =~ /default_version = '(.*)'/)[0], 'it has the version of the control file');
is(sql('shop', q[SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc WHERE proname ~ '^shedlock' AND prosrc ~ '@extschema@']), '', 'every function knows its schema');
# Acquire asks for a flush, whatever the session's setting; who is refused has written nothing.
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('sync', '1 h'), current_setting('synchronous_commit')]), 't|on', 'I7: an acquire is durable');
my $release = q[BEGIN; SELECT shedlock_release('flushed', %s), current_setting('synchronous_commit'); COMMIT];
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-01Z'); ] . sprintf($release, 'true')), "t\nt|on", '... and so is a release as done of a run with a tick');
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-02Z'); ] . sprintf($release, 'false')), "t\nt|off", '... not one as failed');
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h'); ] . sprintf($release, 'true')), "t\nt|off", '... nor one without a tick');
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('held', '1 h'), pg_current_xact_id_if_assigned() IS NULL, current_setting('synchronous_commit')]), 'f|t|off', 'I3: a refusal writes nothing');

# Java's first insert, undecided. While it is open, or with a conflict that its end would settle.
my $client = $node->background_psql('shop');
$client->query_safe(q[BEGIN; INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host')]);
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	is(sql('shop', qq[SET statement_timeout = '60s'; BEGIN ISOLATION LEVEL $level; SELECT shedlock_acquire('java', '1 h'), clock_timestamp() - statement_timestamp() >= '100 ms'; SELECT shedlock_acquire('another', '1 s'), current_setting('lock_timeout'); ROLLBACK]),
		"f|t\nt|0", "I2: Java's uncommitted insert is waited for no longer than one may wait for room in the table, $level");
}
$client->query_safe('COMMIT');
is(sql('shop', q[SELECT shedlock_acquire('java', '1 h')]), 'f', '... nor is it overwritten');
# Ours neither, however its transaction ends, and also when its lease is over before it is committed.
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	for my $inserted ("shedlock_acquire('new', '1 h')", "shedlock_acquire('new', '1 ms') FROM pg_sleep(0)", "shedlock_acquire(ARRAY['another', 'new'], '1 h')")
	{
		my $asked = qq[BEGIN ISOLATION LEVEL $level; SELECT FROM shedlock; SELECT shedlock_acquire('new', '1 h')];
		for my $end ('ROLLBACK TO before; COMMIT', 'ROLLBACK', 'COMMIT')
		{
			$client->query_safe(qq[BEGIN; SAVEPOINT before; SELECT $inserted; SELECT pg_sleep(0.002)]);
			is(sql('shop', "SET lock_timeout = '60s'; $asked; SELECT shedlock_acquire(ARRAY['third', 'new'], '1 h'), shedlock_acquire('third', '1 h')"), "f\nf|t", "I2: ours is not waited for either, $level, $inserted");
			$client->query_safe($end);
			is(sql('shop', $asked), $end eq 'COMMIT' && $inserted !~ /ms/ ? 'f' : 't', "... and is seen after $end");
		}
		$client->query_safe(q[DELETE FROM shedlock WHERE name IN ('new', 'another')]);
	}
}
# Any role can take the advisory lock with which ours tell each other. It keeps no name from being acquired.
$client->query_safe(q[SET ROLE others; BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('withheld', 'jobs.shedlock'::regclass::oid::bigint))]);
is(sql('shop', q[SELECT shedlock_acquire('withheld', '1 h')]), 't', 'a new name is acquired though somebody else has its advisory lock');
$client->query_safe('ROLLBACK; RESET ROLE');

# A session goes on when columns have changed their types under it.
$client->query_safe(q[SELECT shedlock_acquire('typed', '1 h'), shedlock_extend('typed', '1 h'), shedlock_acquire('typed', '1 h'), shedlock_force_release('no such')]);
sql('shop', q[ALTER TABLE shedlock ALTER name TYPE text COLLATE "C", ALTER locked_by TYPE text]);
is($client->query_safe(q[SELECT shedlock_extend('typed', '1 h'), shedlock_acquire('typed', '1 h'), shedlock_guard('typed'), shedlock_release('typed'), shedlock_acquire('typed', '1 h'), shedlock_force_release('typed'), shedlock_acquire(ARRAY['typed', 'other type'], '1 h'), (SELECT count(*) FROM shedlock_locks WHERE name = 'typed')]),
	't|f||t|t|t|t|1', 'a session goes on when varchar has become text');
$client->quit;

# Who may install it, and where.
database('adopted', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
	INSERT INTO jobs.shedlock VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host'); ALTER TABLE jobs.shedlock OWNER TO team]);
refuses('adopted', 'others', qr/it belongs to role team, not to others/, "a table of somebody else's is not adopted");
ok((run_file('adopted', $file))[0], '... but by its owner');
is(sql('adopted', q[SELECT shedlock_acquire('java', '1 h'), shedlock_acquire('sql', '1 h')]), 'f|t', "... with Java's locks");
is(sql('adopted', q[SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobs.shedlock'::regclass AND attnum > 0]),
	'name lock_until locked_at locked_by lock_at_least_until last_tick last_done_tick last_done_at', '... and with our columns');
database('odd', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamptz NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL); ALTER TABLE jobs.shedlock OWNER TO team]);
refuses('odd', 'team', qr/column "lock_until" is timestamp with time zone/, 'a table that will not do');
my $java_columns = 'name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL';
for ([ 'last_tick timestamp(0)', qr/column "last_tick" is timestamp\(0\) without time zone\nHINT:  It must have microseconds/ ], [ 'last_done_at timestamptz', qr/column "last_done_at" is timestamp with time zone/ ],
	[ 'last_done_tick timestamp NOT NULL', qr/column "last_done_tick" is NOT NULL/ ], [ 'last_done_at timestamp DEFAULT now()', qr/column "last_done_at" has a default/ ],
	[ 'last_tick timestamp GENERATED ALWAYS AS (locked_at) STORED', qr/column "last_tick" is generated/ ])
{
	my ($column, $message) = @$_;
	sql('odd', "DROP TABLE jobs.shedlock; CREATE TABLE jobs.shedlock ($java_columns, $column); ALTER TABLE jobs.shedlock OWNER TO team");
	refuses('odd', 'team', $message, "nor one with $column");
}
# What is missing is added, in whatever order the rest is.
my $columns = q[SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobs.shedlock'::regclass AND attnum > 0];
sql('odd', "DROP TABLE jobs.shedlock; CREATE TABLE jobs.shedlock (last_done_tick timestamp(6), note text, $java_columns, lock_at_least_until timestamp(0)); ALTER TABLE jobs.shedlock OWNER TO team");
ok((run_file('odd', $file))[0], 'a table that has some of our columns');
is(sql('odd', $columns), 'last_done_tick note name lock_until locked_at locked_by lock_at_least_until last_tick last_done_at', '... gets the others');
is(sql('odd', q[SELECT shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123456Z'), shedlock_release('a'), shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123456Z', retry => true), shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123457Z')]), 't|t|f|t', '... and serves');
database('adopting', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL); ALTER TABLE jobs.shedlock OWNER TO team]);
my $java = $node->background_psql('adopting');
$java->query_safe('BEGIN; SELECT FROM jobs.shedlock');
refuses('adopting', 'team', qr/ERROR:  cannot adopt table jobs.shedlock: another transaction has it locked\nHINT:  Run the file again when/, 'adopting does not wait for ever for an open transaction');
(my $status, undef, my $said) = $node->psql('adopting', 'CREATE EXTENSION shedlock SCHEMA jobs');
like($said, qr/ERROR:  cannot adopt table shedlock: another transaction has it locked\nHINT:  Try again when/, "... nor does the extension's");
$java->query_safe('COMMIT');
$java->quit;
$node->safe_psql('postgres', 'CREATE DATABASE quoted');
for my $name ('a $f$ b', 'a $function$ b', q[a'b], 'a"b', 'a@b', 'a\\b', 'a;b')
{
	my $quoted = '"' . $name =~ s/"/""/gr . '"';
	sql('quoted', "CREATE SCHEMA $quoted AUTHORIZATION team; ALTER DATABASE quoted SET search_path = $quoted");
	like((run_file('quoted', $file))[1], qr/ERROR:  the name of schema .* has characters other than/, "not in schema $name");
}
sql('quoted', 'CREATE SCHEMA "On Call_2.b-Ä" AUTHORIZATION team; ALTER DATABASE quoted SET search_path = "On Call_2.b-Ä"');
is((run_file('quoted', $file))[1], '', 'but in one with blanks and letters');
is(sql('quoted', q[SELECT shedlock_acquire('a', '1 h'), shedlock_grant('team'), count(*) FROM shedlock_locks]), 't||0', '... where it works');
database('nowhere', 'ALTER DATABASE nowhere SET search_path = none');
refuses('nowhere', 'team', qr/there is no current schema/, 'without a schema');
database('other', 'CREATE EXTENSION shedlock SCHEMA jobs');
refuses('other', 'postgres', qr/the extension shedlock is installed in this schema/, 'where the extension is', sql('other', q[SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock']));

# The same functions, for whoever calls them. What else there is serves one of the two.
my $signatures = q[SELECT proname, prokind, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid) FROM pg_proc p
	WHERE proname ~ '^shedlock_[^_]' AND proname !~ '^shedlock_(raise|run_.*|after_pg_upgrade)$' ORDER BY 1, 3];
my $views = q[SELECT relname, (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)
	FROM pg_class c WHERE relname IN ('shedlock_locks', 'shedlock_stats') ORDER BY 1];
is(sql('adopted', $_), sql('other', $_), 'both editions look alike') for $signatures, $views;

# Owned by another role, or restored from a dump by another role, it is the same: its functions know each other by the table.
sql('shop', q[CREATE ROLE heirs; REASSIGN OWNED BY team TO heirs; SELECT shedlock_grant('app')]);
is(sql('shop', q[SET ROLE app; SELECT shedlock_acquire('inherited', '1 h')]), 't', 'REASSIGN OWNED: shedlock_grant grants');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-O', '-x', '-f', $dump, '-n', 'jobs', $node->connstr('shop') ], 'a dump');
sql('postgres', 'CREATE DATABASE copy; CREATE ROLE restorer');
sql('copy', 'GRANT CREATE ON DATABASE copy TO restorer; ALTER DATABASE copy SET search_path = jobs');
ok((run_file('copy', $dump, 'restorer'))[0], '... restored by another role');
sql('copy', q[GRANT USAGE ON SCHEMA jobs TO app, team; SET ROLE restorer; SELECT shedlock_grant('app')]);
is(sql('copy', q[SET ROLE app; SELECT shedlock_acquire('inherited', '1 h'), shedlock_acquire('restored', '1 h')]), 'f|t', '... grants, and has the locks');
like((run_file('copy', 'extension/portable/uninstall.sql', 'team'))[1], qr/belongs to role restorer, not to team/, '... is dropped by its owner only');
ok((run_file('copy', 'extension/portable/uninstall.sql', 'restorer'))[0], '... that is the new one');
is(sql('copy', q[SELECT (SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock'), string_agg(relname, ' ' ORDER BY 1) FROM pg_class WHERE relname ~ '^shedlock']), '0|shedlock shedlock_pkey', '... and whole');
sql('shop', q[REASSIGN OWNED BY heirs TO team]);

# The extension takes over: with the roles' grants, a token that is held, the lock of a session whose start the owner could see, and what was done.
sql('shop', q[SELECT shedlock_acquire('ticked', '1 h', tick => '2026-01-01Z'), shedlock_release('ticked')]);
my $done = q[SELECT shedlock_acquire('ticked', '1 h', tick => '2026-01-01Z', retry => true), last_done_at IS NOT NULL, last_tick = '2026-01-01Z', last_done_tick = last_tick FROM shedlock_locks WHERE name = 'ticked'];
sql('shop', q[SELECT shedlock_grant('app'), shedlock_grant('On "Call', admin => true); GRANT pg_read_all_stats TO team]);
sql('shop', q[SELECT shedlock_protect(); SET ROLE team; CREATE FUNCTION shedlock_report() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE VIEW shedlock_mine AS SELECT 1 AS mine]);
ok((run_file('shop', $file))[0], 'once more, with functions of the team\'s own that are called alike');
my $refusal = (split /\n/, ($node->psql('shop', 'CREATE EXTENSION shedlock'))[2])[0];
like($refusal, qr/ERROR:  cannot take over the portable edition of shedlock in schema jobs: it belongs to role team, not to postgres/, 'a superuser does not take over what another role may have planted');
sql('shop', 'GRANT CREATE ON DATABASE shop TO team');
my $take_over = q[
SELECT shedlock_acquire('of the session', '1 h'), shedlock_acquire('protected', '1 h');
SET ROLE team;
CREATE EXTENSION shedlock;
RESET ROLE;
SELECT edition FROM shedlock_version();
SELECT string_agg(name || ' ' || state, ', ' ORDER BY name) FROM shedlock_locks WHERE name IN ('held', 'of the session', 'java');
SELECT shedlock_release('of the session');];
($status, my $told, my $notices) = $node->psql('shop', $take_over);
is($told, "t|t\nextension\nheld held, java held, of the session held\nt", 'CREATE EXTENSION takes over');
like($notices, qr/NOTICE:  taking over from the portable edition of shedlock in schema jobs, owned by role team\nDETAIL:  .* these roles: "On ""Call", app\..*NOTICE:  adopting the existing table jobs.shedlock/s, '... and says so');
is(sql('shop', qq[SELECT shedlock_release_token('held', $held)]), 't', '... a token stays the holder\'s');
is(sql('shop', $done), 'f|t|t|t', '... what was done is not due again');
is(sql('shop', q[UPDATE shedlock SET lock_until = now() WHERE name = 'protected' RETURNING name]), '', '... protection stays on');
is(sql('shop', q[SELECT count(*) FROM pg_proc WHERE proname ~ 'shedlock' AND proname <> 'shedlock_report' AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')]), '0', '... nothing of the old functions is left');
is(sql('shop', q[SET ROLE app; SELECT shedlock_acquire('app', '1 h'); RESET ROLE; SET ROLE "On ""Call"; SELECT shedlock_pause('paused')]), "t\nt", '... who was granted something has it');
($status, undef, my $error) = $node->psql('shop', q[SET ROLE app; SELECT shedlock_pause('paused too')]);
like($error, qr/permission denied for function shedlock_pause/, '... and no more');
is(sql('shop', q[SELECT shedlock_report(), mine, has_function_privilege('app', 'shedlock_report()', 'EXECUTE') FROM shedlock_mine]), '1|1|t', '... what the team has made besides is as it was');
sql('shop', 'DROP EXTENSION shedlock');
ok((run_file('shop', $file))[0], 'and back');
is(sql('shop', q[SELECT shedlock_acquire('app', '1 h'), shedlock_resume('paused')]), 'f|t', '... with the locks');
is(sql('shop', $done), 'f|t|t|t', '... and with what was done');

# A Citus worker, by its catalog, which only a superuser can make.
sql('adopted', q[CREATE SCHEMA citus; CREATE TABLE citus.pg_dist_local_group (groupid int PRIMARY KEY); INSERT INTO citus.pg_dist_local_group VALUES (0);
	ALTER TABLE citus.pg_dist_local_group SET SCHEMA pg_catalog; GRANT SELECT ON pg_dist_local_group TO PUBLIC]);
is(sql('adopted', q[SELECT shedlock_acquire('coordinator', '1 h')]), 't', 'the coordinator of a Citus cluster grants locks');
sql('adopted', 'UPDATE pg_dist_local_group SET groupid = 2');
($status, undef, $error) = $node->psql('adopted', q[SELECT shedlock_release('coordinator'); SELECT shedlock_acquire('worker', '1 h')]);
like($error, qr/ERROR:  this server is a Citus worker/, '... a worker does not');
sql('adopted', 'DROP TABLE pg_dist_local_group; DELETE FROM shedlock WHERE name = \'coordinator\'');

# Not for whoever does not have its owner's rights; and not where something depends on the old functions.
sql('adopted', 'CREATE ROLE "A Dba"; GRANT CREATE ON DATABASE adopted TO "A Dba"; GRANT ALL ON SCHEMA jobs TO "A Dba"');
($status, undef, $error) = $node->psql('adopted', 'SET ROLE "A Dba"; CREATE EXTENSION shedlock');
like($error, qr/ERROR:  cannot take over the portable edition of shedlock in schema jobs: it belongs to role team, not to "A Dba"/, 'nor does any other role');
sql('adopted', 'CREATE VIEW public.mine AS SELECT * FROM shedlock_locks');
sql('adopted', 'GRANT CREATE ON DATABASE adopted TO team');
($status, undef, $error) = $node->psql('adopted', 'SET ROLE team; CREATE EXTENSION shedlock');
like($error, qr/ERROR:  cannot take over the portable edition of shedlock: other objects depend on it\nDETAIL:  view public.mine depends on view shedlock_locks\nHINT:  Drop them, create/, 'nor is anything dropped that others use');
is(sql('adopted', q[SELECT edition, (SELECT count(*) FROM public.mine) > 0 FROM shedlock_version()]), 'portable|t', '... all stays as it was');

# It leaves.
sql('adopted', 'DROP VIEW public.mine; SELECT shedlock_protect()');
ok((run_file('adopted', 'extension/portable/uninstall.sql'))[0], 'uninstall.sql');
is(sql('adopted', q[SELECT count(*) FILTER (WHERE proname ~ 'shedlock'), (SELECT count(*) FROM jobs.shedlock), (SELECT count(*) FROM pg_trigger WHERE tgname = 'shedlock_protect') FROM pg_proc]),
	'0|2|0', '... leaves the table, and no trigger');
$node->stop;
done_testing();
