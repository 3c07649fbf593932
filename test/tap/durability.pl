# I7: a committed acquire, extend or release of a tick as done survives a crash, whatever synchronous_commit is. A
# commit does not wait for its flush if the transaction made only other releases; if it also wrote something else, it
# does.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use ShedLock;

my $node = new_server('primary', "fsync = on\nautovacuum = off\nwal_writer_delay = 10s\nbgwriter_delay = 10s\n");
$node->safe_psql('postgres', 'CREATE TABLE control (n int); CREATE SEQUENCE s; CREATE TABLE t (n int)');
$node->safe_psql('postgres', 'VACUUM'); # otherwise reading the catalog would prune it and so write WAL

# While these are stopped, only the committing backend flushes WAL.
sub background_writers
{
	return split /\n/, $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer')");
}

# Stops them while they are idle, because an active one might hold a lock that other processes need.
sub stop_writers
{
	for (;;)
	{
		my @writers = background_writers();
		kill 'STOP', @writers;
		for my $pid (@writers) { sleep(0.01) until slurp_file("/proc/$pid/stat") =~ /\) T / }
		my $pids = join ', ', @writers;
		my $idle = $node->safe_psql('postgres',
			"SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Activity'");
		return @writers if $idle == @writers;
		kill 'CONT', @writers;
	}
}

# Returns whether the WAL of a transaction was flushed by the time its commit returned. If the last record ends exactly
# at a page boundary, the insert position is after the next page's header of 24 or 40 bytes. Any transaction below
# writes more than that.
sub is_flushed
{
	my ($before, $transaction) = @_;
	my $out = $node->safe_psql('postgres', <<"SQL");
SET client_min_messages = error;
$before;
SELECT shedlock_acquire('barrier', '1 ms', wait => '1 h');
$transaction;
SELECT CASE WHEN pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn() <= 40 THEN 'flushed' ELSE 'not flushed' END;
SQL
	return (split /\n/, $out)[-1];
}

my @writers = stop_writers();
my $hold = "SELECT shedlock_acquire('a', '1 h'); SELECT shedlock_acquire(ARRAY['b', 'c'], '1 h')";
my $tick = "SELECT shedlock_acquire('tick', '1 h', tick => now());
	SELECT shedlock_acquire_token('tick by token', '1 h', tick => now()) AS token \\gset\n";
my $free = 'DELETE FROM shedlock';
my $off = 'SET synchronous_commit = off';

# The method can tell flushed commits from others.
is(is_flushed('SELECT 1', 'INSERT INTO control VALUES (1)'), 'flushed', 'control: an ordinary commit is flushed');
is(is_flushed($off, 'INSERT INTO control VALUES (1)'), 'not flushed', 'control: an asynchronous commit is not');

