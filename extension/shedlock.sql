\echo Use "CREATE EXTENSION shedlock" to load this file. \quit

-- make writes shedlock--VERSION.sql from this file, and from portable/shedlock.sql what both editions share.

-- This script may run as a superuser on behalf of a role that is not one (trusted = true), in a schema in which others
-- may have created functions and operators. So every name is qualified, or resolved in pg_catalog by an exact match of
-- types.
--
-- That role may own the schema, and must not exchange it for another one while the script runs: PostgreSQL looks names
-- up again whenever it has waited for a lock. So the schema can be neither renamed nor dropped until this transaction
-- ends. What the script creates there is visible only to itself, and it has locked the table that it adopts.
DO $$
DECLARE
    home CONSTANT oid := (SELECT e.extnamespace FROM pg_catalog.pg_extension e
                           WHERE e.extname OPERATOR(pg_catalog.=) 'shedlock');
BEGIN
    PERFORM FROM pg_catalog.pg_namespace n WHERE n.oid OPERATOR(pg_catalog.=) home FOR KEY SHARE;
    IF (pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace::oid OPERATOR(pg_catalog.=) home)
       IS NOT TRUE THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'the schema of the extension has just been renamed';
    END IF;
END
$$;

-- Citus would create the extension on its workers, too, but fails because the extension depends on a local table. It
-- does so after the script, so the setting must last until the transaction ends.
SELECT pg_catalog.set_config('citus.enable_metadata_sync', 'off', true)
 WHERE pg_catalog.current_setting('citus.version', true) IS NOT NULL;

-- The portable edition is replaced if it belongs to the role that creates the extension. It is not enough that this
-- role could act as the owner, as a superuser can, because any role could plant a copy with grants on the
-- administrators' functions.
DO $$
DECLARE
    home CONSTANT regnamespace := pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace;
    installer CONSTANT regrole := $owner$@extowner@$owner$;
    usual CONSTANT text := pg_catalog.current_setting('client_min_messages');
-- include Names
    portable oid; -- its owner
    grantees text;
    thing record;
BEGIN
    SELECT p.proowner INTO portable FROM pg_catalog.pg_proc p
     WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid AND p.proname OPERATOR(pg_catalog.=) 'shedlock_version'
       AND pg_catalog.strpos(p.prosrc, 'portable') OPERATOR(pg_catalog.>) 0;
    IF portable IS NULL THEN
        RETURN;
    ELSIF portable OPERATOR(pg_catalog.<>) installer::oid THEN
        RAISE insufficient_privilege
            USING MESSAGE = pg_catalog.format('cannot take over the portable edition of shedlock in schema %s: '
                                              'it belongs to role %s, not to %s',
                                              home, portable::regrole, installer),
                  HINT = pg_catalog.format('SET ROLE %s, which needs the right to CREATE in the database. '
                                           'Or drop its functions, if that role is not trusted.', portable::regrole);
    END IF;
    -- The roles to which the end of this script grants the same rights again.
    SELECT pg_catalog.string_agg(DISTINCT a.grantee::regrole::text, ', ') INTO grantees
      FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
     WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid AND p.proowner OPERATOR(pg_catalog.=) portable
       AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['shedlock_rows', 'shedlock_end_wait', 'shedlock_pause']::name[])
       AND a.grantee OPERATOR(pg_catalog.<>) 0::oid AND a.grantee OPERATOR(pg_catalog.<>) portable;

    FOR thing IN
        SELECT 'ROUTINE' AS kind, p.oid::regprocedure::text AS signature, p.proname AS name FROM pg_catalog.pg_proc p
         WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid AND p.proowner OPERATOR(pg_catalog.=) portable
           AND p.proname OPERATOR(pg_catalog.~) ours
        UNION ALL
        SELECT 'VIEW', c.oid::regclass::text, c.relname FROM pg_catalog.pg_class c
         WHERE c.relnamespace OPERATOR(pg_catalog.=) home::oid AND c.relowner OPERATOR(pg_catalog.=) portable
           AND c.relkind OPERATOR(pg_catalog.=) 'v'
           AND c.relname OPERATOR(pg_catalog.=) ANY (
                   ARRAY['shedlock_locks', 'shedlock_stats', 'shedlock_table', 'shedlock_routines']::name[])
    LOOP
        EXECUTE pg_catalog.format('ALTER %s %s RENAME TO %I', thing.kind, thing.signature,
                                  pg_catalog.concat('portable ', thing.name));
    END LOOP;
    -- If the portable edition protected its rows, the COMMENT ON FUNCTION below tells the end of this script to do so
    -- again.
    IF EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) g.tgfoid
                WHERE g.tgname OPERATOR(pg_catalog.=) 'shedlock_protect' AND p.proowner OPERATOR(pg_catalog.=) portable
                  AND p.pronamespace OPERATOR(pg_catalog.=) home::oid) THEN
        EXECUTE pg_catalog.format('DROP TRIGGER shedlock_protect ON %s.shedlock', home);
        COMMENT ON FUNCTION "portable shedlock_protect_row"() IS 'was on';
    END IF;
    -- CREATE EXTENSION silences the notices of its script
    PERFORM pg_catalog.set_config('client_min_messages', 'notice', true);
    RAISE NOTICE 'taking over from the portable edition of shedlock in schema %, owned by role %', home, installer
        USING DETAIL = pg_catalog.format('Its functions are replaced. The table and its locks stay, '
                                         'and so do the rights of these roles: %s.', COALESCE(grantees, 'none'));
    PERFORM pg_catalog.set_config('client_min_messages', usual, true);
