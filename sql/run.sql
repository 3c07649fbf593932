-- CALL shedlock_run acquires and commits; then it runs the command, guarded, and releases the lock in the
-- transaction of the work.
CREATE TABLE work (
    what text,
    deferred int UNIQUE DEFERRABLE INITIALLY DEFERRED,
    checked int CONSTRAINT positive CHECK (checked > 0)
);
CREATE PROCEDURE commits(what text) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO work VALUES (what || ' 1');
    COMMIT;
    INSERT INTO work VALUES (what || ' 2');
    COMMIT;
END $$;
CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'broken' USING DETAIL = 'the detail', HINT = 'the hint', ERRCODE = 'ZZ123',
        SCHEMA = 's', TABLE = 't', COLUMN = 'c', DATATYPE = 'd', CONSTRAINT = 'k';
END $$;
-- While the command runs, this session holds the lock; afterwards the lock is free.
CALL shedlock_run('r', $$INSERT INTO work SELECT state FROM shedlock_locks WHERE name = 'r'$$, '1 min');
SELECT what, state FROM work, shedlock_locks;
-- Several statements; then a CALL and a DO that commit.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('a'); INSERT INTO work SELECT count(*)::text FROM work$$, '1 min');
CALL shedlock_run('r', $$CALL commits('call')$$, '1 min');
CALL shedlock_run('r', $$DO 'BEGIN CALL commits(''do''); ROLLBACK; END'$$, '1 min');
SELECT what FROM work;
TRUNCATE work;
-- Each statement sees what the previous ones have done, whatever kinds of statements they are.
CREATE PROCEDURE adds(what text) LANGUAGE sql AS 'INSERT INTO work VALUES (what)';
CREATE FUNCTION work_now() RETURNS text STABLE LANGUAGE sql AS $$
    SELECT string_agg(what, ' ' ORDER BY what) FROM work
$$;
CALL shedlock_run('r', $$
    INSERT INTO work VALUES ('a');
    UPDATE work SET what = 'b';
    INSERT INTO work SELECT what || what FROM work;
    DELETE FROM work WHERE what = 'b'
$$, '1 min');
CALL shedlock_run('r', $$
    INSERT INTO work VALUES ('c');
    CALL adds(work_now());
    DO 'BEGIN UPDATE work SET what = what || ''.''; END';
    INSERT INTO work SELECT count(*)::text FROM work WHERE what LIKE '%.'
$$, '1 min');
SELECT what FROM work;
DROP PROCEDURE adds;
DROP FUNCTION work_now;
TRUNCATE work;
-- The rows that a command returns go nowhere, whatever command it is.
CALL shedlock_run('r', $$
    SELECT n FROM generate_series(1, 3) n;
    INSERT INTO work VALUES ('returning') RETURNING *;
    UPDATE work SET what = what RETURNING what
$$, '1 min');
CALL shedlock_run('r', $$
    WITH added AS (INSERT INTO work VALUES ('with') RETURNING *) SELECT * FROM added;
    DELETE FROM work WHERE what = 'nobody' RETURNING *
$$, '1 min');
CALL shedlock_run('r', $$
    EXPLAIN (COSTS off) SELECT * FROM work;
    EXPLAIN ANALYZE INSERT INTO work VALUES ('explain analyze');
    SHOW work_mem
$$, '1 min');
CALL shedlock_run('r', $$
    PREPARE adds AS INSERT INTO work VALUES ('execute') RETURNING *;
    EXECUTE adds;
    DEALLOCATE adds;
    CREATE TEMP TABLE made AS SELECT FROM work;
    SELECT * FROM work, made
$$, '1 min');
CALL shedlock_run('r', $$
    DECLARE c CURSOR FOR SELECT what FROM work;
    FETCH ALL FROM c;
    CLOSE c;
    VALUES ('values');
    TABLE work
$$, '1 min');
CALL shedlock_run('r', $$
    CREATE PROCEDURE answers(INOUT n int) LANGUAGE sql AS 'SELECT n + 1';
    CALL answers(1);
    DROP PROCEDURE answers
$$, '1 min');
SELECT what FROM work ORDER BY what;
DROP TABLE made;
TRUNCATE work;
-- Refused: executed is false, there is no error, and nothing has run.
SELECT shedlock_acquire('held', '1 h');
CALL shedlock_run('held', $$INSERT INTO work VALUES ('refused')$$, '1 min');
CALL shedlock_run('held', $$INSERT INTO work VALUES ('refused')$$, '1 min', wait => '60 ms');
CALL shedlock_run('r', $$INSERT INTO work VALUES ('tick')$$, '1 min', tick => '2020-01-01');
SELECT count(*) FROM work;
-- at_least, tick, wait, named arguments, the default at_most.
SET shedlock.default_at_most = '1 min';
CALL shedlock_run('tick', command => 'SELECT', tick => '2020-01-01', at_least => '200 ms');
CALL shedlock_run('tick', command => 'SELECT', tick => '2020-01-01', wait => '1 h');
CALL shedlock_run('tick', command => 'SELECT', wait => '1 h');
RESET shedlock.default_at_most;
-- The command may guard and extend its own lock.
CALL shedlock_run('r', $$
    SELECT shedlock_guard('r');
    SELECT shedlock_extend('r', '1 h');
    INSERT INTO work VALUES ('guarded')
$$, '1 min');
SELECT what FROM work;
TRUNCATE work;

