-- Ordinary roles try every way in that comes to mind. They may use locks, if that was granted to them,
-- and nothing else.
CREATE ROLE regress_nobody;
CREATE ROLE regress_user;
CREATE ROLE regress_admin;
SELECT shedlock_grant('regress_user'), shedlock_grant('regress_admin', true);

-- Which functions each may execute, and what each may do to the table and the views.
SELECT p.oid::regprocedure AS routine,
       (SELECT string_agg(substring(r FROM 9), ' ' ORDER BY n)
          FROM unnest(ARRAY['regress_nobody', 'regress_user', 'regress_admin']) WITH ORDINALITY AS u (r, n)
         WHERE has_function_privilege(r, p.oid, 'EXECUTE')) AS executable_by
  FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
 WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shedlock')
 ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT r AS role, t AS relation, string_agg(p, ' ' ORDER BY p) AS privileges
  FROM unnest(ARRAY['regress_nobody', 'regress_user', 'regress_admin']) r,
       (SELECT relname FROM pg_class WHERE relname ~ '^shedlock' AND relkind IN ('r', 'v')) AS relations (t),
       unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
 WHERE has_table_privilege(r, t, p)
    OR (p IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege(r, t, p))
 GROUP BY 1, 2 ORDER BY 1, 2;
-- SECURITY DEFINER: only functions that must read catalogs, grant, or create a trigger, each with its own search_path.
SELECT p.oid::regprocedure AS security_definer, p.proconfig
  FROM pg_proc p WHERE p.proname LIKE 'shedlock%' AND p.prosecdef ORDER BY p.oid::regprocedure::text COLLATE "C";

-- Somebody else's locks.
SELECT shedlock_acquire('theirs', '1 h'), shedlock_pause('paused', 'by the owner');
SELECT shedlock_acquire_token('by token', '1 h', holder => 'secret host') AS token \gset
-- From here on it is another session.
\c
CREATE SCHEMA regress_own;
GRANT ALL ON SCHEMA regress_own TO regress_nobody, regress_user;
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE call INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN syntax_error THEN
    RETURN 'DONE'; -- "INTO used with a command that cannot return data": it has been executed
WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
CREATE VIEW attempts AS
SELECT c, n FROM unnest(ARRAY[
    -- others' locks
    'SELECT shedlock_force_release(''theirs'')', 'SELECT shedlock_release(''theirs'')',
    'SELECT shedlock_extend(''theirs'', ''1 ms'')', 'SELECT shedlock_release_token(''by token'', 1)',
    'SELECT shedlock_acquire(''theirs'', ''1 min'')', 'SELECT shedlock_guard(''theirs'')',
    'SELECT shedlock_guard_token(name, token) FROM shedlock_locks WHERE name = ''theirs''',
    'SELECT shedlock_complete(''theirs'')', 'SELECT shedlock_complete_token(''by token'', 1)',
    'SELECT shedlock_resume(''paused'')', 'SELECT shedlock_pause(''theirs'')',
    -- the table and its views
    'SELECT locked_by FROM shedlock', 'SELECT count(*) FROM shedlock', 'TABLE shedlock',
    'INSERT INTO shedlock VALUES (''x'', now(), now(), ''x'')',
    'UPDATE shedlock SET lock_until = now()', 'DELETE FROM shedlock', 'TRUNCATE shedlock',
    'MERGE INTO shedlock USING (SELECT) s ON true WHEN MATCHED THEN DELETE', 'SELECT FROM shedlock FOR UPDATE',
    'LOCK TABLE shedlock', 'LOCK TABLE shedlock_locks', 'UPDATE shedlock_locks SET name = ''x''',
    'DELETE FROM shedlock_locks', 'DELETE FROM shedlock_stats',
    'INSERT INTO shedlock_stats (name) VALUES (''x'')',
    -- other ways to reach the table
    'CREATE TRIGGER t BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
    'CREATE INDEX ON shedlock (locked_by)', 'CREATE RULE r AS ON UPDATE TO shedlock DO NOTHING',
    'CREATE POLICY p ON shedlock', 'ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY',
    'ALTER TABLE shedlock SET UNLOGGED', 'ALTER TABLE shedlock OWNER TO CURRENT_USER',
    'CREATE TEMP TABLE child () INHERITS (shedlock)',
    'CREATE TABLE regress_own.child (name varchar REFERENCES shedlock)',
    'CREATE STATISTICS s ON name, locked_by FROM shedlock', 'COMMENT ON TABLE shedlock IS ''mine''',
    'DROP TABLE shedlock', 'REINDEX TABLE shedlock',
    -- the functions
    'CREATE OR REPLACE FUNCTION shedlock_release(name text, done boolean DEFAULT true, detail text DEFAULT NULL) RETURNS boolean LANGUAGE sql AS ''SELECT true''',
    'ALTER FUNCTION shedlock_grant(text, boolean, boolean, boolean) SECURITY INVOKER',
    'DROP FUNCTION shedlock_release(text, boolean, text)', 'CREATE OR REPLACE VIEW shedlock_locks AS SELECT 1',
    'CREATE FUNCTION pg_temp.own() RETURNS void LANGUAGE c AS ''$libdir/shedlock'', ''shedlock_make_or_adopt_table''',
    'LOAD ''$libdir/shedlock''', 'SELECT shedlock_inspect()', 'SELECT count(*) > 0 FROM shedlock_doctor()',
    'SELECT shedlock_stats_reset()',
    -- more rights
    'SELECT shedlock_grant(current_user::text, true)',
    'GRANT EXECUTE ON FUNCTION shedlock_force_release(text) TO CURRENT_USER', 'GRANT ALL ON shedlock TO CURRENT_USER',
    'SET ROLE regress_admin',
    'ALTER EXTENSION shedlock SET SCHEMA pg_temp', 'ALTER EXTENSION shedlock UPDATE',
    'ALTER EXTENSION shedlock ADD FUNCTION attempt(text)', 'DROP EXTENSION shedlock',
    'CREATE EXTENSION shedlock VERSION ''0''']) WITH ORDINALITY AS c (c, n);
GRANT SELECT ON attempts TO PUBLIC;
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' -> '
SET client_min_messages = error;
CREATE TEMP TABLE outcome (role text, n bigint, said text);
GRANT INSERT ON outcome TO PUBLIC;
\set try 'INSERT INTO outcome SELECT current_user, n, regexp_replace(attempt(c), $$:.*$$, $$$$) FROM attempts;'
SET SESSION AUTHORIZATION regress_nobody;
:try
SET SESSION AUTHORIZATION regress_user;
:try
\set VERBOSITY sqlstate
COPY shedlock TO STDOUT;
ALTER SYSTEM SET shedlock.async_release = off;
\set VERBOSITY default
RESET SESSION AUTHORIZATION;
SELECT a.c, x.said, y.said
  FROM attempts a
  JOIN outcome x ON x.n = a.n AND x.role = 'regress_nobody'
  JOIN outcome y ON y.n = a.n AND y.role = 'regress_user'
 ORDER BY a.n;
\pset tuples_only off
\pset format csv
-- Nobody gained anything.
SELECT name, state, token = :token AS same FROM shedlock_locks ORDER BY name;
SELECT count(*) FILTER (WHERE said = '42501') AS refused, count(*) AS attempts
  FROM outcome WHERE role = 'regress_nobody';
-- Even an administrator can change the table only through the functions.
SET ROLE regress_admin;
SELECT c, regexp_replace(attempt(c), ':.*', '')
  FROM attempts WHERE c ~ '^(DELETE|UPDATE|TRUNCATE|LOCK|SELECT locked_by|DROP|ALTER)' ORDER BY n;
RESET ROLE;
RESET client_min_messages;
DROP VIEW attempts;
DROP TABLE outcome;
DROP FUNCTION attempt;
DELETE FROM shedlock;
DROP SCHEMA regress_own;
DROP OWNED BY regress_nobody, regress_user, regress_admin;
DROP ROLE regress_nobody, regress_user, regress_admin;
