-- A Java team's role owns the adopted table and may change it in any way, even after it was adopted. Whatever is
-- attached to it, none of that code ever runs with the rights of a role that uses the locks, least of
-- all as a superuser.
\set VERBOSITY terse
SELECT shedlock_stats_reset(); -- the doctor would report what other tests counted
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE ROLE regress_java;
CREATE SCHEMA regress_attached AUTHORIZATION regress_java;
CREATE SCHEMA regress_attached_too AUTHORIZATION regress_java;
SELECT current_database() AS database \gset
GRANT CREATE ON DATABASE :"database" TO regress_java;
-- A trap raises an error, unless the table's owner runs it.
CREATE FUNCTION trap(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_user <> 'regress_java' THEN
        RAISE EXCEPTION '% RUNS AS %', $1, current_user;
    END IF;
    RETURN true;
END $$;
CREATE FUNCTION trap_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRIGGER RUNS AS %', current_user;
END $$;
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE call INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
-- What the calls return after the owner's change, and how many of them; the change is then undone.
CREATE FUNCTION after(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answers text[];
BEGIN
    SET LOCAL ROLE regress_java;
    EXECUTE change;
    RESET ROLE;
    SELECT array_agg(attempt('SELECT ' || c) ORDER BY n) INTO answers
      FROM unnest(ARRAY[
        'shedlock_acquire(''free'', ''1 min'')',
        'shedlock_acquire(''new'', ''1 min'')',
        'shedlock_acquire(ARRAY[''free'', ''held''], ''1 min'')',
        'shedlock_extend_token(''held'', 1000000, ''1 h'')',
        'shedlock_release_token(''held'', 1000000)',
        'shedlock_guard_token(''held'', 1000000)::text',
        'shedlock_pause(''paused'')',
        'shedlock_resume(''paused'')',
        'shedlock_force_release(''held'')',
        'severity || '': '' || finding FROM shedlock_doctor()
          WHERE finding !~ ''^fsync|dead rows|^others may create'' LIMIT 1',
        'count(*) FROM shedlock_locks'
      ]) WITH ORDINALITY AS c (c, n);
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN OTHERS THEN
    IF SQLERRM <> 'undo' THEN
        RETURN SQLSTATE || ': ' || SQLERRM || ' <- change refused';
    END IF;
    RETURN (SELECT string_agg(a || ' <- ' || calls, ' | ' ORDER BY first)
              FROM (SELECT a, count(*), min(n) FROM unnest(answers) WITH ORDINALITY AS a (a, n) GROUP BY a)
                AS g (a, calls, first));
END $$;
SET ROLE regress_java;
CREATE TABLE regress_attached.shedlock (
    name varchar(64) PRIMARY KEY,
    lock_until timestamp NOT NULL,
    locked_at timestamp NOT NULL,
    locked_by varchar(255) NOT NULL
);
INSERT INTO regress_attached.shedlock VALUES
    ('free', '2026-01-01', '2026-01-01', 'host'), ('held', '2999-01-01', '1970-01-01 00:00:01', 'x#1000000'),
    ('old', '2020-01-01', '2020-01-01', 'host');
RESET ROLE;
CREATE EXTENSION shedlock SCHEMA regress_attached;
SET search_path = regress_attached, public;
UPDATE shedlock SET lock_at_least_until = '2026-01-01' WHERE name = 'held';
\pset format unaligned
\pset tuples_only on
SELECT after('SELECT');
SELECT after($x$
    CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION trap_trigger()$x$);
SELECT after($x$
    CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON shedlock FOR EACH STATEMENT EXECUTE FUNCTION trap_trigger()
$x$);
SELECT after($x$
    CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE ON shedlock DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        EXECUTE FUNCTION trap_trigger()$x$);
SELECT after($x$
    CREATE TRIGGER t BEFORE TRUNCATE ON shedlock FOR EACH STATEMENT EXECUTE FUNCTION trap_trigger()$x$);
SELECT after($x$CREATE RULE r AS ON UPDATE TO shedlock DO INSTEAD SELECT trap('RULE')$x$);
SELECT after($x$CREATE RULE r AS ON INSERT TO shedlock DO ALSO SELECT trap('RULE')$x$);
SELECT after($x$CREATE RULE r AS ON DELETE TO shedlock DO ALSO SELECT trap('RULE')$x$);
SELECT after($x$
    CREATE POLICY p ON shedlock USING (trap('POLICY'));
    ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY$x$);
SELECT after($x$
    CREATE POLICY p ON shedlock USING (trap('POLICY'));
    ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY;
    ALTER TABLE shedlock FORCE ROW LEVEL SECURITY$x$);
SELECT after($x$
    ALTER TABLE shedlock ADD extra boolean;
    ALTER TABLE shedlock ALTER extra SET DEFAULT trap('DEFAULT')$x$);
SELECT after($x$
    ALTER TABLE shedlock
        ALTER locked_by SET DEFAULT trap('DEFAULT'),
        ALTER lock_at_least_until SET DEFAULT now() + (trap('DEFAULT')::text)::interval$x$);
SELECT after($x$
    CREATE DOMAIN trapped_text AS varchar(255) CHECK (trap('DOMAIN'));
    ALTER TABLE shedlock ADD extra trapped_text$x$);
SELECT after($x$
    CREATE DOMAIN trapped_text AS varchar(255);
    ALTER TABLE shedlock ALTER locked_by TYPE trapped_text;
    ALTER DOMAIN trapped_text ADD CHECK (trap('DOMAIN')) NOT VALID$x$);
SELECT after($x$ALTER TABLE shedlock ADD CHECK (trap('CHECK')) NOT VALID$x$);
SELECT after($x$TRUNCATE shedlock; CREATE INDEX ON shedlock (trap(name::text))$x$);
SELECT after($x$TRUNCATE shedlock; CREATE INDEX ON shedlock (locked_by) WHERE trap(locked_by::text)$x$);
SELECT after($x$
    TRUNCATE shedlock;
    ALTER TABLE shedlock ADD EXCLUDE USING btree (locked_by WITH =) WHERE (trap(locked_by::text))$x$);
SELECT after($x$
    TRUNCATE shedlock;
    ALTER TABLE shedlock ADD extra boolean GENERATED ALWAYS AS (trap('GENERATED')) STORED$x$);
SELECT after($x$
    TRUNCATE shedlock;
    CREATE TABLE other (name varchar(64) REFERENCES shedlock ON UPDATE CASCADE)$x$);
SELECT after($x$
    TRUNCATE shedlock;
    CREATE TABLE hosts (h varchar(255) PRIMARY KEY);
    ALTER TABLE shedlock ADD FOREIGN KEY (locked_by) REFERENCES hosts$x$);
SELECT after($x$CREATE TABLE child (CHECK (trap('CHILD'))) INHERITS (shedlock)$x$);
SELECT after($x$CREATE TABLE parent (name varchar(64) NOT NULL); ALTER TABLE shedlock INHERIT parent$x$);
SELECT after($x$
    CREATE TABLE parted (LIKE shedlock) PARTITION BY LIST (name);
    ALTER TABLE parted ATTACH PARTITION shedlock DEFAULT$x$);
SELECT after($x$
    ALTER TABLE shedlock RENAME TO elsewhere;
    CREATE VIEW shedlock AS SELECT *, trap('VIEW') FROM elsewhere$x$);
SELECT after($x$ALTER TABLE shedlock RENAME TO elsewhere; CREATE TABLE shedlock (LIKE elsewhere)$x$);
SELECT after($x$CREATE STATISTICS s ON (trap(name::text)), (lower(locked_by)) FROM shedlock$x$);
SELECT after($x$CREATE STATISTICS s ON (trap('STATISTICS')), name FROM shedlock$x$);
SELECT after($x$CREATE STATISTICS s ON name, locked_by FROM shedlock$x$);
SELECT after($x$TRUNCATE shedlock; CREATE INDEX ON shedlock ((trap('INDEX')))$x$);
SELECT after($x$TRUNCATE shedlock; CREATE INDEX ON shedlock (name) WHERE trap('PREDICATE')$x$);
-- What concerns only columns that we never write keeps us at most from inserting a row.
SELECT after($x$ALTER TABLE shedlock ADD extra text CHECK (extra <> '')$x$);
SELECT after('ALTER TABLE shedlock ADD extra text'
    || CASE WHEN current_setting('server_version_num')::int < 180000 THEN '' ELSE ' CHECK (name = extra) NOT ENFORCED' END);
SELECT after($x$ALTER TABLE shedlock ADD extra int GENERATED ALWAYS AS IDENTITY$x$);
SELECT after($x$ALTER TABLE shedlock ADD extra int; CREATE UNIQUE INDEX ON shedlock (extra)$x$);
SELECT after($x$
    ALTER TABLE shedlock ADD extra int;
    UPDATE shedlock SET extra = ascii(name) WHERE name <> 'old';
    CREATE UNIQUE INDEX ON shedlock (extra) NULLS NOT DISTINCT$x$);
SELECT after($x$CREATE TABLE other (o int PRIMARY KEY); ALTER TABLE shedlock ADD extra int REFERENCES other$x$);
SELECT after($x$
    TRUNCATE shedlock;
    CREATE TABLE other (o varchar(64) PRIMARY KEY);
    ALTER TABLE shedlock ADD extra varchar(64), ADD FOREIGN KEY (name) REFERENCES other$x$);
SELECT after($x$
    ALTER TABLE shedlock ADD extra int;
    CREATE TRIGGER t AFTER UPDATE OF extra ON shedlock FOR EACH ROW WHEN (trap('WHEN')) EXECUTE FUNCTION trap_trigger()
$x$);
-- Refused, too: columns of a domain or of a type that is not built in; indexes other than plain btrees; a typed table.
SELECT after($x$
    CREATE FUNCTION distance(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE
        AS 'BEGIN RETURN CASE WHEN trap($$SUBTYPE_DIFF$$) THEN $1 - $2 END; END';
    CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = distance);
    ALTER TABLE shedlock ADD extra span;
    CREATE INDEX ON shedlock USING gist (extra);
    CREATE INDEX ON shedlock (lock_until);
    INSERT INTO shedlock (name, lock_until, locked_at, locked_by, extra)
        SELECT 'job' || i, '2026-01-01', '2026-01-01', 'host', span(i, i + 10) FROM generate_series(1, 2000) i;
    UPDATE shedlock SET extra = '[1,2]' WHERE name IN ('free', 'held');
    ALTER FUNCTION distance(float8, float8) VOLATILE$x$);
SELECT after($x$
    CREATE TYPE colour AS ENUM ('red');
    ALTER TABLE shedlock ADD extra colour;
    CREATE INDEX ON shedlock (extra)$x$);
SELECT after($x$
    CREATE TYPE colour AS ENUM ('red');
    ALTER TABLE shedlock ADD extra colour[];
    CREATE INDEX ON shedlock (extra)$x$);
SELECT after($x$
    CREATE TYPE pair AS (a int, b int);
    ALTER TABLE shedlock ADD extra pair;
    CREATE INDEX ON shedlock (extra)$x$);
SELECT after($x$CREATE DOMAIN number AS int; ALTER TABLE shedlock ADD extra number$x$);
SELECT after($x$
    CREATE DOMAIN number AS int NOT NULL;
    TRUNCATE shedlock;
    ALTER TABLE shedlock ADD extra number$x$);
SELECT after($x$CREATE DOMAIN number AS int DEFAULT 7; ALTER TABLE shedlock ADD extra number$x$);
SELECT after($x$CREATE DOMAIN number AS int; ALTER TABLE shedlock ADD extra number[]$x$);
SELECT after($x$ALTER TABLE shedlock ADD extra information_schema.sql_identifier$x$);
SELECT after($x$CREATE INDEX ON shedlock USING brin (lock_until)$x$);
SELECT after($x$CREATE INDEX ON shedlock USING hash (name)$x$);
SELECT after($x$ALTER TABLE shedlock ADD extra int[]; CREATE INDEX ON shedlock USING gin (extra)$x$);
SELECT after($x$ALTER TABLE shedlock ADD extra int4range; CREATE INDEX ON shedlock USING gist (extra)$x$);
SELECT after($x$ALTER TABLE shedlock ADD extra int4range, ADD EXCLUDE USING gist (extra WITH &&)$x$);
SELECT after($x$CREATE INDEX ON shedlock USING spgist ((locked_by::text))$x$);
SELECT after($x$CREATE INDEX ON shedlock (locked_by text_pattern_ops)$x$);
SELECT after($x$CREATE COLLATION own FROM "POSIX"; CREATE INDEX ON shedlock (locked_by COLLATE own)$x$);
SELECT after($x$CREATE UNIQUE INDEX ON shedlock (lock_until)$x$);
SELECT after($x$CREATE UNIQUE INDEX ON shedlock (name, locked_at)$x$);
SELECT after($x$
    CREATE TYPE columns AS (
        name varchar(64),
        lock_until timestamp,
        locked_at timestamp,
        locked_by varchar(255),
        lock_at_least_until timestamp,
        last_tick timestamp,
        last_done_tick timestamp,
        last_done_at timestamp,
        run_tick timestamp
    );
    ALTER TABLE shedlock OF columns$x$);
-- Columns that may be NULL: NOT NULL was dropped or, from 18 on, is NOT VALID.
SELECT after(CASE WHEN current_setting('server_version_num')::int < 180000 THEN '
        ALTER TABLE shedlock ALTER locked_by DROP NOT NULL'
    ELSE '
        ALTER TABLE shedlock ALTER locked_by DROP NOT NULL;
        INSERT INTO shedlock VALUES (''new'', ''2999-01-01'', ''2026-01-01'', NULL);
        ALTER TABLE shedlock ADD CONSTRAINT nn NOT NULL locked_by NOT VALID'
    END);
SELECT after($x$ALTER TABLE shedlock ALTER lock_until DROP NOT NULL$x$);
SELECT after($x$ALTER TABLE shedlock ALTER locked_at DROP NOT NULL$x$);
-- A published table needs a replica identity, as for any UPDATE.
SET client_min_messages = error; -- the server warns that wal_level is insufficient
SELECT after($x$
    ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey, ADD UNIQUE (name);
    CREATE PUBLICATION regress_attached FOR TABLE shedlock$x$);
SELECT after($x$
    ALTER TABLE shedlock REPLICA IDENTITY NOTHING;
    CREATE PUBLICATION regress_attached FOR TABLE shedlock$x$);
SELECT after($x$CREATE PUBLICATION regress_attached FOR TABLE shedlock WHERE (locked_by <> '')$x$);
SELECT after($x$CREATE PUBLICATION regress_attached FOR TABLE shedlock (lock_until)$x$);
SELECT after($x$
    ALTER TABLE shedlock REPLICA IDENTITY NOTHING;
    CREATE PUBLICATION regress_attached FOR TABLE shedlock WITH (publish = 'delete')$x$);
SELECT after($x$
    CREATE PUBLICATION regress_attached FOR TABLE shedlock WHERE (locked_by <> '') WITH (publish = 'delete')$x$);
SELECT after($x$
    ALTER TABLE shedlock REPLICA IDENTITY NOTHING;
    CREATE PUBLICATION regress_attached FOR TABLE shedlock WITH (publish = 'insert')$x$);
SELECT after($x$
    ALTER TABLE shedlock REPLICA IDENTITY FULL;
    CREATE PUBLICATION regress_attached FOR TABLE shedlock$x$);
SELECT after($x$CREATE PUBLICATION regress_attached FOR TABLE shedlock$x$);
-- A generated column of the replica identity that is not published: refused if an UPDATE is (PostgreSQL 18 and later).
BEGIN;
ALTER TABLE shedlock ADD six int GENERATED ALWAYS AS (6) STORED, REPLICA IDENTITY FULL;
CREATE PUBLICATION regress_attached FOR TABLE shedlock;
SELECT (attempt('SELECT shedlock_acquire(''free'', ''1 min'')') LIKE '55000: table % leaves out columns %')
     = (attempt('EXPLAIN UPDATE shedlock SET name = name WHERE false') LIKE '42P10: %') AS as_for_an_update;
ROLLBACK;
RESET client_min_messages;
-- The functions follow their table when it is moved, Java clients follow its name. So there may be two tables.
SELECT after($x$ALTER TABLE shedlock SET SCHEMA regress_attached_too$x$);
SELECT after($x$
    ALTER TABLE shedlock SET SCHEMA regress_attached_too;
    CREATE TABLE shedlock (LIKE regress_attached_too.shedlock)$x$);
SELECT after($x$
    ALTER TABLE shedlock SET SCHEMA regress_attached_too;
    DO 'BEGIN PERFORM 1 FROM regress_attached_too.shedlock; END';
    CREATE VIEW shedlock AS SELECT$x$);
-- Nothing is wrong with these.
SELECT after($x$
    ALTER TABLE shedlock ADD extra text, ADD more int4range;
    ALTER TABLE shedlock DROP extra;
    CREATE INDEX ON shedlock (lock_until DESC, name COLLATE "C") INCLUDE (locked_by);
    CREATE INDEX ON shedlock (more)$x$);
SELECT after($x$
    ALTER TABLE shedlock ADD extra text DEFAULT 'once';
    ALTER TABLE shedlock ALTER extra DROP DEFAULT$x$);
SELECT after($x$
    CREATE TYPE colour AS ENUM ('red');
    ALTER TABLE shedlock ADD extra colour;
    ALTER TABLE shedlock DROP extra$x$);
SELECT after($x$REVOKE ALL ON shedlock FROM regress_java, PUBLIC$x$);
SELECT after($x$
    ALTER TABLE shedlock SET (fillfactor = 10, toast_tuple_target = 128);
    ALTER TABLE shedlock ALTER locked_by SET STORAGE EXTERNAL, ALTER name SET STATISTICS 0$x$);
SELECT after($x$ALTER TABLE shedlock CLUSTER ON shedlock_pkey$x$);
SELECT after($x$CREATE UNIQUE INDEX ON shedlock (name)$x$);
SELECT after($x$
    UPDATE shedlock SET locked_by = repeat('/', 200) || '#', locked_at = 'infinity' WHERE name = 'old'$x$);
SELECT after($x$ALTER TABLE shedlock SET (user_catalog_table = true)$x$);
-- The owner of the table cannot replace the extension's own objects.
SELECT after($x$CREATE OR REPLACE VIEW shedlock_locks AS SELECT trap('VIEW')$x$);
SELECT after($x$
    CREATE OR REPLACE FUNCTION shedlock_release(name text, done boolean DEFAULT true, detail text DEFAULT NULL) RETURNS boolean LANGUAGE sql
        AS $f$SELECT trap('FUNCTION')$f$$x$);
-- Dropping the table with CASCADE drops the extension.
SELECT after($x$DROP TABLE shedlock CASCADE$x$);
-- The only trigger that is accepted is that of shedlock_protect, provided nobody has changed it.
GRANT EXECUTE ON FUNCTION shedlock_protect_row() TO regress_java;
SELECT shedlock_protect();
SELECT after('SELECT');
SELECT after($x$DROP TRIGGER shedlock_protect ON shedlock$x$);
SELECT after($x$ALTER TABLE shedlock DISABLE TRIGGER shedlock_protect$x$);
SELECT after($x$ALTER TABLE shedlock ENABLE REPLICA TRIGGER shedlock_protect$x$);
SELECT after($x$ALTER TABLE shedlock ENABLE ALWAYS TRIGGER shedlock_protect$x$);
SELECT after($x$ALTER TRIGGER shedlock_protect ON shedlock RENAME TO other$x$);
SELECT after($x$CREATE TRIGGER other BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION trap_trigger()$x$);
SELECT after($x$
    CREATE TRIGGER other BEFORE UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION shedlock_protect_row()$x$);
SELECT after($x$
    TRUNCATE shedlock;
    CREATE TABLE other (name varchar(64) REFERENCES shedlock ON UPDATE CASCADE)$x$);
SELECT after($x$
    CREATE OR REPLACE FUNCTION shedlock_protect_row() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM trap($$FUNCTION$$); RETURN NEW; END'$x$);
SELECT after($x$ALTER FUNCTION shedlock_protect_row() RENAME TO other$x$);
SELECT after($x$DROP FUNCTION shedlock_protect_row() CASCADE$x$);
-- The trigger is created again, first in the same way, then in others.
CREATE FUNCTION made_anew(how text) RETURNS text LANGUAGE sql AS $$
    SELECT 'DROP TRIGGER shedlock_protect ON shedlock; CREATE TRIGGER shedlock_protect ' || how
$$;
SELECT after(made_anew(
    'BEFORE UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION shedlock_protect_row()'));
SELECT after(made_anew('BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION shedlock_protect_row()'));
SELECT after(made_anew(
    'AFTER UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION shedlock_protect_row()'));
SELECT after(made_anew(
    'BEFORE UPDATE OR DELETE ON shedlock FOR EACH STATEMENT EXECUTE FUNCTION shedlock_protect_row()'));
SELECT after(made_anew(
    'BEFORE UPDATE OF lock_until OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION shedlock_protect_row()'));
SELECT after(made_anew(
    'BEFORE UPDATE OR DELETE ON shedlock FOR EACH ROW WHEN (trap(''WHEN'')) EXECUTE FUNCTION shedlock_protect_row()'));
SELECT after(made_anew(
    'BEFORE UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION shedlock_protect_row(''x'')'));
SELECT after($x$
    CREATE FUNCTION regress_attached_too.shedlock_protect_row() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM trap($$FUNCTION$$); RETURN NEW; END';
$x$ || made_anew(
    'BEFORE UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION regress_attached_too.shedlock_protect_row()'));
-- A function is not ours just because it has the right name.
BEGIN;
ALTER EXTENSION shedlock DROP FUNCTION shedlock_protect_row();
SELECT after('ALTER TABLE shedlock SET (fillfactor = 50)');
ROLLBACK;
DROP FUNCTION made_anew;
-- The trigger finds its function, whatever schema the function is moved to.
SELECT shedlock_pause('protected');
CREATE SCHEMA regress_apart;
ALTER EXTENSION shedlock SET SCHEMA regress_apart;
DELETE FROM shedlock WHERE name = 'protected' RETURNING 'deleted';
SELECT regress_apart.shedlock_protect(false), regress_apart.shedlock_protect();
ALTER EXTENSION shedlock SET SCHEMA regress_attached;
DROP SCHEMA regress_apart;
SELECT shedlock_force_release('protected');
DELETE FROM shedlock WHERE name = 'protected' RETURNING 'deleted';
\pset tuples_only off
\pset format csv
-- PostgreSQL would not check a foreign key for the version of a row that we replace, nor for ours.
CREATE TABLE team (id int PRIMARY KEY);
ALTER TABLE shedlock ADD team int REFERENCES team DEFERRABLE;
WITH x AS (
    INSERT INTO shedlock (name, lock_until, locked_at, locked_by, team)
        VALUES ('x', '-infinity', '-infinity', '', 1) RETURNING name)
SELECT shedlock_acquire(name::text, '1 min') FROM x;
WITH x AS (UPDATE shedlock SET team = 1 WHERE name = 'old' RETURNING name)
SELECT shedlock_acquire(name::text, '1 min') FROM x;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE shedlock SET team = 1 WHERE name = 'old';
SELECT shedlock_acquire('old', '1 min');
ROLLBACK;
BEGIN;
SELECT shedlock_acquire('old', '1 min'), shedlock_release('old');
INSERT INTO team VALUES (1);
UPDATE shedlock SET team = 1 WHERE name = 'old';
SELECT shedlock_acquire('old', '1 min'), shedlock_release('old') AS checked;
COMMIT;
ALTER TABLE shedlock DROP team;
DROP TABLE team;
-- In two steps, with a call in between: a table that gets the name shedlock later is noticed as well.
ALTER TABLE regress_attached.shedlock SET SCHEMA regress_attached_too;
SELECT shedlock_acquire('old', '1 min') AS moved;
CREATE TABLE regress_attached.shedlock (LIKE regress_attached_too.shedlock);
SELECT shedlock_acquire('old', '1 min');
DROP TABLE regress_attached.shedlock;
SELECT shedlock_release('old') AS alone_again;
ALTER TABLE regress_attached_too.shedlock SET SCHEMA regress_attached;
-- A NULL in a column that is declared NOT NULL is an error, and causes no other harm. (The catalog is
-- edited to get there.)
ALTER TABLE shedlock ALTER lock_until DROP NOT NULL, ALTER locked_at DROP NOT NULL, ALTER locked_by DROP NOT NULL;
INSERT INTO shedlock VALUES
    ('no end', NULL, '2026-01-01', 'x'), ('no start', '2999-01-01', NULL, 'x'),
    ('nobody', '2026-01-01', '2026-01-01', NULL);
UPDATE shedlock SET lock_at_least_until = '2026-01-01' WHERE name = 'nobody';
BEGIN;
UPDATE pg_attribute SET attnotnull = true
 WHERE attrelid = 'shedlock'::regclass AND attname IN ('lock_until', 'locked_at', 'locked_by');
SELECT n AS name, array_agg(DISTINCT left(attempt(format(c, n)), 49)) AS said, count(*) AS calls
  FROM unnest(ARRAY['no end', 'no start', 'nobody']) n,
       unnest(ARRAY[
           'SELECT shedlock_acquire(%L, ''1 min'')',
           'SELECT shedlock_acquire(ARRAY[''old'', %L], ''1 min'')',
           'SELECT shedlock_release(%L)',
           'SELECT shedlock_extend(%L, ''1 min'')',
           'SELECT shedlock_release_token(%L, 1)',
           'SELECT shedlock_guard(%L)',
           'SELECT shedlock_guard_token(%L, 1767225600000000)']) c
 GROUP BY n ORDER BY n;
ROLLBACK;
RESET search_path;
-- The trigger of shedlock_protect does not prevent DROP EXTENSION, and is dropped with it.
DROP EXTENSION shedlock;
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid = 'regress_attached.shedlock'::regclass;
SET client_min_messages = warning;
DROP SCHEMA regress_attached, regress_attached_too CASCADE;
REVOKE ALL ON DATABASE :"database" FROM regress_java;
DROP FUNCTION trap, trap_trigger, attempt, after;
DROP ROLE regress_java;
CREATE EXTENSION shedlock;
