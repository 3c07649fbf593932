-- I12 in depth: subtransactions, exception blocks, functions in functions, cursors. Whatever is rolled
-- back never happened.
CREATE FUNCTION held() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(name, ' ' ORDER BY name) FROM shedlock_locks WHERE state = 'held'
$$;
CREATE FUNCTION acquire_and_fail(name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM shedlock_acquire(acquire_and_fail.name, '1 h');
    RAISE division_by_zero;
END $$;

-- Eighty subtransactions deep, more than a backend's cache of them holds. At each level another one is rolled back.
CREATE FUNCTION deep(level int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    below int := 0;
BEGIN
    IF level = 0 THEN
        RETURN 0;
    END IF;
    BEGIN
        PERFORM shedlock_acquire('level ' || level, '1 h');
        BEGIN
            PERFORM acquire_and_fail('undone ' || level);
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
        below := deep(level - 1);
    EXCEPTION WHEN undefined_table THEN -- makes the block a subtransaction
        RAISE;
    END;
    RETURN below + 1;
END $$;
BEGIN;
SELECT deep(80);
SELECT count(*) FILTER (WHERE name LIKE 'level%') AS kept, count(*) FILTER (WHERE name LIKE 'undone%') AS undone
  FROM shedlock;
-- Our own transaction sees the locks at any depth: still held, extended, released.
SELECT shedlock_acquire('level 80', '1 h') AS again, shedlock_extend('level 1', '2 h') AS extended,
       shedlock_release('level 2') AS released;
ROLLBACK;
SELECT held();

-- An extend and a release in a block that fails are rolled back, while the acquire before it stays; a
-- second attempt works.
SELECT shedlock_acquire('a', '1 h');
DO $$
DECLARE
    before record;
    after record;
BEGIN
    SELECT * INTO before FROM shedlock WHERE name = 'a';
    BEGIN
        PERFORM shedlock_extend('a', '5 h'), shedlock_release('a'), shedlock_acquire('a', '1 ms');
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
        SELECT * INTO after FROM shedlock WHERE name = 'a';
        RAISE NOTICE 'as before: %', before = after;
    END;
    BEGIN
        PERFORM shedlock_guard('a'), acquire_and_fail('b');
    EXCEPTION WHEN division_by_zero THEN
        RAISE NOTICE 'b is free again: %', shedlock_acquire('b', '1 h');
    END;
END $$;
SELECT held();
-- The caller's own work survives an error of a lock function, and is not committed by it.
CREATE TABLE own (n int);
DO $$
BEGIN
    INSERT INTO own VALUES (1);
    BEGIN
        INSERT INTO own VALUES (2);
        PERFORM shedlock_acquire('c', '0');
    EXCEPTION WHEN invalid_parameter_value THEN
        PERFORM shedlock_acquire('c', '1 h');
    END;
    BEGIN
        PERFORM shedlock_guard('nobody');
    EXCEPTION WHEN SQLSTATE 'SL001' THEN
        INSERT INTO own VALUES (3);
    END;
END $$;
SELECT array_agg(n ORDER BY n) AS own, held() FROM own;
-- Functions in functions, in a CTE, in DML and its RETURNING, in a SQL function, as a default.
CREATE FUNCTION outermost(name text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN shedlock_acquire(name, '1 h') THEN 'got ' || name ELSE 'no ' || name END
$$;
WITH first AS MATERIALIZED (SELECT outermost('d') AS said),
     second AS MATERIALIZED (SELECT said, outermost('d') AS again FROM first)
SELECT * FROM second;
CREATE TABLE job (name text, got boolean DEFAULT shedlock_acquire('by default', '1 h'));
INSERT INTO job (name) VALUES ('x') RETURNING got, shedlock_release('by default') AS released;
CREATE FUNCTION at_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.got := shedlock_acquire(NEW.name, '1 h');
    RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION at_insert();
INSERT INTO job VALUES ('by trigger'), ('by trigger') RETURNING got;
-- Cursors: a fetch acquires the locks of its rows. If the cursor is WITH HOLD, the commit acquires those of all other
-- rows. Rows whose fetch was rolled back to a savepoint are not fetched again.
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT n, shedlock_acquire('cursor ' || n, '1 h') FROM generate_series(1, 4) n;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;
FETCH ABSOLUTE 1 FROM c;
CLOSE c;
SELECT held();
BEGIN;
DECLARE c CURSOR FOR SELECT n, shedlock_acquire('portal ' || n, '1 h') FROM generate_series(1, 4) n;
FETCH 1 FROM c;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
COMMIT;
SELECT string_agg(name, ' ' ORDER BY name) FROM shedlock WHERE name LIKE 'portal%';
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT name FROM shedlock_locks WHERE name LIKE 'cursor%' ORDER BY name LOOP
        PERFORM shedlock_release(r.name);
    END LOOP;
END $$;
SELECT held();
-- The functions see what the same command has done to the table: a WITH clause that updates, inserts or deletes the
-- row.
UPDATE shedlock SET lock_until = locked_at WHERE name = 'cursor 1';
WITH u AS (UPDATE shedlock SET locked_by = locked_by WHERE name = 'cursor 1' RETURNING name)
SELECT shedlock_acquire(name, '1 h') FROM u;
WITH u AS (UPDATE shedlock SET lock_until = lock_until WHERE name = 'cursor 1' RETURNING name)
SELECT shedlock_acquire(name, '1 h') AS again, shedlock_extend(name, '1 h') FROM u;
BEGIN;
WITH u AS (UPDATE shedlock SET lock_until = lock_until WHERE name = 'cursor 1' RETURNING name)
SELECT shedlock_guard(name) FROM u;
COMMIT;
WITH u AS (UPDATE shedlock SET lock_until = lock_until WHERE name = 'cursor 1' RETURNING name)
SELECT shedlock_release(name), shedlock_force_release(name) FROM u;
WITH i AS (INSERT INTO shedlock VALUES ('made', '2026-01-01', '2026-01-01', 'x') RETURNING name)
SELECT shedlock_acquire(name, '1 h') FROM i;
WITH d AS (DELETE FROM shedlock WHERE name = 'made' RETURNING name)
SELECT shedlock_acquire(name, '1 h'), shedlock_release(name) FROM d;
SELECT count(*) FROM shedlock WHERE name = 'made';
\set VERBOSITY terse
WITH d AS (DELETE FROM shedlock WHERE name = 'made' RETURNING name) SELECT shedlock_release(name) FROM d;
\set VERBOSITY default
DROP TABLE job, own;
DROP FUNCTION at_insert, outermost, deep, acquire_and_fail, held;
DELETE FROM shedlock;