END
$$;

-- Creates the table, or adopts it if a Java migration has created it. An adoption waits for transactions that use the
-- table, for 2 seconds or lock_timeout. In a trusted installation the script may create anything anywhere, but the role
-- that creates the extension may not. Rights that default privileges give to a table that we create are revoked.
CREATE FUNCTION shedlock_make_or_adopt_table() RETURNS void
    LANGUAGE c AS 'MODULE_PATHNAME';
DO $$
DECLARE
    home CONSTANT regnamespace := pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace;
    installer CONSTANT regrole := $owner$@extowner@$owner$;
    is_adopted CONSTANT boolean := pg_catalog.to_regclass(pg_catalog.format('%s.shedlock', home)) IS NOT NULL;
    privileged text;
BEGIN
    IF NOT is_adopted AND NOT pg_catalog.has_schema_privilege(installer::oid, home::oid, 'CREATE') THEN
        RAISE insufficient_privilege
            USING MESSAGE = pg_catalog.format('role %s may not create the lock table in schema %s', installer, home),
                  HINT = 'Create the extension in a schema in which the role may create objects.';
    END IF;
    PERFORM pg_catalog.set_config('default_tablespace', '', true),
            pg_catalog.set_config('default_table_access_method', 'heap', true);
    IF pg_catalog.current_setting('lock_timeout') OPERATOR(pg_catalog.=) '0' THEN
        PERFORM pg_catalog.set_config('lock_timeout', '2s', true);
    END IF;
    PERFORM shedlock_make_or_adopt_table();
    IF NOT is_adopted THEN
        FOR privileged IN SELECT CASE a.grantee WHEN 0::oid THEN 'PUBLIC' ELSE a.grantee::regrole::text END
                            FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
                           WHERE c.oid OPERATOR(pg_catalog.=)
                                 pg_catalog.to_regclass(pg_catalog.format('%s.shedlock', home))::oid
                             AND a.grantee OPERATOR(pg_catalog.<>) c.relowner LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON %s.shedlock FROM %s', home, privileged);
        END LOOP;
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE lock_not_available USING MESSAGE = 'cannot adopt table shedlock: another transaction has it locked',
        HINT = 'Try again when no transaction uses the table, or set lock_timeout to wait longer than 2 seconds.';
END
$$;
DROP FUNCTION shedlock_make_or_adopt_table();

-- Acquire -------------------------------------------------------------------------------------------------------------

-- declare shedlock_acquire and shedlock_acquire_all
-- declare shedlock_acquire_token and shedlock_acquire_token_all

-- Wait ----------------------------------------------------------------------------------------------------------------

-- declare shedlock_wait_any
-- declare shedlock_end_wait
-- declare shedlock_not_due

-- Extend --------------------------------------------------------------------------------------------------------------

-- declare shedlock_extend and shedlock_extend_all
-- declare shedlock_extend_token and shedlock_extend_token_all

-- Release -------------------------------------------------------------------------------------------------------------

-- declare shedlock_release and shedlock_release_all
-- declare shedlock_release_token and shedlock_release_token_all

-- Guard ---------------------------------------------------------------------------------------------------------------

-- declare shedlock_guard
-- declare shedlock_guard_token

-- Complete ------------------------------------------------------------------------------------------------------------

-- declare shedlock_complete and shedlock_complete_all
-- declare shedlock_complete_token and shedlock_complete_token_all

-- include Ticks

-- Run -----------------------------------------------------------------------------------------------------------------

-- declare shedlock_run

