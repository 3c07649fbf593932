-- CALL shedlock_run: acquire, commit, run, commit, release, commit.
CREATE TABLE work (what text, deferred int UNIQUE DEFERRABLE INITIALLY DEFERRED, checked int CONSTRAINT positive CHECK (checked > 0));
CREATE PROCEDURE commits(what text) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO work VALUES (what || ' 1');
    COMMIT;
    INSERT INTO work VALUES (what || ' 2');
    COMMIT;
END $$;
CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'broken' USING DETAIL = 'the detail', HINT = 'the hint', ERRCODE = 'ZZ123', SCHEMA = 's', TABLE = 't', COLUMN = 'c', DATATYPE = 'd', CONSTRAINT = 'k';
END $$;
-- While it runs, it is held, committed, by this session; afterwards it is free.
CALL shedlock_run('r', $$INSERT INTO work SELECT state FROM shedlock_locks WHERE name = 'r'$$, '1 min');
SELECT what, state FROM work, shedlock_locks;
-- Several statements; a CALL and a DO that commit.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('a'); INSERT INTO work SELECT count(*)::text FROM work$$, '1 min');
CALL shedlock_run('r', $$CALL commits('call')$$, '1 min');
CALL shedlock_run('r', $$DO 'BEGIN CALL commits(''do''); ROLLBACK; END'$$, '1 min');
SELECT what FROM work;
TRUNCATE work;
-- Refused: executed is false, no error, nothing ran.
SELECT shedlock_acquire('held', '1 h');
CALL shedlock_run('held', $$INSERT INTO work VALUES ('refused')$$, '1 min');
CALL shedlock_run('held', $$INSERT INTO work VALUES ('refused')$$, '1 min', wait => '60 ms');
CALL shedlock_run('r', $$INSERT INTO work VALUES ('tick')$$, '1 min', tick => '2020-01-01');
SELECT count(*) FROM work;
-- at_least, tick, wait, named arguments, the default at_most.
SET shedlock.default_at_most = '1 min';
CALL shedlock_run('tick', command => 'SELECT', tick => date_trunc('day', now()), at_least => '200 ms');
CALL shedlock_run('tick', command => 'SELECT', tick => date_trunc('day', now()), wait => '10 s');
CALL shedlock_run('tick', command => 'SELECT', wait => '10 s');
RESET shedlock.default_at_most;
-- The command may guard and extend its own lock.
CALL shedlock_run('r', $$SELECT shedlock_guard('r'); SELECT shedlock_extend('r', '1 h'); INSERT INTO work VALUES ('guarded')$$, '1 min');
SELECT what FROM work;
TRUNCATE work;

-- A command that fails: its work is rolled back, the lock is released, its own error reaches the caller whole.
\set error '\\echo :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE \\\\ SELECT (SELECT count(*) FROM work) AS work, (SELECT state FROM shedlock_locks WHERE name = \'r\') AS lock;'
-- Run time.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT 1/0$$, '1 min');
:error
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT fails()$$, '1 min');
:error
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x', NULL, -1)$$, '1 min');
:error
-- In the middle of cursor loops and nested blocks.
CALL shedlock_run('r', $$DO 'DECLARE r record; BEGIN FOR r IN SELECT generate_series(1, 3) LOOP BEGIN INSERT INTO work VALUES (''x''); PERFORM fails(); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END'$$, '1 min');
:error
-- Parsing and planning.
CALL shedlock_run('r', $$SELEC 1$$, '1 min');
:error
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT * FROM no_such_table$$, '1 min');
:error
CALL shedlock_run('r', $$SELECT 1/0 FROM work GROUP BY 1/(1-1)$$, '1 min');
:error
-- At its commit.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x', 1), ('y', 1)$$, '1 min');
:error
-- After a commit of its own: what was committed stays.
CALL shedlock_run('r', $$DO 'BEGIN CALL commits(''done''); INSERT INTO work VALUES (''undone''); PERFORM fails(); END'$$, '1 min');
:error
SELECT what FROM work;
TRUNCATE work;
-- Timeout. (A cancel is in test/specs/race_run.)
SET statement_timeout = '100ms';
CALL shedlock_run('r', $$INSERT INTO work VALUES ('x'); SELECT pg_sleep(60)$$, '1 min');
RESET statement_timeout;
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
-- at_least is kept after a failure as well: a broken job does not spin.
CALL shedlock_run('kept', 'SELECT fails()', '1 h', '1 h');
SELECT state FROM shedlock_locks WHERE name = 'kept';

\set VERBOSITY terse
-- Lost meanwhile: a WARNING, and executed is still true.
CALL shedlock_run('lost', $$SELECT pg_sleep(0.01); INSERT INTO work VALUES ('overran')$$, '5 ms');
CALL shedlock_run('lost', $$SELECT shedlock_force_release('lost')$$, '1 min');

-- Only where it can commit.
\set VERBOSITY terse
BEGIN;
CALL shedlock_run('block', 'SELECT 1', '1 min');
ROLLBACK;
CREATE FUNCTION calls() RETURNS void LANGUAGE plpgsql AS $$ DECLARE e boolean; BEGIN CALL shedlock_run('block', 'SELECT 1', '1 min', executed => e); END $$;
SELECT calls();
DO $$ DECLARE e boolean; BEGIN CALL shedlock_run('block', 'SELECT 1', '1 min', executed => e); EXCEPTION WHEN active_sql_transaction THEN RAISE NOTICE '%', SQLERRM; END $$;
SELECT count(*) AS nothing_was_acquired FROM shedlock WHERE name = 'block';
-- A DO block of its own can: it commits between the steps.
DO $$ DECLARE e boolean; BEGIN CALL shedlock_run('do', 'SELECT 1', '1 min', executed => e); RAISE NOTICE 'executed: %', e; CALL shedlock_run('do', 'SELECT fails()', '1 min', executed => e); END $$;
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
-- With the caller's rights, nothing more.
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
