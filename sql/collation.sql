-- Names that come from a column with a collation of its own, even one for which similar names are equal; and a lock
-- table with additional columns that have the names of parameters and variables of the portable edition.
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE jobs (n int, job text COLLATE caseless, jobs text[] COLLATE caseless, note text COLLATE "POSIX");
INSERT INTO jobs VALUES (1, 'one', '{one, One}', 'note'), (2, 'One', '{two, Two}', 'Note');
CREATE TABLE further (name) AS SELECT unnest(ARRAY[
    'acquired_at', 'asked_tick', 'at_least', 'at_most', 'code', 'columns', 'done', 'ending', 'for_good', 'freed_at',
    'had_tick', 'holder', 'is_exact', 'is_refused', 'kind', 'l', 'lock_name', 'missing', 'names', 'new_end', 'now',
    'nowait', 'reason', 'refused', 'result', 'retry', 'seen', 'seized', 'session', 'soon', 'tick', 'token', 'unit',
    'unreleased', 'until', 'usual', 'wait', 'wanted', 'without_tick', 'writers']);
SELECT format('ALTER TABLE shedlock %s', string_agg(format('ADD %I text', name), ', ')) FROM further \gexec
CREATE FUNCTION calls(columns text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    FOR answer IN EXECUTE format('SELECT format(''%%s %%s'', n, %s) FROM jobs ORDER BY n', columns) LOOP
        RETURN NEXT answer;
    END LOOP;
END $$;
CREATE PROCEDURE all_calls() LANGUAGE plpgsql AS $$
DECLARE
    what text;
BEGIN
    FOREACH what IN ARRAY ARRAY[
        -- the first acquire inserts a row, the second is refused, the third takes the fast path
        $x$shedlock_acquire(job, '1 h')$x$, $x$shedlock_acquire(job, '1 h')$x$, $x$shedlock_extend(job, '1 h')$x$,
        $x$shedlock_guard(job)$x$, $x$shedlock_release(job)$x$, $x$shedlock_acquire(job, '1 h')$x$,
        $x$shedlock_complete(job)$x$, $x$shedlock_acquire(job, '1 h', tick => clock_timestamp())$x$,
        $x$shedlock_release(job, false)$x$, $x$shedlock_acquire(jobs, '1 h')$x$, $x$shedlock_extend(jobs, '1 h')$x$,
        $x$shedlock_release(jobs)$x$, $x$shedlock_acquire_token(job, '1 h', holder => note) > 0$x$,
        $x$shedlock_extend_token(job, (SELECT token FROM shedlock_locks l WHERE l.name = job COLLATE "C"), '1 h')$x$,
        $x$shedlock_guard_token(job, (SELECT token FROM shedlock_locks l WHERE l.name = job COLLATE "C"))$x$,
        $x$shedlock_release_token(job, (SELECT token FROM shedlock_locks l WHERE l.name = job COLLATE "C"))$x$,
        $x$shedlock_acquire_token(job, '1 h', holder => note) > 0$x$,
        $x$shedlock_complete_token(job, (SELECT token FROM shedlock_locks l WHERE l.name = job COLLATE "C"))$x$,
        $x$shedlock_acquire_token(job, '1 h', '1 s', holder => note) > 0$x$, $x$shedlock_force_release(job)$x$,
        $x$shedlock_acquire(job, '1 h')$x$, $x$shedlock_release(job, true, note)$x$,
        $x$shedlock_acquire(job, '1 h')$x$, $x$shedlock_force_release(job)$x$,
        $x$shedlock_acquire_token(job, '1 h') > 0$x$,
        $x$shedlock_release_token(job, (SELECT token FROM shedlock_locks l WHERE l.name = job COLLATE "C"),
            detail => note)$x$,
        $x$shedlock_pause(job, note)$x$, $x$shedlock_resume(job)$x$, $x$shedlock_forget(job)$x$]
    LOOP
        RAISE NOTICE '%: %', what, (SELECT string_agg(a, ', ') FROM calls(what) a);
        COMMIT;
    END LOOP;
END $$;
\set VERBOSITY terse
CALL all_calls();
-- The table of a Java client has the database's collation, and could have any other for the holder.
ALTER TABLE shedlock ALTER name TYPE varchar(64) COLLATE "default", ALTER locked_by TYPE varchar(255) COLLATE caseless;
SELECT shedlock_keep_history();
CALL all_calls();
SELECT DISTINCT h.name FROM jobs, shedlock_history(jobs.jobs) h WHERE n = 1;
DROP TABLE shedlock_history;
SELECT count(*) FROM shedlock;

-- A run whose name has another collation than its command and the lock table's column.
CREATE PROCEDURE run(wanted int) LANGUAGE plpgsql AS $$
DECLARE
    found CONSTANT record := (SELECT j FROM jobs j WHERE n = wanted);
    executed boolean;
BEGIN
    CALL shedlock_run(found.job, 'SELECT 1', '1 h', executed => executed);
    RAISE NOTICE '%: %', found.job, executed;
END $$;
CALL run(1);
CALL run(2);
SELECT name, state FROM shedlock_locks ORDER BY name COLLATE "C";
SELECT name FROM shedlock_locks('{One}');
DROP PROCEDURE run, all_calls;
DROP FUNCTION calls;
SELECT format('ALTER TABLE shedlock
    ALTER name TYPE varchar(255) COLLATE "C",
    ALTER locked_by TYPE varchar(255) COLLATE "default",
    %s', string_agg(format('DROP %I', name), ', '))
  FROM further \gexec
DROP TABLE jobs, further;
DROP COLLATION caseless;
DELETE FROM shedlock;
