-- A role that may create objects, but is not a superuser, lays traps: for the script of a trusted installation, which
-- runs as a superuser, and for roles that use the extension. A trap that runs would report its role; none runs.
\set VERBOSITY terse
CREATE TABLE regress_signature AS
SELECT p.proname AS name, pg_get_function_arguments(p.oid) AS arguments, p.prokind AS kind,
       pg_get_function_result(p.oid) AS result
  FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
 WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shedlock');
GRANT SELECT ON regress_signature TO PUBLIC;
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE ROLE regress_shedlock_attacker;
SELECT current_database() AS database \gset
GRANT CREATE, TEMPORARY ON DATABASE :"database" TO regress_shedlock_attacker;
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    RETURN 'DONE';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE; -- the wording differs between server versions
END $$;

SET ROLE regress_shedlock_attacker;
CREATE SCHEMA regress_target;
CREATE SCHEMA regress_evil;
\getenv top PG_ABS_SRCDIR
\set traps :top /test/perl/traps.sql
\set ECHO none
\i :traps
\set ECHO all
RESET ROLE;

SET ROLE regress_shedlock_attacker;
SELECT regress_evil.lay_traps('regress_evil') AS in_evil, regress_evil.lay_traps('regress_target') AS in_target,
       regress_evil.lay_traps('pg_temp') AS in_pg_temp;
-- The traps work: whatever is named without a schema runs into them.
SET search_path = pg_temp, regress_evil, regress_target, pg_catalog;
SELECT clock_timestamp();
SELECT 1 OPERATOR(regress_evil.=) 2;
SELECT * FROM pg_extension;

-- The whole life of the extension among these traps: trusted installation by their author, use, move, update, removal.
CREATE TABLE pg_temp.shedlock (name pg_catalog.text, lock_until pg_catalog.text);
CREATE EXTENSION shedlock SCHEMA regress_target;
SELECT regress_target.shedlock_acquire('mine', '1 min'),
       regress_target.shedlock_acquire(ARRAY['a', 'b']::pg_catalog.text[], '1 min'),
       regress_target.shedlock_extend('mine', '2 min'), regress_target.shedlock_release('mine');
SELECT regress_target.shedlock_acquire_token('mine', '1 min', holder => 'x') AS token \gset
SELECT regress_target.shedlock_extend_token('mine', :token, '1 min'),
       regress_target.shedlock_guard_token('mine', :token), regress_target.shedlock_complete_token('mine', :token);
SELECT regress_target.shedlock_acquire('mine', '1 min', ends_with_session => true),
       regress_target.shedlock_complete('mine');
CALL regress_target.shedlock_run('run', 'SELECT', '1 min');
SELECT regress_target.shedlock_pause('mine', 'why'), regress_target.shedlock_resume('mine'),
       regress_target.shedlock_force_release('a');
SELECT name, state, holder OPERATOR(pg_catalog.~) '^pg_regress/hostile|^released by force' AS named,
       remaining OPERATOR(pg_catalog.>) '1 s'::pg_catalog.interval AS remaining
  FROM regress_target.shedlock_locks ORDER BY name COLLATE pg_catalog."C" USING OPERATOR(pg_catalog.<);
SELECT regress_target.shedlock_tick('50 min', 'Europe/Berlin', '2023-03-26 01:05Z'),
       regress_target.shedlock_tick('30 2 1,L * mon#1,sun#5', 'Europe/Berlin', '2023-03-26 12:00Z'),
       regress_target.shedlock_tick('1 month', 'America/Asuncion', '2023-10-01 04:00Z');
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 0::pg_catalog.int8 AS counted FROM regress_target.shedlock_stats;
SELECT regress_target.shedlock_stats_reset();
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>=) 0::pg_catalog.int8 AS works FROM regress_target.shedlock_doctor();
SELECT regress_target.shedlock_grant('regress_shedlock_attacker'),
       regress_target.shedlock_grant('regress_shedlock_attacker', true);
-- The extension's owner does not own the members, so it cannot move them. A superuser with that search_path can.
\set VERBOSITY sqlstate
ALTER EXTENSION shedlock SET SCHEMA regress_evil;
\set VERBOSITY default
RESET ROLE;
CREATE FUNCTION regress_evil.shedlock_release(name pg_catalog.text, done pg_catalog.bool, detail pg_catalog.text) RETURNS pg_catalog.bool
    LANGUAGE sql AS 'SELECT regress_evil.trap()';
