# Fault 39: pg_upgrade, and pg_dump with a restore, keep locks and tokens (I6). The old server is $SHEDLOCK_OLD_BIN,
# which test/versions/upgrade sets, or else one of the same version. Database "own" has our own table, "java" an adopted
# one.
use strict;
use warnings;
use File::Basename;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my ($new_bin) = map { chomp; $_ } `pg_config --bindir`;
my $old_bin = $ENV{SHEDLOCK_OLD_BIN} // $new_bin;
my $folder = PostgreSQL::Test::Utils::tempdir();
my (%held, %gone);

# With checksums, which are initdb's default from 18 on: pg_upgrade requires that both servers have them, or neither.
sub initialised
{
	my ($name, $bin, $settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, install_path => dirname($bin));
	$node->init(extra => ['--data-checksums']);
	$node->append_conf('postgresql.conf', $settings) if $settings;
	configure($node) unless $settings;
	return $node;
}

sub fill
{
	my ($node, $database) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,'
		. ' locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)') if $database eq 'java';
	$node->safe_psql($database,
		"CREATE EXTENSION shedlock; SELECT shedlock_grant('app'); SELECT shedlock_pause('paused', 'why')");
	$held{$database} = $node->safe_psql($database, "SELECT shedlock_acquire_token('held', '1 h')");
	# Simulates a clock that stepped back: the next token must still be greater than this one.
	$node->safe_psql($database, "SELECT shedlock_acquire_token('gone', '1 ms');"
		. " UPDATE shedlock SET locked_at = locked_at + interval '1 day' WHERE name = 'gone'");
	$gone{$database} = $node->safe_psql($database, "SELECT token FROM shedlock_locks WHERE name = 'gone'");
	$node->safe_psql($database, "SELECT shedlock_acquire('kept', '1 h', '1 h'), shedlock_release('kept')");
	is(dependency_findings($node, $database), '0',
		"$database: the doctor does not report that pg_dump does not know the table");
}

sub dependency_findings
{
	my ($node, $database) = @_;
	return $node->safe_psql($database,
		"SELECT count(*) FROM shedlock_doctor() WHERE finding LIKE 'pg_dump does not know%'");
}

sub keeps
{
	my ($node, $database, $how) = @_;
	my $ask = sub { return $node->safe_psql($database, "SET client_min_messages = error; SELECT @_") };
	is($ask->("string_agg(name || ' ' || state, ', ' ORDER BY name) FROM shedlock_locks"),
		'gone free, held held, kept kept, paused paused', "$database $how: every lock is as it was");
	is($ask->("shedlock_acquire('held', '1 h'), shedlock_acquire('kept', '1 h'), shedlock_acquire('paused', '1 h')"),
		'f|f|f', "$database $how: locks that were held, kept or paused are refused");
	is($ask->("shedlock_extend_token('held', $held{$database} - 1, '1 h'), "
			. "shedlock_extend_token('held', $held{$database}, '1 h')"),
		'f|t', "$database $how: only the holder's token is valid");
	is($ask->("token = $gone{$database} FROM shedlock_locks WHERE name = 'gone'"), 't',
		"$database $how: the token of a free lock is kept");
	cmp_ok($ask->("shedlock_acquire_token('gone', '1 ms')"), '>', $gone{$database},
		"$database $how: I6 the next token is greater");
	$gone{$database} = $ask->("token FROM shedlock_locks WHERE name = 'gone'");
	is($node->safe_psql($database,
			"SET ROLE app; SELECT shedlock_acquire('by app', '1 h') AND shedlock_release('by app')"),
		't', "$database $how: grants of privileges are kept");
	$node->safe_psql($database, "DELETE FROM shedlock WHERE name = 'by app'");
	$node->poll_query_until($database, "SELECT state = 'free' FROM shedlock_locks WHERE name = 'gone'");
}

# With the newer server's pg_dump, as PostgreSQL recommends.
sub dump_and_restore
{
	my ($from, $database, $to, $copy, $how) = @_;
	my $file = "$folder/$database.sql";
	$to->command_ok([ "$new_bin/pg_dump", '-f', $file, '-d', $from->connstr($database) ], "$database $how: pg_dump");
	$to->safe_psql('postgres', "CREATE DATABASE $copy");
	$to->command_ok([ "$new_bin/psql", '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $to->connstr($copy) ],
		"$database $how: restore");
}

my $old = initialised('old', $old_bin, $ENV{SHEDLOCK_OLD_SETTINGS});
$old->start;
$old->safe_psql('postgres', 'CREATE ROLE app');
fill($old, $_) for qw(own java);
my $restored = initialised('restored', $new_bin);
$restored->start;
$restored->safe_psql('postgres', 'CREATE ROLE app');
for my $database (qw(own java))
{
	dump_and_restore($old, $database, $restored, $database, 'by pg_dump');
	my %before = %gone;
	keeps($restored, $database, 'by pg_dump');
	%gone = %before; # the old server's
}
$restored->stop;
$old->stop;

my @major = map { `$_/postgres --version` =~ / (\d+)/ } $old_bin, $new_bin;
# From 18 on pg_upgrade looks for the library only in the server's own folder, where a staged one is not found.
my ($installed) = map { chomp; "$_/shedlock.so" } `pg_config --pkglibdir`;
if ($major[1] >= 18 && !-e $installed)
{
	note('pg_upgrade is not tried: it needs the extension installed');
	seen(39, 1, "pg_dump, PostgreSQL $major[0] to $major[1]");
	done_testing();
	exit;
}
my $upgraded = initialised('upgraded', $new_bin);
my $said = '';
my @pg_upgrade = ("$new_bin/pg_upgrade", '-d', $old->data_dir, '-D', $upgraded->data_dir,
	'-b', $old_bin, '-B', $new_bin, '-s', $upgraded->host, '-p', $old->port, '-P', $upgraded->port);
ok(IPC::Run::run(\@pg_upgrade, '>&', \$said), "pg_upgrade from $old_bin") or diag($said);
$upgraded->start;
keeps($upgraded, $_, 'by pg_upgrade') for qw(own java);
# pg_upgrade loses the extension's dependency on its table. The doctor's hint repairs that.
for my $database (qw(own java))
{
	is(dependency_findings($upgraded, $database), '1',
		"$database by pg_upgrade: the doctor reports that pg_dump does not know the table");
	$upgraded->safe_psql($database, $upgraded->safe_psql($database, "SELECT hint FROM shedlock_doctor()
			WHERE finding LIKE 'pg_dump does not know%'"));
	is(dependency_findings($upgraded, $database), '0', "$database by pg_upgrade: the doctor's hint repairs it");
	dump_and_restore($upgraded, $database, $upgraded, "${database}_copy", 'after pg_upgrade');
	is($upgraded->safe_psql("${database}_copy", "SELECT shedlock_acquire('held', '1 h')"), 'f',
		"$database after pg_upgrade: a dump has the locks");
}
$upgraded->stop;
seen(39, 1, "pg_upgrade and pg_dump, PostgreSQL $major[0] to $major[1]");
done_testing();
