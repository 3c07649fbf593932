-- shedlock_complete: the commit of this transaction releases the lock as done, and fails if there was another
-- acquisition. Until then the lock is held.
CREATE TABLE work (what text);
CREATE VIEW locks AS
SELECT name, state, last_outcome, last_done_tick = '2026-01-01Z' AS tick_done, last_done_at IS NOT NULL AS done_at
  FROM shedlock_locks ORDER BY name;
-- Makes the call in a subtransaction and returns its error. (An error of the commit would not be caught here.)
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    detail text;
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, detail = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || SQLERRM,
        nullif(regexp_replace(detail, '"[^"]*"', '"..."'), ''), nullif(hint, ''));
END $$;
-- The work that was done, and the columns of the view above.
\set outcome 'SELECT (SELECT string_agg(what, \', \' ORDER BY what) FROM work) AS work, locks.* FROM locks \\g (tuples_only=on) \\\\ TRUNCATE work;'

-- The work and the release are one transaction, for a session's lock and for a token's. Nothing is written before the
-- commit: last_done_at is the time of the commit.
SELECT shedlock_acquire('c', '1 h', tick => '2026-01-01Z'),
       shedlock_acquire_token('t', '1 h', tick => '2026-01-01Z') AS token \gset
BEGIN;
INSERT INTO work VALUES ('first');
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
SELECT * FROM locks;
SELECT clock_timestamp() AS called \gset
COMMIT;
SELECT l.name, l.last_done_at >= :'called' AS at_commit, w.xmin = s.xmin AS one_transaction
  FROM work w, shedlock s JOIN shedlock_locks l USING (name) ORDER BY 1;
:outcome
-- An autocommitted statement is a transaction as well.
SELECT shedlock_acquire(ARRAY['c', 'd'], '1 h'), shedlock_acquire_token(ARRAY['t', 'u'], '1 h') AS token \gset
SELECT shedlock_complete(ARRAY['d', 'c']);
SELECT shedlock_complete_token(ARRAY['u', 't'], :token);
SELECT name, last_done_tick = locked_at AS without_a_tick FROM shedlock_locks ORDER BY name;
:outcome
-- A tick that was completed is not due again. After a rollback nothing has happened: the lock is held, and its
-- tick is not done.
SELECT shedlock_acquire('c', '1 h', tick => '2026-01-01Z', retry => true) AS done_before;
DELETE FROM shedlock;
SELECT shedlock_acquire('c', '1 h', tick => '2026-01-01Z');
BEGIN;
INSERT INTO work VALUES ('rolled back');
SELECT shedlock_complete('c');
ROLLBACK;
:outcome
SELECT shedlock_release('c', done => false),
       shedlock_acquire('c', '1 h', tick => '2026-01-01Z', retry => true) AS due_again;
