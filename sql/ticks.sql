-- Ticks are compared with ticks, and a row keeps its last one, through late runs, catching up, failures, Java runs and
-- interventions of administrators.
SET TimeZone = 'UTC';
-- due is the latest tick of a daily job, and is in the past (shedlock_tick by itself may return one that is half a
-- minute ahead). The others are relative to it.
SELECT shedlock_tick('1 day', at => now() - interval '1 min') AS due \gset
SELECT :'due'::timestamptz - interval '24 h' AS yesterday, :'due'::timestamptz - interval '72 h' AS three_days_ago,
       clock_timestamp() AS started \gset
CREATE FUNCTION try(job text, tick timestamptz, retry boolean DEFAULT true) RETURNS boolean LANGUAGE sql AS
    $$SELECT shedlock_acquire(job, '1 min', tick => tick, retry => retry)$$;
-- last_tick relative to due, last_done_tick relative to last_tick; 'as acquired': when the run began.
CREATE VIEW ticks AS
SELECT name, state, last_outcome, now.what AS last_tick, done.what AS last_done_tick,
       last_done_at IS NOT NULL AS was_ever_done
  FROM shedlock_locks,
       LATERAL (SELECT last_tick - :'due') AS now (what),
       LATERAL (SELECT CASE WHEN last_done_tick = locked_at THEN 'as acquired'
                            WHEN last_done_tick > last_tick THEN 'later'
                            ELSE (last_done_tick - last_tick)::text || ' after last_tick' END) AS done (what)
 ORDER BY name;

-- Yesterday's tick, run late this morning, does not use up today's.
SELECT try('late', :'yesterday') AS yesterday, shedlock_release('late'), try('late', :'due') AS today,
       shedlock_release('late'), try('late', :'yesterday') AS yesterday_again, try('late', :'due') AS today_again;
-- An earlier tick is refused for good, even with retry, whether or not it ever ran, and even while the lock is held,
-- since waiting would be useless.
SELECT shedlock_acquire_token('late', '1 h', tick => :'due'::timestamptz + interval '1 us') AS token \gset
SET statement_timeout = '5min';
SELECT shedlock_acquire('late', '1 min', wait => '1 h', tick => :'three_days_ago', retry => true) AS never_ran;
SELECT shedlock_release_token('late', :token, done => false), try('late', :'three_days_ago') AS never_ran,
       try('late', :'due') AS was_done;
RESET statement_timeout;
-- locked_at and lock_at_least_until do not matter.
SELECT shedlock_acquire('kept', '1 h', at_least => '1 ms', tick => :'three_days_ago'), shedlock_release('kept'),
       pg_sleep(0.002), try('kept', :'yesterday'), shedlock_release('kept'), try('kept', :'due');
SELECT locked_at >= :'started' AS by_the_clock, last_tick = :'due' AS last_tick,
       last_done_tick = :'yesterday' AS last_done_tick
  FROM shedlock_locks WHERE name = 'kept';
DELETE FROM shedlock;

-- shedlock_ticks: the ticks after since, up to the one that is due, in ascending order.
SELECT tick - :'due' AS tick FROM shedlock_ticks('1 day', :'three_days_ago') tick WHERE tick <= :'due';
SELECT count(*)
  FROM shedlock_ticks('1 day', :'three_days_ago'::timestamptz - interval '1 us') tick WHERE tick <= :'due';
SELECT count(*) AS until_due FROM shedlock_ticks('1 day', :'due') tick WHERE tick <= :'due';
SELECT count(*) AS in_the_future FROM shedlock_ticks('1 hour', clock_timestamp() + interval '1 day');
SELECT bool_and(tick > since AND tick <= clock_timestamp() + least(every / 2, '30 s')) AS none_is_beyond,
       count(*) > 0 AS some
  FROM unnest(ARRAY['1 ms', '10 s', '1 min', '1 hour', '6 hours', '1 day', '1 month']::interval[]) every,
       LATERAL (SELECT clock_timestamp() - 3 * every) s (since), shedlock_ticks(every, since) tick;
