-- Each session remembers where it last saw the row of a name, and looks there first (extension/row_hint.hpp). Whatever
-- has happened to that row version since then, the answer must be the one that the index would give. The hint is stored
-- before each change.
SET client_min_messages = warning;
TRUNCATE shedlock;
CREATE FUNCTION is_free(name text) RETURNS boolean LANGUAGE sql AS
    'SELECT shedlock_acquire(name, ''1 h'') AND shedlock_release(name)';
-- After this, one VACUUM removes all rows that are dead by now: no other session, such as autovacuum or a daemon of
-- Citus, has a snapshot in which they are alive. With FREEZE it waits for a page that the checkpointer is writing.
CREATE PROCEDURE let_old_snapshots_end() LANGUAGE plpgsql AS $$
DECLARE
    next_xid CONSTANT xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
    WHILE pg_snapshot_xmin(pg_current_snapshot()) < next_xid
          OR EXISTS (SELECT FROM pg_stat_activity
                      WHERE pid <> pg_backend_pid() AND age(backend_xmin) > age(next_xid::xid)) LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END $$;

-- Written by other SQL, with versions of the same length and longer ones.
SELECT shedlock_acquire('a', '1 h'), is_free('a');
UPDATE shedlock SET lock_until = locked_at;
SELECT is_free('a');
UPDATE shedlock SET lock_until = 'infinity';
SELECT is_free('a');
UPDATE shedlock SET lock_until = locked_at, locked_by = repeat('x', 200);
UPDATE shedlock SET lock_until = 'infinity', locked_by = repeat('y', 200);
SELECT is_free('a');

-- Renamed: the version with our name is followed by one with another name.
UPDATE shedlock SET name = 'b' WHERE name = 'a';
SELECT is_free('b') AS b, is_free('a') AS a, is_free('b') AS b;

-- Deleted, and its line pointer reused by a row of another name: c, to which the hint belongs, is free, and d, which is
-- there now, is not.
DELETE FROM shedlock;
CALL let_old_snapshots_end();
VACUUM (FREEZE) shedlock;
INSERT INTO shedlock VALUES ('c', 'infinity', now(), 'x');
SELECT ctid, is_free('c') AS c FROM shedlock WHERE name = 'c';
DELETE FROM shedlock WHERE name = 'c';
CALL let_old_snapshots_end();
VACUUM (FREEZE) shedlock;
INSERT INTO shedlock VALUES ('d', 'infinity', now(), 'x');
SELECT ctid, is_free('d') AS d FROM shedlock WHERE name = 'd';
SELECT is_free('c') AS c, is_free('d') AS d;

-- Deleted, and inserted again.
DELETE FROM shedlock;
INSERT INTO shedlock VALUES ('d', 'infinity', now(), 'x');
SELECT is_free('d');
DELETE FROM shedlock;
SELECT is_free('d');

-- Our own writes: rolled back with the transaction or to a savepoint; otherwise seen in the same transaction.
SELECT is_free('e');
BEGIN;
SELECT shedlock_acquire('e', '1 h'), is_free('e');
ROLLBACK;
SELECT is_free('e');
BEGIN;
SAVEPOINT s;
SELECT shedlock_acquire('e', '1 h'), is_free('e');
ROLLBACK TO s;
SELECT is_free('e'), shedlock_acquire('e', '1 h');
COMMIT;
SELECT is_free('e'), shedlock_release('e');
-- A row whose insertion is rolled back.
BEGIN;
SELECT shedlock_acquire('f', '1 h'), is_free('f');
ROLLBACK;
SELECT is_free('f');

-- Pruned: the root of a chain becomes a redirect, and the line pointers of its versions are reused.
SELECT count(*) FILTER (WHERE is_free('g')) FROM generate_series(1, 200);
CALL let_old_snapshots_end();
VACUUM (FREEZE) shedlock;
SELECT shedlock_acquire('g', '1 h'), is_free('g');
CALL let_old_snapshots_end();
VACUUM (FREEZE) shedlock;
SELECT is_free('g');

-- The hint's line pointer becomes a redirect.
SELECT shedlock_acquire('h', '1 h');
UPDATE shedlock SET lock_until = locked_at WHERE name = 'h';
UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'h';
CALL let_old_snapshots_end();
VACUUM (FREEZE) shedlock;
SELECT is_free('h');

-- The table is rewritten, truncated, and shortened at its end.
VACUUM FULL shedlock;
SELECT is_free('g'), is_free('e');
CLUSTER shedlock USING shedlock_pkey;
SELECT is_free('g'), is_free('e');
TRUNCATE shedlock;
SELECT is_free('g'), is_free('e');
INSERT INTO shedlock SELECT i, 'infinity', now(), repeat('x', 255) FROM generate_series(1, 200) i;
SELECT is_free('200'), is_free('last');
SELECT pg_relation_size('shedlock') / 8192 AS pages;
DELETE FROM shedlock;
CALL let_old_snapshots_end();
VACUUM (FREEZE, TRUNCATE) shedlock;
SELECT pg_relation_size('shedlock') / 8192 AS pages;
SELECT is_free('200'), is_free('last');

-- Many names, some of which share a slot.
SELECT count(*) FILTER (WHERE shedlock_acquire('n' || i, '1 h')) FROM generate_series(1, 600) i;
SELECT count(*) FILTER (WHERE is_free('n' || i)) FROM generate_series(1, 600) i;
SELECT count(*) FILTER (WHERE shedlock_release('n' || i)) FROM generate_series(600, 1, -1) i;
SELECT count(*) FILTER (WHERE is_free('n' || i)) FROM generate_series(1, 600) i;

-- Another table.
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE TABLE shedlock (note text, locked_by text NOT NULL, locked_at timestamp NOT NULL,
    lock_until timestamp NOT NULL, name text PRIMARY KEY);
CREATE EXTENSION shedlock;
SELECT is_free('g'), shedlock_acquire('g', '1 h'), is_free('g'), shedlock_release('g'), is_free('g');
-- A name that is compressed, because the row would not fit.
ALTER TABLE shedlock ALTER note SET STORAGE PLAIN;
INSERT INTO shedlock VALUES (repeat('z', 2000), 'x', now(), now(), repeat('n', 255));
SELECT pg_column_size(name) < 255 AS compressed FROM shedlock WHERE name LIKE 'nnn%';
SELECT is_free(n), is_free(n), shedlock_acquire(n, '1 h'), is_free(n) FROM repeat('n', 255) n;

DROP EXTENSION shedlock;
DROP TABLE shedlock;
DROP FUNCTION is_free;
DROP PROCEDURE let_old_snapshots_end;
CREATE EXTENSION shedlock;