ALTER EXTENSION shedlock SET SCHEMA regress_evil;
DROP FUNCTION regress_evil.shedlock_release(pg_catalog.text, pg_catalog.bool, pg_catalog.text);
ALTER EXTENSION shedlock SET SCHEMA regress_evil;
SET ROLE regress_shedlock_attacker;
SELECT regress_evil.shedlock_acquire('moved', '1 min'), regress_evil.shedlock_release('moved');
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>=) 0::pg_catalog.int8 AS works FROM regress_evil.shedlock_doctor();
ALTER EXTENSION shedlock UPDATE;
-- A member whose name is a statement, added by the attacker, is only a name to shedlock_grant.
CREATE FUNCTION regress_evil."f() TO PUBLIC; ALTER ROLE CURRENT_USER SUPERUSER; --"() RETURNS boolean
    LANGUAGE sql AS 'SELECT regress_evil.trap()';
ALTER EXTENSION shedlock ADD FUNCTION regress_evil."f() TO PUBLIC; ALTER ROLE CURRENT_USER SUPERUSER; --"();
SELECT regress_evil.shedlock_grant('regress_shedlock_attacker', true);
-- The extension's members belong to the superuser: its owner can neither change nor replace nor drop one. (The table
-- belongs to the owner; sql/attached.sql tries what can be attached to it.)
SET search_path = pg_catalog, public, pg_temp;
\pset format unaligned
\pset tuples_only on
SELECT c AS by_the_installer, attempt(c) FROM unnest(ARRAY[
    'CREATE OR REPLACE FUNCTION regress_evil.shedlock_release(name text, done boolean DEFAULT true, detail text DEFAULT NULL) RETURNS boolean LANGUAGE sql AS ''SELECT regress_evil.trap()''',
    'CREATE OR REPLACE VIEW regress_evil.shedlock_stats AS SELECT regress_evil.trap()',
    'ALTER FUNCTION regress_evil.shedlock_doctor() RESET search_path',
    'ALTER FUNCTION regress_evil.shedlock_doctor() SET search_path = regress_evil',
    'ALTER FUNCTION regress_evil.shedlock_grant(text, boolean, boolean, boolean) OWNER TO regress_shedlock_attacker',
    'ALTER EXTENSION shedlock DROP VIEW regress_evil.shedlock_locks',
    'ALTER EXTENSION shedlock DROP FUNCTION regress_evil.shedlock_grant(text, boolean, boolean, boolean)',
    'CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION regress_evil.trap()',
    'CREATE FUNCTION regress_evil.own() RETURNS void LANGUAGE c AS ''$libdir/shedlock'', ''shedlock_make_or_adopt_table''',
    'CREATE OPERATOR CLASS regress_evil.oc DEFAULT FOR TYPE timestamp USING btree AS OPERATOR 1 regress_evil.<',
    'ALTER ROLE regress_shedlock_attacker SUPERUSER'
]) c;
DROP EXTENSION shedlock;
DROP TABLE pg_temp.shedlock, regress_target.shedlock;
RESET ROLE;
-- The same by a superuser with that search_path.
SET search_path = pg_temp, regress_evil, regress_target, pg_catalog;
CREATE EXTENSION shedlock SCHEMA regress_target;
SELECT regress_target.shedlock_acquire('mine', '1 min'), regress_target.shedlock_release('mine'),
       regress_target.shedlock_force_release('mine'),
       regress_target.shedlock_tick('1 hour') OPERATOR(pg_catalog.>) '2001-01-01'::pg_catalog.timestamptz AS tick,
       (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 0::pg_catalog.int8
          FROM regress_target.shedlock_ticks('1 day', '2026-01-01')) AS ticks;
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>=) 0::pg_catalog.int8 AS works FROM regress_target.shedlock_doctor();
SELECT name FROM regress_target.shedlock_locks;
ALTER EXTENSION shedlock SET SCHEMA regress_evil;
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>=) 0::pg_catalog.int8 AS works FROM regress_evil.shedlock_doctor();
DROP EXTENSION shedlock;
RESET search_path;
SELECT rolsuper AS attacker_is_superuser FROM pg_roles WHERE rolname = 'regress_shedlock_attacker';
DISCARD TEMP;
SET client_min_messages = warning;
DROP SCHEMA regress_evil, regress_target CASCADE;
RESET client_min_messages;

