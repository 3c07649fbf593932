-- A plain role can do nothing before shedlock_grant, and only use locks after it. It can never read or write the table.
CREATE ROLE regress_shedlock_app;
CREATE ROLE "regress shedlock ""oncall""";
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE call INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;

-- Nothing at all is granted to PUBLIC.
SELECT p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
 WHERE p.proname LIKE 'shedlock%' AND a.grantee = 0;
SELECT c.relname FROM pg_class c, aclexplode(c.relacl) a WHERE c.relname LIKE 'shedlock%' AND a.grantee = 0;

SET ROLE regress_shedlock_app;
SELECT attempt($$SELECT shedlock_acquire('p', '1 min')$$) AS before;
RESET ROLE;

SELECT shedlock_grant('regress_shedlock_app');
SET ROLE regress_shedlock_app;
SELECT c AS after, attempt(c) FROM unnest(ARRAY[
    $$SELECT shedlock_acquire('p', '1 min')$$,
    $$SELECT shedlock_extend('p', '1 min')$$,
    $$SELECT shedlock_release('p')$$,
    $$SELECT shedlock_tick('1 hour') > '2001-01-01'$$,
    $$SELECT count(*) >= 2 FROM shedlock_ticks('1 hour', clock_timestamp() - interval '2 hours')$$,
    $$SELECT shedlock_acquire(ARRAY['p', 'q'], '1 min')$$,
    $$SELECT shedlock_release(ARRAY['p', 'q'])$$,
    $$SELECT shedlock_acquire('c', '1 min', ends_with_session => true)$$,
    $$SELECT shedlock_complete('c')$$,
    $$SELECT shedlock_acquire_token('p', '1 min') > 0$$,
    $$SELECT name || ' ' || state FROM shedlock_locks WHERE name = 'p'$$,
    $$SELECT shedlock_grant('regress_shedlock_app')$$,
    $$SELECT count(*) FROM shedlock$$,
    $$INSERT INTO shedlock VALUES ('x', now(), now(), 'x')$$,
    $$UPDATE shedlock SET lock_until = now()$$,
    $$DELETE FROM shedlock$$,
    $$UPDATE shedlock_locks SET name = 'x'$$,
    $$LOCK TABLE shedlock IN ACCESS SHARE MODE$$,
    $$CREATE TRIGGER t BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()$$,
    $$ALTER TABLE shedlock ADD COLUMN mine text$$,
    $$DROP EXTENSION shedlock$$
]) c;
SELECT shedlock_guard_token('p', token) FROM shedlock_locks WHERE name = 'p';
SELECT name, last_outcome, holder_alive FROM shedlock_locks WHERE name = 'c';
RESET ROLE;