-- In nights in which clocks are changed.
SELECT tick FROM shedlock_ticks('6 hours', '2026-03-28 12:00Z', 'Europe/Berlin') tick WHERE tick < '2026-03-30Z';
SELECT tick FROM shedlock_ticks('1 day', '2023-03-10Z', 'America/Havana') tick WHERE tick < '2023-03-15Z';
-- They are the same as those that shedlock_tick returns when it is called for every half hour.
SELECT zone, every, count(*) > 5 AS enough, count(*) FILTER (WHERE l.tick IS NULL OR a.tick IS NULL) AS wrong
  FROM (VALUES ('Europe/Berlin', '12 hours', '2023-10-27'),
               ('America/Havana', '1 day', '2023-03-10'),
               ('America/Havana', '1 day', '2023-10-31'),
               ('America/New_York', '7 days', '2023-02-16'),
               ('Asia/Kathmandu', '1 month', '2023-02-16'),
               ('Pacific/Apia', '1 day', '2011-12-25'),
               ('Asia/Beirut', '36 hours', '2022-10-20')) AS z (zone, every, day),
       LATERAL (SELECT day::timestamptz AS first,
                       day::timestamptz + CASE every WHEN '7 days' THEN interval '60 days'
                                                     WHEN '1 month' THEN interval '300 days'
                                                     ELSE interval '12 days' END AS last) AS p,
       LATERAL (SELECT tick FROM shedlock_ticks(every::interval, first, zone) tick WHERE tick < last) AS l
           FULL JOIN LATERAL (
               SELECT DISTINCT tick
                 FROM generate_series(first, last, interval '30 min') at,
                      LATERAL shedlock_tick(every::interval, zone, at) tick
                WHERE tick > first AND tick < last) AS a USING (tick)
 GROUP BY zone, every, day ORDER BY zone, every, day;
-- Errors.
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    result text;
BEGIN
    EXECUTE 'SELECT count(*) FROM shedlock_ticks' || call INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(hint, ''));
END $$;
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$(NULL, now())$$, $$('1 hour', NULL)$$, $$('1 hour', now(), NULL)$$, $$('1 hour', 'infinity')$$,
    $$('1 hour', '-infinity')$$,
    $$('0', now())$$, $$('-1 hour', now())$$, $$('1 day 12 hours', now())$$, $$('1 hour', now(), 'Europe/Atlantis')$$,
    $$('1 s', now() - interval '100100 s')$$
]) c;
DROP FUNCTION attempt;

