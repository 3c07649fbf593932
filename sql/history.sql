-- The history of runs: one row for each run of ours that ended, written by the transaction that ended it.
\set VERBOSITY terse
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN COALESCE(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
-- Without one, nothing is recorded, and there is nothing to read or to switch off.
SELECT shedlock_acquire('early', '1 min'), shedlock_release('early'), shedlock_keep_history(false);
\set VERBOSITY default
SELECT * FROM shedlock_history();
\set VERBOSITY terse
SELECT to_regclass('shedlock_history') IS NULL AS none;
SELECT attempt('SELECT shedlock_keep_history(NULL)');

-- The table belongs to the owner of the lock table, and nobody else gets rights, whatever default privileges say.
CREATE ROLE regress_shedlock_reader;
CREATE ROLE regress_shedlock_stranger;
SELECT shedlock_grant('regress_shedlock_reader', read_only => true);
SELECT relowner::regrole AS owner FROM pg_class WHERE oid = 'shedlock'::regclass \gset
ALTER DEFAULT PRIVILEGES FOR ROLE :owner GRANT ALL ON TABLES TO PUBLIC;
SELECT clock_timestamp() AS before_history, shedlock_keep_history() \gset
ALTER DEFAULT PRIVILEGES FOR ROLE :owner REVOKE ALL ON TABLES FROM PUBLIC;
SELECT c.relowner = l.relowner AS same_owner, c.relreplident, c.reloptions, c.relacl IS NULL OR NOT EXISTS (
           SELECT FROM aclexplode(c.relacl) WHERE grantee <> c.relowner) AS only_the_owner_has_rights
  FROM pg_class c, pg_class l WHERE c.oid = 'shedlock_history'::regclass AND l.oid = 'shedlock'::regclass;
SELECT attname, atttypid::regtype, attcollation::regcollation FROM pg_attribute
 WHERE attrelid = 'shedlock_history'::regclass AND attnum > 0 ORDER BY attnum;
SELECT regexp_replace(pg_get_indexdef(indexrelid), '.* USING', 'USING') AS index
  FROM pg_index WHERE indrelid = 'shedlock_history'::regclass;
-- That a history is kept from now on is its first row.
SELECT name, token, tick, holder = session_user AS holder, acquired_at,
       ended_at BETWEEN :'before_history' AND clock_timestamp() AS ended_at, outcome, detail FROM shedlock_history();
-- What the row shows.
CREATE VIEW rows AS
SELECT h.name, h.token IS NOT NULL AND h.acquired_at = timestamptz 'epoch' + h.token * interval '1 us' AS acquired_at,
       h.tick, h.holder, h.ended_at >= h.acquired_at AND h.ended_at <= clock_timestamp() AS ended_at, h.outcome, h.detail
  FROM shedlock_history() h WHERE h.name <> '' ORDER BY h.ended_at, h.name;
CREATE FUNCTION told() RETURNS SETOF rows LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM rows;
    DELETE FROM shedlock_history WHERE name <> '';
END $$;

-- Releases: done or not, with a tick or without, by the session or by a token, of one lock or several.
SELECT shedlock_acquire_token('t', '1 min', holder => 'host:1', tick => '2026-01-01 00:00Z') AS token \gset
SELECT shedlock_release_token('t', :token, false, false, 'exit status 3');
SELECT shedlock_acquire_token('t', '1 min', holder => 'host:2', tick => '2026-01-01 00:00Z', retry => true) AS token \gset
SELECT shedlock_release_token('t', :token);
SELECT shedlock_acquire_token(ARRAY['n', 'm'], '1 min', holder => 'both') AS token \gset
SELECT shedlock_release_token(ARRAY['n', 'm'], :token, detail => '2 files');
SET application_name = 'job';
SELECT shedlock_acquire('s', '1 min', at_least => '30 s'), shedlock_release('s', false, '');
RESET application_name;
SELECT name, acquired_at, tick AT TIME ZONE 'UTC' AS tick, regexp_replace(holder, '@.*', '@HOST') AS holder, ended_at,
       outcome, detail FROM told();
-- The token is that of the acquisition.
SELECT shedlock_acquire_token('t', '1 min') AS token \gset
SELECT shedlock_release_token('t', :token);
SELECT token = :token AS same FROM shedlock_history(ARRAY['t']);
-- The first thousand characters of the detail.
SELECT shedlock_acquire('t', '1 min'), shedlock_release('t', detail => repeat('é', 999) || '12');
SELECT length(detail), right(detail, 2) FROM shedlock_history(ARRAY['t'], latest => 1);
DELETE FROM shedlock_history WHERE name <> '';

-- Completions, and guarded work that is committed. Two completions of one lock are one.
BEGIN;
SELECT shedlock_acquire('c', '1 min');
SELECT shedlock_complete('c');
SELECT shedlock_complete('c');
SELECT count(*) AS at_the_call FROM shedlock_history('{c}');
COMMIT;
BEGIN;
SELECT shedlock_acquire('c', '1 min'), shedlock_complete('c'), shedlock_release('c');
COMMIT;
SELECT name, outcome FROM told();
-- shedlock_run, and the first line of its error.
CALL shedlock_run('r', 'SELECT 1', '1 min');
CALL shedlock_run('failing', $$DO 'BEGIN RAISE EXCEPTION E''no paper\nin tray 2''; END'$$, '1 min', tick => '2026-01-01 00:00Z');
SELECT name, tick IS NOT NULL AS tick, outcome, detail FROM told();

-- What is rolled back has no row.
BEGIN;
SELECT shedlock_acquire('x', '1 min'), shedlock_release('x');
ROLLBACK;
BEGIN;
SELECT shedlock_acquire('x', '1 min');
SAVEPOINT a;
SELECT shedlock_release('x', false);
ROLLBACK TO a;
SELECT shedlock_release('x');
COMMIT;
BEGIN;
SELECT shedlock_acquire('x', '1 min'), shedlock_complete('x');
ROLLBACK;
SELECT name, outcome FROM told();

-- Neither refusals nor extends nor interventions are runs; and a release of what is not ours ends none.
SET client_min_messages = error;
SELECT shedlock_acquire_token('q', '1 min') AS token \gset
SELECT shedlock_acquire('q', '1 min') AS refused, shedlock_extend_token('q', :token, '2 min') AS extended,
       shedlock_release_token('q', :token + 1) AS not_ours, shedlock_pause('q') AS not_paused,
       shedlock_pause('p') AS paused, shedlock_resume('p') AS resumed, shedlock_pause('p') AS paused,
       shedlock_force_release('p') AS was_paused, shedlock_force_release('p') AS was_free;
RESET client_min_messages;
INSERT INTO shedlock VALUES ('java', '2026-01-01', '2026-01-01', 'host');
SELECT shedlock_acquire('java', '1 min') AS after_java;
SELECT count(*) FROM told();
-- A release by force ends a run, and only one.
SELECT shedlock_force_release('q'), shedlock_force_release('q'), shedlock_forget('q');
SELECT name, outcome FROM told();

-- Whatever replaces or deletes a run that nobody released records that it ran out, when its lease did.
SELECT shedlock_acquire_token(n, '1 min', holder => 'gone') IS NOT NULL AS acquired
  FROM unnest('{o1,o2,o3,o4,o5,o6}'::text[]) n;
UPDATE shedlock SET lock_until = locked_at + interval '1 us' WHERE name ~ '^o';
SELECT shedlock_acquire('o1', '1 min') AS acquire, shedlock_pause('o2') AS pause, shedlock_forget('o3') AS forget,
       shedlock_force_release('o4') AS was_held, shedlock_acquire(ARRAY['o5', 'o6'], '1 min') AS several;
SELECT name, ended_at = acquired_at + interval '1 us' AS ended_with_its_lease FROM shedlock_history() WHERE name <> '' ORDER BY name;
SELECT name, holder, outcome FROM told() ORDER BY name;
-- One that was released has its row, whatever happens to it afterwards; and a refused acquire records nothing.
SELECT shedlock_acquire(n, '1 min') AND shedlock_release(n) AS ran FROM unnest('{r1,r2}'::text[]) n;
SELECT shedlock_force_release('r1') AS was_held, shedlock_forget('r2') AS forgotten;
SELECT name, outcome FROM told();
SELECT shedlock_release('o1'), shedlock_acquire('o1', '1 min') AS again, shedlock_acquire('o1', '1 min') AS refused,
       shedlock_resume('o2');
SELECT name, outcome FROM told();
-- A lease that ended with its session ended, as far as anybody knows, when that was found.
SELECT shedlock_acquire('e', '1 h', ends_with_session => true), pg_backend_pid() AS process \gset
\c -
\set VERBOSITY terse
DO $$ BEGIN WHILE NOT shedlock_acquire('e', '1 min') LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT name, ended_at, outcome FROM told();
SELECT count(*) FROM shedlock_history() WHERE ended_at > now() + interval '50 min';
-- Edited by hand: the lease ends before it began, or never.
SELECT shedlock_acquire('h1', '1 min'), shedlock_acquire('h2', '1 min');
UPDATE shedlock SET lock_until = '-infinity' WHERE name = 'h1';
UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'h2';
SELECT shedlock_acquire('h1', '1 min'), shedlock_force_release('h2');
SELECT name, ended_at, outcome FROM told() ORDER BY name;

-- In columns of coarse precision tokens run ahead of the clock. No run ends before it began.
BEGIN;
ALTER TABLE shedlock ALTER locked_at TYPE timestamp(0);
SELECT bool_and(shedlock_acquire('coarse', '1 min') AND shedlock_release('coarse')) FROM generate_series(1, 3);
SELECT count(*), bool_and(ended_at >= acquired_at) AS in_order FROM shedlock_history('{coarse}');
ROLLBACK;

-- Reading: any role with a grant may, whoever owns the table; of each name those since a time, and of these the latest.
SELECT shedlock_acquire(n, '1 min') AND shedlock_release(n, i > 1, i::text) AS ran
  FROM unnest(ARRAY['u', 'v']) n, generate_series(1, 3) i;
SELECT ended_at AS second FROM shedlock_history(ARRAY['u']) WHERE detail = '2' \gset
SET ROLE regress_shedlock_reader;
SELECT name, string_agg(detail, ' ' ORDER BY ended_at) FROM shedlock_history(ARRAY['u', NULL, 'w', 'u']) GROUP BY 1;
SELECT string_agg(detail, ' ' ORDER BY ended_at) FROM shedlock_history(ARRAY['u'], :'second');
SELECT name, string_agg(detail, ' ' ORDER BY ended_at)
  FROM shedlock_history(ARRAY['u', 'v'], '-infinity', 2) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM shedlock_history(ARRAY['u'], NULL, 0);
SELECT count(*) FROM shedlock_history('{}');
SELECT count(*) FROM shedlock_history(NULL, :'second') WHERE name = 'u';
RESET ROLE;
ALTER TABLE shedlock_history ADD names text, ADD since timestamptz, ADD latest int;
SET ROLE regress_shedlock_reader;
SELECT count(*) FROM shedlock_history('{u}', :'second', 1);
SELECT count(*) FROM shedlock_history(since => 'infinity');
SELECT attempt('SELECT shedlock_history(NULL, NULL, 1)'), attempt($$SELECT shedlock_history('{a}', NULL, -1)$$),
       attempt('SELECT shedlock_keep_history()'), attempt('SELECT name FROM shedlock_history');
SET ROLE regress_shedlock_stranger;
SELECT attempt('SELECT shedlock_history()');
RESET ROLE;
ALTER TABLE shedlock_history DROP names, DROP since, DROP latest;

-- Off, and on again. Calling it once more changes nothing. Whoever takes the owner's INSERT away has the same effect.
DELETE FROM shedlock_history WHERE name <> '';
SELECT shedlock_keep_history(false), shedlock_keep_history(false);
SELECT shedlock_acquire('off', '1 min'), shedlock_release('off');
SELECT shedlock_keep_history(), shedlock_keep_history();
SELECT shedlock_acquire('on', '1 min'), shedlock_release('on');
REVOKE INSERT ON shedlock_history FROM :owner;
SELECT shedlock_acquire('off', '1 min'), shedlock_release('off');
GRANT INSERT ON shedlock_history TO :owner;
SELECT name, outcome FROM shedlock_history() ORDER BY ended_at;

-- Tidying, by the product itself.
UPDATE shedlock_history SET ended_at = ended_at - interval '1 year' WHERE name = 'on';
CALL shedlock_run('tidy history', $$DELETE FROM shedlock_history WHERE ended_at < now() - interval '90 days'$$, '10 min',
                  tick => shedlock_tick('1 day'), retry => true);
SELECT name, outcome FROM told();

-- A table that cannot be the history is not written, which is said once per session, and by the doctor.
ALTER TABLE shedlock_history ADD COLUMN note text, ADD COLUMN more int DEFAULT 1;
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
SELECT name, note, more FROM shedlock_history WHERE name <> '';
CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trap'; END $$;
CREATE PROCEDURE try(change text) LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    SET LOCAL client_min_messages = error;
    PERFORM shedlock_acquire('a', '1 min') AND shedlock_release('a'); -- what it knows of the table must not outlast the change
    EXECUTE change;
    found := (SELECT finding FROM shedlock_doctor() WHERE finding ~ 'not recorded');
    IF NOT shedlock_acquire('a', '1 min') OR NOT shedlock_release('a') THEN
        RAISE 'not acquired and released';
    ELSIF (found IS NULL) <> EXISTS (SELECT FROM shedlock_history
                                      WHERE ended_at = (SELECT last_done_at FROM shedlock_locks WHERE name = 'a')) THEN
        RAISE 'the doctor is wrong: %', found;
    END IF;
    RAISE SQLSTATE 'UNDO1';
EXCEPTION WHEN SQLSTATE 'UNDO1' THEN
    RAISE INFO '%: %', change, COALESCE(found, 'recorded');
END $$;
CALL try('ALTER TABLE shedlock_history OWNER TO regress_shedlock_stranger');
CALL try('ALTER TABLE shedlock_history SET UNLOGGED');
CALL try('CREATE TABLE child () INHERITS (shedlock_history)');
CALL try('CREATE TRIGGER t BEFORE INSERT ON shedlock_history FOR EACH ROW EXECUTE FUNCTION boom()');
CALL try('CREATE RULE r AS ON INSERT TO shedlock_history DO ALSO SELECT 1');
CALL try('ALTER TABLE shedlock_history ADD CHECK (false) NOT VALID');
CALL try('ALTER TABLE shedlock_history DROP COLUMN detail');
CALL try('ALTER TABLE shedlock_history ALTER COLUMN holder TYPE varchar');
CALL try('ALTER TABLE shedlock_history ALTER COLUMN name TYPE varchar(1) USING left(name, 1)');
CALL try('ALTER TABLE shedlock_history ALTER COLUMN ended_at TYPE timestamp');
CALL try('ALTER TABLE shedlock_history ALTER COLUMN tick TYPE timestamptz(0)');
CALL try('CREATE DOMAIN pg_temp.full AS text NOT NULL; ALTER TABLE shedlock_history ADD COLUMN n pg_temp.full DEFAULT 1');
CALL try('ALTER TABLE shedlock_history ADD COLUMN n int DEFAULT 1 NOT NULL');
CALL try('ALTER TABLE shedlock_history ADD COLUMN n int GENERATED ALWAYS AS (1) STORED');
CALL try('CREATE UNIQUE INDEX i ON shedlock_history (detail)');
CALL try('ALTER TABLE shedlock_history DROP detail, ADD detail text GENERATED ALWAYS AS (''x'') STORED');
CALL try('CREATE INDEX i ON shedlock_history (lower(detail))');
CALL try('CREATE INDEX i ON shedlock_history (detail) WHERE detail IS NOT NULL');
CALL try('CREATE INDEX i ON shedlock_history USING brin (ended_at)');
CALL try('DROP INDEX shedlock_history_name_ended_at_idx');
CALL try('GRANT TRIGGER ON shedlock_history TO regress_shedlock_stranger');
CALL try('ALTER TABLE shedlock_history RENAME TO other; CREATE VIEW shedlock_history AS SELECT * FROM other');
BEGIN;
ALTER TABLE shedlock_history RENAME TO other;
CREATE INDEX shedlock_history ON other (token);
SET client_min_messages = error;
SELECT finding FROM shedlock_doctor() WHERE finding ~ 'recorded';
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
ROLLBACK;
-- Another index is fine, and so is row security, which does not hide the rows from readers.
CREATE INDEX ON shedlock_history (outcome, token);
ALTER TABLE shedlock_history ENABLE ROW LEVEL SECURITY;
SELECT count(*) FROM shedlock_history WHERE name = 'a';
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
SET ROLE regress_shedlock_reader;
SELECT count(*) FROM shedlock_history('{a}');
RESET ROLE;
-- The WARNING. Reading and keeping it are errors then.
ALTER TABLE shedlock_history ADD CHECK (true);
\c -
\set VERBOSITY default
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
SELECT shedlock_keep_history(false);
SELECT * FROM shedlock_history();
\set VERBOSITY terse
-- Renamed, and made anew; dropped.
ALTER TABLE shedlock_history RENAME TO old_history;
SELECT shedlock_keep_history();
SELECT outcome FROM shedlock_history();
DROP TABLE shedlock_history, old_history;
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
SELECT severity FROM shedlock_doctor() WHERE finding ~ 'recorded';

-- Where a publication has all tables, subscribers need this one, too; and rows can be deleted.
SET client_min_messages = error;
CREATE PUBLICATION regress_shedlock_all FOR ALL TABLES;
RESET client_min_messages;
\set VERBOSITY default
SELECT shedlock_keep_history();
\set VERBOSITY terse
SELECT shedlock_acquire('a', '1 min'), shedlock_release('a');
DELETE FROM shedlock_history WHERE name = 'a';
DROP PUBLICATION regress_shedlock_all;
-- The doctor: a big history; and a job whose last ten runs each took longer than the time between its ticks.
UPDATE pg_class SET reltuples = 1234567 WHERE oid = 'shedlock_history'::regclass;
INSERT INTO shedlock_history (name, token, tick, acquired_at, ended_at, outcome)
    SELECT n, i, t, t, t + CASE WHEN n = 'slow' OR i < 5 THEN '61 s' ELSE '59 s' END::interval, 'done'
      FROM unnest('{slow,fast}'::text[]) n, generate_series(1, 12) i,
           LATERAL (SELECT timestamptz '2026-01-01 00:00Z' + i * interval '1 min') g (t);
SELECT shedlock_acquire(n, '1 min'), shedlock_release(n) FROM unnest('{slow,fast}'::text[]) n;
SELECT severity, regexp_replace(finding, 'table \S+,', 'table T,') AS finding, hint FROM shedlock_doctor() WHERE finding ~ 'ten runs|history of runs';
DELETE FROM shedlock_history WHERE name = 'slow' AND token > 9;
SELECT count(*) FROM shedlock_doctor() WHERE finding ~ 'ten runs';
INSERT INTO shedlock_history (name, token, tick, acquired_at, ended_at, outcome)
    SELECT 'fast', i, 'infinity', '-infinity', '-infinity', 'done' FROM generate_series(20, 21) i; -- by hand
SELECT count(*) FROM shedlock_doctor() WHERE finding ~ 'ten runs';

DROP TABLE shedlock_history;
DROP PROCEDURE try;
DROP FUNCTION boom, told, attempt;
DROP VIEW rows;
SELECT shedlock_revoke('regress_shedlock_reader');
DROP ROLE regress_shedlock_reader, regress_shedlock_stranger;
DELETE FROM shedlock;
