-- tick: at most one acquisition per name and tick, however short the job.
CREATE FUNCTION run_at(job text, tick timestamptz) RETURNS boolean LANGUAGE sql AS $$
    SELECT shedlock_acquire(job, '1 min', tick => tick)
$$;
SELECT shedlock_tick('1 hour') AS hour \gset
SELECT run_at('t', :'hour'), shedlock_release('t');
SELECT run_at('t', :'hour') AS same_tick, run_at('t', :'hour'::timestamptz - interval '1 hour') AS older_tick;
SELECT shedlock_acquire('t', '1 min') AS without_tick, shedlock_release('t');
-- A late run is allowed: the tick of a day ago, if nobody has run since.
SELECT run_at('late', now() - interval '1 day'), shedlock_release('late');
SELECT locked_at >= now() - interval '1 h' AS locked_now FROM shedlock_locks WHERE name = 'late';
-- The server's clock may be slightly behind the host's. locked_at is still the server's time.
SELECT now() + interval '50 s' AS ahead \gset
SELECT run_at('ahead', :'ahead'), shedlock_release('ahead');
SELECT last_tick = :'ahead' AS is_the_tick,
       locked_at <= clock_timestamp() AND lock_until <= clock_timestamp() AS by_the_clock
  FROM shedlock_locks WHERE name = 'ahead';
SELECT run_at('ahead', :'ahead') AS same_tick, run_at('ahead', :'ahead'::timestamptz - interval '1 s') AS before,
       run_at('ahead', :'ahead'::timestamptz + interval '1 us') AS next_tick;
-- If a tick is not due, waiting for the lock is useless, so the answer comes at once, even while the lock is held.
SET statement_timeout = '5min';
SELECT shedlock_acquire('ahead', '1 min', wait => '1 h', tick => :'ahead');
RESET statement_timeout;
-- Several names: all of them must be due.
SELECT shedlock_acquire(ARRAY['t', 'fresh'], '1 min', tick => :'hour') AS one_ran;
-- I12: an acquisition that is rolled back does not use up the tick.
BEGIN;
SELECT run_at('undone', :'hour');
ROLLBACK;
SELECT run_at('undone', :'hour');
DROP FUNCTION run_at;
DELETE FROM shedlock;
