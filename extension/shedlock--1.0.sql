\echo Use "CREATE EXTENSION shedlock" to load this file. \quit

-- This script may run as a superuser on behalf of somebody who is not (trusted = true), in a schema in which others may
-- have put functions and operators. So every name is qualified, or resolved in pg_catalog by an exact match of types.

-- The table: made, or adopted if a Java team's migration has made it.
CREATE FUNCTION shedlock_make_or_adopt_table() RETURNS void
    LANGUAGE c AS 'MODULE_PATHNAME';
SELECT shedlock_make_or_adopt_table();
DROP FUNCTION shedlock_make_or_adopt_table();

-- Acquire --------------------------------------------------------------------------------------------------------------

CREATE FUNCTION shedlock_acquire(
    name text,
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_acquire(text, interval, interval, interval, timestamptz) IS
'Acquires a lock for this session: true, and it is held until at_most has passed or it is released; false, refused, and nothing was written. Never waits for another transaction; with wait it tries again for that long.';

CREATE FUNCTION shedlock_acquire(
    name text[],
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shedlock_acquire_all';
COMMENT ON FUNCTION shedlock_acquire(text[], interval, interval, interval, timestamptz) IS
'Acquires several locks for this session: all or none.';

CREATE FUNCTION shedlock_acquire_token(
    name text,
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL,
    holder text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_acquire_token(text, interval, interval, interval, timestamptz, text) IS
'Acquires a lock for whoever has the token it returns, in any session; NULL: refused. The tokens of a name strictly grow. holder is text for people, by default application_name@client_addr.';

CREATE FUNCTION shedlock_acquire_token(
    name text[],
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL,
    holder text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shedlock_acquire_token_all';
COMMENT ON FUNCTION shedlock_acquire_token(text[], interval, interval, interval, timestamptz, text) IS
'Acquires several locks, all or none, with one common token.';

-- Extend ---------------------------------------------------------------------------------------------------------------

CREATE FUNCTION shedlock_extend(name text, at_most interval, at_least interval DEFAULT NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_extend(text, interval, interval) IS
'Lets a lock of this session last for at_most from now, and if at_least is given keeps it that long from now. False, with a WARNING that says why, when it is not ours and live; nothing is changed then.';

CREATE FUNCTION shedlock_extend(name text[], at_most interval, at_least interval DEFAULT NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shedlock_extend_all';
COMMENT ON FUNCTION shedlock_extend(text[], interval, interval) IS
'Extends several locks of this session: all or none.';

CREATE FUNCTION shedlock_extend_token(name text, token bigint, at_most interval, at_least interval DEFAULT NULL)
    RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_extend_token(text, bigint, interval, interval) IS
'Extends the acquisition that has this token. False, with a WARNING that says why, when it is not live.';

CREATE FUNCTION shedlock_extend_token(name text[], token bigint, at_most interval, at_least interval DEFAULT NULL)
    RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shedlock_extend_token_all';
COMMENT ON FUNCTION shedlock_extend_token(text[], bigint, interval, interval) IS
'Extends several locks that were acquired together with this token: all or none.';

-- Release --------------------------------------------------------------------------------------------------------------

CREATE FUNCTION shedlock_release(name text) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_release(text) IS
'Releases a lock of this session: it is free now, or when its at_least has passed. False, with a WARNING that says why, when it is not ours and live; nothing is changed then.';

CREATE FUNCTION shedlock_release(name text[]) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shedlock_release_all';
COMMENT ON FUNCTION shedlock_release(text[]) IS
'Releases several locks of this session: all or none.';

CREATE FUNCTION shedlock_release_token(name text, token bigint) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_release_token(text, bigint) IS
'Releases the acquisition that has this token. False, with a WARNING that says why, when it is not live.';

CREATE FUNCTION shedlock_release_token(name text[], token bigint) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shedlock_release_token_all';
COMMENT ON FUNCTION shedlock_release_token(text[], bigint) IS
'Releases several locks that were acquired together with this token: all or none.';

-- Guard ----------------------------------------------------------------------------------------------------------------

CREATE FUNCTION shedlock_guard(name text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_guard(text) IS
'From here on this transaction commits, or is prepared, only if no other acquisition of that lock has happened since this session''s. SQLSTATE SL001, at once or at the end, if one has.';

CREATE FUNCTION shedlock_guard_token(name text, token bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_guard_token(text, bigint) IS
'From here on this transaction commits, or is prepared, only if no other acquisition of that lock has happened since the one that has this token. SQLSTATE SL001, at once or at the end, if one has.';

-- See ------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION shedlock_session_alive(pid integer, backend_start bigint) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shedlock_session_alive(integer, bigint) IS
'For the view shedlock_locks: whether the backend with this pid and start, in microseconds since 1970, still runs. NULL on a standby.';

CREATE VIEW shedlock_locks AS
SELECT
    l.name,
    CASE
        WHEN l.lock_until OPERATOR(pg_catalog.<=) c.now THEN 'free'::pg_catalog.text
        WHEN l.lock_until OPERATOR(pg_catalog.=) 'infinity'::pg_catalog.timestamp THEN 'paused'::pg_catalog.text
        WHEN o.owner IS NOT NULL AND l.lock_at_least_until IS NULL THEN 'kept'::pg_catalog.text
        ELSE 'held'::pg_catalog.text
    END AS state,
    pg_catalog.regexp_replace(l.locked_by::pg_catalog.text, '[/#][0-9.]+$'::pg_catalog.text, ''::pg_catalog.text) AS holder,
    CASE WHEN pg_catalog.isfinite(l.locked_at)
        THEN (EXTRACT(epoch FROM l.locked_at) OPERATOR(pg_catalog.*) 1000000::pg_catalog.numeric)::pg_catalog.int8
    END AS token,
    pg_catalog.timezone('UTC'::pg_catalog.text, l.locked_at) AS locked_at,
    pg_catalog.timezone('UTC'::pg_catalog.text, l.lock_until) AS lock_until,
    CASE WHEN l.lock_until OPERATOR(pg_catalog.>) c.now AND pg_catalog.isfinite(l.lock_until)
        THEN l.lock_until OPERATOR(pg_catalog.-) c.now
    END AS remaining,
    CASE WHEN l.lock_until OPERATOR(pg_catalog.>) c.now AND pg_catalog.isfinite(l.locked_at)
              AND (o.owner IS NULL OR l.lock_at_least_until IS NOT NULL)
        THEN GREATEST(c.now OPERATOR(pg_catalog.-) l.locked_at, '0'::pg_catalog.interval)
    END AS held_for,
    o.owner[1]::pg_catalog.int4 AS holder_pid,
    shedlock_session_alive(o.owner[1]::pg_catalog.int4, o.owner[2]::pg_catalog.int8) AS holder_alive,
    CASE WHEN l.lock_until OPERATOR(pg_catalog.<=) c.now AND pg_catalog.isfinite(l.lock_until) AND pg_catalog.isfinite(l.locked_at)
        THEN GREATEST(l.lock_until OPERATOR(pg_catalog.-) l.locked_at, '0'::pg_catalog.interval)
    END AS last_duration
FROM shedlock l
    -- The clock is read once for the whole query: OFFSET keeps the planner from reading it once per use.
    CROSS JOIN (SELECT pg_catalog.timezone('UTC'::pg_catalog.text, pg_catalog.clock_timestamp()) AS now OFFSET 0) c
    -- The end that every locked_by of ours has: {pid, start} of a session, or {NULL, NULL} for a token.
    CROSS JOIN LATERAL (
        SELECT pg_catalog.regexp_match(l.locked_by::pg_catalog.text,
                                       '(?:/([0-9]{1,9})[.]([0-9]{1,18})|#[0-9]+)$'::pg_catalog.text) AS owner
        OFFSET 0
    ) o;
COMMENT ON VIEW shedlock_locks IS
'A row per lock. state: held, kept (released, but within its at_least), free, or paused. Times by the server''s clock; token is what shedlock_acquire_token returned; holder_pid and holder_alive tell of the session that holds it; last_duration is how long the last holder had it, at_least included.';

-- Privileges -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION shedlock_grant(role text, admin boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    for_administrators CONSTANT name[] := ARRAY['shedlock_grant'];
    home name;
    routine record;
BEGIN
    IF shedlock_grant.role IS NULL OR shedlock_grant.admin IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role and admin must not be NULL';
    END IF;
    SELECT nspname INTO STRICT home
      FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'shedlock';
    FOR routine IN
        SELECT p.oid::regprocedure AS signature
          FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
         WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
           AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shedlock')
           AND (shedlock_grant.admin OR p.proname <> ALL (for_administrators))
         ORDER BY 1
    LOOP
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', routine.signature, shedlock_grant.role);
    END LOOP;
    EXECUTE format('GRANT SELECT ON %I.shedlock_locks TO %I', home, shedlock_grant.role);
    IF NOT has_schema_privilege(shedlock_grant.role, home, 'USAGE') THEN
        RAISE NOTICE 'role "%" cannot look into schema "%" yet', shedlock_grant.role, home
            USING HINT = format('GRANT USAGE ON SCHEMA %I TO %I', home, shedlock_grant.role);
    END IF;
END
$$;
COMMENT ON FUNCTION shedlock_grant(text, boolean) IS
'Lets a role use the lock functions and read the views; with admin also the administrators'' functions. Nobody else may but superusers and whoever created the extension.';

-- Functions come executable for everybody. Whoever creates the extension keeps that right, and may pass it on by
-- shedlock_grant; it matters in a trusted installation, whose objects belong to a superuser.
DO $$
DECLARE
    routine record;
BEGIN
    FOR routine IN
        SELECT p.oid::pg_catalog.regprocedure AS signature
          FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) d.objid
         WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
           AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
           AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
           AND d.refobjid OPERATOR(pg_catalog.=) (SELECT e.oid FROM pg_catalog.pg_extension e
                                                   WHERE e.extname OPERATOR(pg_catalog.=) 'shedlock'::pg_catalog.name)
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine.signature);
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO %s', routine.signature, $owner$@extowner@$owner$);
    END LOOP;
END
$$;
GRANT SELECT ON shedlock_locks TO @extowner@;
