-- CREATE EXTENSION adopts a table that a Java team's migration created, with the locks that Java holds.
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE ROLE regress_java;
GRANT ALL ON SCHEMA public TO regress_java;
SET ROLE regress_java;
CREATE TABLE shedlock (
    name VARCHAR(64) NOT NULL,
    lock_until TIMESTAMP NOT NULL,
    locked_at TIMESTAMP NOT NULL,
    locked_by VARCHAR(255) NOT NULL,
    PRIMARY KEY (name)
);
INSERT INTO shedlock VALUES
    ('java held', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'build-7'),
    ('java over', timezone('utc', now()) - interval '1 h', timezone('utc', now()) - interval '2 h', 'build-7');
RESET ROLE;
CREATE EXTENSION shedlock;
SELECT relowner::regrole AS owner FROM pg_class WHERE oid = 'shedlock'::regclass;
SELECT shedlock_acquire('java held', '1 min') AS held, shedlock_acquire('java over', '1 min') AS over,
       shedlock_acquire('new', '1 min') AS new;
SELECT name, state, holder = 'build-7' AS is_java FROM shedlock_locks ORDER BY name;
-- The table's own limit holds: names of at most 64 characters.
\set VERBOSITY terse
SELECT shedlock_acquire(repeat('x', 65), '1 min');
SELECT shedlock_acquire(repeat('x', 64), '1 min');
\set VERBOSITY default
-- The table is not the extension's member: DROP TABLE is refused, ALTER EXTENSION SET SCHEMA and DROP
-- EXTENSION leave it alone.
DROP TABLE shedlock;
CREATE SCHEMA regress_apart;
ALTER EXTENSION shedlock SET SCHEMA regress_apart;
SELECT regress_apart.shedlock_acquire('java held', '1 min') AS acquired, regress_apart.shedlock_release('new') AS ours;
ALTER EXTENSION shedlock SET SCHEMA public;
DROP SCHEMA regress_apart;
DROP EXTENSION shedlock;
SELECT name FROM shedlock ORDER BY name;
-- When it is adopted again, our columns are there already, and the locks that we held are still held.
CREATE EXTENSION shedlock;
SELECT shedlock_acquire('java over', '1 min') AS still_held;
DROP EXTENSION shedlock;
DROP TABLE shedlock;

-- A role that could not act as the table's owner cannot adopt it, because the owner has full control over the locks.
SELECT current_database() AS database \gset
CREATE ROLE regress_installer;
GRANT CREATE ON DATABASE :"database" TO regress_installer;
GRANT ALL ON SCHEMA public TO regress_installer;
SET ROLE regress_java;
CREATE TABLE shedlock (
    name varchar(64) PRIMARY KEY,
    lock_until timestamp(3) NOT NULL,
    locked_at timestamp(3) NOT NULL,
    locked_by varchar(255) NOT NULL
);
-- From 18 on the CONTEXT names the line of the extension's script.
\set SHOW_CONTEXT never
SET ROLE regress_installer;
CREATE EXTENSION shedlock;
RESET ROLE;
GRANT regress_java TO regress_installer;
SET ROLE regress_installer;
CREATE EXTENSION shedlock;
RESET ROLE;

-- In a coarse column leases are rounded up, tokens still grow, and a tick is granted only once.
SELECT shedlock_acquire('ms', '1500 us');
SELECT lock_until - locked_at BETWEEN interval '2 ms' AND interval '3 ms' AS not_shortened
  FROM shedlock WHERE name = 'ms';
SELECT bool_and(shedlock_acquire('fast', '1 min') AND shedlock_release('fast')) AS all_free_at_once
  FROM generate_series(1, 20);
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE TABLE shedlock (
    name text PRIMARY KEY,
    lock_until timestamp(0) NOT NULL,
    locked_at timestamp(0) NOT NULL,
    locked_by text NOT NULL,
    note text
);
CREATE INDEX ON shedlock (lock_until);
INSERT INTO shedlock VALUES ('noted', '2026-01-01', '2026-01-01', 'x', 'stays');
CREATE EXTENSION shedlock;
SELECT shedlock_acquire_token('s', '1 ms') AS first \gset
SELECT shedlock_acquire_token('s', '1 ms', wait => '1 h') - :first AS microseconds_apart \gset
SELECT :microseconds_apart >= 1000000 AS grows;
-- In a column without a limit a name has at most 255 characters.
SELECT shedlock_acquire(repeat('é', 255), '1 ms');
SELECT shedlock_acquire(repeat('é', 256), '1 ms');
SELECT now() AS tick \gset
SELECT shedlock_acquire('tick', '1 ms', tick => :'tick');
SELECT shedlock_acquire('tick', '1 ms', tick => :'tick', wait => '1 h') AS second_turn;
-- Further columns keep their values, and indexes on the times are maintained (updates are then not HOT).
SELECT shedlock_acquire('noted', '1 h');
SELECT note FROM shedlock WHERE name = 'noted';
SET enable_seqscan = off;
SELECT name FROM shedlock WHERE lock_until > timezone('utc', now()) + interval '30 min';
RESET enable_seqscan;
SELECT bool_and(shedlock_extend('noted', '2 h')) FROM generate_series(1, 500);
SELECT shedlock_release('noted');
-- A holder so long that it is stored out of line. A guard and a completion read it when there is no longer a snapshot.
SELECT shedlock_acquire('noted', '1 h');
UPDATE shedlock
   SET locked_by = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) i)
                   || substring(locked_by FROM '/[0-9a-f.]+:[0-9]+$')
 WHERE name = 'noted';
