-- wait: keep trying for that long.
SELECT shedlock_acquire('w', '1 h');
SELECT clock_timestamp() AS begun \gset
SELECT shedlock_acquire('w', '1 min', wait => '150 ms') AS in_vain;
SELECT clock_timestamp() - :'begun' >= interval '150 ms' AS waited;
-- Without a need to wait it does not.
SET statement_timeout = '30s';
SELECT shedlock_acquire('nobody has it', '1 min', wait => '1000 years') AS at_once;
RESET statement_timeout;

-- Wakes when the lease ends, not when the next poll is due; also in REPEATABLE READ, with a snapshot that is older.
SET shedlock.poll_interval = '60s';
SET statement_timeout = '20s';
SELECT shedlock_acquire('ends', '200 ms');
SELECT shedlock_acquire('ends', '200 ms', wait => '30 s') AS after_the_lease;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM shedlock WHERE name = 'ends';
SELECT shedlock_acquire('ends', '200 ms', wait => '30 s') AS in_repeatable_read;
COMMIT;
SELECT shedlock_acquire_token(ARRAY['ends', 'and another'], '1 min', wait => '30 s') IS NOT NULL AS several;
RESET shedlock.poll_interval;
RESET statement_timeout;

-- Timeouts and cancels work at once, also between two polls, and nothing is left behind.
SET shedlock.poll_interval = '60s';
SET statement_timeout = '100ms';
\set VERBOSITY sqlstate
SELECT shedlock_acquire('w', '1 min', wait => '1 h');
RESET statement_timeout;
\set VERBOSITY default
SELECT count(*) AS locks FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'shedlock'::regclass;
DELETE FROM shedlock;