-- A job catches up: it missed three days, and the second day's work fails twice. It asks for the oldest tick that is
-- due (the last one again, if its run failed), and does not go on to the next tick until that one is done.
CREATE TABLE effect (day timestamptz);
CREATE TABLE bad AS SELECT :'yesterday'::timestamptz AS day;
CREATE SEQUENCE failures;
CREATE FUNCTION work(day timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO effect VALUES (day);
    IF EXISTS (SELECT FROM bad WHERE bad.day = work.day) AND nextval('failures') <= 2 THEN
        RAISE EXCEPTION 'not this time';
    END IF;
END $$;
CREATE PROCEDURE catch_up() LANGUAGE plpgsql AS $$
DECLARE
    due timestamptz;
    executed boolean;
BEGIN
    FOR due IN SELECT t FROM shedlock_locks l, shedlock_ticks('1 day', l.last_done_tick) t
                WHERE l.name = 'daily' AND (t < l.last_tick) IS NOT TRUE
                  AND t <= (SELECT day + interval '24 h' FROM bad) LOOP -- none that becomes due during this test
        CALL shedlock_run('daily', format('SELECT work(%L)', due), '1 min', tick => due, retry => true,
                          executed => executed);
        EXIT WHEN NOT executed;
    END LOOP;
END $$;
SELECT try('daily', :'three_days_ago'), shedlock_release('daily');
\set VERBOSITY terse
\set SHOW_CONTEXT never
CALL catch_up();
SELECT * FROM ticks;
CALL catch_up();
CALL catch_up();
CALL catch_up();
\set VERBOSITY default
\set SHOW_CONTEXT errors
SELECT day - :'due' AS day, count(*) AS effects FROM effect WHERE day <= :'due' GROUP BY day ORDER BY day;
SELECT * FROM ticks;
DROP PROCEDURE catch_up;
DROP FUNCTION work;
DROP SEQUENCE failures;
DROP TABLE effect, bad;
DELETE FROM shedlock;
-- Many past ticks, in ascending order: each of them runs.
SELECT count(*) FILTER (WHERE acquired AND released) AS ran, count(*) FILTER (WHERE again) AS ran_again
  FROM (SELECT try('many', tick) AS acquired, shedlock_release('many') AS released, try('many', tick) AS again
          FROM generate_series(now() - interval '2000 h', now() - interval '1801 h', interval '1 h') tick) AS r;
DELETE FROM shedlock;

-- Only a release as done changes last_done_at, to the server's clock. Only that and a Java run change last_done_tick.
SELECT last_done_at, last_tick, last_done_tick FROM shedlock_locks RIGHT JOIN (VALUES ('job')) n (name) USING (name);
SELECT shedlock_acquire('job', '1 h', tick => :'three_days_ago');
SELECT last_done_at, last_tick = :'three_days_ago' AS last_tick, last_done_tick FROM shedlock_locks WHERE name = 'job';
SELECT shedlock_release('job');
SELECT last_done_at BETWEEN :'started' AND clock_timestamp() AS last_done_at,
       last_tick = :'three_days_ago' AS last_tick, last_done_tick = :'three_days_ago' AS last_done_tick
  FROM shedlock_locks WHERE name = 'job';
CREATE TABLE kept AS SELECT 0 AS n, last_done_at, last_tick, last_done_tick FROM shedlock_locks WHERE name = 'job';
\set keep 'INSERT INTO kept SELECT (SELECT max(n) + 1 FROM kept), last_done_at, last_tick, last_done_tick FROM shedlock_locks WHERE name = \'job\';'
SELECT try('job', :'yesterday'), shedlock_extend('job', '2 h', at_least => '0'), shedlock_release('job', done => false);
:keep
SELECT try('job', :'yesterday') AS again, shedlock_force_release('job');
:keep
SELECT shedlock_force_release('job') AS twice, shedlock_pause('job', 'x');
:keep
SELECT shedlock_resume('job');
:keep
-- The holder died, and the lease ran out.
SELECT shedlock_acquire('job', '1 ms', tick => :'yesterday', retry => true) AS again, pg_sleep(0.002);
:keep
SELECT shedlock_pause('job'), shedlock_force_release('job');
:keep
SELECT n, last_done_at = lag(last_done_at) OVER (ORDER BY n) AS last_done_at, last_tick - :'due' AS last_tick,
       last_done_tick - :'due' AS last_done_tick
  FROM kept ORDER BY n;
SELECT try('job', :'three_days_ago') AS was_done, try('job', :'yesterday', retry => false) AS had_its_turn,
       try('job', :'yesterday') AS was_not_done, shedlock_release('job');
SELECT last_done_at > (SELECT max(k.last_done_at) FROM kept k) AS later, last_tick = last_done_tick AS was_done
  FROM shedlock_locks WHERE name = 'job';
DROP TABLE kept;
-- By token, with several names: each row gets the same last_done_at and ticks.
SELECT shedlock_acquire_token('{job,new}'::text[], '1 min', tick => :'due') AS token \gset
SELECT shedlock_release_token('{job,new}'::text[], :token);
SELECT count(*), count(DISTINCT last_done_at), bool_and(last_done_tick = :'due') AS done
  FROM shedlock_locks WHERE name IN ('job', 'new');
-- An acquisition and its release that are rolled back have not happened.
BEGIN;
SELECT try('undone', :'yesterday'), shedlock_release('undone');
ROLLBACK;
SELECT count(*) FROM shedlock_locks WHERE name = 'undone' AND last_tick IS NOT NULL;
DELETE FROM shedlock;

-- A run without a tick leaves the ticks alone unless it is done: if it fails, is freed by force or dies, and also if it
-- never ends. It is refused while a tick is run, and a tick while it runs.
SELECT try('by hand', :'yesterday'), shedlock_release('by hand');
SELECT shedlock_acquire('by hand', '1 min'), try('by hand', :'due') AS under_way,
       shedlock_release('by hand', done => false), shedlock_acquire('by hand', '1 min') AS once_more,
       shedlock_force_release('by hand'), shedlock_acquire('by hand', '1 ms') AS dies, pg_sleep(0.002);
SELECT * FROM ticks;
SELECT try('by hand', :'due'), shedlock_release('by hand', done => false), shedlock_acquire('by hand', '1 min'),
       shedlock_release('by hand', done => false), try('by hand', :'due', retry => false) AS had_its_turn,
       try('by hand', :'due') AS failed, shedlock_acquire('by hand', '1 min') AS is_refused,
       shedlock_release('by hand');
SELECT * FROM ticks;
-- Done, it counts for every tick up to the moment at which it was acquired, whatever became of the runs before it. It
-- does not matter when it is released.
SELECT try('done', :'yesterday'), shedlock_release('done', done => false), shedlock_acquire('done', '1 min');
SELECT clock_timestamp() AS later \gset
SELECT shedlock_release('done'), try('done', :'yesterday') AS failed_before, try('done', :'due') AS never_ran,
       try('done', :'later') AS later;
SELECT last_tick = :'later' AS last_tick, last_done_tick > :'due' AND last_done_tick < :'later' AS last_done_tick
  FROM shedlock_locks WHERE name = 'done';
-- So does a run in another form, and one that is completed.
SELECT shedlock_acquire_token('done', '1 min') IS NULL AS is_held, shedlock_release('done', done => false),
       shedlock_acquire_token('done', '1 min') AS token \gset
BEGIN;
SELECT shedlock_complete_token('done', :token);
COMMIT;
SELECT try('done', :'later') AS by_token;
CALL shedlock_run('done', 'SELECT 1', '1 min');
SELECT last_done_tick = locked_at AS as_acquired, last_tick = :'later' AS last_tick
  FROM shedlock_locks WHERE name = 'done';
-- The client library asks why it was refused for good.
SELECT try('failed', :'due'), shedlock_release('failed', done => false);
SELECT name, shedlock_not_due(name, :'due', true, NULL) AS with_retry,
       shedlock_not_due(name, :'due', false, NULL) AS without,
       shedlock_not_due(name, :'yesterday', true, NULL) AS earlier,
       shedlock_not_due(name, NULL, false, NULL) AS no_tick
  FROM unnest(ARRAY['done', 'failed', 'unknown']) name;
-- It does not put back a last_done_tick that is ahead of the clock, as after a clock that was put back.
UPDATE shedlock SET last_done_tick = last_done_tick + interval '1 hour' WHERE name = 'done';
SELECT last_done_tick AS ahead FROM shedlock_locks WHERE name = 'done' \gset
SELECT shedlock_acquire('done', '1 min'), shedlock_release('done'), try('done', clock_timestamp()) AS now;
SELECT last_done_tick = :'ahead' AS last_done_tick, locked_at < :'ahead' AS by_the_clock
  FROM shedlock_locks WHERE name = 'done';
DELETE FROM shedlock;
-- A row from before there was a column run_tick: last_tick is that of the run, or when it was acquired.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by, lock_at_least_until, last_tick, last_done_tick)
    VALUES ('old', '2999-01-01', '2026-01-02', '#1767312000000000', '2026-01-02', '2026-01-02', '2026-01-01');
