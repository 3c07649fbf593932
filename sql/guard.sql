-- I11: a transaction that has called shedlock_guard commits only if there was no other acquisition of that name.
CREATE TABLE work (who text);
SELECT shedlock_acquire('g', '1 min');
BEGIN;
SELECT shedlock_guard('g');
INSERT INTO work VALUES ('first');
COMMIT;
SELECT who FROM work;

-- An error at once if the lock is not ours: never acquired, another token, another session.
SELECT shedlock_guard('nobody');
\set VERBOSITY sqlstate
SELECT shedlock_guard_token('g', 1);
\set VERBOSITY terse
SELECT shedlock_guard_token('g', 1);
\c
\set VERBOSITY terse
SELECT shedlock_guard('g') AS of_another_session;
-- A guard makes the holder's release wait. So a session's lock cannot be guarded by the token that everybody sees.
SELECT shedlock_guard_token('g', token) FROM shedlock_locks WHERE name = 'g';

-- The transaction commits although the lease ran out, if nobody took the lock, and although the lock was
-- released meanwhile.
SELECT shedlock_acquire_token('expired', '1 ms') AS token \gset
SELECT pg_sleep(0.002);
BEGIN;
SELECT shedlock_guard_token('expired', :token);
INSERT INTO work VALUES ('expired');
COMMIT;
SELECT shedlock_acquire('released', '1 min');
BEGIN;
SELECT shedlock_guard('released');
INSERT INTO work VALUES ('released');
SELECT shedlock_release('released');
COMMIT;

-- An acquire of our own counts as another acquisition as well.
SELECT shedlock_acquire_token('expired', '1 min') AS second \gset
SELECT shedlock_guard_token('expired', :token);
BEGIN;
SELECT shedlock_guard_token('expired', :second);
INSERT INTO work VALUES ('own');
SELECT shedlock_release_token('expired', :second);
SELECT shedlock_acquire_token('expired', '1 min') > :second AS again;
COMMIT;

-- Acquire, extend and guard in one transaction.
BEGIN;
SELECT shedlock_acquire('one', '1 min');
SELECT shedlock_guard('one');
INSERT INTO work VALUES ('one transaction');
SELECT shedlock_extend('one', '1 h');
COMMIT;

-- A deleted row proves nothing, so the commit fails.
BEGIN;
SELECT shedlock_guard('one');
INSERT INTO work VALUES ('deleted');
DELETE FROM shedlock WHERE name = 'one';
COMMIT;

-- I12: a guard belongs to its savepoint; when that is released into the outer transaction, the guard stays.
SELECT shedlock_acquire('s', '1 min');
BEGIN;
SAVEPOINT a;
SELECT shedlock_guard('s');
ROLLBACK TO a;
DELETE FROM shedlock WHERE name = 's';
INSERT INTO work VALUES ('guard rolled back');
COMMIT;
SELECT shedlock_acquire('s', '1 min');
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT shedlock_guard('s');
RELEASE b;
RELEASE a;
DELETE FROM shedlock WHERE name = 's';
INSERT INTO work VALUES ('guard kept');
COMMIT;
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT shedlock_guard('s');
RELEASE b;
ROLLBACK TO a;
DELETE FROM shedlock WHERE name = 's';
INSERT INTO work VALUES ('guard rolled back with the outer savepoint');
COMMIT;

-- An autocommitted statement is a transaction as well; several locks may be guarded.
SELECT shedlock_acquire(ARRAY['x', 'y'], '1 min');
SELECT shedlock_guard('y'), shedlock_guard('x'), shedlock_guard('y');

-- Repeating a guard costs no memory, with savepoints or without.
BEGIN;
DO $$
DECLARE
    before bigint := (SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext');
BEGIN
    FOR i IN 1..1000 LOOP
        BEGIN
            PERFORM shedlock_guard('x');
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
        PERFORM shedlock_guard('x');
    END LOOP;
    RAISE NOTICE 'less than 10 kB: %',
        (SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext') - before < 10000;
END $$;
COMMIT;
-- Rolling back to a savepoint drops the guards that came after it, but none that was there before.
BEGIN;
SELECT shedlock_guard('x');
SAVEPOINT a;
SELECT shedlock_guard('x'), shedlock_guard('y');
ROLLBACK TO a;
DELETE FROM shedlock WHERE name = 'y';
COMMIT;
BEGIN;
SELECT shedlock_guard('x');
SAVEPOINT a;
SELECT shedlock_guard('x');
ROLLBACK TO a;
DELETE FROM shedlock WHERE name = 'x';
COMMIT;

-- In coarse columns a Java client can acquire within the same unit of time: the same locked_at, but not the
-- same acquisition.
SELECT shedlock_acquire_token('coarse', '1 min') AS token \gset
BEGIN;
SELECT shedlock_guard_token('coarse', :token);
UPDATE shedlock SET locked_by = 'web-1' WHERE name = 'coarse';
INSERT INTO work VALUES ('guarded by a token that Java got, too');
COMMIT;
UPDATE shedlock SET locked_by = 'web-1' WHERE name = 'coarse';
SELECT shedlock_guard_token('coarse', :token);

SELECT who FROM work ORDER BY who;
DROP TABLE work;
DELETE FROM shedlock;
