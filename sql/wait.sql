-- wait: keep trying for that long.
SELECT shedlock_acquire('w', '1 h');
SELECT clock_timestamp() AS begun \gset
SELECT shedlock_acquire('w', '1 min', wait => '150 ms') AS in_vain;
SELECT clock_timestamp() - :'begun' >= interval '150 ms' AS waited;
-- Without a need to wait it does not.
SET statement_timeout = '30s';
SELECT shedlock_acquire('nobody has it', '1 min', wait => '1000 years') AS at_once;
RESET statement_timeout;

-- Wakes when the lease ends; also in REPEATABLE READ, with a snapshot that is older.
SET statement_timeout = '20s';
SELECT shedlock_acquire('ends', '200 ms');
SELECT shedlock_acquire('ends', '200 ms', wait => '30 s') AS after_the_lease;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM shedlock WHERE name = 'ends';
SELECT shedlock_acquire('ends', '200 ms', wait => '30 s') AS in_repeatable_read;
COMMIT;
SELECT shedlock_acquire_token(ARRAY['ends', 'and another'], '1 min', wait => '30 s') IS NOT NULL AS several;
RESET statement_timeout;

-- Timeouts and cancels work at once, also while it sleeps, and nothing is left behind.
SET statement_timeout = '100ms';
\set VERBOSITY sqlstate
SELECT shedlock_acquire('w', '1 min', wait => '1 h');
RESET statement_timeout;
\set VERBOSITY default
SELECT count(*) AS locks FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'shedlock'::regclass;

-- For the client library: which of several callers may have all their locks. What looks free is told at once.
SELECT shedlock_acquire('held', '1 h');
SELECT shedlock_stats_reset();
SELECT shedlock_wait_any('{free, held, free, held, never seen}', '{1, 2, 3, 3, 4}', '1 min', 1) AS who;
SELECT shedlock_wait_any('{held, free, held}', '{7, 8, 8}', '150 ms', 1) AS nobody;
SELECT name, wait_time > '140 ms' AS waited, attempts FROM shedlock_stats WHERE name IN ('held', 'free') ORDER BY name;
SET statement_timeout = '1s';
SELECT shedlock_wait_any('{held}', '{1}', '1 min', 1) AS before_the_timeout;
RESET statement_timeout;
SELECT shedlock_end_wait(1) AS nobody_sleeps_there;
DELETE FROM shedlock;