SELECT shedlock_release_token('old', 1767312000000000), try('old', '2026-01-02Z') AS was_done;
SELECT last_done_tick, run_tick FROM shedlock;
DELETE FROM shedlock;
-- Two periods under one name use up each other's ticks.
SELECT try('mixed', :'due'), shedlock_release('mixed'),
       try('mixed', :'due'::timestamptz - interval '1 h') AS hour_before,
       try('mixed', :'due'::timestamptz - interval '23 h') AS hours_before;
DELETE FROM shedlock;
-- A last_tick of the day after tomorrow, from before the clock was put back: no tick is due until then, but runs
-- without a tick are possible.
SELECT shedlock_acquire('tomorrow', '1 min', tick => :'due'), shedlock_release('tomorrow');
UPDATE shedlock SET last_tick = last_tick + interval '2 days';
SELECT try('tomorrow', :'due'), try('tomorrow', clock_timestamp()),
       shedlock_acquire('tomorrow', '1 min') AS without_tick;
DELETE FROM shedlock;

-- A Java run in between counts as done, for a tick at the time at which it began, whatever our own runs were and
-- whatever is in our columns.
PREPARE java(text, interval, text) AS
    INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
        VALUES ($1, timezone('utc', clock_timestamp()) + $2, timezone('utc', clock_timestamp()), $3)
    ON CONFLICT (name) DO UPDATE
       SET lock_until = timezone('utc', clock_timestamp()) + $2,
           locked_at = timezone('utc', clock_timestamp()),
           locked_by = $3
     WHERE shedlock.lock_until <= timezone('utc', clock_timestamp());
SELECT try('java', :'yesterday'), shedlock_release('java', done => false);
EXECUTE java('java', '0', 'build-7');
SELECT * FROM ticks;
SELECT try('java', :'yesterday') AS counts_as_done, try('java', :'due') AS so_does_this,
       try('java', clock_timestamp() + interval '30 s') AS later;
SELECT last_done_tick >= :'started' AND last_done_tick < last_tick AS javas_is_kept, last_done_at FROM shedlock_locks;
-- Any of our functions that overwrites the row stores the tick of the Java run, even one for administrators.
EXECUTE java('paused', '0', 'build-7');
EXECUTE java('freed', '1 h', 'build-7');
EXECUTE java('without tick', '0', 'build-7');
CREATE TABLE before AS SELECT name, locked_at FROM shedlock_locks;
SELECT shedlock_pause('paused'), shedlock_force_release('freed'), shedlock_acquire('without tick', '1 min'),
       shedlock_release('without tick', done => false);