-- An error at the commit that comes from somewhere else rolls back as well.
CREATE TABLE picky (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
BEGIN;
SELECT shedlock_complete('c');
INSERT INTO picky VALUES (1), (1);
COMMIT;
:outcome
-- A deferred trigger calls it at the commit.
CREATE FUNCTION completes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM shedlock_complete('c');
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER completes AFTER INSERT ON picky DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION completes();
BEGIN;
INSERT INTO picky VALUES (1);
SELECT state FROM locks;
COMMIT;
:outcome
DROP TABLE picky;
DROP FUNCTION completes;
DELETE FROM shedlock;

-- Repeating it is harmless: in one transaction, in savepoints, and with a guard before and after it.
SELECT shedlock_acquire('c', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
BEGIN;
SELECT shedlock_guard_token('t', :token), shedlock_complete('c');
SAVEPOINT a;
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
RELEASE a;
SELECT shedlock_complete('c'), shedlock_complete_token(ARRAY['t'], :token), shedlock_guard('c');
COMMIT;
:outcome
SELECT shedlock_acquire('c', '1 h');
BEGIN;
DO $$
DECLARE
    before bigint := (SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext');
BEGIN
    FOR i IN 1..1000 LOOP
        BEGIN
            PERFORM shedlock_complete('c');
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
    RAISE NOTICE 'less than 10 kB: %',
        (SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext') - before < 10000;
END $$;
COMMIT;
-- This transaction released the lock as done, before the completion or after it.
SELECT shedlock_acquire('c', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
BEGIN;
SELECT shedlock_release('c'), shedlock_release_token('t', :token);
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
INSERT INTO work VALUES ('released, then completed');
COMMIT;
:outcome
SELECT shedlock_acquire('c', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
BEGIN;
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
SAVEPOINT a;
SELECT shedlock_release('c'), shedlock_release_token('t', :token);
RELEASE a;
INSERT INTO work VALUES ('completed, then released');
COMMIT;
:outcome
-- A release that is rolled back to a savepoint has not happened.
SELECT shedlock_acquire('c', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
BEGIN;
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
SAVEPOINT a;
SELECT shedlock_release('c', done => false), shedlock_release_token('t', :token, done => false);
ROLLBACK TO a;
INSERT INTO work VALUES ('completed, not released');
COMMIT;
:outcome
-- This transaction released the lock as failed: SL001, at the call if the release came first, otherwise at the commit.
SELECT shedlock_acquire('c', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
BEGIN;
SELECT shedlock_release('c', done => false), shedlock_release_token('t', :token, done => false);
SELECT attempt($$shedlock_complete('c')$$);
SELECT attempt($$shedlock_complete_token('t', $$ || :token || ')');
ROLLBACK;
BEGIN;
SELECT shedlock_complete('c');
SELECT shedlock_release('c', done => false);
INSERT INTO work VALUES ('lost');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
BEGIN;
SELECT shedlock_complete_token('t', :token);
SELECT shedlock_release_token('t', :token, done => false);
INSERT INTO work VALUES ('lost');
COMMIT;
:outcome
-- If an earlier transaction released the lock, that is SL001, even if it was released as done: a client that does not
-- know how its commit ended may release the lock, and run the tick again.
SELECT shedlock_release('c'), shedlock_release_token('t', :token, done => false);
SELECT attempt($$shedlock_complete('c')$$), attempt($$shedlock_complete_token('t', $$ || :token || ')');
SELECT shedlock_acquire('c', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
SELECT attempt($$shedlock_complete('c')$$), attempt($$shedlock_complete_token('t', $$ || :token || ')');
-- The same transaction acquires the lock; and acquires it once more after the completion.
DELETE FROM shedlock;
BEGIN;
SELECT shedlock_acquire('c', '1 h', tick => '2026-01-01Z'), shedlock_acquire_token('t', '1 h') AS token \gset
SELECT shedlock_complete('c'), shedlock_complete_token('t', :token);
COMMIT;
:outcome
BEGIN;
SELECT shedlock_acquire('c', '1 h');
SELECT shedlock_complete('c'), shedlock_release('c'),
       shedlock_acquire_token('c', '1 h', holder => 'us') > 0 AS acquired;
INSERT INTO work VALUES ('lost');
COMMIT;
:outcome
DELETE FROM shedlock;

-- Only a caller that may release the lock may complete it. Unknown names and tokens. (Arguments: sql/arguments.sql.)
SELECT shedlock_acquire('mine', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
SELECT token AS mine FROM shedlock_locks WHERE name = 'mine' \gset
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' -> '
SELECT c, attempt(replace(replace(c, 'TOKEN', :'token'), 'MINE', :'mine')) FROM unnest(ARRAY[
    $$shedlock_complete('t')$$,
    $$shedlock_complete_token('mine', MINE)$$,
    $$shedlock_complete_token('t', TOKEN + 1)$$,
    $$shedlock_complete_token('t', TOKEN - 1)$$,
    $$shedlock_complete('nobody')$$,
    $$shedlock_complete_token('nobody', 1)$$,
    $$shedlock_complete(ARRAY['mine', 'nobody'])$$,
    $$shedlock_complete(ARRAY['mine', 't'])$$,
    $$shedlock_complete_token(ARRAY['t', 'mine'], TOKEN)$$
]) c;
\pset tuples_only off
\pset format csv
-- Another session.
\c
SELECT attempt($$shedlock_complete('mine')$$);
SELECT shedlock_complete_token('t', :token);
SELECT * FROM locks;
-- If one of several locks is lost, none is completed.
DELETE FROM shedlock;
SELECT shedlock_acquire_token(ARRAY['x', 'y', 'z'], '1 h') AS token \gset
BEGIN;
SELECT shedlock_complete_token(ARRAY['z', 'y', 'x'], :token);
INSERT INTO work VALUES ('lost');
SELECT shedlock_force_release('y');
COMMIT;
:outcome
SELECT attempt($$shedlock_complete_token('{x,y,z}'::text[], $$ || :token || ')');
SELECT * FROM locks;
DELETE FROM shedlock;

-- I12: a completion belongs to its savepoint; when that is released into the outer transaction, the completion stays.
SELECT shedlock_acquire('s', '1 h');
BEGIN;
SAVEPOINT a;
SELECT shedlock_complete('s');
ROLLBACK TO a;
INSERT INTO work VALUES ('not completed');
COMMIT;
:outcome
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT shedlock_complete('s');
RELEASE b;
ROLLBACK TO a;
COMMIT;
:outcome
-- ... but a rollback to the savepoint drops neither an older guard nor an older completion.
BEGIN;
SELECT shedlock_guard('s');
SAVEPOINT a;
SELECT shedlock_complete('s');
ROLLBACK TO a;
INSERT INTO work VALUES ('guarded, not completed');
COMMIT;
:outcome
BEGIN;
SELECT shedlock_guard('s');
SAVEPOINT a;
SELECT shedlock_complete('s');
ROLLBACK TO a;
DELETE FROM shedlock;
INSERT INTO work VALUES ('lost');
COMMIT;
:outcome
SELECT shedlock_acquire('s', '1 h') AS was_deleted;
BEGIN;
SELECT shedlock_complete('s');
SAVEPOINT a;
SELECT shedlock_complete('s');
ROLLBACK TO a;
INSERT INTO work VALUES ('the older one stays');
COMMIT;
:outcome
SELECT shedlock_acquire('s', '1 h');
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT shedlock_complete('s');
RELEASE b;
RELEASE a;
INSERT INTO work VALUES ('released savepoint');
COMMIT;
:outcome
-- It lasts until the end of the transaction; the next one, after AND CHAIN, begins without it.
SELECT shedlock_acquire('s', '1 h');
BEGIN;
SELECT shedlock_complete('s');
ROLLBACK AND CHAIN;
COMMIT;
BEGIN;
SELECT shedlock_complete('s');
COMMIT AND CHAIN;
SELECT shedlock_acquire('s', '1 h');
COMMIT;
:outcome
-- Each COMMIT of a procedure completes the locks that its own transaction has named.
DO $$
BEGIN
    PERFORM shedlock_complete('s');
    COMMIT;
    FOR i IN 1..3 LOOP
        PERFORM shedlock_acquire('s', '1 h');
        INSERT INTO work VALUES (i);
        PERFORM shedlock_complete('s');
        COMMIT;
    END LOOP;
END $$;
:outcome
-- It works at every isolation level, even with a snapshot older than an extend, or older than the acquisition.
SELECT shedlock_acquire('s', '1 h');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT shedlock_complete('s');
SELECT shedlock_extend('s', '2 h');
INSERT INTO work VALUES ('repeatable read');
COMMIT;
:outcome
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM work;
SELECT shedlock_acquire_token('s', '1 h') AS token \gset
SELECT shedlock_extend_token('s', :token, '2 h'), shedlock_complete_token('s', :token);
INSERT INTO work VALUES ('serializable');
COMMIT;
:outcome
-- Between the call and the commit the lock can be extended; its at_least is honoured.
SELECT shedlock_acquire_token('s', '1 h', at_least => '30 min') AS token \gset
BEGIN;
SELECT shedlock_complete_token('s', :token);
SELECT shedlock_extend_token('s', :token, '2 h');
INSERT INTO work VALUES ('kept for its at_least');
COMMIT;
:outcome
DELETE FROM shedlock;

-- The lease has ended, and nobody has taken the lock: a WARNING with the same SQLSTATE and words as that of a run.
-- (test/tap/run.pl shows by how much it was late.)
\set VERBOSITY sqlstate
SELECT shedlock_acquire_token('over', '1 ms', tick => '2026-01-01Z') AS token, shedlock_acquire('session', '1 ms') \gset
SELECT pg_sleep(0.002);
BEGIN;
SELECT shedlock_complete_token('over', :token), shedlock_complete('session');
INSERT INTO work VALUES ('late');
COMMIT;
:outcome
-- A lease that was ended by hand, at -infinity, causes the same WARNING. (It counts the delay from the acquisition.)
SELECT shedlock_acquire('session', '1 h');
UPDATE shedlock SET lock_until = '-infinity' WHERE name = 'session';
SELECT shedlock_complete('session');
-- A lock whose lease has ended can be completed, but not extended.
SELECT shedlock_acquire_token('over', '1 ms') AS token \gset
SELECT pg_sleep(0.002);
SELECT shedlock_extend_token('over', :token, '1 h');
\set VERBOSITY default
-- Somebody took the lock before the call, or between the call and the commit: our functions, a Java client, a pause, a
-- release by force, or a deletion.
PREPARE java_again(text, int, text) AS
    UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2),
      locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = $3
      WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP);
\set take 'DELETE FROM shedlock WHERE name = \'over\'; SELECT shedlock_acquire_token(\'over\', \'1 ms\') AS token, pg_sleep(0.002) \\gset'
\set complete ':take \\\\ BEGIN; \\set VERBOSITY sqlstate \\\\ SELECT shedlock_complete_token(\'over\', :token); \\set VERBOSITY default'
:complete
INSERT INTO work VALUES ('taken over by us');
SELECT shedlock_acquire_token('over', '1 ms', holder => 'us') AS second \gset
COMMIT;
:complete
INSERT INTO work VALUES ('taken over by Java');
EXECUTE java_again('over', 3600, 'host');
COMMIT;
:complete
INSERT INTO work VALUES ('paused');
SELECT shedlock_pause('over');
COMMIT;
:complete
INSERT INTO work VALUES ('forced');
SELECT shedlock_force_release('over');
COMMIT;
:complete
INSERT INTO work VALUES ('deleted');
DELETE FROM shedlock WHERE name = 'over';
COMMIT;
-- If the row's lock_until is set to infinity by hand, that is a pause, which only an administrator can end.
:complete
INSERT INTO work VALUES ('paused by hand');
UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'over';
SELECT attempt($$shedlock_complete_token('over', $$ || :token || ')');
COMMIT;
SELECT shedlock_acquire('hand', '1 h');
UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'hand';
SELECT attempt($$shedlock_complete('hand')$$);
SELECT * FROM locks WHERE name = 'hand';
DELETE FROM shedlock WHERE name = 'hand';
:outcome
:take
EXECUTE java_again('over', 0, 'host');
SELECT attempt($$shedlock_complete_token('over', $$ || :token || ')') AS javas;
SELECT shedlock_acquire('over', '1 ms'), attempt($$shedlock_complete_token('over', $$ || :token || ')') AS ours;
SELECT pg_sleep(0.002), shedlock_pause('over'), attempt($$shedlock_complete('over')$$) AS paused;
SELECT shedlock_resume('over'), attempt($$shedlock_complete('over')$$) AS resumed;
SELECT shedlock_acquire('over', '1 h'), shedlock_force_release('over'),
       attempt($$shedlock_complete('over')$$) AS forced;
DELETE FROM shedlock;
SELECT attempt($$shedlock_complete('over')$$) AS deleted;
DEALLOCATE ALL;

-- In the command of shedlock_run it completes the run's own lock.
CALL shedlock_run('r', $$INSERT INTO work VALUES ('run'); SELECT shedlock_complete('r')$$, '1 h');
:outcome
CALL shedlock_run('r', $$
    SELECT shedlock_complete('r');
    INSERT INTO work VALUES ('lost');
    SELECT shedlock_release('r', done => false)
$$, '1 h');
:outcome
-- If the command itself commits, whatever comes after that no longer has the lock: SL001.
CALL shedlock_run('r', $$
    DO 'BEGIN
        PERFORM shedlock_complete(''r'');
        INSERT INTO work VALUES (''committed'');
        COMMIT;
        INSERT INTO work VALUES (''lost'');
    END'$$, '1 h');
\echo :LAST_ERROR_SQLSTATE
:outcome
-- The lock of an outer run, a lock of another name, and a lock held by token.
SELECT shedlock_acquire_token('t', '1 h') AS token \gset
CALL shedlock_run('r', $$
    CALL shedlock_run('inner', 'SELECT shedlock_guard(''r''); SELECT shedlock_complete(''inner'')', '1 h');
    INSERT INTO work VALUES ('inner and outer');
    SELECT shedlock_complete_token('t', $$ || :token || ')', '1 h');
:outcome
CALL shedlock_run('r', $$
    CALL shedlock_run('inner', 'SELECT shedlock_complete(''r'')', '1 h');
    INSERT INTO work VALUES ('lost')
$$, '1 h');
:outcome
DELETE FROM shedlock;

-- A completed lock is not a lost one: extend and release report SL002, as long as the row shows it.
SELECT shedlock_acquire('s', '1 h'), shedlock_acquire_token('t', '1 h') AS token \gset
SELECT shedlock_complete('s'), shedlock_complete_token('t', :token);
SELECT shedlock_extend('s', '1 h'), shedlock_release('s'), shedlock_extend_token('t', :token, '1 h'),
       shedlock_release_token('t', :token, done => false);
\set VERBOSITY sqlstate
SELECT shedlock_extend('s', '1 h'), shedlock_release('s'), shedlock_extend_token('t', :token, '1 h'),
       shedlock_release_token('t', :token);
-- The same after the lock was acquired again, paused, released by force, or taken by Java. A session's earlier
-- acquisition is no longer known.
SELECT shedlock_acquire_token('t', '1 h', tick => now()) AS second \gset
SELECT shedlock_extend_token('t', :token, '1 h'), shedlock_release_token('t', :token);
SELECT shedlock_force_release('t'), shedlock_release_token('t', :token);
SELECT shedlock_pause('t'), shedlock_extend_token('t', :token, '1 h');
SELECT shedlock_resume('t'), shedlock_release_token('t', :token);
UPDATE shedlock
   SET lock_until = timezone('utc', now()), locked_at = timezone('utc', clock_timestamp()), locked_by = 'host'
 WHERE name = 't';
SELECT shedlock_release_token('t', :token);
\set VERBOSITY default
SELECT shedlock_release_token('t', :token);
\set VERBOSITY sqlstate
SELECT shedlock_acquire_token('s', '1 h') IS NOT NULL AS taken, shedlock_release('s');
-- SL001 where the row does not show it: the lock was released by force or as failed, its tick differed from the token,
-- or the next acquisition was done as well.
SELECT shedlock_release_token('t', :second);
SELECT shedlock_acquire_token('t', '1 h') AS failed \gset
SELECT shedlock_release_token('t', :failed, done => false), shedlock_release_token('t', :failed);
SELECT shedlock_acquire_token('t', '1 h', tick => now()) AS ticked \gset
SELECT shedlock_complete_token('t', :ticked);
SELECT shedlock_extend_token('t', :ticked, '1 h');
SELECT shedlock_acquire_token('t', '1 h') AS last \gset
SELECT shedlock_extend_token('t', :ticked, '1 h');
SELECT shedlock_complete_token('t', :last);
SELECT shedlock_release_token('t', :token);
-- With several names a lost lock takes precedence over a completed one, and locks that are ours are left alone.
SELECT shedlock_acquire_token(ARRAY['a', 'b', 'c'], '1 h') AS token \gset
SELECT shedlock_complete_token('a', :token);
SELECT shedlock_extend_token(ARRAY['a', 'b'], :token, '2 h'), shedlock_release_token(ARRAY['c', 'b', 'a'], :token);
SELECT shedlock_release_token('c', :token, done => false);
SELECT shedlock_extend_token(ARRAY['a', 'b', 'c'], :token, '2 h'), shedlock_release_token(ARRAY['a', 'b', 'c'], :token),
       shedlock_release_token(ARRAY['a', 'nobody'], :token);
SELECT shedlock_acquire(ARRAY['d', 'e', 'f'], '1 h'), shedlock_complete(ARRAY['d', 'e']);
SELECT shedlock_release(ARRAY['d', 'e', 'f']), shedlock_extend(ARRAY['d', 'e', 'f'], '1 h');
SELECT shedlock_extend(ARRAY['d', 'nobody'], '1 h'), shedlock_release(ARRAY['e', 'b'], done => false);
SELECT * FROM locks WHERE name ~ '^[a-f]$';
\set VERBOSITY default
DELETE FROM shedlock;
DROP VIEW locks;
DROP TABLE work;
DROP FUNCTION attempt;
DELETE FROM shedlock;