SELECT shedlock_acquire('noted', '1 h') AS acquired, shedlock_extend('noted', '1 h') AS extended;
BEGIN;
SELECT shedlock_guard('noted');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT shedlock_complete('noted');
COMMIT;
SELECT last_outcome, length(holder) FROM shedlock_locks WHERE name = 'noted';
-- After REINDEX, VACUUM FULL, CLUSTER and TRUNCATE the next call works.
REINDEX TABLE CONCURRENTLY shedlock;
SELECT shedlock_acquire('noted', '1 h'), shedlock_acquire('noted', '1 h');
VACUUM FULL shedlock;
SELECT shedlock_acquire('noted', '1 h'), shedlock_release('noted');
CLUSTER shedlock USING shedlock_pkey;
SELECT shedlock_acquire('noted', '1 h'), shedlock_acquire('noted', '1 h');
TRUNCATE shedlock;
SELECT shedlock_acquire('noted', '1 h'), shedlock_acquire('noted', '1 h');
ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey;
SELECT shedlock_acquire('noted', '1 h');
ALTER TABLE shedlock ADD UNIQUE (name);
SELECT shedlock_acquire('noted', '1 h');
-- The shape is checked again after DDL, even if the DDL is rolled back.
BEGIN;
CREATE RULE r AS ON DELETE TO shedlock DO ALSO NOTHING;
SAVEPOINT s;
SELECT shedlock_acquire('noted', '1 h');
ROLLBACK;
SELECT shedlock_acquire('noted', '1 h');
DROP EXTENSION shedlock;
DROP TABLE shedlock;

