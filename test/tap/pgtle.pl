# The portable edition as an extension, made by the script that portable/pgtle prints for pg_tle. Debian has no pg_tle,
# which keeps the files of an extension in the database. So this test puts them into a folder.
use strict;
use warnings;
use Cwd qw(abs_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $folder = abs_path(PostgreSQL::Test::Utils::tempdir());
system_or_bail('cp', '-r', "$ENV{SHEDLOCK_STAGE}/.", $folder);
$ENV{SHEDLOCK_SETTINGS} =~ s/\Q$ENV{SHEDLOCK_STAGE}\E/$folder/g;
my $node = PostgreSQL::Test::Cluster->new('pgtle');
$node->init;
configure($node);
$node->start;
sub sql
{
	my ($database, $statements) = @_;
	return $node->safe_psql($database, $statements, extra_params => [ '-U', 'team' ]);
}
$node->safe_psql('postgres', 'CREATE ROLE team LOGIN CREATEDB; CREATE ROLE app');

my $script = `portable/pgtle`;
$node->safe_psql('postgres', <<"SQL");
CREATE SCHEMA pgtle;
CREATE TABLE pgtle.installed (name text, version text, script text);
CREATE FUNCTION pgtle.install_extension(name text, version text, description text, ext text, requires text[])
    RETURNS void LANGUAGE sql AS 'INSERT INTO pgtle.installed VALUES (\$1, \$2, \$4)';
$script
SQL
my ($version) = slurp_file('extension/shedlock.control') =~ /default_version = '(.*)'/;
is($node->safe_psql('postgres', 'SELECT name, version FROM pgtle.installed'), "shedlock_portable|$version",
	'pg_tle gets the version of the control file');
chomp(my $extensions = `dirname \$(find $folder -name shedlock.control)`);
append_to_file("$extensions/shedlock_portable.control",
	"default_version = '$version'\nsuperuser = false\nrelocatable = false\nrequires = 'plpgsql'\n");
append_to_file("$extensions/shedlock_portable--$version.sql",
	$node->safe_psql('postgres', 'SELECT script FROM pgtle.installed'));

for my $database ('new', 'adopted')
{
	sql('postgres', "CREATE DATABASE $database");
	sql($database, qq[CREATE SCHEMA "Jobs 1"; GRANT USAGE ON SCHEMA "Jobs 1" TO app;
		ALTER DATABASE $database SET search_path = "Jobs 1"]);
	sql($database, q[CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
		locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
		INSERT INTO shedlock VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host')])
		if $database eq 'adopted';
	sql($database, 'CREATE EXTENSION shedlock_portable');
	is(sql($database, q[SELECT string_agg(o.name, ', ') FROM (
				SELECT 'pg_proc'::regclass AS of, oid, oid::regprocedure::text AS name, pronamespace AS schema
					FROM pg_proc
				UNION ALL
				SELECT 'pg_class', oid, oid::regclass::text, relnamespace FROM pg_class WHERE relkind IN ('r', 'v')) o
			WHERE schema = '"Jobs 1"'::regnamespace
				AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = of AND objid = o.oid AND deptype = 'e')]),
		'', "$database: an ordinary role creates the extension, and every object is a member of it");
	is(sql($database, q[SELECT shedlock_acquire('java', '1 h'); SELECT shedlock_acquire_token('held', '1 h') > 0;
			SELECT shedlock_grant('app')]),
		($database eq 'adopted' ? 'f' : 't') . "\nt\n",
		$database eq 'adopted' ? '... and the locks of the existing table are kept' : '... and its functions work');
	my $dump = $node->basedir . "/$database.dump";
	$node->command_ok([ 'pg_dump', '-U', 'team', '-Fc', '-f', $dump, $node->connstr($database) ],
		'... it can be dumped');
	sql('postgres', "CREATE DATABASE copy_of_$database");
	$node->command_ok([ 'pg_restore', '-U', 'team', '--exit-on-error',
			'-d', $node->connstr("copy_of_$database"), $dump ],
		'... and restored');
	is($node->safe_psql("copy_of_$database", q[SET search_path = "Jobs 1";
			SELECT string_agg(name, ' ' ORDER BY name) FROM shedlock_locks WHERE state = 'held';
			SET ROLE app; SELECT shedlock_acquire('held', '1 h'), shedlock_acquire('other', '1 h')]),
		"held java\nf|t", '... with the locks and the grants');
}
is(sql('new', 'DROP EXTENSION shedlock_portable; SELECT count(*) FROM pg_class WHERE relname ~ \'^shedlock\''), '0',
	'DROP EXTENSION drops the table as well');
my (undef, undef, $refusal) = $node->psql('adopted', 'CREATE EXTENSION shedlock', extra_params => [ '-U', 'team' ]);
my $belongs = 'it belongs to extension shedlock_portable';
like($refusal, qr/cannot take over the portable edition of shedlock: $belongs\nHINT:  Keep the table/,
	'CREATE EXTENSION shedlock does not take over shedlock_portable');
is(sql('adopted', q[ALTER EXTENSION shedlock_portable DROP TABLE shedlock; DROP EXTENSION shedlock_portable;
		CREATE EXTENSION shedlock; SELECT shedlock_acquire('held', '1 h'), edition FROM shedlock_version()]),
	'f|extension', '... until that has been dropped without its table');
$node->stop;
done_testing();
