# For operators: pg_cron with shedlock_run, counters, and the doctor's findings that need more than one session.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

# pg_cron starts these jobs only at the beginning of a minute, so its jobs are scheduled first, and the other tests run
# meanwhile. Two of the jobs have five schedules each. (For a new version of PostgreSQL there may be no package of
# pg_cron yet.)
my ($share) = map { chomp; $_ } `pg_config --sharedir`;
my $cron = -e "$share/extension/pg_cron.control" && new_server('cron', <<'CONF');
shared_preload_libraries = 'shedlock,pg_cron'
cron.database_name = 'postgres'
CONF
sub cron { return $cron->safe_psql('postgres', $_[0]); }
if ($cron)
{
	$cron->append_conf('postgresql.conf', "cron.host = '" . $cron->host . "'\n");
	$cron->restart;
	cron(<<'SQL');
CREATE EXTENSION pg_cron;
CREATE TABLE run (job text, tick timestamp, started timestamptz, ended timestamptz);
CREATE PROCEDURE job(name text) LANGUAGE plpgsql AS $$
DECLARE
    begun timestamptz := clock_timestamp();
BEGIN
    COMMIT;
    PERFORM pg_sleep(0.3);
    INSERT INTO run VALUES (name, (SELECT last_tick FROM shedlock s WHERE s.name = job.name), begun, clock_timestamp());
END $$;
-- Runs once per minute: the first of the five schedules runs it, the others are refused.
SELECT cron.schedule('ticked ' || i, '* * * * *',
    $$CALL shedlock_run('ticked', $x$CALL job('ticked')$x$, '1 h', tick => shedlock_tick('1 min'))$$)
  FROM generate_series(1, 5) i;
-- All five run, one after the other.
SELECT cron.schedule('queued ' || i, '* * * * *',
    $$CALL shedlock_run('queued', $x$CALL job('queued')$x$, '1 h', wait => '1 h')$$)
  FROM generate_series(1, 5) i;
-- Fails the first time, and succeeds in the next minute.
CREATE SEQUENCE try;
CREATE PROCEDURE make_report() LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO run (job) VALUES ('report'); PERFORM 1 / (nextval('try') - 1); END $$;
SELECT cron.schedule('report', '* * * * *',
    $$CALL shedlock_run('report', 'CALL make_report()', '1 h', tick => shedlock_tick('1 year'), retry => true)$$);
-- Always fails.
SELECT cron.schedule('broken', '* * * * *', $$CALL shedlock_run('broken', $x$SELECT 1/0$x$, '1 h')$$);
SQL
}
else { note('skipped: shedlock_run under pg_cron, because this server has no pg_cron'); }

# Counters.
my $node = new_server('counting', <<'CONF', allows_streaming => 1);
shared_preload_libraries = 'shedlock'
shedlock.max_tracked = 40
max_connections = 40
restart_after_crash = on
CONF
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql("SELECT shedlock_acquire('hot', '1 h')");
for my $batch (1 .. 5)
{
	sql("SELECT shedlock_acquire('name $batch ' || i, '1 h') FROM generate_series(1, 30) i");
	sql("SELECT shedlock_acquire('hot', '1 h')");
}
cmp_ok(sql('SELECT count(*) FROM shedlock_stats'), '<=', 40, 'no more names than shedlock.max_tracked');
is(sql("SELECT attempts FROM shedlock_stats WHERE name = 'hot'"), 6,
	'the least recently used names are dropped, and a busy one is kept');
is(sql("SELECT attempts FROM shedlock_stats WHERE name = 'name 5 30'"), 1, '... and so is the newest');
my (undef, undef, $overran) = $node->psql('postgres', "CALL shedlock_run('late', 'SELECT pg_sleep(0.05)', '10 ms')");
my $detail = 'Nobody else has acquired the lock since, so the transaction can still commit\.';
like($overran, qr/WARNING:  the run of lock "late" overran its lease by \d\d:\d\d:\d\d\.\d+\nDETAIL:  $detail/,
	'a run reports by how much it overran its lease');
is(sql(<<'SQL'), 0, 'no name has two counters after it was dropped and used again');
CREATE FUNCTION counted_twice() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	result bigint := 0;
BEGIN
	FOR i IN 1..3000 LOOP
		PERFORM shedlock_acquire('churned ' || hashint4(i) % 60, '1 h');
		result := result + (SELECT count(*) - count(DISTINCT name) FROM shedlock_stats);
	END LOOP;
	RETURN result;