-- Functions that look like the remains of a takeover of the portable edition make nobody an administrator,
-- and are left alone.
CREATE ROLE regress_shedlock_accomplice;
GRANT ALL ON SCHEMA public TO regress_shedlock_attacker;
SET ROLE regress_shedlock_attacker;
CREATE FUNCTION "portable shedlock_version"() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION "portable shedlock_pause"() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION "portable shedlock_protect_row"() RETURNS int LANGUAGE sql AS 'SELECT 1';
COMMENT ON FUNCTION "portable shedlock_protect_row"() IS 'was on';
GRANT EXECUTE ON FUNCTION "portable shedlock_pause"() TO regress_shedlock_accomplice;
RESET ROLE;
REVOKE ALL ON SCHEMA public FROM regress_shedlock_attacker;
CREATE EXTENSION shedlock;
SELECT has_function_privilege('regress_shedlock_accomplice', 'shedlock_grant(text, boolean, boolean, boolean)',
                              'EXECUTE') AS has_gained,
       EXISTS (SELECT FROM pg_trigger WHERE tgname = 'shedlock_protect') AS is_protected;
DROP EXTENSION shedlock;
DROP TABLE shedlock;
DROP FUNCTION "portable shedlock_version"(), "portable shedlock_pause"(), "portable shedlock_protect_row"();
DROP ROLE regress_shedlock_accomplice;

-- An object with one of our names in the target schema stops a trusted installation; it is never used or taken over.
-- (An index called shedlock_pkey does not stop it. A table that can serve as the lock table is adopted: sql/adopt.sql.)
GRANT ALL ON SCHEMA public TO regress_shedlock_attacker;
CREATE FUNCTION install_over(obstacle text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE obstacle;
    CREATE EXTENSION shedlock;
    RAISE EXCEPTION 'installed';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
SET ROLE regress_shedlock_attacker;
SELECT name, said AS not_stopped
  FROM regress_signature,
       install_over(format(
           'CREATE %s %s(%s) %s LANGUAGE plpgsql AS $x$ BEGIN RAISE EXCEPTION ''A TRAP RUNS''; END $x$',
           CASE kind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, name, arguments,
           CASE kind WHEN 'f' THEN 'RETURNS ' || result ELSE '' END)) AS said
 WHERE said <> format('42723: function "%s" already exists with same argument types', name) ORDER BY name;
SELECT count(*) > 40 AS stopped FROM regress_signature;
SELECT o AS obstacle, install_over(o) FROM unnest(ARRAY[
    'CREATE FUNCTION shedlock_make_or_adopt_table() RETURNS void LANGUAGE sql AS ''''',
    'CREATE VIEW shedlock AS SELECT 1',
    'CREATE MATERIALIZED VIEW shedlock AS SELECT 1',
    'CREATE SEQUENCE shedlock',
    'CREATE TYPE shedlock AS (name text)',
    'CREATE TYPE shedlock AS ENUM (''a'')',
    'CREATE DOMAIN shedlock AS text',
    'CREATE TABLE shedlock (name text) PARTITION BY LIST (name)',
    'CREATE TABLE t (x int); CREATE INDEX shedlock ON t (x)',
    'CREATE TABLE t (x int); CREATE INDEX shedlock_pkey ON t (x)',
    'CREATE VIEW shedlock_locks AS SELECT 1',
    'CREATE TABLE shedlock_locks (name text)',
    'CREATE TYPE shedlock_locks AS (name text)',
    'CREATE VIEW shedlock_stats AS SELECT 1',
    'CREATE SEQUENCE shedlock_stats',
    'CREATE TABLE other (x int); CREATE TABLE shedlock (LIKE other)',
    'CREATE FUNCTION shedlock_make_or_adopt_table(x int DEFAULT 1) RETURNS void LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $$A TRAP RUNS$$; END''',
    'CREATE FUNCTION shedlock_session_alive(text, x int DEFAULT 1) RETURNS boolean LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $$A TRAP RUNS$$; END''',
    'CREATE FUNCTION shedlock_stats_rows(x int DEFAULT 1) RETURNS int LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $$A TRAP RUNS$$; END'''
]) o;
RESET ROLE;
DROP FUNCTION install_over;
REVOKE ALL ON SCHEMA public FROM regress_shedlock_attacker;
REVOKE ALL ON DATABASE :"database" FROM regress_shedlock_attacker;
DROP TABLE regress_signature;
DROP FUNCTION attempt;
DROP ROLE regress_shedlock_attacker;
CREATE EXTENSION shedlock;