-- A command that fails: its work is rolled back, the lock is released, and the caller gets the command's own error
-- with all its fields.
\set error '\\echo :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE \\\\ SELECT (SELECT count(*) FROM work) AS work, (SELECT state FROM shedlock_locks WHERE name = \'r\') AS lock \\g (tuples_only=on)'
-- At run time.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT 1/0$$, '1 min');
:error
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT fails()$$, '1 min');
:error
-- These were examples of the CONTEXT. On the portable edition it is PL/pgSQL's.
\set SHOW_CONTEXT never
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x', NULL, -1)$$, '1 min');
:error
-- In the middle of cursor loops and nested blocks.
CALL shedlock_run('r', $$
    DO 'DECLARE r record;
    BEGIN
        FOR r IN SELECT generate_series(1, 3) LOOP
            BEGIN
                INSERT INTO work VALUES (''x'');
                PERFORM fails();
            EXCEPTION WHEN division_by_zero THEN NULL;
            END;
        END LOOP;
    END'$$, '1 min');
:error
-- When parsing and planning.
CALL shedlock_run('r', $$SELEC 1$$, '1 min');
:error
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT * FROM no_such_table$$, '1 min');
:error
CALL shedlock_run('r', $$SELECT 1/0 FROM work GROUP BY 1/(1-1)$$, '1 min');
:error
-- At the commit.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x', 1), ('y', 1)$$, '1 min');
:error
-- After a commit of its own: what was committed stays.
CALL shedlock_run('r', $$
    DO 'BEGIN
        CALL commits(''done'');
        INSERT INTO work VALUES (''undone'');
        PERFORM fails();
    END'$$, '1 min');
:error
SELECT what FROM work;
TRUNCATE work;
-- A timeout, wherever it strikes. (A cancel is in test/specs/race_run.)
SET statement_timeout = '100ms';
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT pg_sleep(3600)$$, '2 h');
-- A new session instead of RESET, because the timeout might cancel the RESET as well.
\c
:error
-- What a command cannot do.
CALL shedlock_run('r', 'BEGIN; SELECT 1', '1 min');
:error
CALL shedlock_run('r', 'COPY work TO STDOUT', '1 min');
:error
-- A failing run inside a run.
CALL shedlock_run('r', $$CALL shedlock_run('inner', 'SELECT fails()', '1 min')$$, '1 min');
:error
SELECT name, state FROM shedlock_locks ORDER BY name;
-- at_least is honoured after a failure, so that a broken job is not run again and again without a pause.
CALL shedlock_run('kept', 'SELECT fails()', '1 h', '1 h');
SELECT state FROM shedlock_locks WHERE name = 'kept';