-- A hostile search_path: fake operators, functions, tables and a fake view change nothing.
CREATE SCHEMA evil;
GRANT ALL ON SCHEMA evil TO regress_shedlock_app;
SET ROLE regress_shedlock_app;
CREATE FUNCTION evil.fail() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'evil code runs as %', current_user;
END $$;
CREATE FUNCTION evil.eq(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.fail()';
CREATE FUNCTION evil.eq(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT evil.fail()';
CREATE FUNCTION evil.le(timestamp, timestamp) RETURNS boolean LANGUAGE sql AS 'SELECT evil.fail()';
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'evil clock';
END $$;
CREATE FUNCTION evil.timezone(text, timestamptz) RETURNS timestamp LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'evil timezone';
END $$;
CREATE FUNCTION evil.regexp_replace(text, text, text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'evil regexp';
END $$;
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = evil.eq);
CREATE OPERATOR evil.<= (LEFTARG = timestamp, RIGHTARG = timestamp, FUNCTION = evil.le);
CREATE OPERATOR evil.> (LEFTARG = timestamp, RIGHTARG = timestamp, FUNCTION = evil.le);
CREATE TABLE evil.shedlock (LIKE pg_catalog.pg_class);
CREATE VIEW evil.shedlock_locks AS SELECT evil.fail() AS name;
CREATE TEMP TABLE shedlock (name text, lock_until text);
SET search_path = evil, pg_catalog, pg_temp, public;
SELECT public.shedlock_acquire('p', '1 min') AS still_held, public.shedlock_acquire('hostile', '1 min') AS acquired,
       public.shedlock_release('hostile') AS released,
       public.shedlock_acquire(ARRAY['hostile', 'h2'], '1 min') AS several;
SELECT public.shedlock_guard('hostile'), public.shedlock_complete('h2');
SELECT name, state FROM public.shedlock_locks WHERE name OPERATOR(pg_catalog.=) 'hostile';
RESET ROLE;
SELECT public.shedlock_grant('regress_shedlock_app');
RESET search_path;
DROP TABLE pg_temp.shedlock;
DROP SCHEMA evil CASCADE;

-- Administrators also get the functions for administrators; names of roles are taken literally.
SELECT shedlock_grant('regress shedlock "oncall"', admin => true);
SET ROLE "regress shedlock ""oncall""";
SELECT attempt($$SELECT shedlock_acquire('o', '1 min')$$), attempt($$SELECT shedlock_grant('regress_shedlock_app')$$),
       attempt($$SELECT count(*) FROM shedlock$$);
RESET ROLE;
SELECT attempt($$SELECT shedlock_grant(NULL)$$) AS "NULL",
       attempt($$SELECT shedlock_grant('no such role')$$) AS unknown,
       attempt($$SELECT shedlock_grant('x TO PUBLIC; --')$$) AS injected;
-- A role for Java clients may also read the table, insert and update.
CREATE ROLE regress_shedlock_java;
SELECT shedlock_grant('regress_shedlock_java', java => true);
SELECT privilege_type
  FROM pg_class, aclexplode(relacl)
 WHERE oid = 'shedlock'::regclass AND grantee = 'regress_shedlock_java'::regrole
 ORDER BY 1;
SET ROLE regress_shedlock_java;
SELECT attempt($$INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('j', now(), now(), 'host')
                 ON CONFLICT (name) DO UPDATE SET lock_until = now(), locked_at = now(), locked_by = 'host'
                 WHERE shedlock.lock_until <= now() RETURNING name$$) AS "insert",
       attempt($$UPDATE shedlock SET lock_until = now() WHERE name = 'j' AND locked_by = 'host' RETURNING name$$)
           AS "update",
       attempt($$DELETE FROM shedlock$$) AS "delete", attempt($$SELECT shedlock_acquire('j', '1 min')$$) AS ours,
       attempt($$SELECT shedlock_force_release('j')$$) AS administrators;
RESET ROLE;
-- A monitoring role can only read the views and call shedlock_doctor, shedlock_tick, shedlock_ticks, shedlock_version
-- and the views' functions. The doctor has only this role's rights, and says what it could not see.
CREATE ROLE regress_shedlock_monitor;
SELECT shedlock_grant('regress_shedlock_monitor', read_only => true);
SET ROLE regress_shedlock_monitor;
SELECT c AS read_only, attempt(c) FROM unnest(ARRAY[
    $$SELECT name || ' ' || state FROM shedlock_locks WHERE name = 'p'$$,
    $$SELECT count(*) > 0 FROM shedlock_locks WHERE last_done_at > now() - interval '25 h'$$,
    $$SELECT version FROM shedlock_version()$$,
    $$SELECT shedlock_tick('1 hour') > '2001-01-01'$$,
    $$SELECT severity || ': ' || finding FROM shedlock_doctor() WHERE finding LIKE '%could not be checked%'$$,
    $$SELECT shedlock_acquire('p', '1 min')$$,
    $$SELECT shedlock_acquire_token('p', '1 min')$$,
    $$SELECT shedlock_release_token('p', 1)$$,
    $$SELECT shedlock_guard_token('p', 1)$$,
    $$SELECT shedlock_acquire(ARRAY['p', 'q'], '1 min')$$,
    $$SELECT shedlock_extend('p', '1 min')$$,
    $$SELECT shedlock_release('p')$$,
    $$SELECT shedlock_complete('p')$$,
    $$SELECT shedlock_wait_any('{p}', '{1}', '0', 1)$$,
    $$SELECT shedlock_end_wait(1)$$,
    $$SELECT shedlock_pause('p')$$,
    $$SELECT shedlock_resume('p')$$,
    $$SELECT shedlock_force_release('p')$$,
    $$SELECT shedlock_forget('p')$$,
    $$SELECT shedlock_stats_reset()$$,
    $$SELECT shedlock_protect()$$,
    $$SELECT shedlock_grant('regress_shedlock_monitor')$$,
    $$INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('m', now(), now(), 'host')$$,
    $$SELECT count(*) FROM shedlock$$
]) c;
CALL shedlock_run('p', 'SELECT 1', '1 min');
RESET ROLE;
SELECT shedlock_revoke('regress_shedlock_monitor');
SELECT attempt($$SELECT shedlock_grant('regress_shedlock_monitor', true, read_only => true)$$) AS both,
       attempt($$SELECT shedlock_grant('regress_shedlock_monitor', java => true, read_only => true)$$) AS java,
       attempt($$SELECT shedlock_grant('regress_shedlock_monitor', read_only => NULL)$$) AS "NULL";
DROP ROLE regress_shedlock_monitor;
SELECT attempt($$SELECT shedlock_grant('regress_shedlock_app', NULL)$$) AS admin,
       attempt($$SELECT shedlock_grant('regress_shedlock_app', java => NULL)$$) AS java,
       attempt($$SELECT shedlock_grant('no such role', java => true)$$) AS unknown,
       attempt($$SELECT shedlock_grant('x TO PUBLIC; --', java => true)$$) AS injected;
-- A long name is not cut: that would be another role.
SELECT format('CREATE ROLE %I', rpad('regress_shedlock_', 63, 'x')) \gexec
SELECT attempt($$SELECT shedlock_grant(rpad('regress_shedlock_', 64, 'x'))$$) AS granted,
       attempt($$SELECT shedlock_revoke(rpad('regress_shedlock_', 64, 'x'))$$) AS revoked;
SELECT format('DROP ROLE %I', rpad('regress_shedlock_', 63, 'x')) \gexec
-- shedlock_revoke revokes what shedlock_grant grants with the same arguments, and reports what is left.
SELECT shedlock_revoke('regress_shedlock_java');
SET ROLE regress_shedlock_java;
SELECT attempt($$SELECT shedlock_acquire('j', '1 min')$$) AS ours,
       attempt($$SELECT count(*) FROM shedlock_locks$$) AS view,
       attempt($$UPDATE shedlock SET lock_until = now() WHERE name = 'j' RETURNING name$$) AS "update";
RESET ROLE;
SELECT shedlock_revoke('regress_shedlock_java', java => true);
SELECT shedlock_revoke('regress shedlock "oncall"');
SET ROLE "regress shedlock ""oncall""";
SELECT attempt($$SELECT shedlock_acquire('o', '1 min')$$) AS ours,
       attempt($$SELECT shedlock_force_release('o')$$) AS administrators;
RESET ROLE;
SELECT shedlock_revoke('regress shedlock "oncall"', admin => true);
SELECT shedlock_revoke('regress_shedlock_app', admin => true);
SET ROLE regress_shedlock_app;
SELECT attempt($$SELECT shedlock_revoke('regress_shedlock_app')$$) AS itself;
RESET ROLE;
SELECT attempt($$SELECT shedlock_revoke(NULL)$$) AS role,
       attempt($$SELECT shedlock_revoke('regress_shedlock_app', NULL)$$) AS admin,
       attempt($$SELECT shedlock_revoke('regress_shedlock_app', java => NULL)$$) AS java,
       attempt($$SELECT shedlock_revoke('no such role')$$) AS unknown,
       attempt($$SELECT shedlock_revoke('x CASCADE; --', java => true)$$) AS injected;

-- It refuses a role that owns the functions or the table: without the owner's rights the functions would
-- fail for everybody.
SELECT attempt(format('SELECT shedlock_revoke(%L)', proowner::regrole))
           ~ '^22023: role ".*" owns shedlock$' AS of_functions
  FROM pg_proc WHERE proname = 'shedlock_revoke';
SELECT attempt(format('SELECT shedlock_revoke(%L, false, true)', relowner::regrole))
           ~ '^22023: role ".*" owns shedlock$' AS of_table
  FROM pg_class WHERE oid = 'shedlock'::regclass;

-- No grant is left, so the roles can be dropped.
DELETE FROM shedlock;
DROP FUNCTION attempt;
REVOKE ALL ON SCHEMA public FROM regress_shedlock_app, regress_shedlock_java, "regress shedlock ""oncall""";
DROP ROLE regress_shedlock_app;
DROP ROLE regress_shedlock_java;
DROP ROLE "regress shedlock ""oncall""";