END $$;
SELECT counted_twice();
SQL
sql("SELECT shedlock_acquire('hot', '1 h') FROM generate_series(1, 6)");
sql('CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION shedlock; SELECT shedlock_acquire('hot', '1 h')");
is($node->safe_psql('other', "SELECT attempts FROM shedlock_stats WHERE name = 'hot'"), 1,
	'each database has its own counters');
$node->safe_psql('other', 'SELECT shedlock_stats_reset()');
is(sql("SELECT attempts FROM shedlock_stats WHERE name = 'hot'"), 6, '... and resets its own');
pgbench_script($node, "SELECT shedlock_acquire('crowd', '1 h');\n", '-c', 16, '-j', 2, '-t', 200);
is(sql("SELECT attempts || ' ' || acquired || ' ' || refused FROM shedlock_stats WHERE name = 'crowd'"), "3200 1 3199",
	'concurrent sessions lose no count');
$node->restart;
is(sql("SELECT attempts FROM shedlock_stats WHERE name = 'crowd'"), 3200, 'the counters survive a clean restart');
crash_restart($node);
is(sql('SELECT count(*) FROM shedlock_stats'), 0, '... but not a crash');
$node->restart;
is(sql('SELECT count(*) FROM shedlock_stats'), 0, '... and they do not come back with the next restart');

# Without shared_preload_libraries.
my $plain = new_server('plain', "max_prepared_transactions = 1\n", allows_streaming => 1);
my $stderr;
if ($plain->pg_version < 17)
{
	(undef, undef, $stderr) = $plain->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM shedlock_stats");
	like($stderr, qr/ERROR:  55000: .*HINT:  Add shedlock to shared_preload_libraries/s,
		'shedlock_stats says which setting is missing');
	(undef, undef, $stderr) = $plain->psql('postgres', 'SELECT shedlock_stats_reset()');
	like($stderr, qr/shared_preload_libraries/, '... and so does the reset');
}
else
{
	$plain->safe_psql('postgres', "SELECT shedlock_acquire('early', '1 h'), shedlock_release('early')");
	is($plain->safe_psql('postgres', "SELECT attempts FROM shedlock_stats WHERE name = 'early'"), 1,
		'shedlock_stats counts without shared_preload_libraries');
	is($plain->safe_psql('postgres', 'SELECT shedlock_stats_reset(); SELECT count(*) FROM shedlock_stats'), "\n0",
		'... and can be reset');
}
is($plain->safe_psql('postgres', "SELECT shedlock_acquire('a', '1 h'), shedlock_release('a')"), 't|t',
	'acquire and release work');

# Every field of a failed command's error reaches the caller.
(undef, undef, $stderr) = $plain->psql('postgres', <<'SQL');
\set VERBOSITY verbose
CALL shedlock_run('r', $$DO 'BEGIN
    RAISE EXCEPTION ''broken'' USING DETAIL = ''the detail'', HINT = ''the hint'', ERRCODE = ''ZZ123'', SCHEMA = ''s'',
        TABLE = ''t'', COLUMN = ''c'', DATATYPE = ''d'', CONSTRAINT = ''k'';
END'$$, '1 min');
SQL
for my $part (qr/ERROR:  ZZ123: broken/, qr/DETAIL:  the detail/, qr/HINT:  the hint/,
	qr/CONTEXT:  PL\/pgSQL function inline_code_block/,
	qr/SCHEMA NAME:  s/, qr/TABLE NAME:  t/, qr/COLUMN NAME:  c/, qr/DATATYPE NAME:  d/, qr/CONSTRAINT NAME:  k/)
{
	like($stderr, $part, "a failed command: $part");
}

# The doctor's findings that need more than one session. (Without those about this test itself: fsync is off, and the
# run of "r" above failed.)
sub findings
{
	return $plain->safe_psql('postgres', "SELECT severity || ': ' || finding FROM shedlock_doctor()
		WHERE finding NOT LIKE 'fsync%' AND finding NOT LIKE 'the last run of lock%'");
}
$plain->safe_psql('postgres', 'CREATE PUBLICATION locks FOR TABLE shedlock');
is(findings(), '', 'the doctor finds nothing on a healthy server whose lock table is published');
$plain->safe_psql('postgres', 'CREATE DATABASE subscriber');
$plain->safe_psql('subscriber',
	'CREATE EXTENSION shedlock; CREATE SUBSCRIPTION locks CONNECTION $$' . $plain->connstr('postgres')
		. '$$ PUBLICATION locks WITH (enabled = false, create_slot = false, slot_name = NONE)');
like($plain->safe_psql('subscriber', 'SELECT severity, finding FROM shedlock_doctor()'),
	qr/^error\|subscription "locks" writes into the lock table: the publisher grants the same locks$/m,
	'... but finds the subscription that writes into a lock table');
my $holder = $plain->background_psql('postgres');
$holder->query_safe("SET application_name = 'nightly'; BEGIN; SELECT shedlock_acquire('open', '1 h')");
my $standby = new_standby($plain, 'standby');
$standby->start;
$plain->poll_query_until('postgres',
	"SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming' AND application_name = 'standby'")
	or die 'the standby does not stream';
like(findings(), qr/warning: there are standbys, but none is synchronous/,
	'the doctor finds that all standbys are asynchronous');
$standby->stop;
# The holder's open transaction also keeps VACUUM from cleaning up.
$plain->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1..3000 LOOP
	PERFORM shedlock_acquire('cycle', '1 min'), shedlock_release('cycle'); COMMIT; END LOOP; END \$\$");
ok($plain->poll_query_until('postgres', "SELECT count(*) = 1 FROM shedlock_doctor() WHERE finding LIKE '%dead rows%'"),
	'the doctor finds dead rows');
ok($plain->poll_query_until('postgres', "SELECT count(*) = 1 FROM shedlock_doctor()
		WHERE severity = 'warning'
		AND finding LIKE 'session % (\"nightly\") has had the lock table in an open transaction for %'"),
	'the doctor finds a transaction that has held a lock for a long time');
$holder->query_safe("PREPARE TRANSACTION 'forgotten'");
ok($plain->poll_query_until('postgres', "SELECT count(*) = 1 FROM shedlock_doctor()
		WHERE finding LIKE 'prepared transaction \"forgotten\" of role postgres has had the lock table since %'"),
	'... and a prepared one');
$holder->quit;
$plain->stop;
$node->stop;

# The results of pg_cron's jobs. A run does not count if pg_cron gives up on it, because its session has not started
# within ten seconds, its connection has failed or was lost, or its job is unscheduled while it runs.
if ($cron)
{
	my $runs = "(SELECT * FROM cron.job_run_details WHERE coalesce(return_message, '')
		!~ '^(job (startup timeout|canceled)|connection (failed|lost|timeout))') runs";
	ok($cron->poll_query_until('postgres',
			"SELECT count(DISTINCT jobid) = 12 AND EXISTS (SELECT FROM run WHERE job = 'report')
			FROM $runs WHERE status IN ('succeeded', 'failed')"),
		'pg_cron: all schedules have run');
	cron('SELECT cron.unschedule(jobid) FROM cron.job');
	# The next minute's jobs may have started. pg_cron writes down how a job ended, but the session of a job on which it
	# gave up may go on.
	$cron->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM cron.job_run_details WHERE status NOT IN ('succeeded', 'failed')")
		or die 'a job does not end';
	$cron->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CALL%'")
		or die 'a run does not end';
	is(cron("SELECT count(*) FROM $runs
			WHERE status = 'failed' AND command NOT LIKE '%broken%' AND command NOT LIKE '%report%'"),
		0, '... without error, apart from the two jobs that are meant to fail');
	is(cron("SELECT bool_and(status = 'failed' AND return_message LIKE '%division by zero%') FROM $runs
			WHERE command LIKE '%broken%' AND status IN ('succeeded', 'failed')"),
		't', 'the broken job fails each time, and its error is in pg_cron\'s log');
	is(cron("SELECT state, last_outcome FROM shedlock_locks WHERE name = 'broken'"), 'free|failed',
		'... and its lock is released');
	like(cron("SELECT string_agg(status, ' ' ORDER BY runid) FROM $runs WHERE command LIKE '%report%'"),
		qr/^failed succeeded/, 'with retry, a failed job runs again in the next minute');
	is(cron("SELECT count(*), (SELECT last_outcome FROM shedlock_locks WHERE name = 'report')
			FROM run WHERE job = 'report'"),
		'1|done', '... and takes effect once');
	is(cron("SELECT count(*) FROM (SELECT tick FROM run WHERE job = 'ticked' GROUP BY 1 HAVING count(*) > 1) twice"), 0,
		'one run per tick, out of five schedules');
	cmp_ok(cron("SELECT count(*) FROM run WHERE job = 'ticked'"), '>=', 1, '... and at least one');
	cmp_ok(cron("SELECT count(*) FROM run WHERE job = 'queued'"), '>=', 5,
		'every schedule that waits for the lock gets its run');
	is(cron('SELECT count(*) FROM run a JOIN run b ON a.job = b.job AND a.ctid < b.ctid
			AND tstzrange(a.started, a.ended) && tstzrange(b.started, b.ended)'),
		0, 'runs never overlap');
	$cron->stop;
}
done_testing();