my @cases = (
	[ 'flushed', $off, "SELECT shedlock_acquire('new1', '1 h')", 'I7 acquire of a new name' ],
	[ 'flushed', "$hold; SELECT shedlock_release('a'); $off", "SELECT shedlock_acquire('a', '1 h')", 'I7 acquire' ],
	[ 'flushed', $off, "SELECT shedlock_acquire_token('new2', '1 h')", 'I7 acquire by token' ],
	[ 'flushed', $off, "SELECT shedlock_acquire(ARRAY['new3', 'new4'], '1 h')", 'I7 acquire of several' ],
	[ 'flushed', "$hold; $off", "SELECT shedlock_extend('a', '2 h')", 'I7 extend' ],
	[ 'flushed', $off, "BEGIN; SELECT shedlock_acquire('new5', '1 h'); SET LOCAL synchronous_commit = off; COMMIT",
		'I7 synchronous_commit is turned off after the acquire' ],
	[ 'flushed', "$hold; $off", "SELECT shedlock_force_release('a')", 'I7 release by force' ],
	[ 'flushed', 'SELECT 1', "BEGIN; SELECT shedlock_acquire('new6', '1 h'), shedlock_release('new6'); COMMIT",
		'acquire and release in one transaction' ],
	[ 'not flushed', $hold, "SELECT shedlock_release('a')", 'release alone' ],
	[ 'not flushed', $hold, "SELECT shedlock_release(ARRAY['b', 'c'])", 'release of several alone' ],
	[ 'not flushed', $hold, "BEGIN; SELECT shedlock_release('a'); SELECT shedlock_release('b'); COMMIT",
		'two releases' ],
	[ 'flushed', $hold, "SET shedlock.async_release = off; SELECT shedlock_release('a')",
		'release with async_release = off' ],
	[ 'flushed', $hold, "BEGIN; INSERT INTO t VALUES (1); SELECT shedlock_release('a'); COMMIT",
		'a write before the release' ],
	[ 'flushed', $hold, "BEGIN; SELECT shedlock_release('a'); INSERT INTO t VALUES (1); COMMIT",
		'a write after the release' ],
	[ 'flushed', $hold,
		"BEGIN; SELECT shedlock_release('a'); INSERT INTO t VALUES (1); SELECT shedlock_release('b'); COMMIT",
		'a write between two releases' ],
	[ 'flushed', $hold, "BEGIN; SELECT shedlock_release('a'); SELECT nextval('s'); COMMIT",
		'a sequence and a release' ],
	[ 'flushed', $hold, "BEGIN; SELECT shedlock_release('a'); SAVEPOINT x; INSERT INTO t VALUES (1); RELEASE x; COMMIT",
		'a write in a savepoint' ],
	[ 'flushed', $hold, "BEGIN; SELECT shedlock_release('a'); SELECT shedlock_extend('b', '2 h'); COMMIT",
		'release and extend' ],
	[ 'flushed', $hold, "BEGIN; SELECT shedlock_release('a'); SELECT shedlock_acquire('a', '1 h'); COMMIT",
		'release and acquire' ],
	[ 'flushed', "$hold; $tick; $off", "SELECT shedlock_release('tick')", 'release of a tick as done' ],
	[ 'flushed', "$hold; $tick; $off", "SELECT shedlock_release_token('tick by token', :token)",
		'release of a tick as done, by token' ],
	[ 'not flushed', "$hold; $tick", "SELECT shedlock_release('tick', done => false)",
		'release of a tick as not done' ],
	[ 'not flushed', $hold, "SELECT shedlock_complete('a')", 'completion alone' ],
	[ 'not flushed', $hold, "BEGIN; SELECT shedlock_complete('a'); SELECT shedlock_complete(ARRAY['c', 'b']); COMMIT",
		'completions alone' ],
	[ 'flushed', $hold, "BEGIN; SELECT shedlock_complete('a'); INSERT INTO t VALUES (1); COMMIT",
		'a write and a completion' ],
	[ 'flushed', $hold,
		"BEGIN; SELECT shedlock_release('b'); INSERT INTO t VALUES (1); SELECT shedlock_complete('a'); COMMIT",
		'a write between a release and a completion' ],
	[ 'flushed', "$hold; $tick; $off", "BEGIN; INSERT INTO t VALUES (1); SELECT shedlock_complete('tick'); COMMIT",
		'a tick that was completed' ],
	[ 'flushed', "$hold; $tick; $off", "SELECT shedlock_complete_token('tick by token', :token)",
		'a tick that was completed, by token' ],
	[ 'not flushed', "$hold; $off", "BEGIN; INSERT INTO t VALUES (1); SELECT shedlock_complete('a'); COMMIT",
		'control: a completion without a tick, with synchronous_commit = off' ],
	[ 'flushed', $off, "CALL shedlock_run('tick', 'SELECT 1', '1 h', tick => now())", 'a run for a tick' ],
	[ 'not flushed', $off, "CALL shedlock_run('run', 'INSERT INTO t VALUES (1)', '1 h')",
		'control: a run without a tick, with synchronous_commit = off' ],
	[ 'not flushed', "$hold; SELECT shedlock_release('a')", "SELECT shedlock_release('b')",
		'a release, after a transaction that released' ],
	[ 'not flushed', "$hold; BEGIN; INSERT INTO t VALUES (1); SELECT shedlock_release('a'); COMMIT",
		"SELECT shedlock_release('b')", 'a release, after a transaction that released and wrote' ],
	[ 'flushed', 'SELECT 1', "SELECT shedlock_release('nobody'); INSERT INTO t VALUES (1)",
		'the transaction after a release that found nothing to release' ],
	[ 'flushed', $hold, "SELECT shedlock_release('a'); INSERT INTO t VALUES (1)",
		'the transaction after an asynchronous release' ],
	# From here on, a history of runs is kept.
	[ 'not flushed', "SELECT shedlock_keep_history(); $hold", "SELECT shedlock_release('a')",
		'a release that records its run' ],
	[ 'not flushed', $hold, "BEGIN; SELECT shedlock_release(ARRAY['b', 'c']); SELECT shedlock_complete('a'); COMMIT",
		'releases and a completion that record their runs' ],
	[ 'flushed', $hold, "BEGIN; INSERT INTO t VALUES (1); SELECT shedlock_complete('a'); COMMIT",
		'a completion that records its run, after other writes' ],
	[ 'flushed', "SELECT shedlock_acquire('abandoned', '1 ms'), pg_sleep(0.002); $off",
		"SELECT shedlock_acquire('abandoned', '1 h')", 'I7 an acquire that records an abandoned run' ]);
for my $case (@cases)
{
	my ($expected, $before, $transaction, $what) = @$case;
	$node->safe_psql('postgres', $free);
	is(is_flushed($before, $transaction), $expected, $what);
}
kill 'CONT', @writers;

# Real crashes, with the setting made for the session, the role, the database, and the server.
$node->safe_psql('postgres', $free);
my %off = (
	session => [ 'SELECT 1', 'SET synchronous_commit = off' ],
	role => [ 'ALTER ROLE CURRENT_USER SET synchronous_commit = off', 'SELECT 1' ],
	database => [ 'ALTER DATABASE postgres SET synchronous_commit = off', 'SELECT 1' ],
	server => [ 'ALTER SYSTEM SET synchronous_commit = off', 'SELECT pg_reload_conf()' ]);
for my $where (sort keys %off)
{
	$node->safe_psql('postgres', $off{$where}[0]);
	my $token;
	for my $subject ('control', 'acquire')
	{
		@writers = stop_writers();
		my $statement = $subject eq 'control' ? "INSERT INTO control VALUES (42)"
		  : "SELECT shedlock_acquire_token('crash $where', '1 h')";
		$token = (split /\n/, $node->safe_psql('postgres', "$off{$where}[1]; $statement"))[-1];
		kill 'KILL', @writers; # not CONT: they would flush until the server stops
		$node->stop('immediate', fail_ok => 1); # it may already have stopped by itself
		$node->start;
	}
	is($node->safe_psql('postgres', "SELECT token || ' ' || state FROM shedlock_locks WHERE name = 'crash $where'"),
		"$token held", "I7 synchronous_commit = off in the $where: the lock is held after a crash");
	is($node->safe_psql('postgres', "SELECT shedlock_acquire('crash $where', '1 h')"), 'f', '... and refuses others');
	$node->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET ALL; ALTER DATABASE postgres RESET ALL');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	$node->reload;
}
is($node->safe_psql('postgres', 'SELECT count(*) < 4 FROM control WHERE n = 42'), 't',
	'control: at least one asynchronous commit was lost in these crashes');

$node->stop;
done_testing();