-- Intervene -----------------------------------------------------------------------------------------------------------

-- declare shedlock_force_release
-- declare shedlock_forget
-- declare shedlock_pause
-- declare shedlock_resume

-- See -----------------------------------------------------------------------------------------------------------------

-- declare shedlock_session_alive: VOLATILE PARALLEL SAFE
-- declare shedlock_inspect

CREATE FUNCTION shedlock_after_pg_upgrade() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_after_pg_upgrade() IS
'Makes pg_dump restore the lock table before the extension, when shedlock_doctor reports that pg_dump does not know '
'this order: pg_upgrade loses it.';

CREATE VIEW shedlock_link AS SELECT FROM shedlock;
COMMENT ON VIEW shedlock_link IS
'For the functions: leads to the lock table wherever it is. It is never read.';

-- declare shedlock_rows

-- include Locks

-- declare shedlock_stats_rows: VOLATILE PARALLEL SAFE

CREATE VIEW shedlock_stats AS SELECT * FROM shedlock_stats_rows();

-- declare shedlock_stats_reset

CREATE FUNCTION shedlock_version(OUT edition text, OUT version text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT 'extension', '1.0' $$;

-- declare shedlock_history

-- include Doctor

-- include Protect

-- Creates and drops the trigger with the rights of the functions' owner, because the table may belong to another role.
-- declare shedlock_protect: VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp

-- As shedlock_protect. The caller does not choose in which tablespace the functions' owner makes an index.
-- declare shedlock_keep_history: VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET default_tablespace = ''

-- include Grant

-- include Comments

-- Reports a second table, although CREATE EXTENSION silences notices while its script runs. If our table already has
-- locks, nothing is reported, because then it is the other table that is superfluous. Other findings of the doctor were
-- reported already, or do not concern this script.
DO $$
DECLARE
    usual CONSTANT text := pg_catalog.current_setting('search_path');
    lock_table CONSTANT regclass := pg_catalog.format('%I.shedlock', pg_catalog.current_schema())::regclass;
-- include Second
    has_locks boolean;
    complaint record;
BEGIN
    EXECUTE pg_catalog.format('SELECT EXISTS (SELECT FROM %s)', lock_table) INTO has_locks;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR complaint IN EXECUTE 'SELECT * FROM (' || second_table || ') c (severity, finding, hint)' USING lock_table LOOP
        CONTINUE WHEN has_locks;
        PERFORM set_config('client_min_messages', 'notice', true);
        RAISE NOTICE '%', complaint.finding USING HINT = complaint.hint;
    END LOOP;
    PERFORM pg_catalog.set_config('search_path', usual, true);
END
$$;

-- Privileges ----------------------------------------------------------------------------------------------------------

-- By default any role may execute a new function, and default privileges may give other roles rights to functions and
-- views. Here only the role that creates the extension has rights, and may pass them on with shedlock_grant. In a
-- trusted installation it needs them, because the objects belong to a superuser.
DO $$
DECLARE
    member record;
    privileged text;
BEGIN
    FOR member IN
        SELECT o.signature, o.usual, o.owner, o.acl
          FROM (SELECT p.tableoid, p.oid, pg_catalog.format('ROUTINE %s', p.oid::regprocedure) AS signature,
                       'EXECUTE' AS usual, p.proowner AS owner,
                       COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner)) AS acl FROM pg_catalog.pg_proc p
                UNION ALL
                SELECT c.tableoid, c.oid, pg_catalog.format('TABLE %s', c.oid::regclass),
                       CASE WHEN c.relname OPERATOR(pg_catalog.=) ANY (
                                     ARRAY['shedlock_locks', 'shedlock_stats']::name[])
                            THEN 'SELECT' END,
                       c.relowner, c.relacl FROM pg_catalog.pg_class c WHERE c.relkind OPERATOR(pg_catalog.=) 'v') o
               JOIN pg_catalog.pg_depend d
                 ON d.classid OPERATOR(pg_catalog.=) o.tableoid AND d.objid OPERATOR(pg_catalog.=) o.oid
               JOIN pg_catalog.pg_extension e
                 ON d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.refobjid OPERATOR(pg_catalog.=) e.oid
         WHERE d.deptype OPERATOR(pg_catalog.=) 'e' AND e.extname OPERATOR(pg_catalog.=) 'shedlock'
    LOOP
        FOR privileged IN SELECT DISTINCT CASE a.grantee WHEN 0::oid THEN 'PUBLIC' ELSE a.grantee::regrole::text END
                            FROM pg_catalog.aclexplode(member.acl) a
                           WHERE a.grantee OPERATOR(pg_catalog.<>) member.owner LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s', member.signature, privileged);
        END LOOP;
        IF member.usual IS NOT NULL THEN
            EXECUTE pg_catalog.format('GRANT %s ON %s TO %s', member.usual, member.signature, $owner$@extowner@$owner$);
        END IF;
    END LOOP;
