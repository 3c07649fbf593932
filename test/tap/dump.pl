# pg_dump and restore: the locks are restored, tokens keep growing (I6), and CREATE EXTENSION adopts the restored table.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = new_server('server');
sub sql { return $node->safe_psql(@_); }
sub restored
{
	my ($from, $to, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$from.sql";
	$node->command_ok([ 'pg_dump', '-f', $file, @options, '-d', $node->connstr($from) ], "pg_dump of $from");
	sql('postgres', "CREATE DATABASE $to");
	$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $node->connstr($to) ],
		"restore into $to");
}

# A table that CREATE EXTENSION made.
sql('postgres', "CREATE ROLE app");
sql('postgres', "SELECT shedlock_grant('app')");
my $token = sql('postgres', "SELECT shedlock_acquire_token('gone', '1 ms')");
my $held = sql('postgres', "SELECT shedlock_acquire_token('held', '1 h')");
sql('postgres', "UPDATE shedlock SET locked_at = locked_at + interval '1 day' WHERE name = 'gone'");
restored('postgres', 'copy');
is(sql('copy', "SELECT shedlock_acquire('held', '1 h')"), 'f', 'the lock is also held in the copy');
is(sql('copy', "SELECT shedlock_release_token('held', $held)"), 't', '... with the same token');
cmp_ok(sql('copy', "SELECT shedlock_acquire_token('gone', '1 min')"), '>', $token + 86400 * 1000000,
	'I6 tokens grow across a dump and restore');
is(sql('copy', "SET ROLE app; SELECT shedlock_acquire('by app', '1 h')"), 't', 'grants are restored');
is(sql('copy', "SELECT count(*) FROM pg_depend
		WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shedlock') AND deptype = 'e'"),
	sql('postgres', "SELECT count(*) FROM pg_depend
		WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shedlock') AND deptype = 'e'"),
	'the extension has as many members in the copy');
restored('copy', 'copy_of_copy');
my $in_place = PostgreSQL::Test::Utils::tempdir() . '/clean.sql';
$node->command_ok([ 'pg_dump', '--clean', '--if-exists', '-f', $in_place, '-d', $node->connstr('copy') ],
	'pg_dump --clean');
$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $in_place, '-d', $node->connstr('copy_of_copy') ],
	'... restored over the existing objects');
for my $database (qw(copy copy_of_copy))
{
	is(sql($database, "SELECT shedlock_acquire('by app', '1 h')"), 'f', "the lock is held in $database");
	sql($database, 'DROP EXTENSION shedlock');
	is(sql($database, "SELECT count(*) FROM shedlock"), 3, "$database: DROP EXTENSION leaves the locks");
}

# An adopted table.
sql('postgres', 'CREATE DATABASE java');
sql('java', "CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
	locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)");
sql('java', 'CREATE EXTENSION shedlock');
$held = sql('java', "SELECT shedlock_acquire_token('held', '1 h')");
restored('java', 'java_copy');
is(sql('java_copy', "SELECT shedlock_acquire('held', '1 h'), shedlock_release_token('held', $held)"), 'f|t',
	'an adopted table: the lock is held in the copy, with the same token');
sql('java_copy', 'DROP EXTENSION shedlock');
is(sql('java_copy', 'SELECT count(*) FROM shedlock'), 1,
	'... and the table is adopted there, too: DROP EXTENSION leaves it');

# An ordinary role that installed the extension, which is trusted, can dump it.
sql('postgres', 'CREATE ROLE dba LOGIN; CREATE DATABASE owned OWNER dba');
sql('owned', 'CREATE EXTENSION shedlock', extra_params => [ '-U', 'dba' ]);
sql('owned', "SELECT shedlock_acquire('x', '1 h')", extra_params => [ '-U', 'dba' ]);
restored('owned', 'owned_copy', '-U', 'dba', '--no-owner');
is(sql('owned_copy', 'SELECT count(*) FROM shedlock'), 1,
	'the role that installed the extension can dump and restore its table');

$node->stop;
done_testing();
