# How shedlock_run executes the statements of its command.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $server = new_server('server');
sub sql { return $server->safe_psql('postgres', $_[0]); }
sql('CREATE TABLE memory (n serial, used bigint)');

# Results are discarded. If they were not, SPI would keep them until the end of the run, and the next statement would
# measure the memory that they use. (The portable edition cannot discard them: EXECUTE in PL/pgSQL collects them.)
my $measure = 'INSERT INTO memory (used) SELECT sum(used_bytes) FROM pg_backend_memory_contexts';
my %commands = (
	'SELECT' => 'SELECT n, md5(n::text) FROM generate_series(1, 100000) n',
	'INSERT RETURNING' => 'INSERT INTO filled SELECT n, md5(n::text) FROM generate_series(1, 100000) n RETURNING *',
	'EXECUTE' => 'EXECUTE many');
for my $kind (sort keys %commands)
{
	sql('DROP TABLE IF EXISTS filled; CREATE TABLE filled (n int, what text)');
	my $executed = sql("PREPARE many AS $commands{SELECT};
		CALL shedlock_run('job', '$measure; $commands{$kind}; $measure', '1 h')");
	my $grown = sql('SELECT max(used) FILTER (WHERE n % 2 = 0) - max(used) FILTER (WHERE n % 2 = 1)
		FROM memory; TRUNCATE memory');
	is($executed, 't', "$kind of 100,000 rows is executed");
	cmp_ok($grown, '<', 1_000_000, '... and its result is not kept');
}

# In READ COMMITTED each statement sees what others have committed by then.
my ($host, $port) = ($server->host, $server->port);
sql('CREATE TABLE said (what text); CREATE TABLE others (n int); CREATE TABLE seen (n int)');
my $psql = "psql -XqAt -h $host -p $port -d postgres";
my $meanwhile = qq[COPY said FROM PROGRAM ''$psql -c "INSERT INTO others VALUES (1)"''];
my $look = 'INSERT INTO seen SELECT count(*) FROM others';
is(sql("CALL shedlock_run('job', '$look; $meanwhile; $look; DO ''BEGIN $look; END''; $look', '1 h')"), 't',
	'another session commits during a run');
is(sql("SELECT string_agg(n::text, ' ') FROM seen"), '0 1 1 1', '... and the statements that follow see its work');

# A run that fails is released, and its caller gets its error, even if the run around it has lost its lock.
my $force = qq[COPY said FROM PROGRAM '$psql -c "SELECT shedlock_force_release(''outer'')"'];
my (undef, undef, $failed) = $server->psql('postgres', "CALL shedlock_run('outer',
	\$\$CALL shedlock_run('inner', \$i\$$force; SELECT 1/0\$i\$, '1 h')\$\$, '1 h')");
like($failed, qr/division by zero/, 'a run in a run that has lost its lock fails with its own error');
is(sql(q[SELECT last_outcome FROM shedlock_locks WHERE name = 'inner']), 'failed', '... and its lock is released');

# The error of a command reaches the caller even if the lock cannot be released afterwards. Here another transaction has
# locked the row by then.
my $other = $server->background_psql('postgres');
$other->query_safe('SELECT pg_advisory_lock(1)');
my $until_told = q[DO 'BEGIN WHILE NOT pg_try_advisory_lock(1) LOOP PERFORM pg_sleep(0.01); END LOOP; END'];
my $run = launch({}, 'psql', '-XqAt', '-d', $server->connstr('postgres'), '-v', 'VERBOSITY=verbose',
	'-c', q[SET lock_timeout = '1ms'], '-c', "CALL shedlock_run('stuck', \$\$$until_told; SELECT 1/0\$\$, '1 h')");
$server->poll_query_until('postgres',
	q[SELECT count(*) = 1 FROM shedlock WHERE name = 'stuck' AND lock_until > timezone('utc', now())])
	or die 'the run does not begin';
$other->query_safe(q[BEGIN; SELECT FROM shedlock WHERE name = 'stuck' FOR UPDATE; SELECT pg_advisory_unlock(1)]);
ended($run);
my $warning = qq[55P03: lock "stuck" was not released\nDETAIL:  canceling statement due to lock timeout\n];
like($run->{err}, qr/WARNING:  $warning.*ERROR:  22012:/s,
	"the error of the command reaches the caller, and a WARNING says that the lock was not released");
$other->query_safe('COMMIT');
$other->quit;
# A completion and a run give the same warning about a lease that has ended.
sql("SELECT shedlock_acquire_token('over', '1 ms'); SELECT pg_sleep(0.002)");
for my $completes ("SELECT shedlock_complete_token('over', token) FROM shedlock_locks WHERE name = 'over'",
	"CALL shedlock_run('over', 'SELECT pg_sleep(0.002)', '1 ms')")
{
	my (undef, undef, $said) = $server->psql('postgres', "\\set VERBOSITY verbose\n$completes");
	my $overran = '01000: the run of lock "over" overran its lease by \d\d:\d\d:\d\d(\.\d+)?';
	my $detail = 'Nobody else has acquired the lock since, so the transaction can still commit\.';
	my $hint = 'Choose a longer at_most, or extend the lock in time\.';
	like($said, qr/WARNING:  $overran\nDETAIL:  $detail\nHINT:  $hint\n/,
		"the warning says by how much it overran: $completes");
}
# If the caller of a run is killed, the run goes on and its work is committed, unless the server checks connections
# meanwhile.
sql('CREATE TABLE worked (what text)');
my $gate = $server->background_psql('postgres');
for my $looks ('', '-c client_connection_check_interval=100ms')
{
	$gate->query_safe('SELECT pg_advisory_lock(2)');
	local $ENV{PGOPTIONS} = $looks;
	my $caller = launch({}, 'psql', '-Xq', '-d', $server->connstr('postgres'),
		'-c', q[CALL shedlock_run('orphan', 'SELECT pg_advisory_xact_lock(2); INSERT INTO worked VALUES (1)', '1 h')]);
	delete local $ENV{PGOPTIONS};
	$server->poll_query_until('postgres',
		q[SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted])
		or die 'the run does not wait';
	$caller->{run}->kill_kill;
	$server->poll_query_until('postgres',
		q[SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted])
		|| die 'the server does not notice' if $looks;
	$gate->query_safe('SELECT pg_advisory_unlock(2)');
	$server->poll_query_until('postgres', q[SELECT state = 'free' FROM shedlock_locks WHERE name = 'orphan'])
		or die 'the run does not end';
	is(sql('SELECT count(*) FROM worked; TRUNCATE worked'), $looks ? 0 : 1,
		$looks ? 'a run whose caller was killed ends without effect if the server checks connections'
			: 'a run whose caller was killed commits its work');
	is(sql(q[SELECT last_outcome FROM shedlock_locks WHERE name = 'orphan']), $looks ? 'ran out' : 'done',
		'... and the row says so');
}
$gate->quit;
# If the extension is dropped during a run, the caller still hears that the work is committed.
my $drop = qq[COPY worked FROM PROGRAM '$psql -c "DROP EXTENSION shedlock" -c "SELECT 1"'];
is(sql("CALL shedlock_run('last', \$\$$drop\$\$, '1 h')"), 't',
	'a run says that it was executed even if the extension was dropped meanwhile');
is(sql('SELECT count(*) FROM worked'), 1, '... and its work is committed');
$server->stop;
done_testing();
