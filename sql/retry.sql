-- retry: a tick is used up only when its run is done. The view and the counters show whether a run was done.
SELECT now() AS tick, now() + interval '20 s' AS later \gset
CREATE FUNCTION try(job text, tick timestamptz, at_least interval DEFAULT '0', wait interval DEFAULT '0')
    RETURNS boolean LANGUAGE sql AS
    $$SELECT shedlock_acquire(job, '1 min', at_least, wait, tick, retry => true)$$;
CREATE VIEW outcomes AS SELECT name, state, last_outcome FROM shedlock_locks ORDER BY name;
SELECT shedlock_stats_reset();

-- A tick that is not done is due again for callers that ask for retry. While it is being run, they are refused.
SELECT try('r', :'tick'), try('r', :'tick') AS under_way;
SELECT * FROM outcomes;
SELECT shedlock_release('r', done => false);
SELECT * FROM outcomes;
SELECT shedlock_acquire('r', '1 min', tick => :'tick') AS without_retry;
SELECT try('r', :'tick') AS again, shedlock_release('r');
SELECT * FROM outcomes;
SELECT try('r', :'tick') AS done;
SELECT failed, released FROM shedlock_stats WHERE name = 'r';
-- A run that is never released: its tick is due when the lease has ended.
SELECT shedlock_acquire('died', '1 h', tick => :'tick'), try('died', :'tick') AS under_way;
UPDATE shedlock SET lock_until = timezone('utc', clock_timestamp()) WHERE name = 'died';
SELECT * FROM outcomes WHERE name = 'died';
SELECT try('died', :'tick');
-- I5: but not before at_least has passed.
SELECT shedlock_acquire('kept', '1 h', '1 h', tick => :'tick', retry => true), shedlock_release('kept', done => false);
SELECT * FROM outcomes WHERE name = 'kept';
SELECT try('kept', :'tick') AS too_soon;
UPDATE shedlock SET lock_until = soon, lock_at_least_until = soon
  FROM timezone('utc', clock_timestamp() + interval '100 ms') AS soon WHERE name = 'kept';
SELECT try('kept', :'tick', wait => '1 h') AS in_time;
-- Even with a wait, a caller gets the tick at once if its last run failed, and is refused at once if that was done.
SELECT shedlock_acquire_token('waited', '10 min', tick => :'tick') AS token \gset
SET statement_timeout = '5min';
SELECT shedlock_release_token('waited', :token, false),
       shedlock_acquire_token('waited', '10 min', '0', '1 h', :'tick', true) AS token \gset
SELECT shedlock_release_token('waited', :token, done => true),
       shedlock_acquire_token('waited', '10 min', '0', '1 h', :'tick', true);
RESET statement_timeout;
-- After a later tick's run failed, an earlier tick, which may have been done, is not due.
SELECT try('later', :'tick'), shedlock_release('later'), try('later', :'later'),
       shedlock_release('later', done => false);
SELECT try('later', :'tick') AS earlier, try('later', :'later') AS later;
-- Several names: all of them must be due.
SELECT shedlock_acquire('{a,b}'::text[], '1 min', tick => :'tick'), shedlock_release('{a,b}'::text[], done => false);
SELECT shedlock_acquire('{a,b}'::text[], '1 min', tick => :'tick', retry => true), shedlock_release('a'),
       shedlock_release('b', done => false);
SELECT shedlock_acquire('{a,b}'::text[], '1 min', tick => :'tick', retry => true) AS a_was_done;
SELECT shedlock_acquire_token('{x,y}'::text[], '1 min', tick => :'tick', retry => true, holder => 'h') AS token \gset
SELECT shedlock_release_token('{x,y}'::text[], :token, done => false);
SELECT * FROM outcomes WHERE name IN ('a', 'b', 'x', 'y');
-- A Java run does not record whether it was done, and counts as done, whatever an earlier holder left in
-- lock_at_least_until.
INSERT INTO shedlock VALUES ('java', timezone('utc', now()), timezone('utc', now()), 'build-7', '-infinity');
SELECT last_outcome, try('java', :'tick') FROM shedlock_locks WHERE name = 'java';
-- A pause or a release by force is not a run: a tick that was done stays done, and one that was not done stays due.
SELECT shedlock_pause('r'), shedlock_resume('r'), shedlock_force_release('r');
SELECT try('r', :'tick') AS was_done;
SELECT shedlock_pause('x'), shedlock_resume('x'), shedlock_force_release('x');
SELECT try('x', :'tick') AS had_failed;
SELECT shedlock_force_release('x');
SELECT try('x', :'tick') AS was_stopped;
SELECT shedlock_pause('new'), shedlock_resume('new');
SELECT * FROM outcomes WHERE name IN ('r', 'new');
SELECT try('new', :'tick') AS never_ran;
SELECT shedlock_force_release('java');
SELECT last_outcome, try('java', :'tick') FROM shedlock_locks WHERE name = 'java';
SELECT try('stopped', :'tick'), shedlock_release('stopped'), try('stopped', :'later'),
       shedlock_force_release('stopped');
SELECT try('stopped', :'tick') AS was_done, try('stopped', :'later') AS was_stopped, shedlock_release('stopped', false),
       shedlock_pause('stopped'), shedlock_resume('stopped');
SELECT try('stopped', :'tick') AS was_done, try('stopped', :'later') AS had_failed;
SELECT name, split_part(holder, '@', 1) AS holder
  FROM shedlock_locks WHERE name = 'new' OR holder LIKE 'released by force%' ORDER BY name;
-- The tick is in a column of its own; locked_by has the holder and decides who owns the lock.
SELECT shedlock_acquire_token('place', '1 min', tick => '2020-01-01 00:00Z', holder => 'web-1') AS token \gset
SELECT l.locked_by = 'web-1#' || :token AS as_given, l.last_tick, v.holder, v.last_tick = '2020-01-01 00:00Z' AS same
  FROM shedlock l JOIN shedlock_locks v USING (name) WHERE name = 'place';
SELECT shedlock_acquire_token('before 1970', '1 min', tick => '1001-01-01 00:00Z', holder => 'web-1') IS NOT NULL
           AS token;
SELECT split_part(locked_by, '#', 1) AS holder, last_tick, shedlock_force_release(name)
  FROM shedlock WHERE name = 'before 1970';
SELECT try('before 1970', '1001-01-01 00:00Z'), shedlock_release('before 1970'),
       try('before 1970', '1001-01-01 00:00Z') AS done;
SELECT shedlock_acquire('place 2', '1 min', tick => '2020-01-01 00:00Z');
SELECT locked_by ~ '^pg_regress/retry@[^/]*/\d+\.\d+[.,][0-9a-f]{8}:\d+$' AS as_ever, last_tick,
       shedlock_release('place 2')
  FROM shedlock WHERE name = 'place 2';

-- Arguments.
CALL shedlock_run('r', 'SELECT 1', '1 min', retry => true);
DROP VIEW outcomes;
DROP FUNCTION try;
DELETE FROM shedlock;
