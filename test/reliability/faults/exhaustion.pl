# What runs out: the disk of the WAL, of the lock table, of temporary files; connections; the memory for locks. Small disks are mounted
# for this test alone.
use strict;
use warnings;
use Namespace '--mount';
use File::Spec;
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
sub make_room { unlink "$_[0]/ballast" or die "$_[0]: $!"; }

my $server = PostgreSQL::Test::Cluster->new('server');
$server->init(extra => [ '--waldir', "$wal_disk/pg_wal", '--wal-segsize', '1' ]);
configure($server, <<'CONF');
min_wal_size = 2MB
max_wal_size = 4MB
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
sql("CREATE EXTENSION shedlock; ALTER TABLE shedlock SET TABLESPACE small; CREATE ROLE app LOGIN; SELECT shedlock_grant('app')");

sub tool
{
	my (@arguments) = @_;
	my $one = launch({}, $tool, @arguments, '--dsn', $server->connstr('postgres') . ' user=app');
	return (ended($one), @$one{qw(out err)});
}

# The WAL: the server gives up, which cuts the connections. Whatever it had granted by then is held after it came back.
my $full = often(1, 10);
for my $n (1 .. $full)
{
	fill($wal_disk);
	my ($rc, $out, $err) = $server->psql('postgres', join '', map { "SELECT 'wal $n $_', shedlock_acquire_token('wal $n $_', '1 h') FROM pg_switch_wal();\n" } 1 .. 100);
	my %told = map { /^(.+)\|(\d+)$/ ? ($1, $2) : () } split /\n/, $out;
	is($rc, 2, 'no space for WAL: the connection breaks');
	like(slurp_file($server->logfile), qr/PANIC: .*No space left on device/, '... for the server has panicked');
	cmp_ok(scalar(keys %told), '<', 100, 'control: it did so between two acquires, ' . keys(%told) . ' of which had been granted');
	my ($status, $token, $why) = tool('acquire', "tool $n", '--at-most', '1h');
	is("$status $token", '125 ', 'the tool does not say granted');

	$server->stop('immediate', fail_ok => 1);
	make_room($wal_disk);
	$server->start;
	my %held = map { split /\|/ } split /\n/, sql("SELECT name, token FROM shedlock_locks WHERE name LIKE 'wal $n %' AND state = 'held'");
	is(scalar(grep { ($held{$_} // 0) != $told{$_} } keys %told), 0, 'I7 with space again: what was granted is held');
	is((tool('acquire', "tool $n", '--at-most', '1h'))[0], 0, '... and all works');
}
seen(20, $full, 'no space for WAL: server down, nothing granted beyond what is held after it is back');

# The table's disk. The lock table can't grow, so a name is refused with 53100, while there is no row of it. Who reads a full page may
# clear old versions away, and there is room again: until nothing more is granted.
my $long = 'x' x 200;
for my $n (1 .. $full)
{
	sql("SELECT shedlock_acquire('held $n', '1 h')");
	fill($table_disk);
	my (%told, %held, $err, $more);
	for (my $round = 1; $round == 1 || $more; $round++)
	{
		(undef, my $out, $err) = $server->psql('postgres', "\\set VERBOSITY verbose\n\\set ON_ERROR_STOP on\n"
				. join '', map { "SELECT 'new $n $round $_$long', shedlock_acquire_token('new $n $round $_$long', '1 h');\n" } 1 .. 100);
		$more = grep { /^(.+)\|(\d+)$/ and $told{$1} = $2 } split /\n/, $out;
		%held = map { split /\|/ } split /\n/, sql("SELECT name, token FROM shedlock_locks WHERE name LIKE 'new $n %'");
	}
	like($err, qr/ERROR:  53100: .*No space left on device/, 'no space for the table: 53100');
	is_deeply(\%held, \%told, '... and no row but of what was granted before');
	my $another = "yet another $n, longer than they $long";
	my ($status, $token, $why) = tool('acquire', $another, '--at-most', '1h');
	is("$status $token", '125 ', 'the tool does not say granted');
	like($why, qr/No space left on device/, '... but why not');
	is(sql("SELECT shedlock_acquire('held $n', '1 h')"), 'f', 'what is held is refused as ever, for it needs no space');
	make_room($table_disk);
	is((tool('acquire', $another, '--at-most', '1h'))[0], 0, 'with space again it is granted');
}
seen(20, $full, 'no space for the table: 53100, nothing granted; with space again all worked');

# Temporary files: the work of a run fails by its own error, and the lock is released.
for my $n (1 .. $full)
{
	fill($table_disk);
	my ($rc, $out, $err) = $server->psql('postgres', <<"SQL");
\\set VERBOSITY verbose
SET temp_tablespaces = small;
SET work_mem = '64kB';
CALL shedlock_run('sort $n', 'SELECT count(*) FROM (SELECT i FROM generate_series(1, 300000) i ORDER BY random() LIMIT 200000) sorted', '1 h');
SQL
	like($err, qr/ERROR:  53100: .*No space left on device/, 'no space for temporary files: the work fails with 53100');
	make_room($table_disk);
	is(sql("SELECT shedlock_acquire('sort $n', '1 h')"), 't', '... and its lock is free');
}
seen(20, $full, 'no space for temporary files: the work failed with its own error, the lock was free');

# Connections. Five holders, whose keep-alive has to do with the connection that each has; then nobody else gets one.
sub start_holder
{
	my ($name) = @_;
	my $clock = boot_clock();
	return launch_by($clock, { name => $name, clock => $clock }, $tool, 'run', $name, '--at-most', '1h', '--dsn', $server->connstr('postgres') . ' user=app', '--',
		'sh', '-c', 'until [ -e "$0" ]; do sleep 0.1; done; exit 7', "$tmp/$name");
}
my $rounds = often(1, 10);
for my $n (1 .. $rounds)
{
	my @holders = map { start_holder("holder $n $_") } 1 .. 5;
	$server->poll_query_until('postgres', "SELECT count(*) = 5 FROM pg_stat_activity WHERE usename = 'app'") or die 'not all are connected';
	my @others = map { IPC::Run::start([ 'psql', '-XAtq', '-c', 'SELECT pg_sleep(600)', '-d', $server->connstr('postgres') . ' user=app' ], '>', \my $out, '2>', \my $err) } 1 .. 20;
	$server->poll_query_until('postgres', "SELECT count(*) = 25 FROM pg_stat_activity WHERE usename = 'app'") or die 'there are connections left';

	my ($status, $out, $err) = tool('acquire', "late $n", '--at-most', '10s');
	is("$status $out", '125 ', 'no connection left: a new tool fails');
	like($err, qr/remaining connection slots|too many/, '... and says why');
	($status, $out, $err) = tool('acquire', "late $n", '--at-most', '10s', '--wait', '1s');
	is("$status $out", '125 ', '... also when it has tried for a second');
	my $waiting = launch({}, $tool, 'acquire', "late $n", '--at-most', '1h', '--wait', '1h', '--dsn', $server->connstr('postgres') . ' user=app');
	my $then = sql('SELECT clock_timestamp()');
	advance($_->{clock}, when_an_extend_is_due) for @holders;
	ok($server->poll_query_until('postgres', "SELECT count(*) = 5 FROM shedlock_locks WHERE name LIKE 'holder $n %' AND state = 'held' AND lock_until > '$then'::timestamptz + interval '1 h'"),
		'those who hold a lock go on renewing it');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'");
	$_->finish for @others;
	is(ended($waiting), 0, 'one that kept trying gets its lock when there are connections again');
	for my $holder (@holders)
	{
		append_to_file("$tmp/$holder->{name}", '');
		is(ended($holder) . $holder->{err}, 7, '... and nobody who held a lock noticed anything');
	}
}
seen(21, 5 * $rounds, 'no connection left: holders renewed, new tools tried again, then 125');

# The memory for locks. Not even a connection can be made then, so those who ask are there before.
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
	ask($hog, 'DO $$ BEGIN FOR i IN 1 .. 1000000 LOOP PERFORM pg_advisory_lock(i); END LOOP; EXCEPTION WHEN out_of_memory THEN NULL; END $$');
	like(ask($other, "SELECT shedlock_acquire_token('locks $n', '1 h')"), qr/ERROR:  53200: (?!.*^\d+$)/ms, 'no memory for locks: 53200');
	is(ask($other, "SELECT shedlock_acquire('held $n', '1 h')"), 'f', '... what is held is refused as ever, for it needs none');
	ask($hog, 'SELECT pg_advisory_unlock_all()');
	is(ask($other, "SELECT count(*) FROM shedlock WHERE name = 'locks $n'"), '0', '... and nothing was granted');
	is(ask($other, "SELECT shedlock_acquire('locks $n', '1 h')"), 't', 'with memory again it is');
	$_->quit for $hog, $other;
}
seen(22, $exhausted, 'no memory for locks: 53200, nothing granted');

$server->stop;
done_testing();
