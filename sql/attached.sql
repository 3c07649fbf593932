-- A Java team's role owns the adopted table and may do to it what it likes, also after it was adopted. Whatever is
-- attached to it, no code of theirs ever runs for those who use the locks, least of all as a superuser.
\set VERBOSITY terse
SELECT shedlock_stats_reset(); -- the doctor reads what other tests counted
DELETE FROM shedlock;
DROP EXTENSION shedlock;
CREATE ROLE regress_java;
CREATE SCHEMA regress_attached AUTHORIZATION regress_java;
-- Those who own the traps may run into them; nobody else.
CREATE FUNCTION trap(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_user <> 'regress_java' THEN
        RAISE EXCEPTION '% RUNS AS %', $1, current_user;
    END IF;
    RETURN true;
END $$;
CREATE FUNCTION trap_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'TRIGGER RUNS AS %', current_user; END $$;
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE call INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
-- What each function says after the owner's change; the change is undone.
CREATE FUNCTION after(change text) RETURNS TABLE (said text, calls text) LANGUAGE plpgsql AS $$
DECLARE
    answers text[];
BEGIN
    SET LOCAL ROLE regress_java;
    EXECUTE change;
    RESET ROLE;
    SELECT array_agg(attempt('SELECT ' || c) ORDER BY n) INTO answers FROM unnest(ARRAY['shedlock_acquire(''free'', ''1 min'')', 'shedlock_acquire(''new'', ''1 min'')',
        'shedlock_acquire(ARRAY[''free'', ''held''], ''1 min'')', 'shedlock_extend_token(''held'', 1000000, ''1 h'')', 'shedlock_release_token(''held'', 1000000)', 'shedlock_guard_token(''held'', 1000000)::text',
        'shedlock_pause(''paused'')', 'shedlock_resume(''paused'')', 'shedlock_force_release(''held'')', 'shedlock_purge(''1 day'')', 'severity || '': '' || finding FROM shedlock_doctor() WHERE finding NOT LIKE ''fsync%'' LIMIT 1', 'count(*) FROM shedlock_locks'])
        WITH ORDINALITY AS c (c, n);
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN OTHERS THEN
    IF SQLERRM <> 'undo' THEN
        RETURN QUERY SELECT SQLSTATE || ': ' || SQLERRM, 'change refused';
    ELSE
        RETURN QUERY SELECT a, count(*) || ' calls' FROM unnest(answers) WITH ORDINALITY AS a (a, n) GROUP BY a ORDER BY min(n);
    END IF;
END $$;
SET ROLE regress_java;
CREATE TABLE regress_attached.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
INSERT INTO regress_attached.shedlock VALUES ('free', '2026-01-01', '2026-01-01', 'host'), ('held', '2999-01-01', '1970-01-01 00:00:01', 'x#1000000'), ('old', '2020-01-01', '2020-01-01', 'host');
RESET ROLE;
CREATE EXTENSION shedlock SCHEMA regress_attached;
SET search_path = regress_attached, public;
UPDATE shedlock SET lock_at_least_until = '2026-01-01' WHERE name = 'held';
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' <- '
SELECT * FROM after('SELECT');
SELECT * FROM after($x$CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON shedlock FOR EACH ROW EXECUTE FUNCTION trap_trigger()$x$);
SELECT * FROM after($x$CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON shedlock FOR EACH STATEMENT EXECUTE FUNCTION trap_trigger()$x$);
SELECT * FROM after($x$CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE ON shedlock DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trap_trigger()$x$);
SELECT * FROM after($x$CREATE TRIGGER t BEFORE TRUNCATE ON shedlock FOR EACH STATEMENT EXECUTE FUNCTION trap_trigger()$x$);
SELECT * FROM after($x$CREATE RULE r AS ON UPDATE TO shedlock DO INSTEAD SELECT trap('RULE')$x$);
SELECT * FROM after($x$CREATE RULE r AS ON INSERT TO shedlock DO ALSO SELECT trap('RULE')$x$);
SELECT * FROM after($x$CREATE RULE r AS ON DELETE TO shedlock DO ALSO SELECT trap('RULE')$x$);
SELECT * FROM after($x$CREATE POLICY p ON shedlock USING (trap('POLICY')); ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY$x$);
SELECT * FROM after($x$CREATE POLICY p ON shedlock USING (trap('POLICY')); ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY; ALTER TABLE shedlock FORCE ROW LEVEL SECURITY$x$);
SELECT * FROM after($x$ALTER TABLE shedlock ADD extra boolean; ALTER TABLE shedlock ALTER extra SET DEFAULT trap('DEFAULT')$x$);
SELECT * FROM after($x$ALTER TABLE shedlock ALTER locked_by SET DEFAULT trap('DEFAULT'), ALTER lock_at_least_until SET DEFAULT now() + (trap('DEFAULT')::text)::interval$x$);
SELECT * FROM after($x$CREATE DOMAIN trapped_text AS varchar(255) CHECK (trap('DOMAIN')); ALTER TABLE shedlock ADD extra trapped_text$x$);
SELECT * FROM after($x$CREATE DOMAIN trapped_text AS varchar(255); ALTER TABLE shedlock ALTER locked_by TYPE trapped_text; ALTER DOMAIN trapped_text ADD CHECK (trap('DOMAIN')) NOT VALID$x$);
SELECT * FROM after($x$ALTER TABLE shedlock ADD CHECK (trap('CHECK')) NOT VALID$x$);
SELECT * FROM after($x$TRUNCATE shedlock; CREATE INDEX ON shedlock (trap(name::text))$x$);
SELECT * FROM after($x$TRUNCATE shedlock; CREATE INDEX ON shedlock (locked_by) WHERE trap(locked_by::text)$x$);
SELECT * FROM after($x$TRUNCATE shedlock; ALTER TABLE shedlock ADD EXCLUDE USING btree (locked_by WITH =) WHERE (trap(locked_by::text))$x$);
SELECT * FROM after($x$TRUNCATE shedlock; ALTER TABLE shedlock ADD extra boolean GENERATED ALWAYS AS (trap('GENERATED')) STORED$x$);
SELECT * FROM after($x$TRUNCATE shedlock; CREATE TABLE other (name varchar(64) REFERENCES shedlock ON UPDATE CASCADE)$x$);
SELECT * FROM after($x$TRUNCATE shedlock; CREATE TABLE hosts (h varchar(255) PRIMARY KEY); ALTER TABLE shedlock ADD FOREIGN KEY (locked_by) REFERENCES hosts$x$);
SELECT * FROM after($x$CREATE TABLE child (CHECK (trap('CHILD'))) INHERITS (shedlock)$x$);
SELECT * FROM after($x$CREATE TABLE parent (name varchar(64) NOT NULL); ALTER TABLE shedlock INHERIT parent$x$);
SELECT * FROM after($x$CREATE TABLE parted (LIKE shedlock) PARTITION BY LIST (name); ALTER TABLE parted ATTACH PARTITION shedlock DEFAULT$x$);
SELECT * FROM after($x$ALTER TABLE shedlock RENAME TO elsewhere; CREATE VIEW shedlock AS SELECT *, trap('VIEW') FROM elsewhere$x$);
SELECT * FROM after($x$ALTER TABLE shedlock RENAME TO elsewhere; CREATE TABLE shedlock (LIKE elsewhere)$x$);
SELECT * FROM after($x$CREATE STATISTICS s ON (trap(name::text)), (lower(locked_by)) FROM shedlock$x$);
SELECT * FROM after($x$CREATE OR REPLACE VIEW shedlock_locks AS SELECT trap('VIEW')$x$);
SELECT * FROM after($x$CREATE OR REPLACE FUNCTION shedlock_release(name text) RETURNS boolean LANGUAGE sql AS $f$SELECT trap('FUNCTION')$f$$x$);
SELECT * FROM after($x$ALTER TABLE shedlock SET (user_catalog_table = true)$x$);
SELECT * FROM after($x$DROP TABLE shedlock CASCADE$x$);
\pset tuples_only off
\pset format aligned
RESET search_path;
DROP EXTENSION shedlock;
SET client_min_messages = warning;
DROP SCHEMA regress_attached CASCADE;
DROP FUNCTION trap, trap_trigger, attempt, after;
DROP ROLE regress_java;
CREATE EXTENSION shedlock;