SELECT l.name, l.last_done_tick = b.locked_at AS last_done_tick,
       s.last_done_tick IS NOT NULL AS is_stored, l.last_outcome
  FROM shedlock_locks l JOIN before b USING (name) JOIN shedlock s USING (name) ORDER BY name;
SELECT shedlock_resume('paused'), try('paused', :'due') AS paused, try('freed', :'due') AS freed;
-- Runs of a client with a wrong clock, one in the past and one in the future.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES
    ('past', '2020-01-01', '2020-01-01', 'x'), ('future', '2020-01-01', timezone('utc', now()) + interval '1 day', 'x');
SELECT name, try(name, '2019-12-31Z') AS before, try(name, '2020-01-01Z') AS then, try(name, '2020-01-02Z') AS after,
       shedlock_acquire(name, '1 min') AS without_tick
  FROM (VALUES ('past'), ('future')) n (name) ORDER BY 1;
SELECT name, last_tick, last_done_tick > now() AS last_done_tick
  FROM shedlock_locks WHERE name IN ('past', 'future') ORDER BY 1;
-- Several names: each keeps its own last_done_tick.
EXECUTE java('a', '0', 'x');
SELECT try('b', :'yesterday'), shedlock_release('b'),
       shedlock_acquire('{a,b,c}'::text[], '1 min', tick => :'due') AS not_all_are_due;
SELECT shedlock_acquire('{a,b,c}'::text[], '1 min', tick => clock_timestamp() + interval '30 s') AS acquired;
SELECT name, last_done_tick >= :'started' AS java, last_done_tick = :'yesterday' AS yesterday,
       count(*) OVER (PARTITION BY last_tick) AS with_that_tick
  FROM shedlock_locks WHERE name IN ('a', 'b', 'c') ORDER BY 1;
-- An infinite locked_at does not count as a run.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES
    ('infinite', '-infinity', 'infinity', 'x'), ('new', '-infinity', '-infinity', '');
SELECT name, last_tick, last_done_tick FROM shedlock_locks WHERE name IN ('infinite', 'new') ORDER BY 1;
SELECT shedlock_force_release('infinite'), try('infinite', '1900-01-01Z'), try('new', '1900-01-01Z');
DEALLOCATE java;
DROP TABLE before;
DELETE FROM shedlock;

-- A token never equals a tick of its row, because last_done_tick = token means that the acquisition was done. And the
-- run_tick of a run without a tick never equals last_tick. Ticks keep microseconds even if other columns are coarse.
ALTER TABLE shedlock ALTER lock_until TYPE timestamp(0), ALTER locked_at TYPE timestamp(0);
SELECT date_trunc('second', clock_timestamp()) AS second \gset
SELECT shedlock_acquire('coarse', '1 h', tick => :'second') AND shedlock_release('coarse') AS that,
       shedlock_acquire('coarse', '1 h', tick => :'second'::timestamptz + interval '1 s')
           AND shedlock_release('coarse') AS next,
       shedlock_acquire('coarse', '1 h', tick => :'second'::timestamptz + interval '2 s')
           AND shedlock_release('coarse') AS third;
SELECT locked_at <> last_tick AS differs, last_done_tick = :'second'::timestamptz + interval '2 s' AS done
  FROM shedlock_locks;
SELECT shedlock_acquire('fine', '1 h', tick => '2020-01-01 00:00:00.123456Z') AND shedlock_release('fine');
SELECT last_tick, last_done_tick FROM shedlock WHERE name = 'fine';
SELECT bool_and(shedlock_acquire('fast', '1 h') AND shedlock_release('fast')) FROM generate_series(1, 5);
SELECT run_tick <= locked_at AS by_the_clock, run_tick = last_done_tick AS done FROM shedlock WHERE name = 'fast';
UPDATE shedlock SET last_tick = timezone('UTC', date_trunc('second', clock_timestamp())), last_done_tick = NULL
 WHERE name = 'fast';
SELECT shedlock_acquire('fast', '1 h');
SELECT run_tick <> last_tick AND locked_at <> last_tick AS differ FROM shedlock WHERE name = 'fast';
ALTER TABLE shedlock ALTER lock_until TYPE timestamp, ALTER locked_at TYPE timestamp;
DROP VIEW ticks;
DROP FUNCTION try;
DELETE FROM shedlock;
RESET TimeZone;