\set VERBOSITY terse
-- The work and the release are one transaction. If a procedure commits, the release is in the transaction
-- after its last COMMIT.
CALL shedlock_run('one', $$INSERT INTO work VALUES ('one')$$, '1 min');
CALL shedlock_run('last', $$CALL commits('last')$$, '1 min');
SELECT what, w.xmin = l.xmin AS one_transaction FROM work w JOIN shedlock l ON what LIKE name || '%' ORDER BY what;
SELECT name, last_outcome FROM shedlock_locks ORDER BY name;
TRUNCATE work;
-- The run outlived its lease, and nobody took over: it is committed, with a WARNING.
\set VERBOSITY sqlstate
CALL shedlock_run('late', $$
    INSERT INTO work VALUES ('late');
    UPDATE shedlock SET lock_until = lock_until - interval '1 h 1 min'
$$, '1 h');
\set VERBOSITY terse
SELECT what, state, last_outcome FROM work, shedlock_locks WHERE name = 'late';
-- The lock is lost: SL001, and nothing is committed.
CALL shedlock_run('lost', $$INSERT INTO work VALUES ('forced'); SELECT shedlock_force_release('lost')$$, '1 min');
:error
CALL shedlock_run('lost', $$INSERT INTO work VALUES ('deleted'); DELETE FROM shedlock WHERE name = 'lost'$$, '1 min');
:error
CALL shedlock_run('lost', $$
    INSERT INTO work VALUES ('taken over');
    UPDATE shedlock SET locked_at = locked_at + interval '1 us', locked_by = 'java' WHERE name = 'lost'
$$, '1 min');
:error
-- A COMMIT in the command fails as well.
CALL shedlock_run('lost', $$
    DO 'BEGIN
        INSERT INTO work VALUES (''kept'');
        COMMIT;
        INSERT INTO work VALUES (''lost'');
        DELETE FROM shedlock;
        COMMIT;
        INSERT INTO work VALUES (''more'');
    END'$$, '1 min');
:error
-- If the lock of the outer run is lost, a run inside it cannot commit either. A guard ends with its run.
CALL shedlock_run('outer', $$DELETE FROM shedlock; CALL shedlock_run('inner', 'SELECT 1', '1 min')$$, '1 min');
:error
CALL shedlock_run('outer', $$
    CALL shedlock_run('inner', 'INSERT INTO work VALUES (''inner'')', '1 min');
    INSERT INTO work VALUES ('outer')
$$, '1 min');
DELETE FROM shedlock;
SELECT what FROM work ORDER BY what;
TRUNCATE work;
-- If the command itself releases the lock as failed, or as done in a transaction before its last one, the run fails
-- with SL001, as any completion would. If it releases it as done in its last transaction, that is the run's release.
CALL shedlock_run('own', $$INSERT INTO work VALUES ('own'); SELECT shedlock_release('own', done => false)$$, '1 min');
SELECT what, last_outcome FROM work RIGHT JOIN shedlock_locks ON true;
CALL shedlock_run('own', $$
    DO 'BEGIN
        INSERT INTO work VALUES (''first'');
        PERFORM shedlock_release(''own'');
        COMMIT;
        INSERT INTO work VALUES (''lost'');
    END'$$, '1 min');
SELECT what, last_outcome FROM work RIGHT JOIN shedlock_locks ON true;
CALL shedlock_run('own', $$INSERT INTO work VALUES ('own'); SELECT shedlock_release('own')$$, '1 min');
SELECT what, last_outcome FROM work RIGHT JOIN shedlock_locks ON true ORDER BY what;
-- A refused run commits nothing.
DO $$
DECLARE
    executed boolean;
BEGIN
    INSERT INTO work VALUES ('not committed');
    CALL shedlock_run('own', 'SELECT 1', '1 min', tick => '2020-01-01', executed => executed);
    ROLLBACK;
    RAISE NOTICE 'executed: %', executed;
END $$;
SELECT what FROM work WHERE what = 'not committed';
-- With retry, a tick is due again until it is done.
CALL shedlock_run('tick', $$SELECT fails()$$, '1 min', tick => '2020-01-01', retry => true);
SELECT name, last_outcome FROM shedlock_locks WHERE name = 'tick';
CALL shedlock_run('tick', $$SELECT 1$$, '1 min', tick => '2020-01-01');
CALL shedlock_run('tick', $$SELECT 1$$, '1 min', tick => '2020-01-01', retry => true);
CALL shedlock_run('tick', $$SELECT 1$$, '1 min', tick => '2020-01-01', retry => true);
SELECT name, last_outcome FROM shedlock_locks WHERE name = 'tick';

-- The lock of a run ends with its session. These locks belong to a session that is gone, to one that had the pid of
-- this session, and to this session.
SELECT format('job@host/%s.1.%s!', pg_backend_pid(), server) AS another_start,
       format('job@host/999999999.%s.%s!', us, server) AS another_pid,
       format('job@host/%s.%s.%s!', pg_backend_pid(), us, server) AS alive,
       format('/999999999.1.%s:', server) AS no_run
  FROM (SELECT (extract(epoch FROM backend_start) * 1000000)::bigint AS us,
               lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0') AS server
          FROM pg_stat_activity WHERE pid = pg_backend_pid()) one \gset
DELETE FROM shedlock;
INSERT INTO shedlock
SELECT name, now + interval '1 h', now, locked_by || (extract(epoch FROM now) * 1000000)::bigint, now + at_least,
       CASE WHEN name = 'tick' THEN timestamp '2020-01-01' ELSE now END
  FROM timezone('utc', clock_timestamp()) AS now, (VALUES
    ('another start', :'another_start', interval '0'),
    ('another pid', :'another_pid', '0'),
    ('at least', :'another_pid', '30 min'),
    ('alive', :'alive', '0'),
    ('no run', :'no_run', '0'),
    ('released', :'another_pid', NULL),
    ('tick', :'another_pid', '0')) AS row (name, locked_by, at_least);
SELECT name, state, holder, last_outcome, remaining > '50 min' AS remaining, held_for IS NOT NULL AS held_for,
       holder_alive
  FROM shedlock_locks ORDER BY name;
SELECT name, shedlock_acquire(name, '1 min') FROM (SELECT name FROM shedlock WHERE name <> 'tick' ORDER BY name) locks;
UPDATE shedlock SET lock_at_least_until = timezone('utc', clock_timestamp() + interval '100 ms')
 WHERE name = 'at least';
SELECT shedlock_acquire('at least', '1 min', wait => '1 h');
SELECT shedlock_acquire('tick', '1 min', tick => '2020-01-01 00:00Z') AS once,
       shedlock_acquire('tick', '1 min', tick => '2020-01-01 00:00Z', retry => true) AS again;
SELECT name, expired FROM shedlock_stats WHERE name IN ('another pid', 'tick') ORDER BY name;
UPDATE shedlock
   SET locked_by = :'another_pid' || (extract(epoch FROM locked_at) * 1000000)::bigint,
       lock_at_least_until = timezone('utc', now())
 WHERE name = 'tick';
SELECT shedlock_force_release('tick') AS was_held;
DELETE FROM shedlock;
TRUNCATE work;

-- shedlock_run works only where it can commit.
\set VERBOSITY terse
BEGIN;
CALL shedlock_run('block', 'SELECT 1', '1 min');
ROLLBACK;
CREATE FUNCTION calls() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e boolean;
BEGIN
    CALL shedlock_run('block', 'SELECT 1', '1 min', executed => e);
END $$;
SELECT calls();
DO $$
DECLARE
    e boolean;
BEGIN
    CALL shedlock_run('block', 'SELECT 1', '1 min', executed => e);
EXCEPTION WHEN active_sql_transaction THEN
    RAISE NOTICE '%', SQLERRM;
END $$;
SELECT count(*) AS nothing_was_acquired FROM shedlock WHERE name = 'block';
-- It can commit in a DO block that is not inside a transaction block. When the run returns, its work is committed,
-- whatever comes after it.
DO $$
DECLARE
    e boolean;
BEGIN
    CALL shedlock_run('do', 'INSERT INTO work VALUES (''do'')', '1 min', executed => e);
    RAISE NOTICE 'executed: %', e;
    RAISE EXCEPTION 'later';
END $$;
SELECT what, state, last_outcome FROM work, shedlock_locks WHERE name = 'do';
DO $$ DECLARE e boolean; BEGIN CALL shedlock_run('do', 'SELECT fails()', '1 min', executed => e); END $$;
SELECT state FROM shedlock_locks WHERE name = 'do';
-- Arguments.
CALL shedlock_run(NULL, 'SELECT 1', '1 min');
CALL shedlock_run('r', NULL, '1 min');
CALL shedlock_run('r', '  ', '1 min');
CALL shedlock_run('r', 'SELECT 1');
CALL shedlock_run(repeat('x', 256), 'SELECT 1', '1 min');
SET default_transaction_read_only = on;
CALL shedlock_run('r', 'SELECT 1', '1 min');
RESET default_transaction_read_only;
-- The command runs with the caller's rights and no others.
CREATE ROLE regress_shedlock_run;
SELECT shedlock_grant('regress_shedlock_run');
SET ROLE regress_shedlock_run;
CALL shedlock_run('r', 'SELECT current_user', '1 min');
CALL shedlock_run('r', 'SELECT * FROM work', '1 min');
CALL shedlock_run('r', 'SELECT * FROM shedlock', '1 min');
RESET ROLE;
DROP OWNED BY regress_shedlock_run;
DROP ROLE regress_shedlock_run;
DROP TABLE work;
DROP PROCEDURE commits;
DROP FUNCTION fails, calls;
DELETE FROM shedlock;