-- Other shapes. If one is refused, the message says what is wrong, and the hint what to do.
CREATE FUNCTION regress_shape(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    hint text;
BEGIN
    CREATE TABLE shedlock (
        name varchar(64) PRIMARY KEY,
        lock_until timestamp NOT NULL,
        locked_at timestamp NOT NULL,
        locked_by varchar(255) NOT NULL
    );
    EXECUTE change;
    CREATE EXTENSION shedlock;
    RAISE EXCEPTION 'adopted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || message, nullif(hint, ''));
END $$;
CREATE FUNCTION regress_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
\pset format unaligned
\pset tuples_only on
\pset fieldsep '\n    '
SELECT c AS change, regress_shape(c) AS result FROM unnest(ARRAY[
    'SELECT',
    'DROP TABLE shedlock; CREATE VIEW shedlock AS SELECT',
    'DROP TABLE shedlock; CREATE MATERIALIZED VIEW shedlock AS SELECT',
    'DROP TABLE shedlock; CREATE TABLE shedlock (name varchar(64) PRIMARY KEY) PARTITION BY LIST (name)',
    'CREATE TABLE child () INHERITS (shedlock)',
    'CREATE TABLE child () INHERITS (shedlock); DROP TABLE child',
    'CREATE TABLE child () INHERITS (shedlock); DROP TABLE child; ANALYZE shedlock',
    'CREATE TABLE parent (name varchar(64)); ALTER TABLE shedlock INHERIT parent',
    'ALTER TABLE shedlock SET UNLOGGED',
    'ALTER TABLE shedlock DROP COLUMN locked_by',
    'ALTER TABLE shedlock RENAME lock_until TO until',
    'ALTER TABLE shedlock ALTER name TYPE char(64)',
    'ALTER TABLE shedlock ALTER name TYPE bytea USING name::bytea',
    'ALTER TABLE shedlock ALTER locked_by TYPE varchar(20)',
    'ALTER TABLE shedlock ALTER lock_until TYPE timestamptz',
    'ALTER TABLE shedlock ALTER locked_at TYPE date',
    'ALTER TABLE shedlock ALTER locked_at DROP NOT NULL',
    'ALTER TABLE shedlock ADD lock_at_least_until timestamptz',
    'ALTER TABLE shedlock ADD lock_at_least_until timestamp NOT NULL',
    'ALTER TABLE shedlock ADD last_tick timestamp(3)',
    'ALTER TABLE shedlock ADD last_done_tick timestamp NOT NULL',
    'ALTER TABLE shedlock ADD last_done_at timestamptz',
    'ALTER TABLE shedlock ADD last_tick timestamp(6), ADD last_done_at timestamp',
    'ALTER TABLE shedlock DROP locked_by, ADD locked_by varchar(255) NOT NULL GENERATED ALWAYS AS (name) STORED',
    'ALTER TABLE shedlock ADD note text NOT NULL',
    'ALTER TABLE shedlock ADD created timestamptz DEFAULT now()',
    'ALTER TABLE shedlock ADD id bigint GENERATED BY DEFAULT AS IDENTITY',
    'ALTER TABLE shedlock ADD CHECK (name <> '''')',
    'ALTER TABLE shedlock ADD note text, ADD CHECK (note <> '''')',
    'ALTER TABLE shedlock ADD note text, ADD CHECK (note <> '''' OR locked_by <> '''')',
    'ALTER TABLE shedlock ADD CHECK (shedlock IS NOT NULL)',
    'ALTER TABLE shedlock ADD CHECK (now() IS NOT NULL)',
    'ALTER TABLE shedlock ADD a int, ADD b int GENERATED ALWAYS AS (a + 1) STORED',
    'ALTER TABLE shedlock ADD b int GENERATED ALWAYS AS (length(name)) STORED',
    'ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey',
    'ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey; CREATE INDEX ON shedlock (name)',
    'ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey, ADD UNIQUE (name) DEFERRABLE',
    'ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey, ADD PRIMARY KEY (name, locked_by)',
    'ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey; CREATE UNIQUE INDEX ON shedlock (name text_pattern_ops)',
    'ALTER TABLE shedlock ADD UNIQUE (locked_by)',
    'ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey, ADD id bigserial PRIMARY KEY, ADD UNIQUE (name)',
    'ALTER TABLE shedlock ADD id int UNIQUE DEFERRABLE',
    'CREATE UNIQUE INDEX ON shedlock (name) INCLUDE (locked_by)',
    'CREATE INDEX by_lower ON shedlock (lower(name))',
    'CREATE INDEX by_name ON shedlock (locked_by) WHERE locked_by <> ''''',
    'CREATE COLLATION nd (provider = icu, locale = ''und-u-ks-level2'', deterministic = false); ALTER TABLE shedlock ALTER name TYPE varchar(64) COLLATE nd',
    'CREATE TRIGGER t BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION regress_trigger()',
    'CREATE TRIGGER t BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
    'CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN NEW; END''; ALTER EXTENSION plpgsql ADD FUNCTION f(); CREATE TRIGGER t AFTER UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION f()',
    'CREATE TABLE hosts (h varchar PRIMARY KEY); ALTER TABLE shedlock ADD FOREIGN KEY (locked_by) REFERENCES hosts',
    'CREATE TABLE hosts (h varchar PRIMARY KEY); ALTER TABLE shedlock ADD host varchar REFERENCES hosts',
    'CREATE TABLE runs (job varchar(64) REFERENCES shedlock)',
    'CREATE RULE r AS ON UPDATE TO shedlock DO ALSO NOTHING',
    'ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY',
    'ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY'
]) c;
\pset tuples_only off
\pset format csv
DROP FUNCTION regress_shape;
-- An UNLOGGED table works, with a warning.
CREATE UNLOGGED TABLE shedlock (
    name varchar(64) PRIMARY KEY,
    lock_until timestamp NOT NULL,
    locked_at timestamp NOT NULL,
    locked_by varchar(255) NOT NULL
);
CREATE EXTENSION shedlock;
\c
SELECT shedlock_acquire('unlogged', '1 min');
SELECT shedlock_release('unlogged');
DROP EXTENSION shedlock;
DROP TABLE shedlock;
DROP FUNCTION regress_trigger;
REVOKE ALL ON DATABASE :"database" FROM regress_installer;
REVOKE ALL ON SCHEMA public FROM regress_installer, regress_java;
DROP ROLE regress_installer;
DROP ROLE regress_java;
CREATE EXTENSION shedlock;