END
$$;

-- Grants what the portable edition had granted, and drops it.
DO $$
DECLARE
    home CONSTANT regnamespace := pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace;
    -- As at the beginning, only functions of the role that creates the extension, because any role can give functions
    -- these names.
    portable CONSTANT oid := (SELECT p.proowner FROM pg_catalog.pg_proc p
                               WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid
                                 AND p.proname OPERATOR(pg_catalog.=) 'portable shedlock_version'
                                 AND p.proowner OPERATOR(pg_catalog.=) $owner$@extowner@$owner$::regrole::oid);
    thing record;
    needed_by text;
BEGIN
    IF portable IS NULL THEN
        RETURN;
    END IF;
    FOR thing IN
        SELECT a.grantee AS role,
               pg_catalog.bool_or(p.proname OPERATOR(pg_catalog.=) 'portable shedlock_pause') AS admin,
               pg_catalog.bool_and(p.proname OPERATOR(pg_catalog.=) 'portable shedlock_rows') AS read_only
          FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
         WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid AND p.proowner OPERATOR(pg_catalog.=) portable
           AND p.proname OPERATOR(pg_catalog.=) ANY (
                   ARRAY['portable shedlock_rows', 'portable shedlock_end_wait', 'portable shedlock_pause']::name[])
           AND a.grantee OPERATOR(pg_catalog.<>) 0::oid AND a.grantee OPERATOR(pg_catalog.<>) p.proowner
         GROUP BY 1
    LOOP
        PERFORM shedlock_grant(pg_catalog.pg_get_userbyid(thing.role)::text, thing.admin, false, thing.read_only);
    END LOOP;
    IF EXISTS (SELECT FROM pg_catalog.pg_proc p
                WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid
                  AND p.proname OPERATOR(pg_catalog.=) 'portable shedlock_protect_row'
                  AND p.proowner OPERATOR(pg_catalog.=) portable
                  AND pg_catalog.obj_description(p.oid, 'pg_proc') OPERATOR(pg_catalog.=) 'was on') THEN
        PERFORM shedlock_protect(true);
    END IF;
    FOR thing IN -- the doctor needs the views, which need other functions
        SELECT 'VIEW' AS kind, false AS is_last, pg_catalog.string_agg(c.oid::regclass::text, ', ') AS signatures
          FROM pg_catalog.pg_class c
         WHERE c.relnamespace OPERATOR(pg_catalog.=) home::oid AND c.relowner OPERATOR(pg_catalog.=) portable
           AND pg_catalog.starts_with(c.relname, 'portable shedlock_')
        UNION ALL
        SELECT 'ROUTINE', p.proname OPERATOR(pg_catalog.!~) '_(doctor|findings)$',
               pg_catalog.string_agg(p.oid::regprocedure::text, ', ')
          FROM pg_catalog.pg_proc p
         WHERE p.pronamespace OPERATOR(pg_catalog.=) home::oid AND p.proowner OPERATOR(pg_catalog.=) portable
           AND pg_catalog.starts_with(p.proname, 'portable shedlock_')
         GROUP BY 2
        ORDER BY is_last, kind
    LOOP
        EXECUTE pg_catalog.format('DROP %s %s', thing.kind, thing.signatures);
    END LOOP;
    -- Calls of the old functions that are still running use this type.
    ALTER EXTENSION shedlock ADD TYPE shedlock__row;
EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS needed_by = PG_EXCEPTION_DETAIL;
    IF needed_by OPERATOR(pg_catalog.=) '' THEN -- no list of objects: an extension owns it
        RAISE dependent_objects_still_exist
            USING MESSAGE = 'cannot take over the portable edition of shedlock: '
                            'it belongs to extension shedlock_portable',
                  HINT = 'Keep the table with ALTER EXTENSION shedlock_portable DROP TABLE shedlock, '
                         'drop that extension, and create this one.';
    END IF;
    RAISE dependent_objects_still_exist
        USING MESSAGE = 'cannot take over the portable edition of shedlock: other objects depend on it',
              DETAIL = pg_catalog.regexp_replace(needed_by, '"portable (shedlock_[a-z_]+)"', '\1', 'g'),
              HINT = 'Drop them, create the extension, and create them again.';
END
$$;
