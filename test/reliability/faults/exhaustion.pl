# Resources run out: disk space for WAL, for the lock table and for temporary files; connections; memory for heavyweight
# locks. The test mounts small disks.
use strict;
use warnings;
use Namespace '--mount';
use File::Spec;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use BootClock;
use Time::HiRes qw(sleep);
use ShedLock;

my $tmp = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());

sub small_disk
{
	my ($name, $megabytes) = @_;
	mkdir "$tmp/$name" or die "$tmp/$name: $!";
	system_or_bail('mount', '-t', 'tmpfs', '-o', "size=${megabytes}m,mode=0700", 'small', "$tmp/$name");
	return "$tmp/$name";
}
my ($wal_disk, $table_disk) = (small_disk('wal', 24), small_disk('table', 8));

sub fill
{
	my ($disk) = @_;
	open my $ballast, '>', "$disk/ballast" or die "$disk: $!";
	for my $size (65536, 1) # to the last byte
	{
		1 while syswrite $ballast, "\0" x $size;
	}
	close $ballast;
}
sub free_space { unlink "$_[0]/ballast" or die "$_[0]: $!"; }

# The server makes no checkpoints. They would make room for WAL, and whether they came in time would depend on how fast
# the client is.
my $server = PostgreSQL::Test::Cluster->new('server');
$server->init(extra => [ '--waldir', "$wal_disk/pg_wal", '--wal-segsize', '1' ]);
configure($server, <<'CONF');
min_wal_size = 2MB
max_wal_size = 1GB
checkpoint_timeout = 1h
max_connections = 30
superuser_reserved_connections = 5
max_locks_per_transaction = 10
autovacuum = off
CONF
$server->start;
sub sql { return $server->safe_psql('postgres', $_[0]); }
mkdir "$table_disk/space" or die "$table_disk: $!";
sql("CREATE TABLESPACE small LOCATION '$table_disk/space'");
sql("CREATE EXTENSION shedlock; ALTER TABLE shedlock SET TABLESPACE small; CREATE ROLE app LOGIN;
	SELECT shedlock_grant('app')");

sub tool
{
	my (@arguments) = @_;
	my $one = launch({}, slow_tool, @arguments, '--dsn', $server->connstr('postgres') . ' user=app');
	return (ended($one), @$one{qw(out err)});
}

# WAL: the server panics, which breaks the connections. Locks that it had granted before are still held after the
# restart.
my $full = often(1, 10);
for my $n (1 .. $full)
{
	fill($wal_disk);
	my ($rc, $out, $err) = $server->psql('postgres', join '',
		map { "SELECT 'wal $n $_', shedlock_acquire_token('wal $n $_', '1 h') FROM pg_switch_wal();\n" } 1 .. 100);
	my %told = map { /^(.+)\|(\d+)$/ ? ($1, $2) : () } split /\n/, $out;
	is($rc, 2, 'no space for WAL: the connection breaks');
	like(slurp_file($server->logfile), qr/PANIC: .*No space left on device/, '... because the server has panicked');
	cmp_ok(scalar(keys %told), '<', 100,
		'control: it panicked in the middle of the acquires, ' . keys(%told) . ' of which had been granted');
	my ($status, $token, $why) = tool('acquire', "tool $n", '--at-most', '1h');
	is("$status $token", '125 ', 'the tool does not report a grant');

	$server->stop('immediate', fail_ok => 1);
	free_space($wal_disk);
	$server->start;
	my %held = map { split /\|/ } split /\n/,
		sql("SELECT name, token FROM shedlock_locks WHERE name LIKE 'wal $n %' AND state = 'held'");
	is(scalar(grep { ($held{$_} // 0) != $told{$_} } keys %told), 0,
		'I7 with space again: the locks that were granted are held');
	is((tool('acquire', "tool $n", '--at-most', '1h'))[0], 0, '... and everything works');
}
seen(20, $full, 'times WAL', 'server down, every lock that was granted is held after the restart');

# The table's disk. The lock table cannot grow, so an acquire of a name without a row fails with 53100. A session that
# reads a full page may prune old versions, which makes space, so the test repeats this until no more locks are granted.
my $long = 'x' x 200;
for my $n (1 .. $full)
{
	sql("SELECT shedlock_acquire('held $n', '1 h')");
	fill($table_disk);
	my (%told, %held, $err, $more);
	for (my $round = 1; $round == 1 || $more; $round++)
	{
		my @names = map { "new $n $round $_$long" } 1 .. 100;
		(undef, my $out, $err) = $server->psql('postgres', "\\set VERBOSITY verbose\n\\set ON_ERROR_STOP on\n"
			. join '', map { "SELECT '$_', shedlock_acquire_token('$_', '1 h');\n" } @names);
		$more = grep { /^(.+)\|(\d+)$/ and $told{$1} = $2 } split /\n/, $out;
		%held = map { split /\|/ } split /\n/, sql("SELECT name, token FROM shedlock_locks WHERE name LIKE 'new $n %'");
	}
	like($err, qr/ERROR:  53100: .*No space left on device/, 'no space for the table: 53100');
	is_deeply(\%held, \%told, '... and only the locks that were granted have rows');
	my $another = "yet another $n, longer than they $long";
	my ($status, $token, $why) = tool('acquire', $another, '--at-most', '1h');
	is("$status $token", '125 ', 'the tool does not report a grant');
	like($why, qr/No space left on device/, '... and says why');
	is(sql("SELECT shedlock_acquire('held $n', '1 h')"), 'f',
		'a held lock is refused as usual, because that needs no space');
	free_space($table_disk);
	is((tool('acquire', $another, '--at-most', '1h'))[0], 0, 'with space again the lock is granted');
}
seen(20, $full, 'times table', '53100, nothing granted; with space again all worked');

# Temporary files: the work of a run fails with its own error, and the lock is released.
for my $n (1 .. $full)
{
	fill($table_disk);
	my ($rc, $out, $err) = $server->psql('postgres', <<"SQL");
\\set VERBOSITY verbose
SET temp_tablespaces = small;
SET work_mem = '64kB';
CALL shedlock_run('sort $n',
    'SELECT count(*) FROM (SELECT i FROM generate_series(1, 300000) i ORDER BY random() LIMIT 200000) sorted',
    '1 h');
SQL
	like($err, qr/ERROR:  53100: .*No space left on device/, 'no space for temporary files: the work fails with 53100');
	free_space($table_disk);
	is(sql("SELECT shedlock_acquire('sort $n', '1 h')"), 't', '... and its lock is free');
}
seen(20, $full, 'times temporary files', 'the work failed with its own error, the lock was free');

# Connections: five holders have one connection each, and no further connection is possible. Keep-alive has to work with
# that one.
sub start_holder
{
	my ($name) = @_;
	my $clock = boot_clock();
	return launch_by($clock, { name => $name, clock => $clock }, $tool, 'run', $name, '--at-most', '1h',
		'--dsn', $server->connstr('postgres') . ' user=app', '--',
		'sh', '-c', 'until [ -e "$0" ]; do sleep 0.1; done; exit 7', "$tmp/$name");
}
# A session that occupies a connection. A session of the test that has not quite ended, or a poll, may have the slot
# that this one needs, so it tries again while the server refuses it.
sub start_filler
{
	my $script = 'while psql -XAtq -c "SELECT pg_sleep(600)" -d "$0" 2>&1'
		. ' | grep -E "connection slots|too many"; do sleep 0.1; done';
	return IPC::Run::start([ 'sh', '-c', $script,
			$server->connstr('postgres') . ' user=app application_name=filler' ],
		'>', \my $out, '2>', \my $err);
}
my $rounds = often(1, 10);
for my $n (1 .. $rounds)
{
	$server->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'app'")
		or die 'a session does not end';
	my @holders = map { start_holder("holder $n $_") } 1 .. 5;
	$server->poll_query_until('postgres',
		"SELECT count(*) = 5 FROM shedlock_locks WHERE name LIKE 'holder $n %' AND state = 'held'")
		or die 'not all holders have their locks';
	$server->poll_query_until('postgres', "SELECT count(*) = 5 FROM pg_stat_activity WHERE usename = 'app'")
		or die 'not all holders are connected';
	my @others = map { start_filler() } 1 .. 20;
	$server->poll_query_until('postgres', "SELECT count(*) = 25 FROM pg_stat_activity WHERE usename = 'app'")
		or die 'there are still free connections';

	my ($status, $out, $err) = tool('acquire', "late $n", '--at-most', '10s');
	is("$status $out", '125 ', 'no connection left: another tool fails');
	like($err, qr/remaining connection slots|too many/, '... and says why');
	($status, $out, $err) = tool('acquire', "late $n", '--at-most', '10s', '--wait', '50ms');
	is("$status $out", '125 ', '... even after it has tried for a while');
	my $waiting = launch({}, slow_tool, 'acquire', "late $n", '--at-most', '1h', '--wait', '1h',
		'--dsn', $server->connstr('postgres') . ' user=app');
	my $then = sql('SELECT clock_timestamp()');
	advance($_->{clock}, when_an_extend_is_due) for @holders;
	ok($server->poll_query_until('postgres', "SELECT count(*) = 5 FROM shedlock_locks
			WHERE name LIKE 'holder $n %' AND state = 'held' AND lock_until > '$then'::timestamptz + interval '1 h'"),
		'holders continue to extend their locks');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'filler'");
	$_->finish for @others;
	is(ended($waiting), 0, 'a tool that waits gets its lock when there are connections again');
	for my $holder (@holders)
	{
		append_to_file("$tmp/$holder->{name}", '');
		is(ended($holder) . $holder->{err}, 7, '... and no holder reported a problem');
	}
}
seen(21, 5 * $rounds, 'holders');

# Memory for heavyweight locks. Without it a new session cannot be started either, so the sessions are opened before.
sub ask
{
	my ($session, $statement) = @_;
	$session->{stderr} = '';
	my $answer = $session->query($statement);
	return $session->{stderr} . $answer;
}
my $exhausted = often(2, 5);
for my $n (1 .. $exhausted)
{
	my ($hog, $other) = map { $server->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
	ask($other, '\set VERBOSITY verbose');
	ask($other, "SELECT shedlock_acquire('held $n', '1 h')");
	ask($hog, 'DO $$ BEGIN FOR i IN 1 .. 1000000 LOOP PERFORM pg_advisory_lock(i); END LOOP;
		EXCEPTION WHEN out_of_memory THEN NULL; END $$');
	like(ask($other, "SELECT shedlock_acquire_token('locks $n', '1 h')"), qr/ERROR:  53200: (?!.*^\d+$)/ms,
		'no memory for locks: 53200');
	is(ask($other, "SELECT shedlock_acquire('held $n', '1 h')"), 'f',
		'... a held lock is refused as usual, because that needs no such memory');
	ask($hog, 'SELECT pg_advisory_unlock_all()');
	is(ask($other, "SELECT count(*) FROM shedlock WHERE name = 'locks $n'"), '0', '... and nothing was granted');
	is(ask($other, "SELECT shedlock_acquire('locks $n', '1 h')"), 't', 'with memory again it is granted');
	$_->quit for $hog, $other;
}
seen(22, $exhausted, 'times');

$server->stop;
system_or_bail('umount', $wal_disk, $table_disk);
done_testing();
