-- wait: how long acquire keeps trying.
SELECT shedlock_acquire('w', '1 h');
SELECT clock_timestamp() AS begun \gset
SELECT shedlock_acquire('w', '1 min', wait => '150 ms') AS in_vain;
SELECT clock_timestamp() - :'begun' >= interval '150 ms' AS waited;
-- If the lock is free, it does not wait.
SET statement_timeout = '5min';
SELECT shedlock_acquire('nobody has it', '1 min', wait => '1000 years') AS at_once;
RESET statement_timeout;

-- It wakes up when the lease ends, even in REPEATABLE READ with an older snapshot.
SET statement_timeout = '5min';
SELECT shedlock_acquire('ends', '200 ms');
SELECT shedlock_acquire('ends', '200 ms', wait => '1 h') AS after_the_lease;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM shedlock WHERE name = 'ends';
SELECT shedlock_acquire('ends', '200 ms', wait => '1 h') AS in_repeatable_read;
COMMIT;
SELECT shedlock_acquire_token(ARRAY['ends', 'and another'], '1 min', wait => '1 h') IS NOT NULL AS several;
-- If one tick is not due any more, it does not wait for another name.
SELECT shedlock_acquire('also held', '1 h');
SELECT shedlock_acquire('had its run', '1 min', tick => '2020-01-01') AND shedlock_release('had its run') AS done;
SELECT shedlock_acquire(ARRAY['had its run', 'also held'], '1 min', wait => '1 h', tick => '2020-01-01') AS in_vain;
RESET statement_timeout;

-- Timeouts and cancels end it while it sleeps, and nothing is left behind.
\set VERBOSITY sqlstate
BEGIN;
SET LOCAL statement_timeout = '100ms';
SELECT shedlock_acquire('w', '1 min', wait => '1 h');
ROLLBACK;
\set VERBOSITY default
SELECT count(*) AS locks FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'shedlock'::regclass;

-- shedlock_wait_any, for the client library, tells which of several callers can have all their locks: at
-- once if there is one.
SELECT shedlock_acquire('held', '1 h');
SELECT shedlock_stats_reset();
SELECT shedlock_wait_any('{free, held, free, held, never seen}', '{1, 2, 3, 3, 4}', '1 min', 1) AS who;
SELECT shedlock_wait_any('{held, free, held}', '{7, 8, 8}', '150 ms', 1) AS nobody;
SELECT name, wait_time > '140 ms' AS waited, attempts FROM shedlock_stats WHERE name IN ('held', 'free') ORDER BY name;
-- It returns after half of statement_timeout, long before the lock is free. On a busy machine the timeout itself may come
-- first; the second attempt has no timeout.
CREATE FUNCTION ends_before_the_timeout() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN shedlock_wait_any('{held}', '{1}', '1 day', 1) = '{}';
EXCEPTION WHEN query_canceled THEN
    RETURN shedlock_wait_any('{held}', '{1}', '1 day', 1) = '{}';
END $$;
BEGIN;
SET LOCAL statement_timeout = '1s';
SELECT ends_before_the_timeout();
COMMIT;
DROP FUNCTION ends_before_the_timeout;
SELECT shedlock_end_wait(1) AS ended_a_wait;
DELETE FROM shedlock;
