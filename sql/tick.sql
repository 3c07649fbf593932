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

-- start_within: no run begins later than that after its tick. One that is too late is refused for good: while the lock
-- is held, when it has no row, and for one of several names.
CREATE FUNCTION run_within(job text, age interval, span interval, wait interval DEFAULT '0') RETURNS boolean
    LANGUAGE sql AS
    $$ SELECT shedlock_acquire(job, '1 min', wait => wait, tick => now() - age, retry => true, start_within => span) $$;
SELECT run_within('within', '1 h', '59 min') AS no_row, run_within('within', '1 h', '61 min') AS in_time,
       run_within('within', '-10 s', '1 us') AS ahead_but_held;
-- I3: it writes no row.
SELECT run_within('never', '1 h', '59 min'),
       shedlock_acquire('{never}'::text[], '1 min', tick => now() - interval '1 h', start_within => '59 min') AS names;
SELECT count(*) AS rows FROM shedlock WHERE name = 'never';
SET statement_timeout = '5min';
SELECT run_within('within', '1 h', '59 min', wait => '1 h') AS held;
RESET statement_timeout;
SELECT shedlock_acquire('{new,within}'::text[], '1 min', tick => now() - interval '1 h', start_within => '59 min')
           AS names;
SELECT shedlock_release('within', done => false), run_within('within', '55 min', '54 min') AS free,
       run_within('within', '55 min', '1 day') AS in_time;
SELECT shedlock_acquire_token('token', '1 min', tick => now() - interval '1 h', start_within => '59 min') AS late,
       shedlock_acquire_token('token', '1 min', tick => now() - interval '1 h', start_within => '61 min') > 0
           AS in_time;
CALL shedlock_run('run', 'SELECT 1/0', '1 min', tick => now() - interval '1 h', start_within => '59 min');
CALL shedlock_run('run', 'SELECT 1', '1 min', tick => now() - interval '1 h', start_within => '61 min');
-- A wait ends when it is too late.
SET statement_timeout = '5min';
SELECT run_within('within', '54 min', '54 min 100 ms', wait => '1 h') AS waited;
RESET statement_timeout;
-- That the run is done, or that the tick had its run, is said first.
SELECT shedlock_release('within');
SELECT shedlock_not_due('within', now() - interval '57 min', true, '1 min') AS done,
       shedlock_not_due('within', now() - interval '30 s', true, '1 s') AS not_done,
       shedlock_not_due('new', now() - interval '2 s', false, '1 s') AS late,
       shedlock_not_due('new', now() - interval '2 s', false, '1 day') AS due;
DROP FUNCTION run_within, run_at;
DELETE FROM shedlock;
