-- ShedLock for PostgreSQL, portable edition 1.0: the functions of the extension, in plain SQL and PL/pgSQL, for servers
-- where no library can be loaded. Same names, arguments, table and SQLSTATEs; docs/portable.md says what it cannot
-- promise.
--
--     psql -v ON_ERROR_STOP=1 -f shedlock.sql
--     psql -c "SELECT shedlock_grant('app')"
--
-- Run it on PostgreSQL 15 or later (14 is accepted, but not supported), as any role that may create functions and a
-- table in the current schema. No other role may create anything there. Running the file again updates the functions
-- and leaves the table and its locks alone. A table shedlock that Java made is adopted if the role that runs this owns
-- it. CREATE EXTENSION shedlock takes over if the same role runs it in the same schema.
--
-- Most functions act with their owner's rights, so no code of another role may ever run in them:
-- * Each of those has a search_path of its own, which has only pg_catalog and, last, pg_temp. Functions whose names
--   begin with shedlock__ are called only by these.
-- * A call of a function of ours passes every argument, each of exactly the declared type: literals and NULLs are cast.
--   PostgreSQL then never runs an overload instead. One that has further arguments with defaults makes the call
--   ambiguous, so that it fails. (test/tap/hostile.pl plants such overloads.)
-- * The statements of the file itself look names up in pg_catalog, and after it at most in the schema, in which no
--   other role may create anything.
-- The lock table may have further columns of any name. So in functions that read it a variable wins
-- (#variable_conflict).
-- UTC is never written by its name, which PostgreSQL 18 looks up in the session's TimeZone first: with SET TimeZone =
-- 'UTC-3' it is three hours off.
-- An argument may have a collation that conflicts with that of a column. So it is given the default one, which gives
-- way.
-- The last block replaces @extschema@ with the schema, and @here@ with a test that the function still is in that
-- schema: all the names would otherwise lead to whatever schema has that name.
--
-- What stands between "-- shared: NAME" and "-- end: NAME" belongs to both editions: make copies it to where
-- extension/shedlock.sql says "-- include NAME". There CREATE OR REPLACE becomes CREATE, '@extschema@' becomes a
-- lookup, because the extension may be moved to another schema, and @here@ vanishes. The declarations of the other
-- functions, with their arguments and defaults, are copied to "-- declare NAME". There, too, code that runs with rights
-- that its caller does not have looks up no name outside pg_catalog: PostgreSQL looks a name up again after it has
-- waited for a lock on what the name meant, and then the name may mean something else (test/tap/rights.pl). GRANT and
-- REVOKE take only names, so what they did is checked afterwards.

BEGIN;
SET LOCAL check_function_bodies = off;
SET LOCAL quote_all_identifiers = off;

-- Table ---------------------------------------------------------------------------------------------------------------

-- Every name in this block is qualified, because search_path is still the caller's.
DO $$
BEGIN
    -- otherwise the functions would go to the workers, and the table would not
    IF pg_catalog.current_setting('citus.version', true) IS NOT NULL THEN
        PERFORM pg_catalog.set_config('citus.enable_metadata_sync', 'off', true);
    END IF;
    PERFORM pg_catalog.set_config('shedlock_portable.home',
        COALESCE(pg_catalog.current_schema()::pg_catalog.text, ''), true);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;

DO $$
DECLARE
    schema_name CONSTANT text := current_setting('shedlock_portable.home');
    home CONSTANT text := quote_ident(schema_name);
    -- From PostgreSQL 16 on, a member WITH INHERIT FALSE, SET FALSE cannot act as the role.
    to_act CONSTANT text := CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER'
                                 ELSE 'USAGE, SET, MEMBER WITH ADMIN OPTION' END;
    existing regclass;
    table_owner regrole;
    found record;
    creators text;
    missing text;
BEGIN
    IF current_setting('server_version_num')::int < 140000 THEN
        RAISE feature_not_supported USING MESSAGE = 'the portable edition of shedlock needs PostgreSQL 14 or later';
    ELSIF schema_name = '' THEN
        RAISE invalid_schema_name USING MESSAGE = 'there is no current schema',
            HINT = 'Set search_path to the schema in which shedlock is to be.';
    ELSIF schema_name !~ '^[[:alnum:]_ .-]+$' THEN -- the name becomes part of the functions
        RAISE invalid_schema_name USING MESSAGE = format(
                'the name of schema %s has characters other than letters, digits, blanks, "_", "." and "-"', home),
            HINT = 'Set search_path to a schema with a simpler name.';
    ELSIF EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock' AND extnamespace = home::regnamespace) THEN
        RAISE duplicate_object
            USING MESSAGE = 'the extension shedlock is installed in this schema, and can do all of this';
    END IF;

    PERFORM set_config('shedlock_portable.existing', (
        SELECT string_agg(concat(o.tableoid, '.', o.oid), ' ') FROM (
            SELECT tableoid, oid FROM pg_proc WHERE pronamespace = home::regnamespace
            UNION ALL
            SELECT tableoid, oid FROM pg_class WHERE relnamespace = home::regnamespace) o), true);
    existing := to_regclass(home || '.shedlock');
    -- The owner of the table can change the locks at will, and can attach code to it that the functions would run.
    table_owner := (SELECT relowner FROM pg_class WHERE oid = existing);
    IF table_owner <> quote_ident(current_user)::regrole THEN
        RAISE insufficient_privilege
            USING MESSAGE = format('cannot adopt table %s: it belongs to role %s, not to %s',
                                   existing, table_owner, quote_ident(current_user)::regrole),
                  HINT = format('SET ROLE %s, or use another schema.', table_owner);
    END IF;
    -- CREATE OR REPLACE would leave a function with its owner, who could then change it.
    SELECT o.what, o.owner::regrole AS owner INTO found FROM (
        SELECT 'routine ' || p.oid::regprocedure AS what, p.proowner AS owner FROM pg_proc p
         WHERE p.pronamespace = home::regnamespace AND starts_with(p.proname, 'shedlock_')
        UNION ALL
        SELECT 'relation ' || c.oid::regclass, c.relowner FROM pg_class c
         WHERE c.relnamespace = home::regnamespace AND starts_with(c.relname, 'shedlock_')
        UNION ALL
        SELECT 'type ' || t.oid::regtype, t.typowner FROM pg_type t
         WHERE t.typnamespace = home::regnamespace
           AND (t.typname = 'shedlock' OR starts_with(t.typname, 'shedlock_'))) o
     WHERE o.owner <> quote_ident(current_user)::regrole ORDER BY o.what LIMIT 1;
    IF found.what IS NOT NULL THEN
        RAISE insufficient_privilege
            USING MESSAGE = format('cannot install shedlock in schema %s: %s belongs to role %s, not to %s',
                                   home, found.what, found.owner, quote_ident(current_user)::regrole),
                  HINT = format(
                      'SET ROLE %s if that role installed shedlock; otherwise drop it, or use another schema.',
                      found.owner);
    END IF;
    -- A role that may create functions in the same schema could make calls of ours ambiguous, so that no lock can be
    -- acquired. The owner of the schema could replace our functions, and so act as their owner.
    creators := (SELECT string_agg(r.role, ', ' ORDER BY r.role) FROM (
        SELECT 'PUBLIC' AS role WHERE has_schema_privilege('public', home::regnamespace, 'CREATE')
        UNION ALL
        SELECT r.oid::regrole::text FROM pg_roles r -- the owner of the database is a member of pg_database_owner
         WHERE NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
           AND (has_schema_privilege(r.oid, home::regnamespace, 'CREATE')
                    AND NOT has_schema_privilege('public', home::regnamespace, 'CREATE')
                OR pg_has_role(r.oid, (SELECT nspowner FROM pg_namespace WHERE oid = home::regnamespace), to_act))
           AND NOT pg_has_role(r.oid, current_user, to_act)) r);
    IF creators <> '' THEN
        RAISE insufficient_privilege
            USING MESSAGE = format('cannot install shedlock in schema %s: others may create objects there: %s',
                                   home, creators),
                  HINT = 'REVOKE CREATE ON SCHEMA from them, or use a schema that only the installing role may create in (CREATE SCHEMA jobs; SET search_path = jobs).';
    END IF;

    IF to_regtype(home || '.shedlock__row') IS NULL THEN
        EXECUTE format('CREATE TYPE %s.shedlock__row AS (
            name text,
            lock_until timestamp,
            locked_at timestamp,
            locked_by text,
            lock_at_least_until timestamp,
            last_tick timestamp,
            last_done_tick timestamp,
            last_done_at timestamp,
            run_tick timestamp)', home);
    END IF;
    IF existing IS NULL THEN
        -- The same table as the extension's (adoption.cpp has the reasons). Only a heap has these storage parameters.
        EXECUTE format('CREATE TABLE %s.shedlock (
            name varchar(255) COLLATE "C" PRIMARY KEY,
            lock_until timestamp NOT NULL,
            locked_at timestamp NOT NULL,
            locked_by varchar(255) NOT NULL,
            lock_at_least_until timestamp,
            last_tick timestamp,
            last_done_tick timestamp,
            last_done_at timestamp,
            run_tick timestamp)%s', home,
            CASE current_setting('default_table_access_method')
                WHEN 'heap' THEN ' WITH (fillfactor = 90, vacuum_truncate = false)' END);
        -- An event trigger may have switched on row security.
        IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = to_regclass(home || '.shedlock')) THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = 'row security is forced on the owner of every new table here',
                      HINT = format('CREATE TABLE %1$s.shedlock (name varchar(255) COLLATE "C" PRIMARY KEY,'
                                    ' lock_until timestamp NOT NULL, locked_at timestamp NOT NULL,'
                                    ' locked_by varchar(255) NOT NULL); '
                                 || 'ALTER TABLE %1$s.shedlock NO FORCE ROW LEVEL SECURITY; and run the file again.',
                                    home);
        END IF;
    ELSE
        missing := (SELECT string_agg(format('ADD COLUMN %I timestamp', w.attname), ', ' ORDER BY w.no)
                      FROM unnest(ARRAY['lock_at_least_until', 'last_tick', 'last_done_tick', 'last_done_at',
                                        'run_tick'])
                           WITH ORDINALITY w (attname, no)
                     WHERE NOT EXISTS (SELECT FROM pg_attribute a
                                        WHERE a.attrelid = existing AND a.attname = w.attname));
    END IF;
    IF missing <> '' THEN
        IF current_setting('lock_timeout') = '0' THEN
            PERFORM set_config('lock_timeout', '2s', true);
        END IF;
        BEGIN
            EXECUTE format('ALTER TABLE %s %s', existing, missing);
        EXCEPTION WHEN lock_not_available THEN
            RAISE lock_not_available
                USING MESSAGE = format('cannot adopt table %s: another transaction has it locked', existing),
                      HINT = 'Run the file again when no transaction uses the table, or set lock_timeout to wait longer than 2 seconds.';
        END;
    END IF;
    PERFORM set_config('search_path', home || ', pg_temp', true); -- everything below is created there
END
$$;

-- Texts ---------------------------------------------------------------------------------------------------------------

-- A rule that several functions need is a function of its own, unless that would be too slow: in PL/pgSQL the call of a
-- function costs as much as five operators. Then it is a text, which the last block puts in the place of @NAME@ in
-- every function. A text uses the variables of the function.

-- What a shedlock__row has.
DO $do$
BEGIN
    PERFORM pg_catalog.set_config('shedlock_portable.columns', $text$s.name, s.lock_until, s.locked_at, s.locked_by,
        s.lock_at_least_until, s.last_tick, s.last_done_tick, s.last_done_at, s.run_tick$text$, true);
END
$do$;

-- is_session: whether the setting of shedlock__session is one that it may have made. Any session can set it to any
-- text. (With {1,18} the regular expression would take three times as long.) is_rest: the same test of the variable
-- `rest` in that function.
-- no_history: whether there is nothing for shedlock__record to do. history_fault: why the table `history` cannot be the
-- history; NULL if it can, or if there is none. As in extension/history_shape.cpp, except that an INSERT takes care of
-- additional columns and of other kinds of indexes, and is concerned by others' code and by forced row security.
-- foreign_code: what a default, a constraint or an index of the table t uses, although its owner does not own it.
DO $do$
DECLARE
    foreign_code CONSTANT text := $text$SELECT pg_describe_object(d.refclassid, d.refobjid, 0), f.owner::regrole
              FROM pg_depend d
                   JOIN (SELECT tableoid, oid, proowner FROM pg_proc
                         UNION ALL
                         SELECT tableoid, oid, oprowner FROM pg_operator
                         UNION ALL
                         SELECT tableoid, oid, typowner FROM pg_type) f (class, object, owner)
                     ON (f.class, f.object) = (d.refclassid, d.refobjid)
             WHERE f.owner <> @table@.relowner
               AND (d.classid = 'pg_attrdef'::regclass
                        AND d.objid IN (SELECT oid FROM pg_attrdef WHERE adrelid = @table@.oid)
                    OR d.classid = 'pg_constraint'::regclass
                        AND d.objid IN (SELECT oid FROM pg_constraint WHERE conrelid = @table@.oid)
                    OR d.classid = 'pg_class'::regclass
                        AND d.objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = @table@.oid))$text$;
    is_rest CONSTANT text := $text$rest ~ '^[0-9]+[.,][0-9a-f]{8}$' AND length(rest) < 28$text$;
BEGIN
    PERFORM pg_catalog.set_config('shedlock_portable.foreign_code',
        pg_catalog.replace(foreign_code, '@table@', 't'), true);
    PERFORM pg_catalog.set_config('shedlock_portable.is_session', pg_catalog.replace(
                is_rest, 'rest', $text$current_setting('shedlock_portable.session', true)$text$), true),
            pg_catalog.set_config('shedlock_portable.is_rest', is_rest, true);
    PERFORM pg_catalog.set_config('shedlock_portable.no_history',
        $text$to_regclass('@extschema@.shedlock_history') IS NULL$text$, true);
    PERFORM pg_catalog.set_config('shedlock_portable.history_fault', pg_catalog.replace($text$(
        SELECT f.what FROM pg_class r, LATERAL (
            SELECT 1, 'it does not belong to the owner of the lock table'
                WHERE r.relowner <> quote_ident(current_user)::regrole
            UNION ALL SELECT 2, 'it is not an ordinary table' WHERE r.relkind <> 'r' OR r.relpersistence <> 'p'
            UNION ALL SELECT 3, 'it is a partition or a typed table, or takes part in inheritance'
                WHERE r.relispartition OR r.relhassubclass OR r.reloftype <> 0
                   OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = r.oid)
            UNION ALL SELECT 4, 'it has rules, triggers, foreign keys or CHECK constraints, which would not run'
                WHERE r.relhasrules OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = r.oid)
                   OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = r.oid AND contype = 'c')
            UNION ALL SELECT 5, format('role %s may put triggers on it, which would run as the functions'' owner',
                                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
                FROM aclexplode(r.relacl) a WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> r.relowner
            UNION ALL SELECT 6, 'it has row security that is forced on its owner'
                WHERE r.relrowsecurity AND r.relforcerowsecurity
            UNION ALL SELECT 7, format('index "%s" is unique, or not a plain btree', i.relname)
                FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
               WHERE x.indrelid = r.oid AND (x.indisunique OR x.indisexclusion)
            UNION ALL SELECT 8, format('column "%s" is of type %s, which is a domain or not built in', a.attname,
                                       format_type(a.atttypid, NULL))
                FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
               WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
                 AND (y.typnamespace <> 'pg_catalog'::regnamespace OR y.typtype = 'd')
            UNION ALL SELECT 9,
                    format('it uses %s of role %s, which would run as the functions'' owner', c.what, c.owner)
                FROM (@foreign_code@) c (what, owner)
            UNION ALL SELECT 10 + w.no, format('it has no column "%s" of type %s', w.name, w.type)
                FROM (VALUES (1, 'name', 'text'::regtype), (2, 'token', 'bigint'), (3, 'tick', 'timestamptz'),
                             (4, 'holder', 'text'), (5, 'acquired_at', 'timestamptz'), (6, 'ended_at', 'timestamptz'),
                             (7, 'outcome', 'text'), (8, 'detail', 'text')) w (no, name, type)
               WHERE NOT EXISTS (SELECT FROM pg_attribute a
                                  WHERE (a.attrelid, a.attname, a.atttypid, a.atttypmod) = (r.oid, w.name, w.type, -1)
                                    AND NOT a.attisdropped AND a.attgenerated = ''
                                    AND a.attidentity <> 'a')) f (no, what)
         WHERE r.oid = history ORDER BY f.no LIMIT 1)$text$,
        '@foreign_code@', pg_catalog.replace(foreign_code, '@table@', 'r')), true);
END
$do$;

-- take acquires a lock that is free beyond doubt, in a row that we have locked, with columns that hold every
-- microsecond and every character: is_exact is true. It is false if they do not, or if the UPDATE had to wait for DDL,
-- so that the clock has to be read again; then this must be undone. It is NULL if nothing was written, and then
-- shedlock__try must decide.
--
-- The usual acquire: one name, no tick, no at_least, and the last run was done. It decides only what is beyond doubt.
-- shedlock__acquire decides the rest and reports what is wrong. It also handles rows that are missing, and months,
-- whose length depends on the date, so that '2 months -60 days' is equal to '0' and is not nothing. interval_send gives
-- the microseconds (8 bytes), days (4) and months (4). In the pattern _ is any byte: less than 2283 years of
-- microseconds, less than 65536 days, no months, and nothing negative.
DO $do$
DECLARE
    take CONSTANT text := $text$UPDATE @extschema@.shedlock s
       SET lock_until = now + at_most,
           locked_at = now,
           locked_by = @holder@ || ending,
           lock_at_least_until = @kept_until@,
           run_tick = COALESCE(@asked_tick@, now)@ticks@
     WHERE s.name = lock_name AND s.lock_until <= now AND s.locked_at < now AND s.locked_by IS NOT NULL
       AND s.last_tick IS DISTINCT FROM now AND s.last_done_tick IS DISTINCT FROM now -- as in shedlock__new_token
       AND (s.lock_at_least_until > timestamp '-infinity') IS NOT TRUE -- an abandoned run has to be recorded
       AND @is_usual@
    RETURNING s.lock_until = now + at_most AND s.locked_at = now AND s.lock_at_least_until = @kept_until@
        AND clock_timestamp() AT TIME ZONE interval '0' < now + LEAST(at_most, interval '1 s') INTO is_exact;$text$;
    usual CONSTANT text := $text$IF name COLLATE "default" <> '' AND at_most >= interval '1 ms'
       AND interval_send(at_most) LIKE decode('005f5f5f5f5f5f5f00005f5f00000000', 'hex')
       AND interval_send(at_least) = interval_send('0') AND interval_send(wait) = interval_send('0')
       AND tick IS NULL AND NOT retry AND start_within IS NULL AND NOT ends_with_session THEN
        DECLARE
            -- name COLLATE "default" in the queries would not find the index
            lock_name CONSTANT text COLLATE "default" := name;
            is_refused boolean;
            now timestamp;
            token bigint;
            ending text COLLATE "default";
            is_exact boolean;
        BEGIN
            SELECT s.locked_at IS NOT NULL AND s.locked_by COLLATE "default" NOT LIKE ALL ('{%!%,%&%}') INTO is_refused
              FROM @extschema@.shedlock s
             WHERE s.name = lock_name AND s.lock_until > clock_timestamp() AT TIME ZONE interval '0';
            IF NOT FOUND THEN
                BEGIN -- as in shedlock__try
                    PERFORM FROM @extschema@.shedlock s WHERE s.name = lock_name FOR NO KEY UPDATE SKIP LOCKED;
                    IF FOUND THEN
                        now := clock_timestamp() AT TIME ZONE interval '0';
                        @identify@
                        @take@
                        IF is_exact AND current_setting('synchronous_commit') = 'on' THEN
                            RETURN @granted@;
                        ELSIF is_exact THEN
                            PERFORM @extschema@.shedlock__require_durability();
                            RETURN @granted@;
                        ELSIF is_exact IS NULL THEN -- the row stays locked (see shedlock__try)
                            token := @extschema@.shedlock__acquire(ARRAY[lock_name], at_most, at_least, wait, tick,
                                retry, start_within, @kind@::text, holder COLLATE "default");
                            is_exact := true;
                            IF token IS NOT NULL THEN
                                RETURN @granted@;
                            END IF;
                        END IF;
                    END IF;
                    RAISE SQLSTATE 'SL0NO';
                EXCEPTION WHEN SQLSTATE 'SL0NO' OR lock_not_available OR serialization_failure OR deadlock_detected
                     OR string_data_right_truncation OR datetime_field_overflow OR read_only_sql_transaction THEN
                    NULL;
                END;
            ELSIF is_refused -- it is false if the session may be gone
                  AND current_setting('transaction_read_only') = 'off' THEN
                RETURN @refused@;
            END IF;
        END;
    END IF;$text$;
    default_holder CONSTANT text :=
        $text$concat(COALESCE(NULLIF(current_setting('application_name'), ''), session_user),
                     '@', COALESCE(host(inet_client_addr()), '[local]'))$text$;
    short_holder CONSTANT text := $text$left(COALESCE(NULLIF(holder, ''), @default@), 255 - length(ending))$text$;
    part record;
BEGIN
    PERFORM pg_catalog.set_config('shedlock_portable.take', take, true),
            pg_catalog.set_config('shedlock_portable.default_holder', default_holder, true),
            pg_catalog.set_config('shedlock_portable.usual_acquire', usual, true),
            pg_catalog.set_config('shedlock_portable.usual_acquire_token', usual, true);
    FOR part IN
        SELECT * FROM (VALUES
            ('take', 'holder', short_holder),
            ('take', 'default', default_holder),
            ('take', 'kept_until', $text$now + at_least$text$),
            ('take', 'asked_tick', 'asked_tick'),
            ('take', 'ticks', $text$,
           last_tick = COALESCE(asked_tick, s.last_tick),
           last_done_tick = CASE WHEN s.locked_at <= s.last_done_tick THEN s.last_done_tick
                                 ELSE @extschema@.shedlock__with_java(
                                      s.last_done_tick, s.locked_by::text COLLATE "default", s.locked_at) END$text$),
            ('take', 'is_usual',
             $text$(asked_tick IS NULL
            OR asked_tick > GREATEST(s.last_tick, s.last_done_tick, s.locked_at) AND asked_tick <> now)$text$),
            ('usual_acquire', 'take', take),
            ('usual_acquire', 'identify',
             $text$ending := concat('/', pg_backend_pid(), '.', current_setting('shedlock_portable.session', true), ':',
                                         (extract(epoch FROM now) * 1000000)::bigint);$text$),
            ('usual_acquire', 'holder', default_holder),
            ('usual_acquire', 'kept_until', 'now'),
            ('usual_acquire', 'asked_tick', 'NULL::timestamp'),
            ('usual_acquire', 'ticks', ''),
            -- Before the first call of shedlock__session there is no such setting.
            ('usual_acquire', 'is_usual', $text$s.locked_at <= s.last_done_tick AND @is_session@$text$),
            ('usual_acquire', 'granted', 'is_exact'),
            ('usual_acquire', 'refused', 'false'),
            ('usual_acquire', 'kind', $text$':'$text$),
            ('usual_acquire_token', 'take', take),
            ('usual_acquire_token', 'identify', $text$token := (extract(epoch FROM now) * 1000000)::bigint;
                        ending := '#' || token;$text$),
            ('usual_acquire_token', 'holder', short_holder),
            ('usual_acquire_token', 'default', default_holder),
            ('usual_acquire_token', 'kept_until', 'now'),
            ('usual_acquire_token', 'asked_tick', 'NULL::timestamp'),
            ('usual_acquire_token', 'ticks', ''),
            ('usual_acquire_token', 'is_usual',
             $text$s.locked_at <= s.last_done_tick AND current_setting('citus.version', true) IS NULL$text$),
            ('usual_acquire_token', 'granted', 'token'),
            ('usual_acquire_token', 'refused', 'NULL'),
            ('usual_acquire_token', 'kind', $text$'#'$text$)) v (name, mark, form)
    LOOP
        PERFORM pg_catalog.set_config('shedlock_portable.' || part.name,
            pg_catalog.replace(pg_catalog.current_setting('shedlock_portable.' || part.name),
                               '@' || part.mark || '@', part.form), true);
    END LOOP;
END
$do$;

-- The usual extend.
DO $do$
BEGIN
    PERFORM pg_catalog.set_config('shedlock_portable.usual_extend', $text$
    IF name COLLATE "default" <> '' AND at_most >= interval '1 ms' AND at_most <= interval '52000000 days'
       AND date_trunc('month', at_most) = interval '0' AND at_least IS NULL AND NOT nowait
       AND current_setting('transaction_read_only') = 'off' THEN
        IF @extschema@.shedlock__extend_one(name COLLATE "default", kind, token, at_most) THEN
            RETURN true;
        END IF;
    END IF;
$text$, true);
END
$do$;

-- The usual release: done, and at_least has passed. The clock is read before the row is locked, as in
-- shedlock__extend_one. Everything else is left to shedlock__change, also a locked_at that is no token, which is an
-- error here. The session's setting becomes part of a pattern, so it must have no wildcards; and no slash, because the
-- last slash of locked_by is the one before the process id.
DO $do$
DECLARE
    usual CONSTANT text := $text$
    IF done AND @is_usual@ AND name COLLATE "default" <> '' THEN
        DECLARE
            lock_name CONSTANT text COLLATE "default" := name;
            now CONSTANT timestamp := clock_timestamp() AT TIME ZONE interval '0';
            is_exact boolean;
            has_ticks boolean;
        BEGIN -- as in shedlock__change
            UPDATE @extschema@.shedlock s
               SET lock_until = now,
                   lock_at_least_until = NULL,
                   last_done_tick = GREATEST(s.last_done_tick, COALESCE(s.run_tick, s.last_tick)),
                   last_done_at = now
             WHERE s.name = lock_name AND s.lock_until > now + interval '1 s' AND s.lock_until < timestamp 'infinity'
               AND s.lock_at_least_until > timestamp '-infinity' AND s.lock_at_least_until < now
               AND @is_owner@
            RETURNING s.lock_until = now AND clock_timestamp() AT TIME ZONE interval '0' < now + interval '1 s',
                s.last_tick IS NOT NULL INTO is_exact, has_ticks;
            IF is_exact AND NOT has_ticks AND @no_history@ THEN
                RETURN is_exact;
            ELSIF is_exact THEN
                PERFORM @extschema@.shedlock__record(ARRAY[lock_name], 'done'::text, now, detail COLLATE "default");
                IF has_ticks THEN
                    PERFORM @extschema@.shedlock__require_durability();
                END IF;
                RETURN is_exact;
            END IF;
            RAISE SQLSTATE 'SL0NO';
        EXCEPTION WHEN SQLSTATE 'SL0NO' OR read_only_sql_transaction OR feature_not_supported
             OR numeric_value_out_of_range THEN
            NULL;
        END;
    END IF;
$text$;
BEGIN
    PERFORM pg_catalog.set_config('shedlock_portable.usual_release',
        replace(replace(usual, '@is_usual@', 'true'), '@is_owner@',
            $text$s.locked_by COLLATE "default" LIKE concat('%/', pg_backend_pid(), '.',
                   translate(current_setting('shedlock_portable.session', true), E'%_\\/', '!!!!'), ':',
                   (extract(epoch FROM s.locked_at) * 1000000)::bigint)$text$), true);
    PERFORM pg_catalog.set_config('shedlock_portable.usual_release_token',
        replace(replace(usual,
            '@is_usual@', $text$NOT nowait AND current_setting('citus.version', true) IS NULL$text$),
            '@is_owner@', $text$s.locked_by COLLATE "default" LIKE '%#' || token
               AND (extract(epoch FROM s.locked_at) * 1000000)::bigint = token$text$), true);
END
$do$;

-- Arguments -----------------------------------------------------------------------------------------------------------

-- By this, before PostgreSQL 16, each function that users call sees that it is in the schema for which it was written
-- (see the last block).
CREATE OR REPLACE FUNCTION shedlock__here() RETURNS void
    LANGUAGE sql AS $$ $$;

-- These check arguments, and fail with the extension's error. A function that is named after an argument also returns
-- it, in the form that the rest of the file uses.

CREATE OR REPLACE FUNCTION shedlock__require_writable(function text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction USING MESSAGE = format('cannot execute %s on a standby', function),
            HINT = 'Connect to the primary, for example with target_session_attrs=read-write.';
    ELSIF current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction
            USING MESSAGE = format('cannot execute %s in a read-only transaction', function),
                  HINT = 'Use SET TRANSACTION READ WRITE, and look at default_transaction_read_only.';
    END IF;
END
$$;

-- RAISE cannot leave out a detail or hint that is empty.
CREATE OR REPLACE FUNCTION shedlock_raise(code text, message text, detail text, hint text, is_warning boolean)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF is_warning AND hint <> '' THEN
        RAISE WARNING USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
        RETURN;
    ELSIF is_warning THEN
        RAISE WARNING USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
        RETURN;
    ELSIF detail <> '' AND hint <> '' THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
    ELSIF detail <> '' THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
    ELSIF hint <> '' THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__require(is_given boolean, argument text, hint text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT is_given THEN
        PERFORM @extschema@.shedlock_raise('22004'::text, argument || ' must not be NULL', ''::text, hint, false);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__name(name text) RETURNS text[]
    LANGUAGE plpgsql AS $$
BEGIN
    IF name IS NULL OR name = '' THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN name = '' THEN '22023' ELSE '22004' END,
            MESSAGE = CASE WHEN name = '' THEN 'name must not be empty' ELSE 'name must not be NULL' END;
    END IF;
    RETURN ARRAY[name];
END
$$;

-- The names, in the same order for all callers.
CREATE OR REPLACE FUNCTION shedlock__names(names text[]) RETURNS text[]
    LANGUAGE plpgsql AS $$
DECLARE
    twin text;
BEGIN
    PERFORM @extschema@.shedlock__require(names IS NOT NULL, 'name'::text, ''::text);
    IF array_ndims(names) > 1 THEN
        RAISE array_subscript_error USING MESSAGE = 'name must be an array of one dimension';
    ELSIF cardinality(names) > 1000 THEN
        RAISE program_limit_exceeded USING MESSAGE = 'name must not have more than 1000 elements',
            DETAIL = format('The array has %s elements.', cardinality(names)),
            HINT = 'Use one name for what is always locked together, or several calls.';
    ELSIF cardinality(names) = 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'name must not be an empty array';
    ELSIF array_position(names, NULL) IS NOT NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'name must not contain NULL elements';
    ELSIF '' = ANY (names) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'an element of name must not be empty';
    END IF;
    SELECT min(n COLLATE "C") INTO twin FROM (SELECT n FROM unnest(names) n GROUP BY n HAVING count(*) > 1) twins;
    IF twin IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('name must not contain "%s" twice', twin);
    END IF;
    RETURN ARRAY(SELECT n FROM unnest(names) n ORDER BY n COLLATE "C");
END
$$;

-- Requires a finite interval, and gives it without months: those are counted from now, in UTC, while PostgreSQL would
-- compare them as 30 days each. Now plus two such intervals is within the range of timestamp, even if a month has 31
-- days. Days and hours with different signs are added up.
CREATE OR REPLACE FUNCTION shedlock__span(span interval, argument text) RETURNS interval
    LANGUAGE plpgsql AS $$
DECLARE
    now CONSTANT timestamp := clock_timestamp() AT TIME ZONE interval '0';
    longest CONSTANT interval := '52083333 days 08:00:00'; -- half of the range of timestamp
    months CONSTANT int := date_part('year', span) * 12 + date_part('month', span);
BEGIN
    IF NOT isfinite(span) THEN
        RAISE invalid_parameter_value USING MESSAGE = argument || ' must be finite';
    ELSIF span + make_interval(days => months) NOT BETWEEN -longest AND longest THEN
        RAISE datetime_field_overflow USING MESSAGE = argument || ' is beyond the range of timestamp';
    ELSIF months <> 0 THEN
        RETURN now + span - now;
    END IF;
    RETURN justify_hours(span);
END
$$;

CREATE OR REPLACE FUNCTION shedlock__not_negative(span interval, argument text) RETURNS interval
    LANGUAGE plpgsql AS $$
BEGIN
    span := @extschema@.shedlock__span(span, argument);
    IF span < interval '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = argument || ' must not be negative';
    END IF;
    RETURN span;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__at_most(at_most interval) RETURNS interval
    LANGUAGE plpgsql AS $$
DECLARE
    default_at_most text := NULLIF(current_setting('shedlock.default_at_most', true), '');
BEGIN
    -- A number without a unit is milliseconds, and 0 means not set, as in the extension. Its library may be loaded
    -- here, and then it defines the setting.
    IF default_at_most ~ '^ *[0-9]+ *$' THEN
        default_at_most := default_at_most || ' ms';
    END IF;
    at_most := COALESCE(at_most, NULLIF(default_at_most::interval, interval '0'));
    PERFORM @extschema@.shedlock__require(at_most IS NOT NULL, 'at_most'::text,
        'Say how long the lock may last if nobody releases it, or set shedlock.default_at_most.'::text);
    at_most := @extschema@.shedlock__span(at_most, 'at_most'::text);
    IF at_most < interval '1 ms' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'at_most must be at least 1 millisecond';
    END IF;
    RETURN at_most;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__at_least(at_least interval, at_most interval) RETURNS interval
    LANGUAGE plpgsql AS $$
BEGIN
    at_least := @extschema@.shedlock__not_negative(at_least, 'at_least'::text);
    IF at_least > at_most THEN
        RAISE invalid_parameter_value USING MESSAGE = 'at_least must not be longer than at_most',
            HINT = 'at_least keeps the lock that long even if it is released earlier; at_most ends it even if it is not released.';
    END IF;
    RETURN at_least;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__tick(tick timestamptz, retry boolean) RETURNS timestamp
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT isfinite(tick) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'tick must be finite';
    ELSIF tick > clock_timestamp() + interval '1 minute' THEN
        RAISE invalid_parameter_value
            USING MESSAGE = 'tick must not be more than one minute ahead of the database server''s clock',
                  HINT = 'Pass the instant that the schedule meant, for example shedlock_tick(''1 hour'').';
    END IF;
    PERFORM @extschema@.shedlock__require(retry IS NOT NULL, 'retry'::text, ''::text);
    IF retry AND tick IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'retry needs a tick',
            HINT = 'It means that a tick is still due when its last run was not done.';
    END IF;
    RETURN tick AT TIME ZONE interval '0';
END
$$;

-- Until when a run for the tick may begin. NULL: at any time.
CREATE OR REPLACE FUNCTION shedlock__start_by(asked_tick timestamp, start_within interval) RETURNS timestamp
    LANGUAGE plpgsql AS $$
BEGIN
    start_within := @extschema@.shedlock__span(start_within, 'start_within'::text);
    IF start_within <= interval '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'start_within must be positive';
    ELSIF start_within IS NOT NULL AND asked_tick IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'start_within needs a tick',
            HINT = 'It is how long after its tick a run may begin.';
    END IF;
    RETURN asked_tick + start_within;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__wait(wait interval) RETURNS interval
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @extschema@.shedlock__require(wait IS NOT NULL, 'wait'::text, ''::text);
    RETURN @extschema@.shedlock__not_negative(wait, 'wait'::text);
END
$$;

CREATE OR REPLACE FUNCTION shedlock__token(token bigint) RETURNS bigint
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @extschema@.shedlock__require(token IS NOT NULL, 'token'::text,
        'A NULL token is what shedlock_acquire_token gives when the lock was refused.'::text);
    RETURN token;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__done(done boolean) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @extschema@.shedlock__require(done IS NOT NULL, 'done'::text, ''::text);
    RETURN done;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__nowait(nowait boolean) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @extschema@.shedlock__require(nowait IS NOT NULL, 'nowait'::text, ''::text);
    RETURN nowait;
END
$$;

-- For a lock that has no row. Fails if the name cannot be stored: then nobody can ever have held the lock.
CREATE OR REPLACE FUNCTION shedlock__require_storable(name text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    room CONSTANT int := (SELECT name_limit FROM @extschema@.shedlock__columns());
BEGIN
    PERFORM @extschema@.shedlock__name(name);
    IF left(name, 1) = '{' AND right(name, 1) = '}' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('name is an array literal: "%s"', name),
            HINT = 'Where a function takes several names, cast them to text[]: $1::text[]. No lock has this as its own name.';
    ELSIF length(name) > room THEN
        RAISE string_data_right_truncation
            USING MESSAGE = format('name is %s characters long, but the lock table''s column holds %s',
                                   length(name), room),
                  DETAIL = format('The name begins with "%s".', left(name, 40));
    END IF;
END
$$;

-- For a name whose row was not found. 22001 or 22023 if no row can have it. In REPEATABLE READ and above, 40001 if
-- another transaction has committed the row since this transaction's snapshot: an INSERT, which is undone, finds that
-- out.
CREATE OR REPLACE FUNCTION shedlock__require_absent(name text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @extschema@.shedlock__require_storable(name);
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        BEGIN
            PERFORM @extschema@.shedlock__make_rows(ARRAY[name]);
            RAISE SQLSTATE 'SL0NO';
        EXCEPTION WHEN SQLSTATE 'SL0NO' OR lock_not_available OR deadlock_detected
             OR object_not_in_prerequisite_state THEN -- no row of any name can be inserted
            NULL;
        END;
    END IF;
END
$$;

-- Row -----------------------------------------------------------------------------------------------------------------

-- PL/pgSQL keeps its plans. A function in SQL is planned with every call, unless it is so simple that it is inlined.

-- How many characters the columns hold, and the resolution of the times.
CREATE OR REPLACE FUNCTION shedlock__columns(OUT name_limit int, OUT locked_by_limit int, OUT unit interval)
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    digits int;
BEGIN
    SELECT COALESCE(max(NULLIF(atttypmod, -1)) FILTER (WHERE attname = 'name') - 4, 255),
           COALESCE(max(NULLIF(atttypmod, -1)) FILTER (WHERE attname = 'locked_by') - 4, 255),
           COALESCE(min(NULLIF(atttypmod, -1))
                        FILTER (WHERE attname IN ('lock_until', 'locked_at', 'lock_at_least_until')), 6)
      INTO name_limit, locked_by_limit, digits
      FROM pg_attribute WHERE attrelid = '@extschema@.shedlock'::regclass AND attnum > 0;
    unit := interval '1 second' * 10.0 ^ -digits;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__round_down(t timestamp, unit interval) RETURNS timestamp
    LANGUAGE sql IMMUTABLE AS $$ SELECT date_bin(unit, t, timestamp '2000-01-01') $$;

CREATE OR REPLACE FUNCTION shedlock__round_up(t timestamp, unit interval) RETURNS timestamp
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    down CONSTANT timestamp := @extschema@.shedlock__round_down(t, unit);
BEGIN
    RETURN CASE WHEN down = t THEN t ELSE down + unit END;
END
$$;

-- An at_least of zero promises nothing, so rounding it up would only keep a released lock from the next holder.
CREATE OR REPLACE FUNCTION shedlock__kept_until(now timestamp, at_least interval, unit interval) RETURNS timestamp
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN at_least = interval '0' THEN @extschema@.shedlock__round_down(now, unit)
                ELSE @extschema@.shedlock__round_up(now + at_least, unit) END;
END
$$;

-- Microseconds since 1970.
CREATE OR REPLACE FUNCTION shedlock__number(t timestamp) RETURNS bigint
    LANGUAGE sql IMMUTABLE AS $$ SELECT (extract(epoch FROM t) * 1000000)::bigint $$;

-- The token of an acquisition. NULL if locked_at is no token: it is infinite, or in the last thirty years of
-- timestamp's range, which do not fit a token when they are counted from 1970.
CREATE OR REPLACE FUNCTION shedlock__token_of(locked_at timestamp) RETURNS bigint
    LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN isfinite(locked_at) AND locked_at < timestamp '294247-01-10 04:00:54'
            THEN @extschema@.shedlock__number(locked_at) END
$$;

-- This server, in eight hexadecimal digits. 00000000 if its control file cannot be read: then it is not known to which
-- server a process id belongs. Managed servers may forbid reading it, and any error may report that.
CREATE OR REPLACE FUNCTION shedlock__server() RETURNS text
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT lpad(to_hex(hashint8(system_identifier)), 8, '0') FROM pg_control_system());
EXCEPTION WHEN OTHERS THEN
    RETURN '00000000';
END
$$;

-- This session, as it is written in locked_by: /PID.START.SERVER. Process ids are reused, so the start of the session
-- is part of it. An ordinary role cannot see when the sessions of other roles, its callers, began. Then the start is
-- the time of this session's first call, and there is a comma before the server. What follows the process id is kept in
-- a setting. (A session that forges it can extend and release only locks whose locked_by ends with its own process id:
-- those that an earlier session with this process id left. It can also acquire a lock in the name of such a session.)
-- The fast paths of shedlock_acquire and shedlock_release read the setting themselves. On Citus the setting has another
-- name, so that they do not find it and are not used: they take no advisory locks (see
-- shedlock__hold_until_workers_commit). A role that sets it by hand there gives that up for its own runs.
CREATE OR REPLACE FUNCTION shedlock__session() RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    setting CONSTANT text := CASE WHEN current_setting('citus.version', true) IS NULL THEN 'shedlock_portable.session'
                                  ELSE 'shedlock_portable.session_on_citus' END;
    rest text := current_setting(setting, true);
    start timestamptz;
BEGIN
    IF (@is_rest@) IS NOT TRUE THEN
        start := (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid()));
        rest := @extschema@.shedlock__number(COALESCE(start, clock_timestamp()) AT TIME ZONE interval '0')
            || CASE WHEN start IS NULL THEN ',' ELSE '.' END || @extschema@.shedlock__server();
        PERFORM set_config(setting, rest, false);
    END IF;
    RETURN concat('/', pg_backend_pid(), '.', rest);
END
$$;

-- Whether the session is still running. NULL if that cannot be known: on a standby, and for another server's session.
-- It calls no function of ours by name, so that the views and the doctor work even if somebody has planted overloads.
CREATE OR REPLACE FUNCTION shedlock_session_alive(session text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    start CONSTANT text := substring(session, '^/[0-9]{1,9}[.]([0-9]{1,18})[.,][0-9a-f]{8}$');
    server CONSTANT text := right(session, 8);
    own_server text := current_setting('shedlock_portable.server', true);
    is_there boolean;
BEGIN
    IF start IS NULL OR pg_is_in_recovery() OR server = '00000000' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_stat_clear_snapshot(); -- a caller that waits looks more than once
    is_there := EXISTS (SELECT FROM pg_stat_get_activity(substring(session, '^/([0-9]+)')::int) a
                         WHERE a.backend_start IS NULL -- another role's
                            OR left(right(session, 9), 1) = ','
                            OR (extract(epoch FROM a.backend_start) * 1000000)::bigint = start::bigint);
    -- Before a session counts as gone, its server is compared with the real one, because anybody can forge a setting.
    IF NOT is_there OR COALESCE(own_server, '') = '' THEN
        BEGIN
            own_server := (SELECT lpad(to_hex(hashint8(system_identifier)), 8, '0') FROM pg_control_system());
        EXCEPTION WHEN OTHERS THEN
            own_server := '00000000';
        END;
        PERFORM set_config('shedlock_portable.server', own_server, false);
    END IF;
    RETURN CASE WHEN server = own_server THEN is_there END;
END
$$;

-- locked_by is the holder, which is text for people, followed by an end: the row's own locked_at, in microseconds since
-- 1970, after a separator that tells the kind of the acquisition:
--   #LOCKED_AT                     owned by whoever has the token, which is the same number
--   /PID.START.SERVER:LOCKED_AT    owned by that session (see shedlock__session)
--   /PID.START.SERVER!LOCKED_AT    owned by that session, and ends with it
--   /PID.START.SERVER&LOCKED_AT    owned by whoever has the token, and ends with that session
--   *LOCKED_AT                     a pause or a release by force: no run, and nobody's
-- A row with any other end is a Java client's, or new. Nothing else is read from locked_by. A holder that imitates an
-- end does no harm, because the real one comes after it. (The expression has no groups: with them it takes five times
-- as long.)
-- session is /PID.START.SERVER. The library of the extension has the same rule.
CREATE OR REPLACE FUNCTION shedlock__origin(locked_by text, locked_at timestamp,
                                            OUT is_ours boolean, OUT holder text, OUT kind text, OUT session text)
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    ending CONSTANT text := substring(locked_by,
-- shared: Ending
        '(?:/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}[:!&]|[#*])-?[0-9]+$'::pg_catalog.text
-- end: Ending
        );
    number CONSTANT text := @extschema@.shedlock__token_of(locked_at)::text;
BEGIN
    is_ours := COALESCE(right(ending, length(number) + 1)
                        IN ('#' || number, ':' || number, '!' || number, '&' || number, '*' || number), false);
    IF NOT is_ours THEN
        holder := locked_by;
        RETURN;
    END IF;
    holder := left(locked_by, -length(ending));
    kind := left(right(ending, length(number) + 1), 1);
    session := NULLIF(left(ending, -length(number) - 1), '');
END
$$;

-- Whether the acquisition belongs to the session, or, without a session, to the token. With both, it must belong to the
-- session and have that token. The end is compared and not parsed: it is enough that it has the row's own token. Only
-- before & a pattern checks that some session is named. (Casts to text are immutable. || with a bigint is not, and
-- would keep PostgreSQL from inlining this.)
CREATE OR REPLACE FUNCTION shedlock__is_owner(session text, token bigint, locked_by text, found_token bigint)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
SELECT COALESCE((token IS NULL OR token = found_token)
    AND CASE WHEN session IS NULL THEN right(locked_by, length(found_token::text) + 1) = '#' || found_token::text
                 OR right(locked_by, length(found_token::text) + 1) = '&' || found_token::text
                    AND locked_by ~ '/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}&-?[0-9]+$'
             ELSE right(locked_by, length(session || found_token::text) + 1)
                  IN (session || ':' || found_token::text, session || '!' || found_token::text) END, false)
$$;

-- The stored last_done_tick, or the locked_at of a Java client if that is later: a Java run counts as done, for every
-- tick up to the time at which it began. Every function that overwrites the row stores the result.
CREATE OR REPLACE FUNCTION shedlock__with_java(stored timestamp, locked_by text, locked_at timestamp) RETURNS timestamp
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF locked_at <= stored OR NOT isfinite(locked_at)
       OR (@extschema@.shedlock__origin(locked_by, locked_at)).is_ours THEN
        RETURN stored;
    END IF;
    RETURN GREATEST(stored, locked_at);
END
$$;

-- For a lease that was not released: whether it ended because it ends with a session that is gone.
CREATE OR REPLACE FUNCTION shedlock__has_lost_its_session(locked_by text, locked_at timestamp) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    origin CONSTANT record := @extschema@.shedlock__origin(locked_by, locked_at);
BEGIN
    RETURN origin.kind IN ('!', '&') AND @extschema@.shedlock_session_alive(origin.session) IS FALSE;
END
$$;

-- The lock_until that counts: a lease may end with its session, but not before at_least has passed. 55000 if a value is
-- missing.
CREATE OR REPLACE FUNCTION shedlock__lasts_until(seen shedlock__row, now timestamp) RETURNS timestamp
    LANGUAGE plpgsql AS $$
BEGIN
    IF seen.lock_until IS NULL OR seen.locked_at IS NULL OR seen.locked_by IS NULL THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('column "%s" of the lock table is NULL in a row',
                                   CASE WHEN seen.lock_until IS NULL THEN 'lock_until'
                                        WHEN seen.locked_at IS NULL THEN 'locked_at'
                                        ELSE 'locked_by' END),
                  HINT = 'The table was probably edited by hand. Set the column, or delete the row.';
    END IF;
    IF seen.lock_until > now AND seen.lock_at_least_until > timestamp '-infinity'
       AND (strpos(seen.locked_by, '!') > 0 OR strpos(seen.locked_by, '&') > 0) THEN
        -- Not part of the condition above, because PL/pgSQL sets up a whole expression once per transaction, even if it
        -- needs only a part.
        IF @extschema@.shedlock__has_lost_its_session(seen.locked_by, seen.locked_at) THEN
            RETURN LEAST(seen.lock_until, seen.lock_at_least_until);
        END IF;
    END IF;
    RETURN seen.lock_until;
END
$$;

-- A tick is due if it is later than the last one that is done and later than the last one that was acquired; with
-- retry, also if it is the one that was acquired. The first two answers do not depend on whether the row is a Java
-- client's.
CREATE OR REPLACE FUNCTION shedlock__is_not_due(seen shedlock__row, asked_tick timestamp, retry boolean) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    IF asked_tick IS NULL OR asked_tick > GREATEST(seen.last_tick, seen.last_done_tick, seen.locked_at) THEN
        RETURN false;
    ELSIF asked_tick <= seen.last_done_tick OR asked_tick < seen.last_tick
          OR asked_tick = seen.last_tick AND NOT retry THEN
        RETURN true;
    END IF;
    RETURN COALESCE(
        asked_tick <= @extschema@.shedlock__with_java(seen.last_done_tick, seen.locked_by, seen.locked_at), false);
END
$$;

-- The holder (by default application_name@client_addr), cut off so that it fits into the column together with the end.
CREATE OR REPLACE FUNCTION shedlock__locked_by(holder text, ending text, room int) RETURNS text
    LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(holder, '') = '' THEN
        holder := @default_holder@;
    END IF;
    RETURN left(holder, room - length(ending)) || ending;
END
$$;

-- For a change that must survive a crash and, with synchronous replication, a fail-over.
CREATE OR REPLACE FUNCTION shedlock__require_durability() RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- Citus commits on its workers after this server's commit has become visible. Advisory locks last until the workers
-- have committed; row locks do not. So a transaction that has released or guarded a lock takes an advisory lock, which
-- keeps the lock from being acquired until then. Any role can take these advisory locks. It can cause a lock to be
-- refused and its holder to wait, but never cause a lock to be granted.
CREATE OR REPLACE FUNCTION shedlock__hold_until_workers_commit(names text[]) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
                hashtextextended(n, '@extschema@.shedlock'::regclass::oid::bigint + 4294967296))
       FROM unnest(names) n;
END
$$;

-- These advisory locks last until the transaction ends, like the row lock of an acquire. Advisory locks of the session
-- would outlive a cancelled statement, and then nobody could acquire or release.
CREATE OR REPLACE FUNCTION shedlock__have_workers_committed(names text[]) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN bool_and(pg_try_advisory_xact_lock(
                        hashtextextended(n, '@extschema@.shedlock'::regclass::oid::bigint + 4294967296)))
      FROM unnest(names) n;
END
$$;

-- Acquire -------------------------------------------------------------------------------------------------------------

-- An acquire looks with a plain SELECT, locks the row with SKIP LOCKED in a savepoint, reads the clock and decides again.
-- Rejected: NOWAIT, whose refusal is an error; an advisory lock for every acquire, which Java does not know; and for
-- guards a deferred trigger that looks again at the commit, which would spare the row lock, but YugabyteDB has none.

-- The transactions of other sessions that have written the lock table and have not ended.
CREATE OR REPLACE FUNCTION shedlock__writers() RETURNS text[]
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT l.virtualtransaction FROM pg_locks l
                  WHERE l.locktype = 'relation' AND l.relation = '@extschema@.shedlock'::regclass
                    AND l.mode = 'RowExclusiveLock' AND l.granted
                    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                    AND l.pid IS DISTINCT FROM pg_backend_pid()); -- a prepared transaction has no pid
END
$$;

-- Inserts the rows that are missing. The unique index decides which session inserts one; lock_timeout ends the wait for
-- another transaction that has inserted the same name. But lock_timeout also ends a wait for room in the table or for
-- VACUUM, which says nothing about the name. So the name counts as another transaction's only if the same transaction
-- was writing the table at the end of two consecutive waits. An advisory lock shows whether that transaction may be one
-- of ours, for which a shorter wait is enough; it decides nothing else, since any role can take it. The tries end after
-- lock_timeout or, if that is 0, after a minute, even where pg_locks does not show which transactions write.
CREATE OR REPLACE FUNCTION shedlock__make_rows(names text[]) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    usual CONSTANT text := current_setting('lock_timeout');
    until CONSTANT timestamp := clock_timestamp() AT TIME ZONE interval '0'
        + CASE usual WHEN '0' THEN interval '1 min' ELSE usual::interval END;
    missing text;
    patience text;
    writers text[];
    earlier_writers text[];
BEGIN
    FOREACH missing IN ARRAY names LOOP
        CONTINUE WHEN EXISTS (SELECT FROM @extschema@.shedlock s WHERE s.name = missing);
        PERFORM @extschema@.shedlock__require_storable(missing);
        patience := CASE WHEN pg_try_advisory_xact_lock(
                                  hashtextextended(missing, '@extschema@.shedlock'::regclass::oid::bigint))
                         THEN '50ms' ELSE '1ms' END;
        earlier_writers := '{}';
        LOOP
            BEGIN
                PERFORM set_config('lock_timeout', patience, true);
                INSERT INTO @extschema@.shedlock (name, lock_until, locked_at, locked_by)
                    VALUES (missing, '-infinity', '-infinity', '') ON CONFLICT (name) DO NOTHING;
                PERFORM set_config('lock_timeout', usual, true);
                EXIT;
            EXCEPTION WHEN lock_not_available THEN
                writers := @extschema@.shedlock__writers();
                IF writers && earlier_writers OR clock_timestamp() AT TIME ZONE interval '0' >= until THEN
                    RAISE;
                END IF;
                earlier_writers := writers;
            WHEN integrity_constraint_violation THEN -- in columns that are none of ours
                RAISE object_not_in_prerequisite_state
                    USING MESSAGE = format('lock "%s" has no row, and shedlock cannot insert one: %s',
                                           missing, SQLERRM),
                          HINT = format('Insert it as the owner of the table, with values for its other columns where needed: INSERT INTO %s (name, lock_until, locked_at, locked_by) VALUES (%L, ''-infinity'', ''-infinity'', '''').',
                                        '@extschema@.shedlock'::regclass, missing);
            END;
        END LOOP;
    END LOOP;
END
$$;

-- Locks all of the rows. Gives NULL if one is missing or another transaction has locked it; the others stay locked
-- then. Never waits. (A row that another transaction has locked FOR KEY SHARE, to check a foreign key, can be locked
-- all the same.)
CREATE OR REPLACE FUNCTION shedlock__seize(names text[]) RETURNS shedlock__row[]
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seized @extschema@.shedlock__row[];
BEGIN
    SELECT array_agg(l.r) INTO seized
      FROM (SELECT (@columns@)::@extschema@.shedlock__row AS r
              FROM @extschema@.shedlock s WHERE s.name = ANY (names) FOR NO KEY UPDATE SKIP LOCKED) l;
    RETURN CASE WHEN cardinality(seized) = cardinality(names) THEN seized END;
END
$$;

-- Waits for DDL, so that no UPDATE of this transaction will. SELECT FOR UPDATE does not wait for as much (SHARE locks,
-- for example), so a clock that is read after it may be long past when the row is written. Rejected: LOCK TABLE, which
-- YugabyteDB does not have.
CREATE OR REPLACE FUNCTION shedlock__wait_for_ddl() RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @extschema@.shedlock SET lock_until = lock_until WHERE false;
END
$$;

-- Marks these rows, so that the next UPDATE changes lock_at_least_until and passes shedlock_protect_row (see there).
CREATE OR REPLACE FUNCTION shedlock__mark(names text[]) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    UPDATE @extschema@.shedlock s SET lock_at_least_until = 'infinity' WHERE s.name = ANY (names);
END
$$;

-- Each Citus worker would grant locks of its own table. pg_dist_local_group exists only with Citus.
CREATE OR REPLACE FUNCTION shedlock__require_one_truth() RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('pg_catalog.pg_dist_local_group') IS NULL THEN
        RETURN;
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_dist_local_group WHERE groupid <> 0) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'cannot acquire a lock on a Citus worker',
            DETAIL = 'The lock table of a worker is its own: what is locked here is locked nowhere else.',
            HINT = 'Connect to the coordinator.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__warn_of_history(fault text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('shedlock_portable.has_warned_of_history', true) IS DISTINCT FROM 'true' THEN
        PERFORM set_config('shedlock_portable.has_warned_of_history', 'true', false); -- once per session
        RAISE WARNING
            USING MESSAGE = format('runs are not recorded in table %s: %s', '@extschema@.shedlock_history', fault),
                  HINT = 'Rename or drop it, and call shedlock_keep_history().';
    END IF;
END
$$;

-- A history of runs is kept while the owner may INSERT into the table. What is looked at first tells in nearly all cases
-- that the INSERT runs no code of others and takes our values; history_fault would cost more than the whole call.
CREATE OR REPLACE FUNCTION shedlock__keeps_history() RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    history CONSTANT regclass := to_regclass('@extschema@.shedlock_history');
    is_plain boolean;
    fault text;
BEGIN
    SELECT c.relowner = quote_ident(current_user)::regrole AND c.relkind = 'r' AND c.relpersistence = 'p'
           AND NOT c.relhastriggers AND NOT c.relhasrules AND c.relchecks = 0 AND NOT c.relhassubclass AND NOT c.relispartition
           AND NOT c.relforcerowsecurity AND c.reloftype = 0 AND c.relnatts = 8 -- no other columns
           AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
           AND (c.relacl IS NULL OR NOT EXISTS (SELECT FROM aclexplode(c.relacl) a
                                                 WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> c.relowner))
           AND NOT EXISTS (SELECT FROM pg_index x
                            WHERE x.indrelid = c.oid
                              AND (x.indisunique OR x.indisexclusion OR x.indexprs IS NOT NULL OR x.indpred IS NOT NULL))
           AND (SELECT count(*) FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.atttypmod = -1 AND NOT a.atthasdef AND a.attidentity = ''
                   AND (a.attname, a.atttypid)
                       IN (('name', 'text'::regtype), ('token', 'bigint'::regtype), ('tick', 'timestamptz'::regtype),
                           ('holder', 'text'::regtype), ('acquired_at', 'timestamptz'::regtype),
                           ('ended_at', 'timestamptz'::regtype), ('outcome', 'text'::regtype),
                           ('detail', 'text'::regtype))) = 8
      INTO is_plain FROM pg_class c
     WHERE c.oid = history AND has_table_privilege(c.oid, 'INSERT') -- also now, not only in our snapshot
       AND (c.relacl IS NULL OR EXISTS (SELECT FROM aclexplode(c.relacl) a
                                         WHERE a.grantee = c.relowner AND a.privilege_type = 'INSERT'));
    IF is_plain THEN
        RETURN true;
    ELSIF NOT FOUND THEN
        RETURN false;
    END IF;
    fault := @history_fault@;
    IF fault IS NOT NULL THEN
        PERFORM @extschema@.shedlock__warn_of_history(fault);
    END IF;
    RETURN fault IS NULL;
END
$$;

-- Records runs that this transaction ends, in rows that it has locked. A run that ran out ended with its lease or, if
-- its session had gone before that, now.
CREATE OR REPLACE FUNCTION shedlock__record(names text[], outcome text, now timestamp, detail text) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF @extschema@.shedlock__keeps_history() THEN
        INSERT INTO @extschema@.shedlock_history
               (name, token, tick, holder, acquired_at, ended_at, outcome, detail)
        SELECT s.name, @extschema@.shedlock__token_of(s.locked_at),
               CASE s.run_tick WHEN s.last_tick THEN s.run_tick AT TIME ZONE interval '0' END,
               (@extschema@.shedlock__origin(s.locked_by::text COLLATE "default", s.locked_at)).holder,
               s.locked_at AT TIME ZONE interval '0',
               GREATEST(CASE outcome WHEN 'ran out' THEN LEAST(s.lock_until, now) ELSE now END, s.locked_at)
                   AT TIME ZONE interval '0',
               outcome, NULLIF(left(detail, 1000), '')
          FROM @extschema@.shedlock s WHERE s.name = ANY (names);
    END IF;
-- a column that is NOT NULL without a default, a unique index; or the table was changed or dropped while we waited
EXCEPTION WHEN integrity_constraint_violation OR undefined_table OR undefined_column THEN
    PERFORM @extschema@.shedlock__warn_of_history(SQLERRM);
END
$$;

-- Whether the row has a run of ours that was not released.
CREATE OR REPLACE FUNCTION shedlock__is_under_way(seen shedlock__row) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN COALESCE(seen.lock_at_least_until > timestamp '-infinity'
                    AND (@extschema@.shedlock__origin(seen.locked_by, seen.locked_at)).kind <> '*', false);
END
$$;

-- Records the runs that were never released, and that this transaction is about to replace. Does not wait: 55P03 if
-- another transaction has locked the history.
CREATE OR REPLACE FUNCTION shedlock__record_abandoned(seized shedlock__row[], now timestamp) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    abandoned text[];
BEGIN
    IF @no_history@ THEN
        RETURN;
    END IF;
    abandoned := ARRAY(SELECT l.name FROM unnest(seized) l
                        WHERE @extschema@.shedlock__is_under_way(l));
    IF abandoned <> '{}' AND @extschema@.shedlock__keeps_history() THEN
        BEGIN
            LOCK TABLE @extschema@.shedlock_history IN ROW EXCLUSIVE MODE NOWAIT;
        EXCEPTION WHEN undefined_table THEN -- just now
            RETURN;
        END;
        PERFORM @extschema@.shedlock__record(abandoned, 'ran out'::text, now, NULL::text);
    END IF;
END
$$;

-- Writes an acquisition over rows that are free and that we have locked, and gives its token. The kind is that of
-- shedlock__origin. A pause has no at_most and no at_least; it is no run, so it has no run_tick, but it records a Java
-- run before it.
CREATE OR REPLACE FUNCTION shedlock__take(names text[], seized shedlock__row[], now timestamp, at_most interval,
                                          at_least interval, tick timestamp, kind text, holder text) RETURNS bigint
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    columns CONSTANT record := @extschema@.shedlock__columns();
    acquired_at CONSTANT timestamp :=
        @extschema@.shedlock__new_token(now, (SELECT max(l.locked_at) FROM unnest(seized) l),
            (SELECT array_agg(l.last_tick) || array_agg(l.last_done_tick) || tick FROM unnest(seized) l), columns.unit);
    token CONSTANT bigint := @extschema@.shedlock__number(acquired_at);
    session CONSTANT text := CASE WHEN kind IN (':', '!', '&') THEN @extschema@.shedlock__session() ELSE '' END;
    start CONSTANT timestamp := @extschema@.shedlock__round_down(now, columns.unit);
    written int;
BEGIN
    PERFORM @extschema@.shedlock__record_abandoned(seized, now);
    UPDATE @extschema@.shedlock s
       SET lock_until = COALESCE(@extschema@.shedlock__round_up(now + at_most, columns.unit), timestamp 'infinity'),
           locked_at = acquired_at,
           locked_by = @extschema@.shedlock__locked_by(holder, session || kind || token, columns.locked_by_limit),
           lock_at_least_until = @extschema@.shedlock__kept_until(now, at_least, columns.unit),
           last_tick = COALESCE(tick, s.last_tick),
           last_done_tick = @extschema@.shedlock__with_java(s.last_done_tick,
                                                            s.locked_by::text COLLATE "default", s.locked_at),
           run_tick = CASE WHEN kind = '*' THEN NULL
                           ELSE COALESCE(tick, CASE start WHEN s.last_tick THEN start - columns.unit ELSE start END) END
     -- looked up in the index, because to SERIALIZABLE a scan of the table is a read of all rows
     WHERE s.name = ANY (names);
    GET DIAGNOSTICS written = ROW_COUNT;
    -- the clock has stepped back since, so for shedlock_protect_row a lock is not free
    IF written < cardinality(names) THEN
        RAISE SQLSTATE 'SL0NO';
    END IF;
    RETURN token;
END
$$;

-- Acquires one lock that is free beyond doubt, and gives its token. NULL decides nothing: shedlock__try finds out
-- whether the lock is refused, has no row, or is unusual. The row stays locked then, unless another transaction has it
-- or it is missing. For columns that do not hold every microsecond or every character it raises
-- string_data_right_truncation.
CREATE OR REPLACE FUNCTION shedlock__take_one(lock_name text, at_most interval, at_least interval, asked_tick timestamp,
                                              kind text, holder text) RETURNS bigint
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    session text;
    now timestamp;
    token bigint;
    ending text;
    is_exact boolean;
BEGIN
    IF kind <> '#' THEN
        session := @extschema@.shedlock__session();
    END IF;
    PERFORM FROM @extschema@.shedlock s WHERE s.name = lock_name FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    now := clock_timestamp() AT TIME ZONE interval '0';
    token := @extschema@.shedlock__number(now);
    ending := concat(session, kind, token);
    @take@
    IF is_exact IS NULL THEN
        RETURN NULL;
    ELSIF NOT is_exact THEN
        RAISE string_data_right_truncation;
    ELSIF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM @extschema@.shedlock__require_durability();
    END IF;
    RETURN token;
END
$$;

-- Tries once to acquire. The token is NULL if it was refused; for_good says that this tick is not due any more, or that
-- it is too late for it.
CREATE OR REPLACE FUNCTION shedlock__try(names text[], at_most interval, at_least interval, asked_tick timestamp,
                                         retry boolean, start_by timestamp, kind text, holder text,
                                         OUT token bigint, OUT for_good boolean)
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    now timestamp;
    seen @extschema@.shedlock__row;
    seized @extschema@.shedlock__row[];
    is_held boolean := false;
    may_be_usual boolean;
BEGIN
    IF cardinality(names) > 1 THEN -- that one of them is held must not hide that another one can never be
        PERFORM @extschema@.shedlock__require_storable(m.n)
           FROM (SELECT u.n FROM unnest(names) u (n)
                  WHERE NOT EXISTS (SELECT FROM @extschema@.shedlock s WHERE s.name = u.n)
                  ORDER BY u.n COLLATE "C" OFFSET 0) m; -- the first one is reported, whatever the plan is
    END IF;
    -- Look first, so that a refused caller has not locked or written anything. The look may wait for DDL.
    for_good := false;
    FOR seen IN SELECT @columns@
                  FROM @extschema@.shedlock s WHERE s.name = ANY (names) LOOP
        now := clock_timestamp() AT TIME ZONE interval '0';
        for_good := COALESCE(now > start_by, false) OR @extschema@.shedlock__is_not_due(seen, asked_tick, retry);
        is_held := is_held OR @extschema@.shedlock__lasts_until(seen, now) > now;
        EXIT WHEN for_good OR is_held AND cardinality(names) = 1;
    END LOOP;
    IF NOT FOUND AND clock_timestamp() AT TIME ZONE interval '0' > start_by THEN
        PERFORM @extschema@.shedlock__require_storable(names[1]);
        for_good := true;
    END IF;
    IF is_held OR for_good THEN
        RETURN;
    END IF;

    -- pg_dist_local_group exists only with Citus.
    may_be_usual := cardinality(names) = 1 AND kind <> '*' AND start_by IS NULL
        AND to_regclass('pg_catalog.pg_dist_local_group') IS NULL;
    LOOP
        -- A refusal gives back at once what it has locked or inserted; SL0NO never leaves this block. The row stays
        -- locked until we have decided. If we gave it back in between, another session could take the lock, and we
        -- would be refused. So a third session that had found the row locked by us would have been refused because of
        -- us, although we got nothing.
        BEGIN
            IF may_be_usual THEN
                token := @extschema@.shedlock__take_one(names[1], at_most, at_least, asked_tick, kind, holder);
                IF token IS NOT NULL THEN
                    RETURN;
                END IF;
            END IF;
            PERFORM @extschema@.shedlock__require_one_truth();
            seized := @extschema@.shedlock__seize(names);
            IF seized IS NULL THEN
                PERFORM @extschema@.shedlock__make_rows(names);
                seized := @extschema@.shedlock__seize(names);
            END IF;
            IF seized IS NULL
               OR current_setting('citus.version', true) IS NOT NULL
                  AND NOT @extschema@.shedlock__have_workers_committed(names) THEN
                RAISE SQLSTATE 'SL0NO';
            END IF;

            -- Read the clock now that we have locked all rows.
            PERFORM @extschema@.shedlock__wait_for_ddl();
            now := clock_timestamp() AT TIME ZONE interval '0';
            for_good := COALESCE(now > start_by, false);
            FOREACH seen IN ARRAY seized LOOP
                for_good := for_good OR @extschema@.shedlock__is_not_due(seen, asked_tick, retry);
                IF for_good OR @extschema@.shedlock__lasts_until(seen, now) > now THEN
                    RAISE SQLSTATE 'SL0NO';
                ELSIF seen.locked_at = timestamp 'infinity' THEN
                    RAISE object_not_in_prerequisite_state USING
                        MESSAGE = format('locked_at of lock "%s" is infinity, and no token is greater', seen.name),
                        HINT = 'The row was probably edited by hand. Set its locked_at to the current time in UTC.';
                END IF;
                IF seen.lock_until > now THEN -- ended with its session
                    PERFORM @extschema@.shedlock__mark(ARRAY[seen.name]);
                END IF;
            END LOOP;
            token := @extschema@.shedlock__take(names, seized, now, at_most, at_least, asked_tick, kind, holder);
            EXIT;
        EXCEPTION
            -- It was refused; or another transaction's first insert of the name is not committed yet; or the row has
            -- changed since this transaction's snapshot.
            WHEN SQLSTATE 'SL0NO' OR lock_not_available OR serialization_failure OR deadlock_detected THEN
                token := NULL;
                RETURN;
            WHEN string_data_right_truncation THEN
                IF NOT may_be_usual THEN
                    RAISE;
                END IF;
                may_be_usual := false;
        END;
    END LOOP;
    PERFORM @extschema@.shedlock__require_durability();
END
$$;

-- The time now, raised above every locked_at that it replaces. It must not equal a tick of the rows: a last_done_tick
-- that is the token says that the acquisition was done.
CREATE OR REPLACE FUNCTION shedlock__new_token(now timestamp, previous timestamp, ticks timestamp[], unit interval)
    RETURNS timestamp
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    token timestamp := @extschema@.shedlock__round_down(now, unit);
BEGIN
    IF token <= previous THEN
        token := @extschema@.shedlock__round_down(previous, unit) + unit;
    END IF;
    WHILE token = ANY (ticks) LOOP
        token := token + unit;
    END LOOP;
    RETURN token;
END
$$;

-- Tries until `wait` is over, or until it is too late. In REPEATABLE READ and above it does not see a release, only the
-- end of the lease.
CREATE OR REPLACE FUNCTION shedlock__try_for(names text[], at_most interval, at_least interval, wait interval,
                                             asked_tick timestamp, retry boolean, start_by timestamp, kind text,
                                             holder text) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    until CONSTANT timestamp := LEAST(clock_timestamp() AT TIME ZONE interval '0' + wait, start_by);
    attempt record;
BEGIN
    LOOP
        attempt := @extschema@.shedlock__try(names, at_most, at_least, asked_tick, retry, start_by, kind, holder);
        EXIT WHEN attempt.token IS NOT NULL OR attempt.for_good
            OR clock_timestamp() AT TIME ZONE interval '0' >= until;
        -- Random, so that waiters do not look in lockstep.
        PERFORM pg_sleep(LEAST(0.025 * (1 + random()),
                               extract(epoch FROM until - clock_timestamp() AT TIME ZONE interval '0')));
    END LOOP;
    RETURN attempt.token;
END
$$;

-- The kind is NULL if ends_with_session was NULL.
CREATE OR REPLACE FUNCTION shedlock__acquire(names text[], at_most interval, at_least interval, wait interval,
                                             tick timestamptz, retry boolean, start_within interval, kind text,
                                             holder text) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    asked_tick timestamp;
    start_by timestamp;
BEGIN
    at_most := @extschema@.shedlock__at_most(at_most);
    -- The defaults need no check and no wait, which would be a third of what a refusal costs.
    IF interval_send(at_least) = interval_send('0') AND interval_send(wait) = interval_send('0')
       AND tick IS NULL AND NOT retry AND start_within IS NULL AND kind IS NOT NULL THEN
        RETURN (@extschema@.shedlock__try(names, at_most, interval '0', NULL::timestamp, false, NULL::timestamp, kind,
                                          holder)).token;
    END IF;
    PERFORM @extschema@.shedlock__require(at_least IS NOT NULL, 'at_least'::text,
        'An at_least of ''0'' frees the lock as soon as it is released.'::text);
    at_least := @extschema@.shedlock__at_least(at_least, at_most);
    wait := @extschema@.shedlock__wait(wait);
    asked_tick := @extschema@.shedlock__tick(tick, retry);
    start_by := @extschema@.shedlock__start_by(asked_tick, start_within);
    PERFORM @extschema@.shedlock__require(kind IS NOT NULL, 'ends_with_session'::text, ''::text);
    RETURN @extschema@.shedlock__try_for(names, at_most, at_least, wait, asked_tick, retry, start_by, kind, holder);
END
$$;

CREATE OR REPLACE FUNCTION shedlock_acquire(
    name text,
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL,
    retry boolean DEFAULT false,
    start_within interval DEFAULT NULL,
    ends_with_session boolean DEFAULT false
) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    holder text; -- the default
BEGIN
    @here@
    @usual_acquire@
    PERFORM @extschema@.shedlock__require_writable('shedlock_acquire'::text);
    RETURN @extschema@.shedlock__acquire(@extschema@.shedlock__name(name COLLATE "default"), at_most, at_least, wait,
        tick, retry, start_within,
        CASE WHEN ends_with_session THEN '!'::text WHEN NOT ends_with_session THEN ':'::text END,
        holder) IS NOT NULL;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_acquire_token(
    name text,
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL,
    retry boolean DEFAULT false,
    start_within interval DEFAULT NULL,
    holder text DEFAULT NULL,
    ends_with_session boolean DEFAULT false
) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    @here@
    @usual_acquire_token@
    PERFORM @extschema@.shedlock__require_writable('shedlock_acquire_token'::text);
    RETURN @extschema@.shedlock__acquire(@extschema@.shedlock__name(name COLLATE "default"), at_most, at_least, wait,
        tick, retry, start_within,
        CASE WHEN ends_with_session THEN '&'::text WHEN NOT ends_with_session THEN '#'::text END,
        holder);
END
$$;

-- For the client library. NULL and false tell it that nothing would wake it, so it polls.
CREATE OR REPLACE FUNCTION shedlock_wait_any(names text[], which integer[], wait interval, wait_id bigint)
    RETURNS integer[]
    LANGUAGE sql VOLATILE AS $$ SELECT NULL::integer[] $$;

CREATE OR REPLACE FUNCTION shedlock_end_wait(wait_id bigint) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$ SELECT false $$;

CREATE OR REPLACE FUNCTION shedlock__not_due(lock_name text, tick timestamptz, retry boolean, start_within interval)
    RETURNS text
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    asked_tick CONSTANT timestamp := @extschema@.shedlock__tick(tick, retry);
    start_by CONSTANT timestamp := @extschema@.shedlock__start_by(asked_tick, start_within);
    seen @extschema@.shedlock__row;
BEGIN
    SELECT @columns@ INTO seen FROM @extschema@.shedlock s WHERE s.name = lock_name;
    RETURN CASE WHEN @extschema@.shedlock__is_not_due(seen, asked_tick, retry) THEN 'had run'
                WHEN clock_timestamp() AT TIME ZONE interval '0' > start_by THEN 'late' END;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_not_due(name text, tick timestamptz, retry boolean, start_within interval)
    RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@ -- before it not even a variable may have a type of ours, which may be a planted domain
    PERFORM @extschema@.shedlock__require(name IS NOT NULL, 'name'::text, ''::text);
    RETURN @extschema@.shedlock__not_due(name COLLATE "default", tick, retry, start_within);
END
$$;

-- Change --------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock__utc(t timestamp) RETURNS text
    LANGUAGE sql STABLE AS $$
SELECT CASE WHEN isfinite(t) THEN rtrim(rtrim(to_char(t, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.') || ' UTC'
            ELSE t::text END
$$;

-- Why a lease is not both ours and live; the reason is NULL if it is both. "Ours" is as in shedlock__is_owner; done
-- means that it was released as done.
CREATE OR REPLACE FUNCTION shedlock__complaint(seen shedlock__row, session text, token bigint, now timestamp,
                                               OUT reason text, OUT advice text, OUT done boolean)
    LANGUAGE plpgsql AS $$
DECLARE
    origin record;
    holder text;
    found_token bigint;
    lasts_until timestamp;
BEGIN
    done := false;
    IF seen.name IS NULL THEN
        reason := 'Nobody ever acquired it, or its row has been deleted.';
        RETURN;
    END IF;
    lasts_until := @extschema@.shedlock__lasts_until(seen, now);
    found_token := @extschema@.shedlock__token_of(seen.locked_at);
    IF seen.lock_until <> timestamp 'infinity'
       AND @extschema@.shedlock__is_owner(session, token, seen.locked_by, found_token) THEN
        IF seen.lock_at_least_until IS NULL THEN
            reason := 'It has been released before, as done.';
            done := true;
        ELSIF seen.lock_at_least_until = timestamp '-infinity' THEN
            reason := 'It has been released before.';
        ELSIF seen.lock_until <= now THEN
            reason := format('Its lease ended at %s.', @extschema@.shedlock__utc(seen.lock_until));
            advice := 'Choose a longer at_most, or extend the lock in time.';
        ELSIF session IS NULL AND strpos(seen.locked_by, '&') > 0
              AND @extschema@.shedlock__has_lost_its_session(seen.locked_by, seen.locked_at) THEN
            -- at_least may still keep others away, but the owner has lost the lock
            reason := 'Its lease ended with the session that acquired it.';
        END IF;
        RETURN;
    END IF;
    -- The run_tick of an acquisition without a tick is its token, unless the token had to be raised above the time.
    IF session IS NULL AND seen.last_done_tick < seen.locked_at
       AND token = @extschema@.shedlock__token_of(seen.last_done_tick) THEN
        reason := 'It has been released as done, and was acquired again since.';
        done := true;
        RETURN;
    END IF;
    origin := @extschema@.shedlock__origin(seen.locked_by, seen.locked_at);
    holder := origin.holder;
    IF lasts_until = timestamp 'infinity' THEN
        reason := format('It is paused: "%s", since %s.', holder, @extschema@.shedlock__utc(seen.locked_at));
    ELSIF token > found_token OR token IS NOT NULL AND seen.locked_at = timestamp '-infinity' THEN
        reason := 'No acquisition has had this token.';
    ELSIF token = found_token AND origin.kind IN (':', '!') THEN
        reason := format('That acquisition belongs to a session: "%s", since %s.',
                         holder, @extschema@.shedlock__utc(seen.locked_at));
    ELSIF token = found_token THEN
        reason := format('That token does not own the lock: "%s", since %s.',
                         holder, @extschema@.shedlock__utc(seen.locked_at));
    ELSIF origin.kind = '*' THEN
        reason := format('An administrator intervened: "%s", at %s.',
                         holder, @extschema@.shedlock__utc(seen.locked_at));
    ELSIF token IS NOT NULL THEN
        reason := format('It was taken over by "%s" at %s.', holder, @extschema@.shedlock__utc(seen.locked_at));
    ELSE
        reason := format(CASE WHEN lasts_until <= now THEN 'It is free. It was last acquired by "%s", at %s.'
                              ELSE 'It is held, but not by this session: "%s", since %s.' END,
                         holder, @extschema@.shedlock__utc(seen.locked_at));
        advice := 'Session functions change only what the same session acquired. Behind a connection pooler use '
               || 'shedlock_acquire_token and its token.';
    END IF;
END
$$;

-- Writes a release over leases that we have locked.
CREATE OR REPLACE FUNCTION shedlock__write_release(names text[], now timestamp, done boolean, detail text)
    RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    unit CONSTANT interval := (SELECT c.unit FROM @extschema@.shedlock__columns() c);
BEGIN
    IF NOT @no_history@ THEN
        PERFORM @extschema@.shedlock__record(names, CASE WHEN done THEN 'done'::text ELSE 'failed'::text END, now,
            detail);
    END IF;
    UPDATE @extschema@.shedlock s
       SET lock_until = GREATEST(@extschema@.shedlock__round_down(now, unit), s.lock_at_least_until),
           lock_at_least_until = CASE WHEN done THEN NULL ELSE timestamp '-infinity' END,
           last_done_tick = CASE WHEN done THEN GREATEST(s.last_done_tick, COALESCE(s.run_tick, s.last_tick))
                                 ELSE s.last_done_tick END,
           last_done_at = CASE WHEN done THEN now ELSE s.last_done_at END
     WHERE s.name = ANY (names);
END
$$;

-- Extends to at_most from now, or releases if at_most is NULL. Waits for a transaction that has locked one of the rows;
-- with nowait it gives NULL instead. Without `tell` there is no WARNING.
CREATE OR REPLACE FUNCTION shedlock__change(names text[], session text, token bigint, at_most interval,
                                            at_least interval, done boolean, detail text, tell boolean,
                                            nowait boolean)
    RETURNS boolean
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seized @extschema@.shedlock__row[];
    seen @extschema@.shedlock__row;
    wanted text;
    now timestamp;
    unit interval;
    next_row int := 1;
    has_ticks boolean := false;
    found record;
    refused text;
    reason text;
    advice text;
    code text;
BEGIN
    BEGIN -- so that somebody else's row is not kept locked; SL0NO never leaves this block
        IF at_most IS NOT NULL THEN
            PERFORM @extschema@.shedlock__wait_for_ddl();
        END IF;
        IF nowait THEN
            SELECT array_agg(l.r) INTO seized
              FROM (SELECT (@columns@)::@extschema@.shedlock__row AS r
                      FROM @extschema@.shedlock s WHERE s.name = ANY (names)
                     ORDER BY s.name COLLATE "C" FOR NO KEY UPDATE SKIP LOCKED) l;
        ELSE
            SELECT array_agg(l.r) INTO seized
              FROM (SELECT (@columns@)::@extschema@.shedlock__row AS r
                      FROM @extschema@.shedlock s WHERE s.name = ANY (names)
                     ORDER BY s.name COLLATE "C" FOR NO KEY UPDATE) l;
        END IF;
        now := clock_timestamp() AT TIME ZONE interval '0';
        IF cardinality(seized) IS DISTINCT FROM cardinality(names) THEN
            IF nowait AND EXISTS (SELECT FROM @extschema@.shedlock s
                                   WHERE s.name = ANY (names)
                                     AND s.name <> ALL (SELECT l.name FROM unnest(seized) l)) THEN
                RAISE SQLSTATE 'SL0NO'; -- without a code: another transaction has locked a row
            END IF;
            PERFORM @extschema@.shedlock__require_absent(m.n)
               FROM (SELECT u.n FROM unnest(names) u (n)
                      WHERE NOT EXISTS (SELECT FROM unnest(seized) l WHERE l.name = u.n)
                      ORDER BY u.n COLLATE "C" OFFSET 0) m;
        END IF;
        FOREACH wanted IN ARRAY names LOOP -- in the order of the rows, some of which may be missing
            seen := CASE WHEN (seized[next_row]).name = wanted THEN seized[next_row] END;
            next_row := next_row + CASE WHEN seen.name IS NULL THEN 0 ELSE 1 END;
            has_ticks := has_ticks OR seen.last_tick IS NOT NULL;
            found := @extschema@.shedlock__complaint(seen, session, token, now);
            IF found.reason IS NOT NULL AND (code IS NULL OR NOT found.done) THEN
                refused := wanted;
                reason := found.reason;
                advice := found.advice;
                code := CASE WHEN found.done THEN 'SL002' ELSE 'SL001' END;
                EXIT WHEN NOT found.done; -- that a lock was done must not hide that another one is lost
            END IF;
        END LOOP;
        IF code IS NOT NULL THEN
            RAISE SQLSTATE 'SL0NO';
        END IF;

        IF at_most IS NULL THEN
            PERFORM @extschema@.shedlock__write_release(names, now, done, detail);
        ELSE
            unit := (SELECT c.unit FROM @extschema@.shedlock__columns() c);
            PERFORM @extschema@.shedlock__mark(names);
            UPDATE @extschema@.shedlock s
               SET lock_until = GREATEST(@extschema@.shedlock__round_up(now + at_most, unit), k.keep),
                   lock_at_least_until = k.keep
              FROM (SELECT l.name,
                           COALESCE(@extschema@.shedlock__kept_until(now, at_least, unit),
                                    l.lock_at_least_until) AS keep
                      FROM unnest(seized) l) k
             WHERE s.name = k.name;
        END IF;
    EXCEPTION WHEN SQLSTATE 'SL0NO' THEN
        IF code IS NULL THEN
            RETURN NULL;
        ELSIF tell THEN
            PERFORM @extschema@.shedlock_raise(code,
                format('lock "%s" was not %s', refused, CASE WHEN at_most IS NULL THEN 'released' ELSE 'extended' END),
                reason, COALESCE(advice, ''::text), true);
        END IF;
        RETURN false;
    END;
    IF current_setting('citus.version', true) IS NOT NULL THEN
        PERFORM @extschema@.shedlock__hold_until_workers_commit(names);
    END IF;
    -- If a crash undoes a release, the lock is only held for longer; but ticks that were done would be due again.
    IF at_most IS NOT NULL OR done AND has_ticks THEN
        PERFORM @extschema@.shedlock__require_durability();
    END IF;
    RETURN true;
END
$$;

-- Extends one lock that certainly belongs to the caller and is live. False only means that shedlock__change must
-- decide. The kind says whether the lock belongs to this session or to the token.
--
-- The clock is read before the row is locked, which saves the statement that locks it. So the lease must last for
-- another second, and an UPDATE that took longer is undone. An at_least that has not passed is left to
-- shedlock__change; so is a table on which shedlock_protect_row could take this for another client's UPDATE. Tokens
-- have sixteen digits until 2286.
CREATE OR REPLACE FUNCTION shedlock__extend_one(name text, kind text, token bigint, at_most interval) RETURNS boolean
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    session CONSTANT text := CASE kind WHEN ':' THEN @extschema@.shedlock__session() END;
    now CONSTANT timestamp := clock_timestamp() AT TIME ZONE interval '0';
    soon CONSTANT timestamp := now + interval '1 s';
    new_end timestamp;
    is_exact boolean;
BEGIN
    PERFORM FROM pg_trigger WHERE tgrelid = '@extschema@.shedlock'::regclass;
    IF FOUND THEN
        RETURN false;
    END IF;
    BEGIN -- as in shedlock__change
        new_end := now + at_most;
        UPDATE @extschema@.shedlock s SET lock_until = new_end
         WHERE s.name = shedlock__extend_one.name AND s.lock_until > soon AND s.lock_until < timestamp 'infinity'
           AND s.lock_at_least_until > timestamp '-infinity' AND s.lock_at_least_until < now
           AND right(s.locked_by COLLATE "default", 16) = @extschema@.shedlock__token_of(s.locked_at)::text
           AND CASE kind WHEN ':' THEN right(left(s.locked_by COLLATE "default", -16), length(session) + 1)
                                       IN (session || ':', session || '!')
                    ELSE right(s.locked_by COLLATE "default", 17) = '#' || token END
        RETURNING s.lock_until = new_end AND clock_timestamp() AT TIME ZONE interval '0' < LEAST(soon, new_end)
          INTO is_exact;
        IF is_exact IS NOT TRUE THEN
            RAISE SQLSTATE 'SL0NO';
        END IF;
    EXCEPTION WHEN SQLSTATE 'SL0NO' OR datetime_field_overflow THEN
        RETURN false;
    END;
    IF current_setting('citus.version', true) IS NOT NULL THEN
        PERFORM @extschema@.shedlock__hold_until_workers_commit(ARRAY[name]);
    END IF;
    PERFORM @extschema@.shedlock__require_durability();
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__extend(names text[], session text, token bigint, at_most interval,
                                            at_least interval, nowait boolean) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    at_most := @extschema@.shedlock__at_most(at_most);
    RETURN @extschema@.shedlock__change(names, session, token, at_most,
        @extschema@.shedlock__at_least(at_least, at_most), NULL::boolean, NULL::text, true,
        @extschema@.shedlock__nowait(nowait));
END
$$;

CREATE OR REPLACE FUNCTION shedlock_extend(name text, at_most interval, at_least interval DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind CONSTANT text := ':';
    token CONSTANT bigint := NULL;
    nowait CONSTANT boolean := false;
BEGIN
    @here@
    @usual_extend@
    PERFORM @extschema@.shedlock__require_writable('shedlock_extend'::text);
    RETURN @extschema@.shedlock__extend(@extschema@.shedlock__name(name COLLATE "default"),
        @extschema@.shedlock__session(), token, at_most, at_least, nowait);
END
$$;

CREATE OR REPLACE FUNCTION shedlock_extend_token(name text, token bigint, at_most interval,
                                                 at_least interval DEFAULT NULL, nowait boolean DEFAULT false)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind CONSTANT text := '#';
BEGIN
    @here@
    @usual_extend@
    PERFORM @extschema@.shedlock__require_writable('shedlock_extend_token'::text);
    RETURN @extschema@.shedlock__extend(@extschema@.shedlock__name(name COLLATE "default"),
        NULL::text, @extschema@.shedlock__token(token), at_most, at_least, nowait);
END
$$;

CREATE OR REPLACE FUNCTION shedlock_release(name text, done boolean DEFAULT true, detail text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    @here@
    @usual_release@
    PERFORM @extschema@.shedlock__require_writable('shedlock_release'::text);
    RETURN @extschema@.shedlock__change(@extschema@.shedlock__name(name COLLATE "default"),
        @extschema@.shedlock__session(), NULL::bigint, NULL::interval, NULL::interval,
        @extschema@.shedlock__done(done), detail COLLATE "default", true, false);
END
$$;

CREATE OR REPLACE FUNCTION shedlock_release_token(name text, token bigint, done boolean DEFAULT true,
                                                  nowait boolean DEFAULT false, detail text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    @here@
    @usual_release_token@
    PERFORM @extschema@.shedlock__require_writable('shedlock_release_token'::text);
    RETURN @extschema@.shedlock__change(@extschema@.shedlock__name(name COLLATE "default"),
        NULL::text, @extschema@.shedlock__token(token), NULL::interval, NULL::interval,
        @extschema@.shedlock__done(done), detail COLLATE "default", true, @extschema@.shedlock__nowait(nowait));
END
$$;

-- Guard ---------------------------------------------------------------------------------------------------------------

-- Why the row's latest acquisition is not this one; NULL if it is. Its lease may be over.
CREATE OR REPLACE FUNCTION shedlock__loss(seen shedlock__row, wanted text, session text, token bigint) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    origin record;
    found_token CONSTANT bigint := @extschema@.shedlock__token_of(seen.locked_at);
BEGIN
    IF seen.name IS NULL AND session IS NOT NULL AND token IS NOT NULL THEN -- a run, which has acquired it before
        RETURN 'Its row has been deleted.';
    ELSIF seen.name IS NULL THEN
        PERFORM @extschema@.shedlock__require_absent(wanted);
        RETURN 'Nobody ever acquired it, or its row has been deleted.';
    ELSIF session IS NULL AND (token > found_token OR seen.locked_at = timestamp '-infinity') THEN
        RETURN 'No acquisition has had this token.';
    END IF;
    origin := @extschema@.shedlock__origin(seen.locked_by, seen.locked_at);
    IF @extschema@.shedlock__is_owner(session, token, seen.locked_by, found_token) THEN
        RETURN NULL;
    END IF;
    RETURN format(
        CASE WHEN origin.kind = '*' THEN 'An administrator intervened: "%s".'
             WHEN origin.kind IN (':', '!') AND session IS NULL AND token = found_token THEN
                 'That acquisition belongs to a session, and only that session can guard or complete it: "%s".'
             ELSE 'Its latest acquisition is by "%s".' END, origin.holder);
END
$$;

CREATE OR REPLACE FUNCTION shedlock__raise_lost(name text, reason text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'SL001', MESSAGE = format('lock "%s" is lost', name), DETAIL = reason,
        HINT = 'Acquire the lock again before you repeat the work: another run may be under way.';
END
$$;

-- The row is share-locked until the transaction ends, so nobody can take the lock before it has committed.
CREATE OR REPLACE FUNCTION shedlock__guard(name text, session text, token bigint) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seen @extschema@.shedlock__row;
    reason text;
BEGIN
    SELECT @columns@
      INTO seen FROM @extschema@.shedlock s WHERE s.name = shedlock__guard.name FOR SHARE;
    reason := @extschema@.shedlock__loss(seen, name, session, token);
    IF reason IS NOT NULL THEN
        PERFORM @extschema@.shedlock__raise_lost(name, reason);
    END IF;
    IF current_setting('citus.version', true) IS NOT NULL THEN
        PERFORM @extschema@.shedlock__hold_until_workers_commit(ARRAY[name]);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_guard(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_guard'::text);
    PERFORM @extschema@.shedlock__name(name COLLATE "default");
    PERFORM @extschema@.shedlock__guard(name COLLATE "default", @extschema@.shedlock__session(), NULL::bigint);
END
$$;

CREATE OR REPLACE FUNCTION shedlock_guard_token(name text, token bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_guard_token'::text);
    PERFORM @extschema@.shedlock__name(name COLLATE "default");
    PERFORM @extschema@.shedlock__guard(name COLLATE "default", NULL::text, @extschema@.shedlock__token(token));
END
$$;

-- Complete ------------------------------------------------------------------------------------------------------------

-- Whether this transaction itself has written the row that it sees. If the row's xmin is still in progress it is ours,
-- because we would not see the row of another such transaction. Transaction ids ascend, so those of our subtransactions
-- come after our own. The answer is false if it cannot be known: the row was frozen so long ago that its xmin seems to
-- be in the future, or the server has no xmin.
CREATE OR REPLACE FUNCTION shedlock__has_written(name text) RETURNS boolean
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    own bigint;
    later bigint;
BEGIN
    own := pg_current_xact_id()::text;
    SELECT (s.xmin::text::bigint - own) & 4294967295 INTO later
      FROM @extschema@.shedlock s WHERE s.name = shedlock__has_written.name;
    RETURN later = 0 OR later < 2147483648 AND pg_xact_status((own + later)::text::xid8) = 'in progress';
EXCEPTION WHEN invalid_parameter_value OR feature_not_supported OR undefined_column THEN
    RETURN false;
END
$$;

-- Releases as done the locks that this caller may release, and those whose lease is over if nobody has taken them. The
-- rows stay locked until the transaction ends, so nobody can take the locks before it has committed.
CREATE OR REPLACE FUNCTION shedlock__complete(names text[], session text, token bigint) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seized @extschema@.shedlock__row[];
    seen @extschema@.shedlock__row;
    wanted text;
    reason text;
    now timestamp;
    next_row int := 1;
    unreleased text[] := '{}';
    has_ticks boolean := false;
BEGIN
    SELECT array_agg(l.r) INTO seized
      FROM (SELECT (@columns@)::@extschema@.shedlock__row AS r
              FROM @extschema@.shedlock s WHERE s.name = ANY (names) ORDER BY s.name COLLATE "C" FOR NO KEY UPDATE) l;
    now := clock_timestamp() AT TIME ZONE interval '0';
    FOREACH wanted IN ARRAY names LOOP -- in the order of the rows, some of which may be missing
        seen := CASE WHEN (seized[next_row]).name = wanted THEN seized[next_row] END;
        next_row := next_row + CASE WHEN seen.name IS NULL THEN 0 ELSE 1 END;
        reason := @extschema@.shedlock__loss(seen, wanted, session, token);
        IF reason IS NOT NULL THEN
            NULL;
        ELSIF seen.lock_until = timestamp 'infinity' THEN -- by hand; shedlock_pause is an acquisition
            reason := 'It is paused.';
        ELSIF seen.lock_at_least_until > timestamp '-infinity' THEN
            unreleased := unreleased || wanted;
            has_ticks := has_ticks OR seen.last_tick IS NOT NULL;
        ELSIF seen.lock_at_least_until IS NOT NULL OR NOT @extschema@.shedlock__has_written(wanted) THEN
            -- A release as done by this transaction is all right. Any other may be from a client that does not know how
            -- its commit ended: then the commit must not succeed any more, because the tick will be run again.
            reason := 'It has been released before.';
        END IF;
        IF reason IS NOT NULL THEN
            PERFORM @extschema@.shedlock__raise_lost(wanted, reason);
        END IF;
    END LOOP;

    PERFORM @extschema@.shedlock__write_release(unreleased, now, true, NULL::text);
    FOREACH seen IN ARRAY seized LOOP
        -- A lock_until that was edited by hand may be long before the acquisition, or -infinity.
        IF GREATEST(seen.lock_until, seen.locked_at) < now AND seen.lock_at_least_until > timestamp '-infinity' THEN
            RAISE WARNING
                USING MESSAGE = format('the run of lock "%s" overran its lease by %s', seen.name,
                          make_interval(secs =>
                              extract(epoch FROM now - GREATEST(seen.lock_until, seen.locked_at))::float8)),
                      DETAIL = 'Nobody else has acquired the lock since, so the transaction can still commit.',
                      HINT = 'Choose a longer at_most, or extend the lock in time.';
        END IF;
    END LOOP;
    IF current_setting('citus.version', true) IS NOT NULL THEN
        PERFORM @extschema@.shedlock__hold_until_workers_commit(names);
    END IF;
    IF has_ticks THEN -- that a tick was done must not be forgotten in a crash
        PERFORM @extschema@.shedlock__require_durability();
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_complete(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_complete'::text);
    PERFORM @extschema@.shedlock__complete(@extschema@.shedlock__name(name COLLATE "default"),
        @extschema@.shedlock__session(), NULL::bigint);
END
$$;

CREATE OR REPLACE FUNCTION shedlock_complete_token(name text, token bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_complete_token'::text);
    PERFORM @extschema@.shedlock__complete(@extschema@.shedlock__name(name COLLATE "default"),
        NULL::text, @extschema@.shedlock__token(token));
END
$$;

-- Run -----------------------------------------------------------------------------------------------------------------

-- For shedlock_run, which cannot run with its owner's rights, because then it could not commit.
CREATE OR REPLACE FUNCTION shedlock_run_begin(name text, command text, at_most interval, at_least interval,
                                              wait interval, tick timestamptz, retry boolean,
                                              start_within interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] COLLATE "default";
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_run'::text);
    names := @extschema@.shedlock__name(name);
    PERFORM @extschema@.shedlock__require(command IS NOT NULL, 'command'::text, ''::text);
    IF command COLLATE "default" ~ '^[[:space:]]*$' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'command must not be empty';
    END IF;
    RETURN @extschema@.shedlock__acquire(names, at_most, at_least, wait, tick, retry, start_within, '!'::text,
        NULL::text);
END
$$;

-- 25001 if shedlock_run cannot commit. Its COMMIT in a block with EXCEPTION has failed with this message. If it could
-- commit elsewhere, the message is about that block; if not, it is the same message as for a COMMIT in a function.
-- (Messages may be translated, so the two are compared with each other.)
CREATE OR REPLACE FUNCTION shedlock_run_check(message text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    COMMIT;
EXCEPTION WHEN invalid_transaction_termination THEN
    IF message = SQLERRM THEN
        RAISE active_sql_transaction
            USING MESSAGE = 'shedlock_run cannot run inside a transaction block, a function or an exception block',
                  HINT = 'CALL it by itself. Inside a transaction use shedlock_acquire and shedlock_release.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_run_guard(name text, token bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    lock_name CONSTANT text COLLATE "default" := name;
BEGIN
    @here@
    -- An exclusive lock: a shared one would have to be upgraded for the release, which deadlocks with a session that
    -- waits for the row.
    PERFORM FROM @extschema@.shedlock s WHERE s.name = lock_name FOR NO KEY UPDATE;
    PERFORM @extschema@.shedlock__guard(lock_name, @extschema@.shedlock__session(), token);
END
$$;

-- After the command: releases, and checks again, because the command itself may have changed the row.
CREATE OR REPLACE FUNCTION shedlock_run_end(name text, token bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__complete(ARRAY[name COLLATE "default"], @extschema@.shedlock__session(), token);
END
$$;

-- After the command has failed with this SQLSTATE and hint. Gives the hint to use. A caller that gets SL001 gets no
-- WARNING on top of it.
CREATE OR REPLACE FUNCTION shedlock_run_failed(name text, token bigint, code text, message text, hint text)
    RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__change(ARRAY[name COLLATE "default"], @extschema@.shedlock__session(), token,
        NULL::interval, NULL::interval, false,
        split_part(translate(message COLLATE "default", E'\r', E'\n'), E'\n', 1), code <> 'SL001', false);
    RETURN CASE WHEN code = '2D000' THEN 'The portable edition of shedlock_run cannot run what commits by itself.'
                ELSE hint END;
END
$$;

-- Sets shedlock.tick for the command. Only the transaction of the command has the setting.
CREATE OR REPLACE FUNCTION shedlock_run_tick(tick timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $$
BEGIN
    @here@
    PERFORM set_config('shedlock.tick', COALESCE(to_jsonb(tick) #>> '{}', ''), true);
END
$$;

CREATE OR REPLACE PROCEDURE shedlock_run(
    name text,
    command text,
    at_most interval DEFAULT NULL,
    at_least interval DEFAULT '0',
    wait interval DEFAULT '0',
    tick timestamptz DEFAULT NULL,
    retry boolean DEFAULT false,
    start_within interval DEFAULT NULL,
    INOUT executed boolean DEFAULT NULL
)
    LANGUAGE plpgsql AS $$
-- Runs with the caller's search_path, as the command must. So every operator, function and type has its schema.
DECLARE
    itself pg_catalog.oid;
    token bigint;
    failed boolean := false;
    code pg_catalog.text;
    message pg_catalog.text;
    detail pg_catalog.text;
    hint pg_catalog.text;
BEGIN
    @run_here@
    BEGIN
        COMMIT; -- never succeeds here; the message tells whether it can succeed below
    EXCEPTION WHEN invalid_transaction_termination THEN
        PERFORM @extschema@.shedlock_run_check(SQLERRM);
    END;
    token := @extschema@.shedlock_run_begin(name, command, at_most, at_least, wait, tick, retry,
        start_within);
    executed := token IS NOT NULL;
    IF NOT executed THEN
        RETURN;
    END IF;
    COMMIT;

    BEGIN
        PERFORM @extschema@.shedlock_run_guard(name, token);
        PERFORM @extschema@.shedlock_run_tick(tick);
        EXECUTE command;
        PERFORM @extschema@.shedlock_run_end(name, token);
        BEGIN
            SET CONSTRAINTS ALL IMMEDIATE; -- so that what would fail at the commit fails here
        EXCEPTION WHEN feature_not_supported THEN -- YugabyteDB
            NULL;
        END;
    EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
        failed := true;
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
            hint = PG_EXCEPTION_HINT;
    END;
    IF failed THEN
        ROLLBACK;
        BEGIN -- the caller gets the error of the command even if the release fails, too
            hint := @extschema@.shedlock_run_failed(name, token, code, message, hint);
        EXCEPTION WHEN query_canceled OR OTHERS THEN
            RAISE WARNING
                USING ERRCODE = SQLSTATE, MESSAGE = pg_catalog.format('lock "%s" was not released', name),
                      DETAIL = SQLERRM, HINT = 'It ends with its lease, or with this session.';
        END;
        COMMIT;
        PERFORM @extschema@.shedlock_raise(code, message, detail, hint, false);
    END IF;
    COMMIT;
END
$$;

-- Intervene -----------------------------------------------------------------------------------------------------------

-- The row, once no other transaction has it: administrators override any holder. 22023 or 22001 if there is no row and
-- the name cannot be stored.
CREATE OR REPLACE FUNCTION shedlock__await(name text) RETURNS shedlock__row
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seen @extschema@.shedlock__row;
BEGIN
    SELECT @columns@
      INTO seen FROM @extschema@.shedlock s WHERE s.name = shedlock__await.name FOR NO KEY UPDATE;
    IF seen.name IS NULL THEN
        PERFORM @extschema@.shedlock__require_absent(name);
    ELSIF current_setting('citus.version', true) IS NOT NULL THEN
        PERFORM @extschema@.shedlock__hold_until_workers_commit(ARRAY[name]);
    END IF;
    RETURN seen;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__force_release(name text) RETURNS boolean
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seen @extschema@.shedlock__row;
    now timestamp;
    columns record;
    freed_at timestamp;
BEGIN
    seen := @extschema@.shedlock__await(name);
    IF seen.name IS NULL THEN
        RETURN false;
    END IF;
    columns := @extschema@.shedlock__columns(); -- as they are after the wait
    now := clock_timestamp() AT TIME ZONE interval '0';
    -- An infinite locked_at, which somebody set by hand, is nobody's token, so this repairs it.
    freed_at := @extschema@.shedlock__new_token(now, NULLIF(seen.locked_at, timestamp 'infinity'), NULL::timestamp[],
        columns.unit);
    IF NOT @no_history@ AND @extschema@.shedlock__is_under_way(seen) THEN
        PERFORM @extschema@.shedlock__record(ARRAY[name],
            CASE WHEN @extschema@.shedlock__lasts_until(seen, now) > now THEN 'freed'::text ELSE 'ran out'::text END,
            now, NULL::text);
    END IF;
    PERFORM @extschema@.shedlock__mark(ARRAY[seen.name]);
    UPDATE @extschema@.shedlock s
       SET lock_until = @extschema@.shedlock__round_down(now, columns.unit),
           locked_at = freed_at,
           locked_by = @extschema@.shedlock__locked_by('released by force: ' || session_user,
                                                       '*' || @extschema@.shedlock__number(freed_at),
                                                       columns.locked_by_limit),
           lock_at_least_until = NULL,
           last_done_tick = @extschema@.shedlock__with_java(s.last_done_tick,
                                                            s.locked_by::text COLLATE "default", s.locked_at),
           run_tick = NULL
     WHERE s.name = shedlock__force_release.name;
    PERFORM @extschema@.shedlock__require_durability();
    RETURN @extschema@.shedlock__lasts_until(seen, now) > now;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_force_release(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_force_release'::text);
    PERFORM @extschema@.shedlock__require(name IS NOT NULL, 'name'::text, ''::text);
    RETURN @extschema@.shedlock__force_release(name COLLATE "default");
END
$$;

-- Whether the row may be deleted: the lock is free, and later tokens and ticks will be greater than those in the row.
CREATE OR REPLACE FUNCTION shedlock__is_past(seen shedlock__row, now timestamp) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN @extschema@.shedlock__lasts_until(seen, now) <= now
       AND seen.locked_at
           < @extschema@.shedlock__round_down(now, (SELECT c.unit FROM @extschema@.shedlock__columns() c))
       AND COALESCE(GREATEST(seen.last_tick, seen.last_done_tick) < now, true);
END
$$;

-- The row is locked only if it may be deleted: a call that gives false must not keep others from their release.
CREATE OR REPLACE FUNCTION shedlock__forget(name text) RETURNS boolean
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seen @extschema@.shedlock__row;
BEGIN
    -- One that is NOT ENFORCED has no triggers.
    IF EXISTS (SELECT FROM pg_constraint k JOIN pg_trigger g ON g.tgconstraint = k.oid
                WHERE k.confrelid = '@extschema@.shedlock'::regclass AND k.contype = 'f') THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('cannot forget lock "%s": foreign keys of other tables refer to the lock table',
                                   name),
                  HINT = 'DELETE the row as the owner of the table, while the lock is free. That checks them.';
    END IF;
    SELECT @columns@
      INTO seen FROM @extschema@.shedlock s WHERE s.name = shedlock__forget.name;
    IF seen.name IS NULL THEN
        PERFORM @extschema@.shedlock__require_storable(name);
        RETURN false;
    ELSIF NOT @extschema@.shedlock__is_past(seen, clock_timestamp() AT TIME ZONE interval '0') THEN
        RETURN false;
    END IF;
    BEGIN
        SELECT @columns@
          INTO seen FROM @extschema@.shedlock s WHERE s.name = shedlock__forget.name FOR UPDATE SKIP LOCKED;
        IF seen.name IS NULL
           OR NOT @extschema@.shedlock__is_past(seen, clock_timestamp() AT TIME ZONE interval '0') THEN
            RAISE SQLSTATE 'SL0NO';
        END IF;
        PERFORM @extschema@.shedlock__record_abandoned(ARRAY[seen], clock_timestamp() AT TIME ZONE interval '0');
        -- ended with its session: shedlock_protect_row would keep it
        IF seen.lock_until > clock_timestamp() AT TIME ZONE interval '0' THEN
            UPDATE @extschema@.shedlock s SET lock_at_least_until = 'infinity', lock_until = seen.locked_at
             WHERE s.name = shedlock__forget.name;
        END IF;
        DELETE FROM @extschema@.shedlock s WHERE s.name = shedlock__forget.name;
        IF NOT FOUND THEN -- the clock has stepped back since, so shedlock_protect_row keeps it
            RAISE SQLSTATE 'SL0NO';
        END IF;
    EXCEPTION WHEN SQLSTATE 'SL0NO' OR serialization_failure -- it has changed since this transaction's snapshot
         OR lock_not_available THEN -- as to the history
        RETURN false;
    END;
    IF NOT (@extschema@.shedlock__origin(seen.locked_by, seen.locked_at)).is_ours THEN
        RAISE NOTICE 'lock "%" was last acquired by "%", not by shedlock', seen.name, seen.locked_by
            USING HINT = 'A JVM remembers that the row exists, and never inserts it again. If it still has a job with this name, restart the JVM.';
    END IF;
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_forget(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_forget'::text);
    PERFORM @extschema@.shedlock__require(name IS NOT NULL, 'name'::text, ''::text);
    RETURN @extschema@.shedlock__forget(name COLLATE "default");
END
$$;

CREATE OR REPLACE FUNCTION shedlock_pause(name text, reason text DEFAULT NULL, wait interval DEFAULT '0')
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_pause'::text);
    PERFORM @extschema@.shedlock__require(name IS NOT NULL, 'name'::text, ''::text);
    RETURN @extschema@.shedlock__try_for(ARRAY[name COLLATE "default"], NULL::interval, NULL::interval,
        @extschema@.shedlock__wait(wait), NULL::timestamp, false, NULL::timestamp, '*'::text,
        'paused: ' || session_user || COALESCE(': ' || NULLIF(reason, ''), '')) IS NOT NULL;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__resume(name text) RETURNS boolean
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    seen @extschema@.shedlock__row;
BEGIN
    BEGIN -- so that a row that is not paused does not stay locked
        seen := @extschema@.shedlock__await(name);
        IF seen.lock_until IS DISTINCT FROM timestamp 'infinity' THEN
            RAISE SQLSTATE 'SL0NO';
        END IF;
    EXCEPTION WHEN SQLSTATE 'SL0NO' THEN
        RAISE WARNING USING MESSAGE = format('lock "%s" was not resumed', name), DETAIL = 'It is not paused.';
        RETURN false;
    END;
    PERFORM @extschema@.shedlock__mark(ARRAY[seen.name]);
    UPDATE @extschema@.shedlock s
       SET lock_until = @extschema@.shedlock__round_down(clock_timestamp() AT TIME ZONE interval '0',
                                                         (SELECT unit FROM @extschema@.shedlock__columns())),
           lock_at_least_until = seen.lock_at_least_until
     WHERE s.name = shedlock__resume.name;
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_resume(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_resume'::text);
    PERFORM @extschema@.shedlock__require(name IS NOT NULL, 'name'::text, ''::text);
    RETURN @extschema@.shedlock__resume(name COLLATE "default");
END
$$;

-- See -----------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock_rows(names text[],
    OUT name text, OUT lock_until timestamp, OUT locked_at timestamp, OUT locked_by text,
    OUT lock_at_least_until timestamp, OUT last_tick timestamp, OUT last_done_tick timestamp,
    OUT last_done_at timestamp, OUT run_tick timestamp
) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    @here@
    IF names IS NULL THEN
        RETURN QUERY SELECT s.name::text, s.lock_until, s.locked_at, s.locked_by::text, s.lock_at_least_until,
                            s.last_tick, s.last_done_tick, s.last_done_at, s.run_tick
                       FROM @extschema@.shedlock s;
    ELSE
        RETURN QUERY SELECT s.name::text, s.lock_until, s.locked_at, s.locked_by::text, s.lock_at_least_until,
                            s.last_tick, s.last_done_tick, s.last_done_at, s.run_tick
                       FROM @extschema@.shedlock s WHERE s.name = ANY (names);
    END IF;
END
$$;

-- Statistics ----------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock_stats_rows(
    OUT name text, OUT attempts bigint, OUT acquired bigint, OUT refused bigint, OUT released bigint, OUT failed bigint,
    OUT extended bigint, OUT expired bigint, OUT lost bigint, OUT wait_time interval, OUT longest_hold interval,
    OUT total_hold interval
) RETURNS SETOF record
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE feature_not_supported USING MESSAGE = 'shedlock_stats needs the extension',
        HINT = 'The portable edition has no shared memory to count in.';
END
$$;

CREATE OR REPLACE VIEW shedlock_stats AS SELECT * FROM shedlock_stats_rows();

CREATE OR REPLACE FUNCTION shedlock_stats_reset() RETURNS void
    LANGUAGE sql BEGIN ATOMIC SELECT shedlock_stats_rows(); END;

CREATE OR REPLACE FUNCTION shedlock_version(OUT edition text, OUT version text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT 'portable', '1.0' $$;

-- Shape ---------------------------------------------------------------------------------------------------------------

-- Like extension/inspection.cpp, this refuses whatever is not known to be harmless. It is called when this file runs,
-- by the doctor and by shedlock_protect. In every other call it would cost more than the call itself.
CREATE OR REPLACE FUNCTION shedlock_inspect(OUT lock_table regclass, OUT complaint text, OUT remedy text,
                                            OUT has_counters boolean, OUT history regclass, OUT history_fault text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id CONSTANT oid := to_regclass('@extschema@.shedlock');
    t pg_class;
    what text;
BEGIN
    has_counters := false;
    BEGIN
        @here@
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        GET STACKED DIAGNOSTICS complaint = MESSAGE_TEXT, remedy = PG_EXCEPTION_HINT;
        RETURN;
    END;
    SELECT * INTO t FROM pg_class WHERE oid = id;
    IF t.oid IS NULL THEN
        RAISE undefined_table USING MESSAGE = 'the lock table has been dropped', HINT = 'Run shedlock.sql again.';
    END IF;
    WITH columns AS (SELECT a.*, pg_get_expr(d.adbin, d.adrelid) AS filled
                       FROM pg_attribute a
                            LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
                      WHERE a.attrelid = id AND a.attnum > 0 AND NOT a.attisdropped),
         wanted (no, attname) AS (VALUES (1, name 'name'), (2, 'locked_by'), (3, 'lock_until'), (4, 'locked_at'),
                                         (5, 'lock_at_least_until'), (6, 'last_tick'), (7, 'last_done_tick'),
                                         (8, 'last_done_at'), (9, 'run_tick')),
         ours AS (SELECT array_agg(attnum) AS numbers FROM columns JOIN wanted USING (attname)),
         indexes AS (SELECT i.*,
                            i.indnatts = 1
                            AND i.indkey[0] = (SELECT attnum FROM columns WHERE attname = 'name') AS is_on_name
                       FROM pg_index i WHERE i.indrelid = id),
         checks AS (SELECT * FROM pg_constraint k
                     WHERE conrelid = id AND contype IN ('c', 'n') -- n: NOT NULL, from PostgreSQL 18 on
                       AND to_jsonb(k) -> 'conenforced' IS DISTINCT FROM 'false') -- from 18 on
    SELECT f.what, f.remedy INTO what, remedy FROM (
        SELECT 1, 'it is not an ordinary table', 'Rename or drop it, and run shedlock.sql again.' WHERE t.relkind <> 'r'
        UNION ALL SELECT 2, 'its owner does not own the functions, which would run whatever the owner attaches to it',
                'Run shedlock.sql again as the table''s owner.'
            WHERE t.relowner <> quote_ident(current_user)::regrole
        UNION ALL SELECT 3, 'it is a partition or a typed table, or takes part in inheritance',
                'Detach it: a lock''s row must be in exactly one table, with columns of its own. If its child tables have been dropped, ANALYZE it: until then the catalog says that it has some.'
            WHERE t.relispartition OR t.relhassubclass OR t.reloftype <> 0
               OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = id)
        UNION ALL SELECT 4, 'it has rules', 'Drop the rules.' WHERE t.relhasrules
        UNION ALL SELECT 5, 'it has triggers or foreign keys',
                'Drop the triggers and foreign keys (docs/operations.md says which may stay). Where Citus made them: DROP EXTENSION IF EXISTS shedlock, SELECT undistribute_table(''shedlock''), and install shedlock again. Where pgactive did: use a database that it does not replicate.'
            FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
                 LEFT JOIN pg_constraint k ON k.oid = g.tgconstraint, ours
            WHERE g.tgrelid = id
              AND (g.tgname, g.tgfoid, g.tgtype, g.tgenabled, g.tgnargs, g.tgattr::text, g.tgqual IS NULL)
                  IS DISTINCT FROM ('shedlock_protect', '@extschema@.shedlock_protect_row()'::regprocedure,
                                    27, 'O', 0, '', true) -- BEFORE UPDATE OR DELETE FOR EACH ROW
              AND NOT (g.tgisinternal AND k.contype IS NOT DISTINCT FROM 'f'
                       AND NOT (k.conrelid = id AND k.conkey && ours.numbers))
              -- Somebody's own, an audit for example: AFTER (not 2, BEFORE, and not 64, INSTEAD OF), and with the
              -- rights of the role that wrote it: a deferred one would run with the caller's, and a name without a
              -- schema would mean the caller's temporary table. Other extensions are known by their triggers, most of
              -- which are in C.
              AND NOT (NOT g.tgisinternal AND g.tgtype & 66 = 0 AND NOT g.tgdeferrable AND p.proowner = t.relowner
                       AND EXISTS (SELECT FROM unnest(p.proconfig) s WHERE s ~ '^search_path=.*, ?"?pg_temp"?$')
                       AND NOT EXISTS (SELECT FROM pg_language l
                                        WHERE l.oid = p.prolang AND l.lanname IN ('c', 'internal'))
                       AND NOT EXISTS (SELECT FROM pg_depend d
                                        WHERE (d.classid, d.objid, d.deptype) = ('pg_proc'::regclass, p.oid, 'e')))
        UNION ALL SELECT 6, format('role %s may put triggers on it, which would run as the functions'' owner',
                                   CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END),
                'REVOKE TRIGGER ON the table from it.'
            FROM aclexplode(t.relacl) a WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> t.relowner
        UNION ALL SELECT 6, 'it has row security that is forced on its owner',
                format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY.', id::regclass)
            WHERE t.relrowsecurity AND t.relforcerowsecurity
        UNION ALL SELECT 7, format('constraint "%s" is on a column of the locks', conname), 'Drop the constraint.'
            FROM checks k, ours
            WHERE k.contype = 'c' AND (k.conkey && ours.numbers OR 0 >= ANY (k.conkey)) -- 0: the whole row
        UNION ALL SELECT 7, format('constraint "%s" is not valid, so it may refuse rows that exist', conname),
                format('ALTER TABLE %s VALIDATE CONSTRAINT %I.', id::regclass, conname)
            FROM checks WHERE NOT convalidated
        UNION ALL SELECT 8,
                format('it uses %s of role %s, which would run as the functions'' owner', c.what, c.owner),
                'Drop it, or let the owner of the table own what it uses.'
            FROM (@foreign_code@) c (what, owner)
        UNION ALL SELECT 10 + w.no, format('it has no column "%s"', w.attname),
                'Its columns are name, lock_until, locked_at, locked_by, lock_at_least_until, last_tick, last_done_tick, last_done_at and run_tick; see docs/operations.md.'
            FROM wanted w WHERE NOT EXISTS (SELECT FROM columns c WHERE c.attname = w.attname)
        UNION ALL SELECT 20 + w.no, format('column "%s" is %s', attname, format_type(atttypid, NULL)),
                CASE WHEN w.no <= 2 THEN 'It must be varchar or text.'
                     WHEN atttypid = 'timestamptz'::regtype THEN
                         format('Java ShedLock writes UTC times without a zone, and this type takes them for times in the session''s time zone. Set TimeZone to the time zone of the JVMs, and convert the column back: SET TimeZone = ''...''; ALTER TABLE ... ALTER COLUMN %s TYPE timestamp.', attname)
                     ELSE 'It must be timestamp without time zone, in UTC.' END
            FROM wanted w JOIN columns USING (attname)
            WHERE CASE WHEN w.no <= 2 THEN atttypid NOT IN ('varchar'::regtype, 'text'::regtype)
                       ELSE atttypid <> 'timestamp'::regtype END
        UNION ALL SELECT 30 + w.no, format('column "%s" may be NULL', attname),
                format('ALTER TABLE ... ALTER COLUMN %s SET NOT NULL.', attname)
            FROM wanted w JOIN columns USING (attname) WHERE w.no < 5 AND NOT attnotnull
        UNION ALL SELECT 40 + w.no, format('column "%s" is NOT NULL', attname),
                format('It is NULL at times: ALTER TABLE ... ALTER COLUMN %s DROP NOT NULL.', attname)
            FROM wanted w JOIN columns USING (attname) WHERE w.no >= 5 AND attnotnull
        UNION ALL SELECT 50 + w.no, format('column "%s" is %s', attname, format_type(atttypid, atttypmod)),
                format('It needs microsecond precision: ALTER TABLE ... ALTER COLUMN %s TYPE timestamp.', attname)
            FROM wanted w JOIN columns USING (attname) WHERE w.no >= 6 AND atttypmod NOT IN (-1, 6)
        UNION ALL SELECT 60 + w.no, format('column "%s" has a default', attname),
                format('It must be NULL in a new row: ALTER TABLE ... ALTER COLUMN %s DROP DEFAULT.', attname)
            FROM wanted w JOIN columns USING (attname) WHERE w.no >= 6 AND atthasdef AND attgenerated = ''
        UNION ALL SELECT 70, format('column "locked_by" holds only %s characters', atttypmod - 4),
                'ALTER TABLE ... ALTER COLUMN locked_by TYPE varchar(255).'
            FROM columns WHERE attname = 'locked_by' AND atttypmod BETWEEN 4 AND 67
        UNION ALL SELECT 71, format('column "%s" is generated', attname), 'Make it an ordinary column.'
            FROM wanted JOIN columns USING (attname) WHERE attgenerated <> ''
        UNION ALL SELECT 72, format('the additional column "%s" is generated from a column of the locks', c.attname),
                'Drop it, or compute it in a view.'
            FROM columns c LEFT JOIN wanted w USING (attname), ours
            WHERE w.no IS NULL AND c.attgenerated <> '' AND EXISTS (
                SELECT FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
                 WHERE (f.adrelid, f.adnum, d.refclassid, d.refobjid) = (id, c.attnum, 'pg_class'::regclass, id)
                   AND d.refobjsubid = ANY (ours.numbers))
        UNION ALL SELECT 73, format('the additional column "%s" is of type %s, which is a domain or not built in',
                                    attname, format_type(atttypid, NULL)),
                -- any role may have written the functions of other types
                'Give it a built-in type, or keep it in another table.'
            FROM columns LEFT JOIN wanted w USING (attname) JOIN pg_type y ON y.oid = atttypid
            WHERE w.no IS NULL AND (y.typnamespace <> 'pg_catalog'::regnamespace OR y.typtype = 'd')
        UNION ALL SELECT 80, format('index "%s" has an expression or a predicate', indexrelid::regclass),
                'Drop the index.'
            FROM indexes WHERE indexprs IS NOT NULL OR indpred IS NOT NULL
        UNION ALL SELECT 80, format('index "%s" is not a btree', indexrelid::regclass), 'Drop the index.'
            FROM indexes JOIN pg_class x ON x.oid = indexrelid JOIN pg_am m ON m.oid = x.relam WHERE m.amname <> 'btree'
        UNION ALL SELECT 80,
                format('index "%s" has an operator class that is not the default, or a collation that did not come with PostgreSQL', indexrelid::regclass),
                'Drop the index, or create it again without them.'
            FROM indexes, unnest(indclass::oid[], indcollation::oid[]) k (class_id, collation_id)
                 JOIN pg_opclass c ON c.oid = k.class_id LEFT JOIN pg_collation l ON l.oid = k.collation_id
            WHERE l.collnamespace <> 'pg_catalog'::regnamespace
               OR NOT EXISTS (SELECT FROM pg_opclass u
                               WHERE (u.opcfamily, u.opcintype) = (c.opcfamily, c.opcintype)
                                 AND u.opcdefault AND u.opcnamespace = 'pg_catalog'::regnamespace)
        UNION ALL SELECT 81, format('index "%s" is unique, but not on (name) alone', indexrelid::regclass),
                'Drop the index: it could refuse rows that the lock needs.'
            FROM indexes, ours
            WHERE indisexclusion
               OR indisunique AND NOT is_on_name AND (indkey::int2[])[0:indnkeyatts - 1] && ours.numbers
        UNION ALL SELECT 82, 'the collation of its names is nondeterministic',
                'Names are compared byte by byte: ALTER TABLE ... ALTER COLUMN name TYPE ... COLLATE "C".'
            FROM columns c JOIN pg_collation l ON l.oid = c.attcollation
            WHERE c.attname = 'name' AND NOT l.collisdeterministic
        UNION ALL SELECT 83, 'it has no unique index on (name)', 'ALTER TABLE ... ADD PRIMARY KEY (name).'
            WHERE NOT EXISTS (SELECT FROM indexes
                               WHERE indisunique AND indisvalid AND indisready AND indimmediate AND is_on_name)
        UNION ALL SELECT 84, format('the statistics object "%s" has expressions', stxname), 'DROP STATISTICS.'
            FROM pg_statistic_ext WHERE stxrelid = id AND stxexprs IS NOT NULL
    ) f (no, what, remedy) ORDER BY f.no LIMIT 1;
    IF what IS NULL AND current_setting('transaction_read_only') = 'off' THEN
        -- PostgreSQL refuses these if a publication has the table and subscribers could not tell its rows apart.
        -- EXPLAIN does not run triggers. The error gives the table lock back: shedlock_keep_history waits for it.
        BEGIN
            EXECUTE 'EXPLAIN UPDATE @extschema@.shedlock SET name = name WHERE false';
            EXECUTE 'EXPLAIN DELETE FROM @extschema@.shedlock WHERE false';
            RAISE SQLSTATE 'SL0NO';
        EXCEPTION
            WHEN SQLSTATE 'SL0NO' THEN
                NULL;
            WHEN object_not_in_prerequisite_state THEN
                what := 'it is published, but has no replica identity';
                remedy := 'ALTER TABLE ... ADD PRIMARY KEY (name), or set REPLICA IDENTITY.';
            WHEN invalid_column_reference THEN
                what := 'a publication filters it by columns outside its replica identity, or leaves out columns of the replica identity';
                remedy := 'ALTER PUBLICATION ... SET TABLE without WHERE and without a list of columns. With generated columns also ALTER TABLE ... REPLICA IDENTITY DEFAULT.';
        END;
    END IF;
    IF what IS NULL THEN
        lock_table := id;
        history := to_regclass('@extschema@.shedlock_history');
        history_fault := @history_fault@; -- not a call: PL/pgSQL would look the name up
    ELSE
        complaint := format('table "%s" cannot serve as the lock table: %s', '@extschema@.shedlock', what);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock__complain(complaint text, remedy text) RETURNS regclass
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = complaint, HINT = remedy;
END
$$;

-- PL/pgSQL looks functions up by name, so a role can make a call ambiguous by planting an overload. A view is found by
-- its name alone, and calls the functions that existed when it was created.
CREATE OR REPLACE VIEW shedlock_table AS
SELECT CASE WHEN complaint IS NULL THEN lock_table ELSE shedlock__complain(complaint, remedy) END AS id
  FROM shedlock_inspect();

-- Routines ------------------------------------------------------------------------------------------------------------

-- Only functions with these names are ours: the role that owns them may own others with similar names.
DO $$
DECLARE
-- shared: Names
    ours CONSTANT text := '^shedlock_(_.*|(acquire|extend|release|guard|complete)(_token)?|wait_any|end_wait|not_due|((find|list|sort)_)?ticks?|read_schedule|run(_check|_begin|_guard|_tick|_end|_failed)?'
        '|force_release|forget|pause|resume|rows|locks|session_alive|stats_rows|stats_reset|(keep_)?history|is_slow|protect(_row)?|doctor|findings|inspect|grant|revoke|after_pg_upgrade|raise|version)$';
-- end: Names
BEGIN
    -- The view finds the functions by the schema and the owner of the table, so that it still works after a restore
    -- into another schema and after REASSIGN OWNED. Operators are qualified, because another role may have left some
    -- in this schema that match the types of their operands better than those of pg_catalog do.
    EXECUTE pg_catalog.format('CREATE OR REPLACE VIEW shedlock_routines AS
        SELECT p.oid::regprocedure AS routine
          FROM pg_catalog.pg_proc p
               JOIN pg_catalog.pg_class t ON t.relnamespace = p.pronamespace AND t.relowner = p.proowner
         WHERE t.oid OPERATOR(pg_catalog.=) ''shedlock''::regclass::oid
           AND p.proname::text OPERATOR(pg_catalog.~) %L::text', ours);
END
$$;

-- shared: Ticks -------------------------------------------------------------------------------------------------------

-- A schedule is an interval or a crontab expression. PL/pgSQL would look functions of ours up by name, and another role
-- could plant an overload. So the functions in PL/pgSQL do not call each other. Those in SQL do: PostgreSQL stores what
-- the names in their bodies mean now, and puts the body of shedlock_tick in the place of its call.

-- What a crontab expression allows, or NULL if the schedule is an interval:
-- * the minutes of the day, the days of the month (the 32nd is L), the months, and the weekdays, sun#1 to sat#5. Each is
--   a text of 0 and 1, in which the latest member up to a value can be found without a loop;
-- * 'or' if a day has to be in one of the two sets of days, 'and' if it has to be in both;
-- * 'each' if a time that the clock shows twice has two ticks, 'first' if it has one.
CREATE OR REPLACE FUNCTION shedlock_read_schedule(schedule text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names CONSTANT text[] := '{minute,hour,day of month,month,day of week}';
    allowed CONSTANT text[] :=
        '{0 to 59,0 to 23,1 to 31 or L,1 to 12 or jan to dec,"0 to 7, sun to sat or mon#1 to mon#5"}';
    lowest CONSTANT int[] := '{0,0,1,1,0}';
    highest CONSTANT int[] := '{59,23,31,12,7}';
    given CONSTANT text := btrim(regexp_replace(lower(schedule), '[[:space:]]+', ' ', 'g'));
    fields text[];
    words text[]; -- the names of values
    item text;
    part text[];
    first int;
    last int;
    step int;
    members text;
    sets text[];
BEGIN
    IF schedule IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'schedule must not be NULL';
    END IF;
    fields := regexp_match(given, '^([0-9*][^ ]*) ([0-9*][^ ]*) ([^ ]+) ([^ ]+) ([^ ]+)$');
    IF fields IS NULL AND given ~ '^@[a-z]' THEN
        fields := CASE given
                  WHEN '@yearly' THEN '{0,0,1,1,*}'
                  WHEN '@annually' THEN '{0,0,1,1,*}'
                  WHEN '@monthly' THEN '{0,0,1,*,*}'
                  WHEN '@weekly' THEN '{0,0,*,*,0}'
                  WHEN '@daily' THEN '{0,0,*,*,*}'
                  WHEN '@midnight' THEN '{0,0,*,*,*}'
                  WHEN '@hourly' THEN '{0,*,*,*,*}'
                  END;
        IF fields IS NULL THEN
            RAISE invalid_parameter_value
                USING MESSAGE = format('schedule "%s" is none of @yearly, @annually, @monthly, @weekly, @daily, '
                                       '@midnight and @hourly', schedule);
        END IF;
    ELSIF fields IS NULL THEN
        IF strpos(given, '*') > 0 THEN
            RAISE invalid_parameter_value
                USING MESSAGE = format('schedule "%s" is neither an interval nor five fields: '
                                       'minute, hour, day of month, month, day of week', schedule);
        END IF;
        RETURN NULL;
    END IF;

    FOR i IN 1..5 LOOP
        words := CASE i WHEN 4 THEN '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
                        WHEN 5 THEN '{sun,mon,tue,wed,thu,fri,sat}' END;
        FOREACH item IN ARRAY string_to_array(fields[i], ',') LOOP
            -- {*, the first and the last value of a range, the step of either, a single value, its number in the month}
            part := regexp_match(item, '^(?:(?:([*])|([0-9]{1,2}|[a-z]{3})-([0-9]{1,2}|[a-z]{3}))(?:/([0-9]{1,2}))?'
                                       '|([0-9]{1,2}|[a-z]{3})(?:#([1-5]))?)$');
            first := CASE WHEN part[1] = '*' THEN lowest[i]
                          WHEN COALESCE(part[2], part[5]) < 'a' THEN COALESCE(part[2], part[5])::int
                          ELSE array_position(words, COALESCE(part[2], part[5])) - 1 + lowest[i] END;
            last := CASE WHEN part[1] = '*' THEN highest[i]
                         WHEN part[5] IS NOT NULL THEN first
                         WHEN part[3] < 'a' THEN part[3]::int
                         ELSE array_position(words, part[3]) - 1 + lowest[i] END;
            step := COALESCE(part[4]::int, 1);
            IF i = 3 AND item = 'l' THEN
                first := 32;
                last := 32;
            ELSIF (first >= lowest[i] AND first <= last AND last <= highest[i] AND step BETWEEN 1 AND highest[i]
                   AND (i = 5 OR part[6] IS NULL)) IS NOT TRUE THEN
                RAISE invalid_parameter_value
                    USING MESSAGE = format('%s in schedule must %s, not "%s"', names[i],
                                           CASE WHEN step BETWEEN 1 AND highest[i] THEN 'be ' || allowed[i]
                                                ELSE 'have a step of 1 to ' || highest[i] END, item),
                          HINT = CASE WHEN item = '$' THEN 'L is the last day of the month.'
                                 ELSE 'A field is *, or a list of values and of ranges from a lower to a higher value '
                                      '(5-7 is Friday to Sunday). A step follows * or a range: */10, 5-55/10.' END;
            END IF;
            members := repeat('0', first - lowest[i])
                    || left(repeat(rpad('1', step, '0'), last - first + 1), last - first + 1);
            IF i = 5 THEN
                members := rpad(members, 8, '0');
                members := greatest(left(members, 1), right(members, 1)) || substr(members, 2, 6);
                members := CASE WHEN part[6] IS NULL THEN repeat(members, 5)
                                ELSE repeat('0', 7 * (part[6]::int - 1)) || members END;
            END IF;
            members := rpad(members, CASE i WHEN 3 THEN 32 WHEN 5 THEN 35 ELSE highest[i] - lowest[i] + 1 END, '0');
            sets[i] := CASE WHEN sets[i] IS NULL THEN members ELSE (sets[i]::varbit | members::varbit)::text END;
        END LOOP;
    END LOOP;
    RETURN ARRAY[replace(replace(translate(sets[2], '01', 'nm'), 'n', repeat('0', 60)), 'm', sets[1]),
                 sets[3], sets[4], sets[5],
                 -- as in Vixie's cron, where */2 is not a restriction, either
                 CASE WHEN left(fields[3], 1) <> '*' AND left(fields[5], 1) <> '*' THEN 'or' ELSE 'and' END,
                 CASE WHEN left(fields[1], 1) = '*' OR left(fields[2], 1) = '*' THEN 'each' ELSE 'first' END];
END
$$;

-- The latest tick up to `at`, or with looks_ahead up to a little after it. The schedule is `every`, or else `expression`,
-- which shedlock_read_schedule has found in `schedule`, or else the interval `schedule`.
CREATE OR REPLACE FUNCTION shedlock_find_tick(
    every interval,
    schedule text,
    expression text[],
    zone text,
    at timestamptz,
    looks_ahead boolean
) RETURNS timestamptz
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $$
-- TimeZone is set because PostgreSQL 18 looks `zone` up in it first: '<EUROPE/BERLIN>5' has a zone of that name.
DECLARE
    origin CONSTANT timestamp := '2001-01-01'; -- a Monday
    a_day CONSTANT interval := '24 hours';
    each boolean; -- whether a time that the clock shows twice has two ticks
    is_name boolean := true;
    months int;
    rest interval;
    latest timestamptz;
    shown timestamp;
    is_recent boolean; -- whether to try if the clock has not been changed since the tick
    bound timestamp; -- where the search for `due` begins
    due timestamp; -- by the wall clock
    tick timestamptz;
    changed timestamptz;
    skipped interval;
BEGIN
    IF expression IS NULL AND schedule IS NOT NULL THEN
        every := schedule::interval;
    END IF;
    IF every IS NULL AND expression IS NULL OR zone IS NULL OR at IS NULL THEN
        RAISE null_value_not_allowed
            USING MESSAGE = CASE WHEN every IS NULL AND expression IS NULL THEN 'every'
                                 WHEN zone IS NULL THEN 'zone' ELSE 'at' END || ' must not be NULL';
    ELSIF NOT isfinite(every) OR NOT isfinite(at) THEN
        RAISE invalid_parameter_value
            USING MESSAGE = CASE WHEN isfinite(every) IS NOT FALSE THEN 'at' WHEN schedule IS NULL THEN 'every'
                                 ELSE 'schedule' END || ' must be finite';
    ELSIF every <= interval '0' THEN
        RAISE invalid_parameter_value
            USING MESSAGE = CASE WHEN schedule IS NULL THEN 'every' ELSE 'schedule' END || ' must be positive';
    END IF;
    IF expression IS NULL THEN
        months := extract(year FROM every) * 12 + extract(month FROM every);
        rest := every - make_interval(months => months);
        IF months <> 0 AND rest <> interval '0'
           OR extract(day FROM rest) <> 0 AND extract(epoch FROM rest) % 86400 <> 0 THEN
            RAISE invalid_parameter_value
                USING MESSAGE = CASE WHEN schedule IS NULL THEN 'every' ELSE 'schedule' END
                             || ' must be whole months, whole days or a time, not a mixture',
                      HINT = 'A day and a half is ''36 hours''.';
        END IF;
    END IF;

    IF zone ~* '^right/' THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('zone "%s" counts leap seconds, which the server''s clock does not', zone),
                  HINT = 'Leave out "right/".';
    END IF;
    -- PostgreSQL takes any text with an offset for a POSIX time zone, whose sign is the other way round: UTC+3 is west.
    -- And it prefers an abbreviation, which has the same offset all year, to a zone of that name (CET, EST, MET).
    -- Reading the names of all zones takes 35 ms.
    IF zone ~ '[0-9]' THEN
        IF zone !~* '^((Etc/)?GMT[+-]?0|Etc/GMT(-([1-9]|1[0-4])|[+]([1-9]|1[0-2]))|EST5EDT|CST6CDT|MST7MDT|PST8PDT)$'
           AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE lower(name) = lower(zone)) THEN
            is_name := false;
        END IF;
    ELSIF strpos(zone, '/') = 0 AND upper(zone) <> ALL ('{UTC,GMT}') THEN
        is_name := NOT EXISTS (SELECT FROM pg_timezone_abbrevs WHERE abbrev = upper(zone));
    END IF;
    IF NOT is_name THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('zone "%s" is an offset or an abbreviation, not the name of a time zone', zone),
                  HINT = 'The names are in pg_timezone_names: Europe/Berlin, for example. '
                         'Three hours east of UTC is Etc/GMT-3.';
    END IF;

    latest := at + CASE WHEN looks_ahead THEN LEAST(every / 2, interval '30 seconds') ELSE interval '0' END;
    shown := latest AT TIME ZONE zone;
    each := CASE WHEN expression IS NULL THEN every < interval '1 day' ELSE expression[6] = 'each' END;
    is_recent := each;
    LOOP
        IF bound IS NULL THEN
            -- After the clock was put back, there may have been a tick at a time that it does not show yet again. So the
            -- search begins as much later as the clock was put back within a day.
            bound := shown + CASE WHEN is_recent THEN interval '0'
                                  ELSE GREATEST(a_day - (shown - (latest - a_day) AT TIME ZONE zone), interval '0') END;
        END IF;

        -- `due` becomes the latest time of the schedule that is not after `bound`.
        IF expression IS NOT NULL THEN
            DECLARE
                month timestamp := date_trunc('month', bound);
                day int := date_part('day', bound);
                minute int := length(rtrim(left(expression[1], (date_part('hour', bound) * 60
                                                                + date_part('minute', bound))::int + 1), '0'));
                last_day int;
                first_weekday int;
                in_month boolean;
                in_week boolean;
            BEGIN
                IF minute = 0 THEN -- no time of that day is left (minutes are counted from 1)
                    day := day - 1;
                END IF;
                <<search>> LOOP
                    IF substr(expression[3], date_part('month', month)::int, 1) = '1' THEN
                        last_day := date_part('day', month + interval '1 month -1 day');
                        first_weekday := date_part('dow', month);
                        day := LEAST(day, last_day);
                        WHILE day > 0 LOOP
                            in_month := substr(expression[2], day, 1) = '1'
                                        OR day = last_day AND right(expression[2], 1) = '1';
                            in_week := substr(expression[4], (day - 1) / 7 * 7 + (first_weekday + day - 1) % 7 + 1, 1)
                                       = '1';
                            EXIT search WHEN CASE expression[5] WHEN 'or' THEN in_month OR in_week
                                                                ELSE in_month AND in_week END;
                            day := day - 1;
                        END LOOP;
                    END IF;
                    month := month - interval '1 month';
                    day := 31;
                    IF month < bound - interval '481 months' THEN
                        RAISE invalid_parameter_value
                            USING MESSAGE = format('schedule "%s" never comes', schedule),
                                  DETAIL = 'There is no such day in 40 years.';
                    END IF;
                END LOOP;
                due := month + make_interval(days => day - 1);
                IF due <> date_trunc('day', bound) THEN
                    minute := length(rtrim(expression[1], '0'));
                END IF;
                due := due + make_interval(mins => minute - 1);
            END;
        ELSIF months = 0 THEN
            due := date_bin(every, bound, origin);
        ELSE
            due := origin + make_interval(months =>
                (floor(((extract(year FROM bound) + (extract(year FROM bound) < 0)::int -- there is no year 0
                         - 2001) * 12 + extract(month FROM bound) - 1) / months) * months)::int);
        END IF;

        IF is_recent THEN
            tick := latest - (shown - due);
            EXIT WHEN shown - due < a_day AND tick AT TIME ZONE zone = due;
            is_recent := false;
            bound := NULL;
            CONTINUE;
        END IF;
        -- `tick` becomes the instant at which the wall clock shows `due`. Counted from the day before, it is the first of
        -- two such instants, and wrong if the clock has been changed in between. PostgreSQL finds the second of two, and
        -- for a time that is skipped one after the change.
        tick := (due - a_day) AT TIME ZONE zone + a_day;
        IF each OR tick AT TIME ZONE zone <> due THEN
            changed := due AT TIME ZONE zone;
            skipped := changed AT TIME ZONE zone - due;
            IF skipped <> interval '0' THEN
                -- Due at the instant of the change, which is at a whole second. Bisection makes `changed` the first
                -- second of the new time.
                DECLARE
                    before timestamptz := date_trunc('second', changed - a_day);
                    middle timestamptz;
                BEGIN
                    changed := date_trunc('second', changed);
                    WHILE changed - before > interval '1 second' LOOP
                        middle := before + date_trunc('second', (changed - before) / 2);
                        IF changed - middle = changed AT TIME ZONE zone - middle AT TIME ZONE zone THEN
                            changed := middle;
                        ELSE
                            before := middle;
                        END IF;
                    END LOOP;
                END;
                tick := changed;
                -- Only an expression can name a time of day on a date that does not exist.
                IF expression IS NOT NULL AND NOT each
                   AND date_trunc('day', due) + a_day <= tick AT TIME ZONE zone
                   AND date_trunc('day', due) >= tick AT TIME ZONE zone - skipped THEN
                    bound := date_trunc('day', due) - interval '1 microsecond';
                    CONTINUE;
                END IF;
            ELSIF changed <= latest OR tick AT TIME ZONE zone <> due THEN
                tick := changed;
            END IF;
        END IF;
        EXIT WHEN tick <= latest;
        bound := due - interval '1 microsecond';
    END LOOP;
    RETURN tick;
END
$$;

-- The schedule is an interval.
CREATE OR REPLACE FUNCTION shedlock_tick(
    every interval,
    zone text DEFAULT 'UTC',
    at timestamptz DEFAULT pg_catalog.clock_timestamp()
) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT shedlock_find_tick(every, NULL::pg_catalog.text, NULL::pg_catalog.text[], zone COLLATE pg_catalog."C", at,
                              true);
END;

-- The schedule is an interval or a crontab expression.
CREATE OR REPLACE FUNCTION shedlock_tick(
    schedule text,
    zone text DEFAULT 'UTC',
    at timestamptz DEFAULT pg_catalog.clock_timestamp()
) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT shedlock_find_tick(NULL::pg_catalog.interval, schedule COLLATE pg_catalog."C",
                              shedlock_read_schedule(schedule COLLATE pg_catalog."C"), zone COLLATE pg_catalog."C", at,
                              true);
END;

-- The ticks in ascending order, of which shedlock_list_ticks finds no more than 100,001; or an error.
CREATE OR REPLACE FUNCTION shedlock_sort_ticks(since timestamptz, ticks timestamptz[]) RETURNS SETOF timestamptz
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF since IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'since must not be NULL';
    ELSIF NOT isfinite(since) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'since must be finite';
    END IF;
    IF cardinality(ticks) > 100000 THEN
        RAISE program_limit_exceeded USING MESSAGE = 'there are more than 100000 ticks after since',
            HINT = 'Choose a later since, or a schedule with fewer ticks.';
    END IF;
    RETURN QUERY SELECT t FROM unnest(ticks) t ORDER BY t;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_list_ticks(
    every interval,
    schedule text,
    expression text[],
    since timestamptz,
    zone text
) RETURNS SETOF timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.tick FROM shedlock_sort_ticks(since, ARRAY(
        WITH RECURSIVE past (tick) AS (
            SELECT shedlock_find_tick(every, schedule, expression, zone, pg_catalog.clock_timestamp(), true)
            UNION ALL
            SELECT shedlock_find_tick(every, schedule, expression, zone,
                                      tick OPERATOR(pg_catalog.-) '1 microsecond'::pg_catalog.interval, false)
              FROM past WHERE tick OPERATOR(pg_catalog.>) since AND pg_catalog.isfinite(since))
        SELECT tick FROM past WHERE tick OPERATOR(pg_catalog.>) since LIMIT 100001)) t (tick);
END;

CREATE OR REPLACE FUNCTION shedlock_ticks(every interval, since timestamptz, zone text DEFAULT 'UTC')
    RETURNS SETOF timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.tick FROM shedlock_list_ticks(every, NULL::pg_catalog.text, NULL::pg_catalog.text[], since,
                                           zone COLLATE pg_catalog."C") t (tick);
END;

CREATE OR REPLACE FUNCTION shedlock_ticks(schedule text, since timestamptz, zone text DEFAULT 'UTC')
    RETURNS SETOF timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.tick FROM shedlock_list_ticks(NULL::pg_catalog.interval, schedule COLLATE pg_catalog."C",
                                           shedlock_read_schedule(schedule COLLATE pg_catalog."C"), since,
                                           zone COLLATE pg_catalog."C") t (tick);
END;

-- end: Ticks

-- shared: Locks -------------------------------------------------------------------------------------------------------

-- The planner puts this query in the place of the call, because it is STABLE.
CREATE OR REPLACE FUNCTION shedlock_locks(names text[],
    OUT name text, OUT state text, OUT holder text, OUT token bigint, OUT locked_at timestamptz,
    OUT lock_until timestamptz, OUT remaining interval, OUT held_for interval, OUT holder_pid int,
    OUT holder_alive boolean, OUT last_duration interval, OUT last_outcome text, OUT last_done_at timestamptz,
    OUT last_tick timestamptz, OUT last_done_tick timestamptz, OUT run_tick timestamptz, OUT ends_with_session boolean
) RETURNS SETOF record
    LANGUAGE sql STABLE
BEGIN ATOMIC
SELECT
    l.name,
    s.state,
    COALESCE(pg_catalog.left(l.locked_by, OPERATOR(pg_catalog.-) pg_catalog.length(o.ending)), l.locked_by) AS holder,
    t.token,
    pg_catalog.timezone('0'::pg_catalog.interval, l.locked_at) AS locked_at,
    pg_catalog.timezone('0'::pg_catalog.interval, l.lock_until) AS lock_until,
    CASE WHEN e.lock_until OPERATOR(pg_catalog.>) c.now AND pg_catalog.isfinite(e.lock_until)
        THEN e.lock_until OPERATOR(pg_catalog.-) c.now
    END AS remaining,
    CASE WHEN s.state OPERATOR(pg_catalog.=) ANY (ARRAY['held', 'paused']::pg_catalog.text[])
              AND pg_catalog.isfinite(l.locked_at)
        THEN GREATEST(c.now OPERATOR(pg_catalog.-) l.locked_at, '0'::pg_catalog.interval)
    END AS held_for,
    o.pid AS holder_pid,
    o.alive AS holder_alive,
    -- A pause and a release by force are not runs.
    CASE WHEN l.lock_until OPERATOR(pg_catalog.<=) c.now
              AND pg_catalog.isfinite(l.lock_until) AND pg_catalog.isfinite(l.locked_at)
              AND (o.kind OPERATOR(pg_catalog.=) '*'::pg_catalog.text) IS NOT TRUE
        THEN l.lock_until OPERATOR(pg_catalog.-) LEAST(l.locked_at, l.lock_until)
    END AS last_duration,
    CASE
        WHEN o.ending IS NULL OR s.state OPERATOR(pg_catalog.=) ANY (ARRAY['held', 'paused']::pg_catalog.text[])
             OR o.kind OPERATOR(pg_catalog.=) '*'::pg_catalog.text THEN NULL
        WHEN l.lock_at_least_until IS NULL THEN 'done'::pg_catalog.text
        WHEN e.is_released THEN 'failed'::pg_catalog.text
        ELSE 'ran out'::pg_catalog.text
    END AS last_outcome,
    pg_catalog.timezone('0'::pg_catalog.interval, l.last_done_at) AS last_done_at,
    pg_catalog.timezone('0'::pg_catalog.interval, l.last_tick) AS last_tick,
    pg_catalog.timezone('0'::pg_catalog.interval, GREATEST(l.last_done_tick, j.ran_at)) AS last_done_tick,
    pg_catalog.timezone('0'::pg_catalog.interval, CASE WHEN o.ending IS NOT NULL THEN l.run_tick END) AS run_tick,
    CASE WHEN o.kind OPERATOR(pg_catalog.<>) '*'::pg_catalog.text
        THEN o.kind OPERATOR(pg_catalog.=) ANY (ARRAY['!', '&']::pg_catalog.text[])
    END AS ends_with_session
FROM shedlock_rows(names) l
    -- The clock is read once for the whole query: OFFSET keeps the planner from reading it once per use.
    CROSS JOIN (SELECT pg_catalog.timezone('0'::pg_catalog.interval, pg_catalog.clock_timestamp()) AS now OFFSET 0) c
    CROSS JOIN LATERAL (
        -- Counted from 1970, the last thirty years of timestamp's range do not fit a token.
        SELECT CASE WHEN pg_catalog.isfinite(l.locked_at)
                         AND l.locked_at OPERATOR(pg_catalog.<) '294247-01-10 04:00:54'::pg_catalog.timestamp
            THEN (EXTRACT(epoch FROM l.locked_at) OPERATOR(pg_catalog.*) 1000000::pg_catalog.numeric)::pg_catalog.int8
        END AS token
        OFFSET 0
    ) t
    -- The end that every locked_by of ours has: a session (/PID.START.SERVER) or none, the kind, and the row's
    -- locked_at. NULL if there is no such end, or if it has another locked_at.
    LEFT JOIN LATERAL (
        SELECT k.ending, k.kind, pg_catalog.substring(k.session, '^/([0-9]+)'::pg_catalog.text)::pg_catalog.int4 AS pid,
               shedlock_session_alive(k.session) AS alive
          FROM (SELECT p.ending,
                       pg_catalog.left(pg_catalog.right(p.ending, pg_catalog.length(t.token::pg_catalog.text)
                                                                  OPERATOR(pg_catalog.+) 1), 1) AS kind,
                       pg_catalog.substring(p.ending, '^/[0-9]+[.][0-9]+[.,][0-9a-f]{8}'::pg_catalog.text) AS session
                  FROM (SELECT pg_catalog.substring(l.locked_by,
-- shared: Ending
        '(?:/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}[:!&]|[#*])-?[0-9]+$'::pg_catalog.text
-- end: Ending
                        ) AS ending OFFSET 0) p
                 WHERE pg_catalog.right(p.ending, pg_catalog.length(t.token::pg_catalog.text))
                       OPERATOR(pg_catalog.=) t.token::pg_catalog.text
                OFFSET 0) k
         WHERE k.kind OPERATOR(pg_catalog.=) ANY (ARRAY['#', ':', '!', '&', '*']::pg_catalog.text[])
        OFFSET 0
    ) o ON true
    -- A Java run counts as done, and for the tick at which it began.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN o.ending IS NULL AND pg_catalog.isfinite(l.locked_at) THEN l.locked_at END AS ran_at
        OFFSET 0
    ) j
    -- The lease as acquire sees it: it may end with its session, but not before at_least has passed. On a standby it is
    -- not known whether the session has ended.
    CROSS JOIN LATERAL (
        SELECT r.is_released, r.has_ended,
               CASE WHEN r.has_ended THEN LEAST(l.lock_until, l.lock_at_least_until) ELSE l.lock_until END AS lock_until
          FROM (SELECT COALESCE(l.lock_at_least_until OPERATOR(pg_catalog.=) '-infinity'::pg_catalog.timestamp,
                                true) AS is_released,
                       COALESCE(o.kind OPERATOR(pg_catalog.=) ANY (ARRAY['!', '&']::pg_catalog.text[]) AND NOT o.alive
                                AND l.lock_at_least_until OPERATOR(pg_catalog.<>) '-infinity'::pg_catalog.timestamp,
                                false) AS has_ended) r
        OFFSET 0
    ) e
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN e.lock_until OPERATOR(pg_catalog.<=) c.now THEN 'free'::pg_catalog.text
            WHEN e.lock_until OPERATOR(pg_catalog.=) 'infinity'::pg_catalog.timestamp THEN 'paused'::pg_catalog.text
            WHEN o.ending IS NOT NULL AND (e.is_released OR e.has_ended) THEN 'kept'::pg_catalog.text
            ELSE 'held'::pg_catalog.text
        END AS state
        OFFSET 0
    ) s
WHERE names IS NULL OR l.name COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) ANY (names);
END;

CREATE OR REPLACE VIEW shedlock_locks AS
SELECT l.name COLLATE pg_catalog."C" AS name, l.state, l.holder, l.token, l.locked_at, l.lock_until, l.remaining,
       l.held_for, l.holder_pid, l.holder_alive, l.last_duration, l.last_outcome, l.last_done_at, l.last_tick,
       l.last_done_tick, l.run_tick, l.ends_with_session
  FROM shedlock_locks(NULL::pg_catalog.text[]) l;

-- end: Locks

-- History -------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock__keep_history("on" boolean) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    history regclass;
    is_new boolean;
    fault text;
    privileged text;
BEGIN
    LOCK TABLE @extschema@.shedlock IN SHARE UPDATE EXCLUSIVE MODE; -- one at a time
    history := to_regclass('@extschema@.shedlock_history');
    is_new := history IS NULL;
    IF is_new AND NOT shedlock__keep_history."on" THEN
        RETURN;
    ELSIF is_new THEN
        CREATE TABLE @extschema@.shedlock_history (
            name text COLLATE "C",
            token bigint,
            tick timestamptz,
            holder text COLLATE "C",
            acquired_at timestamptz,
            ended_at timestamptz,
            outcome text COLLATE "C",
            detail text COLLATE "C");
        CREATE INDEX ON @extschema@.shedlock_history (name, ended_at);
        ALTER TABLE @extschema@.shedlock_history REPLICA IDENTITY FULL, NO FORCE ROW LEVEL SECURITY;
        IF current_setting('default_table_access_method') = 'heap' THEN
            ALTER TABLE @extschema@.shedlock_history SET (vacuum_truncate = false); -- as for the lock table
        END IF;
        history := '@extschema@.shedlock_history';
        FOR privileged IN
            SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
              FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = history AND a.grantee <> c.relowner LOOP
            EXECUTE format('REVOKE ALL ON %s FROM %s', history, privileged);
        END LOOP;
        IF EXISTS (SELECT FROM pg_publication_tables
                    WHERE format('%I.%I', schemaname, tablename) = '@extschema@.shedlock_history') THEN
            RAISE NOTICE 'a publication includes table shedlock_history'
                USING HINT = 'Create the table on the subscribers, too: their subscription fails without it.';
        END IF;
    END IF;
    fault := @history_fault@;
    IF fault IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('table %s cannot be the history: %s', '@extschema@.shedlock_history', fault),
                  HINT = 'Rename or drop it, and call shedlock_keep_history().';
    ELSIF NOT is_new AND @extschema@.shedlock__keeps_history() = shedlock__keep_history."on" THEN
        RETURN;
    END IF;
    -- Waits for transactions that may know since before that no history is kept: those that have locked a row have
    -- looked, or are about to. Not earlier, because somebody may have locked the history.
    LOCK TABLE @extschema@.shedlock IN EXCLUSIVE MODE;
    IF shedlock__keep_history."on" THEN
        GRANT INSERT ON @extschema@.shedlock_history TO CURRENT_USER;
    END IF;
    INSERT INTO @extschema@.shedlock_history (name, holder, ended_at, outcome)
        VALUES ('', session_user, clock_timestamp(), CASE WHEN shedlock__keep_history."on" THEN 'on' ELSE 'off' END);
    IF NOT shedlock__keep_history."on" THEN
        REVOKE INSERT ON @extschema@.shedlock_history FROM CURRENT_USER;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_keep_history("on" boolean DEFAULT true) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET default_tablespace = '' AS $$
BEGIN
    @here@
    PERFORM @extschema@.shedlock__require_writable('shedlock_keep_history'::text);
    PERFORM @extschema@.shedlock__require(shedlock_keep_history."on" IS NOT NULL, 'on'::text, ''::text);
    PERFORM @extschema@.shedlock__keep_history(shedlock_keep_history."on");
END
$$;

-- Calls no function of ours: the doctor must work among overloads that make such calls ambiguous.
CREATE OR REPLACE FUNCTION shedlock_history(
    names text[] DEFAULT NULL, since timestamptz DEFAULT NULL, latest integer DEFAULT NULL,
    OUT name text, OUT token bigint, OUT tick timestamptz, OUT holder text, OUT acquired_at timestamptz,
    OUT ended_at timestamptz, OUT outcome text, OUT detail text
) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    history CONSTANT regclass := to_regclass('@extschema@.shedlock_history');
    fault text;
BEGIN
    @here@
    fault := @history_fault@;
    IF latest < 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'latest must not be negative';
    ELSIF latest IS NOT NULL AND names IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'latest needs names',
            HINT = 'It is the number of rows of each name.';
    ELSIF history IS NULL THEN
        RAISE undefined_table USING MESSAGE = 'there is no history of runs',
            HINT = 'An administrator can call shedlock_keep_history().';
    ELSIF fault IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('table %s cannot be the history: %s', '@extschema@.shedlock_history', fault),
                  HINT = 'Rename or drop it, and call shedlock_keep_history().';
    ELSIF names IS NULL THEN
        RETURN QUERY SELECT h.name, h.token, h.tick, h.holder, h.acquired_at, h.ended_at, h.outcome, h.detail
                       FROM @extschema@.shedlock_history h WHERE since IS NULL OR h.ended_at >= since;
        RETURN;
    END IF;
    RETURN QUERY SELECT w.* FROM (SELECT DISTINCT u.n COLLATE "C" AS n FROM unnest(names) u (n)) n, LATERAL (
            SELECT h.name, h.token, h.tick, h.holder, h.acquired_at, h.ended_at, h.outcome, h.detail
              FROM @extschema@.shedlock_history h
             WHERE h.name = n.n COLLATE "C" AND h.ended_at >= COALESCE(since, '-infinity')
             ORDER BY h.ended_at DESC LIMIT latest) w;
END
$$;

-- shared: Doctor ------------------------------------------------------------------------------------------------------

-- It has the rights of its caller. So it reads only catalogs, and shedlock_doctor gives it what is ours. lock_table is
-- NULL if there is a complaint about its shape.
CREATE OR REPLACE FUNCTION shedlock_findings(lock_table regclass, complaint text, remedy text,
    locks shedlock_locks[], counters shedlock_stats[], history regclass, history_fault text, slow_jobs text[],
    OUT severity text, OUT finding text, OUT hint text) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- timestamp counts from 2000: no lease that begins in 2000 or later is too long for an interval, whatever the row
    -- contains.
    sources CONSTANT text := $sources$ WITH
        locks AS (SELECT *, CASE WHEN state = 'held' AND isfinite(locked_at)
                                 THEN lock_until - GREATEST(locked_at, timestamptz '2000-01-01 00:00:00Z') END AS lease
                    FROM unnest($2) WHERE isfinite(locked_at)),
        counters AS (SELECT * FROM unnest($3)),
        homes AS (SELECT t.relnamespace::regnamespace AS home, t.relowner AS installer, false AS is_extension
                    FROM pg_class t WHERE t.oid = $1 AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock')
                   UNION ALL
                  SELECT extnamespace::regnamespace, extowner, true FROM pg_extension WHERE extname = 'shedlock'),
        -- From PostgreSQL 16 on, a member WITH INHERIT FALSE, SET FALSE cannot act as the role.
        members AS (SELECT CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER'
                                ELSE 'USAGE, SET, MEMBER WITH ADMIN OPTION' END AS to_act),
        advice AS (SELECT 'Let one server grant all locks, and all clients connect to it') $sources$;
-- shared: Second
    -- Created by mistake, or left behind. Foreign tables and tables of other extensions do not count.
    second_table CONSTANT text := $q$ SELECT 'warning',
           format('table %s looks like a lock table, too: its locks and those in %s do not exclude each other',
                  c.oid::regclass, $1),
           'If Java clients use that table, all clients must: see docs/migrating-from-java.md. If nobody does, drop it'
      FROM pg_class c
     WHERE c.oid <> $1 AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
       AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')
       AND (SELECT count(*) FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
             WHERE a.attrelid = c.oid AND NOT a.attisdropped
               AND (a.attname, y.typcategory)
                   IN (('name', 'S'), ('lock_until', 'D'), ('locked_at', 'D'), ('locked_by', 'S'))) = 4
     ORDER BY c.oid::regclass::text $q$;
-- end: Second
    query text;
BEGIN
    -- If the table's shape is wrong, there are no findings about its contents, but the other findings may say why:
    -- multi-master extensions put triggers on tables.
    IF complaint IS NOT NULL THEN
        RETURN QUERY VALUES ('error', complaint, remedy);
    END IF;

    -- One query per finding, in the order in which the findings are reported. It gives severity, finding and hint. $1
    -- is the lock table. A query with extensions runs once for each of them that is installed, and the extension's name
    -- replaces @. Any role could have made an extension or a schema of that name (with pg_tle), so the extension and
    -- the schema must belong to superusers.
    FOR query IN SELECT CASE WHEN e.oid IS NULL THEN f.query WHEN e.is_trusted THEN replace(f.query, '@', e.extname)
                             ELSE format('SELECT ''warning'', %L, %L',
                                         format('extension "%s" was not asked which servers write: '
                                                'it, or its schema, does not belong to a superuser', e.extname),
                                         'Ask it yourself') END
                   FROM (SELECT v.query, v.extensions, row_number() OVER () AS no FROM (VALUES

($q$ SELECT 'error', format('table %s is UNLOGGED: a server crash loses every lock', $1),
           format('ALTER TABLE %s SET LOGGED', $1)
      FROM pg_class WHERE oid = $1 AND relpersistence = 'u' $q$, NULL),

-- The extension writes without the executor, which runs triggers and fills in the other columns of a new row.
($q$ SELECT 'error', format('trigger "%s" on table %s does not fire when shedlock changes a lock', tgname, $1),
           'It fires for the SQL of other clients. Drop it, unless that is meant; for a history of runs call '
           'shedlock_keep_history()'
      FROM pg_trigger
     WHERE tgrelid = $1 AND NOT tgisinternal AND EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock')
       -- that of shedlock_protect
       AND NOT EXISTS (SELECT FROM pg_depend WHERE (classid, objid, deptype) = ('pg_proc'::regclass, tgfoid, 'e'))
     ORDER BY tgname $q$, NULL),

($q$ SELECT 'warning', format('no lock with a new name can be acquired: %s', what),
           format('Change table %s; or insert the row of each new lock as its owner, with values for such columns: '
                  'INSERT INTO %1$s (name, lock_until, locked_at, locked_by) '
                  'VALUES (..., ''-infinity'', ''-infinity'', '''')', $1)
      FROM (SELECT format(CASE WHEN is_extension THEN 'column "%s" is NOT NULL, has a default or is generated'
                               ELSE 'column "%s" is NOT NULL and has no default' END, attname)
              FROM pg_attribute, homes
             WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
               AND CASE WHEN is_extension THEN attnotnull OR atthasdef OR attidentity <> ''
                        ELSE attnotnull AND NOT atthasdef AND attidentity = '' END
               AND attname <> ALL ('{name,lock_until,locked_at,locked_by,lock_at_least_until,'
                                   'last_tick,last_done_tick,last_done_at,run_tick}')
            UNION ALL
            SELECT format('constraint "%s" would not be checked', conname)
              FROM pg_constraint k, homes
             WHERE conrelid = $1 AND contype = 'c' AND is_extension
               AND to_jsonb(k) -> 'conenforced' IS DISTINCT FROM 'false') w (what) -- from PostgreSQL 18 on
     ORDER BY what $q$, NULL),

-- Row security does not concern us: the extension does not use SQL, and the portable edition owns the table.
($q$ SELECT 'error',
           format('row security of table %s hides its rows from role "%s", '
                  'so Java clients of that role never get a lock', $1, role),
           format('CREATE POLICY %I ON %s TO %I USING (true)', 'shedlock ' || role, $1, role)
      FROM pg_class t, aclexplode(t.relacl) a,
           LATERAL (SELECT CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END AS role) g
     WHERE t.oid = $1 AND t.relrowsecurity AND a.privilege_type = 'UPDATE'
       AND NOT EXISTS (SELECT FROM pg_roles r
                        WHERE r.oid = a.grantee
                          AND (r.rolsuper OR r.rolbypassrls
                               OR pg_has_role(r.oid, t.relowner, 'USAGE') AND NOT t.relforcerowsecurity))
       AND EXISTS (SELECT FROM unnest('{r,w}'::"char"[]) needed -- an UPDATE also reads
                    WHERE NOT EXISTS (SELECT FROM pg_policy p, unnest(p.polroles) m
                                       WHERE p.polrelid = $1 AND p.polpermissive AND p.polcmd IN ('*', needed)
                                         AND (m = 0 OR a.grantee <> 0 AND pg_has_role(a.grantee, m, 'USAGE'))))
     ORDER BY role $q$, NULL),

-- pg_upgrade keeps the extension's members, but loses the extension's dependency on the table.
($q$ SELECT 'warning', format('pg_dump does not know that table %s must be restored before the extension', $1),
           format('SELECT %s.shedlock_after_pg_upgrade()', extnamespace::regnamespace)
      FROM pg_extension e
     WHERE $1 IS NOT NULL AND extname = 'shedlock' AND NOT EXISTS (
        SELECT FROM pg_depend
         WHERE (classid, objid, refclassid, refobjid)
             = ('pg_extension'::regclass, e.oid, 'pg_class'::regclass, $1)) $q$, NULL),

-- Functions are looked up by name and types. An overload in the schema of the portable edition makes calls between its
-- functions ambiguous. In the schema of the extension, a caller that passes a literal without a type may run the
-- overload instead.
($q$ SELECT CASE WHEN is_extension THEN 'warning' ELSE 'error' END,
           format('others may create objects in schema %s, next to the functions of shedlock: %s',
                  home, string_agg(creator, ', ' ORDER BY creator)),
           CASE WHEN is_extension
                THEN format('REVOKE CREATE ON SCHEMA %s from them: '
                            'callers may run an overload of theirs instead of ours', home)
                ELSE format('REVOKE CREATE ON SCHEMA %s from them: '
                            'with an overload they can keep every lock from being acquired. '
                            'The owner of the schema can replace the functions and act as their owner', home) END
      FROM homes, members,
           LATERAL (SELECT 'PUBLIC' AS creator WHERE has_schema_privilege('public', home, 'CREATE')
                    UNION ALL
                    SELECT r.oid::regrole::text FROM pg_roles r
                     WHERE NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
                       AND NOT pg_has_role(r.oid, installer, to_act)
                       AND (has_schema_privilege(r.oid, home, 'CREATE')
                                AND NOT has_schema_privilege('public', home, 'CREATE')
                            OR NOT is_extension
                               AND pg_has_role(r.oid, (SELECT nspowner FROM pg_namespace WHERE oid = home), to_act))
                       AND NOT (is_extension
                                AND pg_has_role(r.oid,
                                                (SELECT datdba FROM pg_database WHERE datname = current_database()),
                                                to_act))) c
     GROUP BY home, is_extension $q$, NULL),

($q$ SELECT 'error',
           format('role %s owns function %s, which may be called instead of ours',
                  p.proowner::regrole, p.oid::regprocedure),
           format('DROP ROUTINE %s', p.oid::regprocedure)
      FROM members, homes JOIN pg_proc p ON p.pronamespace = home
     WHERE EXISTS (SELECT FROM pg_proc o WHERE (o.pronamespace, o.proname) = (home, p.proname) AND o.oid <> p.oid)
       AND NOT EXISTS (SELECT FROM pg_roles r
                        WHERE r.oid = p.proowner AND (r.rolsuper OR pg_has_role(r.oid, installer, to_act)))
       AND starts_with(p.proname, 'shedlock_')
     ORDER BY p.oid::regprocedure::text $q$, NULL),

($q$ SELECT 'error', 'everybody may call the functions for administrators, and grant rights to anybody',
           'SELECT shedlock_revoke(''public'', admin => true). Privileges are missing after pg_restore --no-acl: '
           'grant them to your roles again'
      FROM homes JOIN pg_proc p ON p.pronamespace = home AND (is_extension OR p.proowner = installer)
     WHERE p.proname = 'shedlock_grant'
       AND has_function_privilege('public', p.oid, 'EXECUTE') $q$, NULL),

(second_table, NULL),

-- Our tokens are rounded to the coarsest of these columns, and each is at least one unit greater than the previous one,
-- so they may run ahead of the clock. Then a Java client writes the clock's time, which is lower, and our next token
-- repeats an old one.
($q$ SELECT 'warning',
           format('column "%s" of table %s is %s: next to Java clients a token can be given twice',
                  attname, $1, format_type(atttypid, atttypmod)),
           format('ALTER TABLE %s ALTER COLUMN %s TYPE timestamp. '
                  'Until then a former holder may release the lock of a later one', $1, attname)
      FROM pg_attribute
     WHERE attrelid = $1 AND attname IN ('lock_until', 'locked_at', 'lock_at_least_until')
       AND atttypmod BETWEEN 0 AND 2
     ORDER BY attnum $q$, NULL),

($q$ SELECT 'warning', format('table %s has %s dead rows and %s live ones', $1, n_dead_tup, n_live_tup),
           'Look for transactions that have been open for a long time, here and on standbys, then VACUUM the table'
      FROM pg_stat_all_tables WHERE relid = $1 AND n_dead_tup > 1000 AND n_dead_tup > 10 * n_live_tup $q$, NULL),

($q$ SELECT 'error', format('%s is off: a crash of the server can forget or corrupt locks', name),
           format('ALTER SYSTEM SET %s = on', name)
      FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name $q$, NULL),

($q$ SELECT 'warning', 'there are standbys, but none is synchronous: a fail-over can forget a lock',
           'Set synchronous_standby_names, or guard the work with shedlock_guard'
      FROM pg_stat_replication
     WHERE pid NOT IN (SELECT active_pid FROM pg_replication_slots
                        WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
       AND application_name NOT IN ('pg_basebackup', 'pg_receivewal') AND NOT pg_is_in_recovery()
    HAVING count(sync_state) > 0 AND count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) = 0 $q$, NULL),

-- pg_stat_activity and pg_stat_replication show their rows, but not what is in them.
($q$ SELECT 'notice',
           format('open transactions and standbys could not be checked: '
                  'role "%s" may not see those of other roles', current_user),
           format('GRANT pg_read_all_stats TO %I', current_user)
     WHERE NOT pg_has_role('pg_read_all_stats', 'USAGE') $q$, NULL),

-- Clients that write their own clock's time may be a little ahead. Ours write the server's time.
($q$ SELECT 'error', format('lock "%s" was acquired in the future, at %s, by "%s"', name, locked_at, holder),
           'That client writes local time instead of UTC (Java: usingDbTime()), or the server''s clock has stepped back'
      FROM locks WHERE locked_at > clock_timestamp() + interval '2 minutes' ORDER BY name $q$, NULL),

($q$ SELECT 'warning',
           format('lock "%s" is held by a session that is gone (pid %s), for %s more', name, holder_pid, remaining),
           'It ends by itself. shedlock_force_release frees it now; '
           'with ends_with_session it would have been free at once'
      FROM locks WHERE state = 'held' AND NOT holder_alive ORDER BY name $q$, NULL),

-- Each extend makes the lease longer, so of one that is kept alive always little is left. Without counters that cannot
-- be told apart.
($q$ SELECT CASE WHEN $3 IS NULL THEN 'notice' ELSE 'warning' END,
           format('lock "%s" has been held for %s and ends in %s', name, held_for, remaining),
           'Another run may start then. Choose a longer at_most, or extend in time'
      FROM locks
     WHERE lease > interval '10 seconds' AND held_for > 0.8 * lease AND holder_alive IS NOT FALSE
       AND NOT EXISTS (SELECT FROM counters c WHERE c.name = locks.name AND c.extended > 0)
     ORDER BY name $q$, NULL),

-- Such a job may run at every tick, and never get its work done.
($q$ SELECT 'warning',
           format('the last run of lock "%s" %s, and %s', name, last_outcome,
                  CASE WHEN last_done_at IS NULL THEN 'no run has ever been released as done'
                       ELSE format('no run has been released as done since %s', last_done_at) END),
           'Its work is not done: look at the log of its last holder, ' || holder
      FROM locks WHERE last_outcome IN ('failed', 'ran out') ORDER BY name $q$, NULL),

-- This leaves out the locked_at of a Java client, because the UPDATE would not change that.
($q$ SELECT 'warning',
           format('the last tick of lock "%s" is in the future, %s: all earlier ones are refused', name, latest),
           format('If the server''s clock jumped forward: '
                  'UPDATE %s SET last_tick = NULL, last_done_tick = NULL WHERE name = %L, '
                  'as its owner, while the lock is free', $1, name)
      FROM (SELECT name, GREATEST(last_tick, CASE WHEN ends_with_session IS NOT NULL OR last_done_tick <> locked_at
                                                  THEN last_done_tick END) AS latest FROM locks) l
     WHERE latest > clock_timestamp() + interval '2 minutes'
     ORDER BY name $q$, NULL),

($q$ SELECT 'warning', format('runs are not recorded in table %s: %s', $4, $5),
           'Rename or drop it, and call shedlock_keep_history()'
     WHERE $5 IS NOT NULL $q$, NULL),

($q$ SELECT 'notice', format('the history of runs, table %s, has %s rows', $4, reltuples::bigint),
           'Delete what nobody needs any more; docs/operations.md has a job for that'
      FROM pg_class WHERE oid = $4 AND reltuples > 1000000 $q$, NULL),

($q$ SELECT 'notice', format('the last ten runs of lock "%s" each took longer than the time between two of its ticks', name),
           'Ticks that come while it runs are lost: give it a longer schedule'
      FROM unnest($6) s (name) ORDER BY name $q$, NULL),

($q$ SELECT 'notice', format('lock "%s" has been paused since %s, by "%s"', name, locked_at, holder),
           'shedlock_resume ends it'
      FROM locks WHERE state = 'paused' ORDER BY name $q$, NULL),

($q$ SELECT 'notice', format('the name of lock "%s" begins or ends with blanks', name),
           'Two names that differ only in blanks are two locks'
      FROM locks WHERE name ~ '^[[:space:]]|[[:space:]]$' ORDER BY name $q$, NULL),

($q$ SELECT 'warning',
           format('lock "%s" has been held for up to %s, and this time it ends after %s', name, longest_hold, lease),
           'Choose a longer at_most, or extend in time'
      FROM locks JOIN counters USING (name) WHERE longest_hold > 0.8 * lease AND extended = 0 ORDER BY name $q$, NULL),

($q$ SELECT 'warning',
           format('lock "%s" ', name)
               || concat_ws(', and ',
                      CASE WHEN expired > 0
                           THEN 'ran out ' || expired || CASE expired WHEN 1 THEN ' time' ELSE ' times' END
                             || ' before it was released' END,
                      CASE WHEN lost > 0
                           THEN 'was released, extended or guarded too late, or by a session that did not hold it, ' || lost
                             || CASE lost WHEN 1 THEN ' time' ELSE ' times' END END),
           'Holders died or ran longer than at_most, or locks were released by force. '
           'Call shedlock_stats_reset() once the cause is fixed'
      FROM locks JOIN counters USING (name) WHERE expired > 0 OR lost > 0 ORDER BY name $q$, NULL),

-- Others are refused, Java clients wait, and VACUUM cannot clean up.
($q$ SELECT 'warning',
           format('session %s ("%s") has had the lock table in an open transaction for %s', pid, application_name,
                  date_trunc('second', clock_timestamp() - xact_start)),
           'Commit after the acquire, then work: a lock needs no open transaction'
      FROM pg_stat_activity
     WHERE xact_start < clock_timestamp() - interval '10 seconds' AND pid <> pg_backend_pid()
       AND pid IN (SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                    WHERE d.datname = current_database() AND l.relation = $1
                      AND l.mode = 'RowExclusiveLock' AND l.granted)
     ORDER BY pid $q$, NULL),

-- Its locks are refused to everybody until it ends, and no session shows that.
($q$ SELECT 'warning',
           format('prepared transaction "%s" of role %s has had the lock table since %s', p.gid, p.owner, p.prepared),
           'COMMIT PREPARED or ROLLBACK PREPARED'
      FROM pg_prepared_xacts p
     WHERE p.database = current_database() AND p.prepared < clock_timestamp() - interval '10 seconds'
       AND EXISTS (SELECT FROM pg_locks t JOIN pg_locks x USING (virtualtransaction)
                    WHERE t.relation = $1 AND t.mode = 'RowExclusiveLock' AND x.transactionid = p.transaction AND x.granted)
     ORDER BY p.gid $q$, NULL),

-- Several servers that write. (A publication does not make a second writer. If it keeps us from writing, the inspection
-- reports it.)
($q$ SELECT 'error',
           format('subscription "%s" writes into the lock table: the publisher grants the same locks', subname),
           (TABLE advice)
      FROM pg_subscription_rel JOIN pg_subscription s ON s.oid = srsubid
     WHERE srrelid = $1 ORDER BY subname $q$, NULL),

($q$ SELECT 'error', 'this server is a Citus worker, whose lock table is its own',
           'Connect to the coordinator: what is locked here is locked nowhere else'
      FROM pg_dist_local_group WHERE groupid <> 0 $q$, '{citus}'),

($q$ SELECT 'notice',
           format('this Citus coordinator has %s nothing of its locks',
                  count(DISTINCT groupid)
                  || CASE count(DISTINCT groupid) WHEN 1 THEN ' worker, which knows' ELSE ' workers, which know' END),
           'All clients must connect to the coordinator, including Java clients'
      FROM pg_dist_node WHERE groupid <> 0 AND EXISTS (SELECT FROM pg_dist_local_group WHERE groupid = 0)
    HAVING count(*) > 0 $q$, '{citus}'),

-- The functions would not see what SQL does with a distributed table. Citus puts a trigger on it, which makes
-- the inspection complain and leaves $1 NULL. So this finds the table by name.
($q$ SELECT 'error',
           format('table %s is distributed by Citus, or in its metadata: rows may be elsewhere',
                  logicalrelid::regclass),
           format('Stop the jobs. DROP EXTENSION IF EXISTS shedlock, SELECT undistribute_table(%L), install shedlock '
                  'again, and repeat shedlock_grant. The table keeps its rows, rights and settings',
                  logicalrelid::regclass)
      FROM pg_dist_partition JOIN pg_class c ON c.oid = logicalrelid
     WHERE logicalrelid = $1 OR $1 IS NULL AND relname = 'shedlock' $q$, '{citus}'),

-- A subscriber lists the tables that it has copied, not all for which it receives changes.
($q$ SELECT CASE WHEN is_listed THEN 'error' ELSE 'warning' END,
           format('subscription "%s" of @ %s into the lock table: its provider grants the same locks',
                  sub_name, CASE WHEN is_listed THEN 'writes' ELSE 'may write' END), (TABLE advice)
      FROM @.subscription, LATERAL (SELECT $1 IN (
        SELECT set_reloid FROM @.replication_set_table
         UNION ALL
        SELECT to_regclass(quote_ident(sync_nspname) || '.' || quote_ident(sync_relname)) FROM @.local_sync_status
         WHERE sync_subid = sub_id) AS is_listed) t
     ORDER BY sub_name $q$, '{pglogical,spock}'),

($q$ SELECT 'error', format('pgactive has %s nodes: each grants the same locks', count(*)), (TABLE advice)
      FROM pgactive.pgactive_nodes WHERE node_status <> 'k' HAVING count(*) > 1 $q$, '{pgactive}'),

($q$ SELECT 'error', format('EDB Postgres Distributed has %s nodes: each grants the same locks', count(*)),
           (TABLE advice)
      FROM bdr.node HAVING count(*) > 1 $q$, '{bdr}')

                        ) v (query, extensions)) f
                       LEFT JOIN (SELECT oid, extname,
                                         true = ALL (SELECT rolsuper FROM pg_roles r
                                                      WHERE r.oid = extowner
                                                         OR r.oid = (SELECT nspowner FROM pg_namespace
                                                                      WHERE nspname = extname)) AS is_trusted
                                    FROM pg_extension) e ON e.extname = ANY (f.extensions::text[])
                  WHERE e.oid IS NOT NULL OR f.extensions IS NULL ORDER BY f.no
    LOOP
        BEGIN
            RETURN QUERY EXECUTE sources || query USING lock_table, locks, counters, history, history_fault, slow_jobs;
        EXCEPTION
            WHEN insufficient_privilege OR undefined_table OR undefined_column THEN
                severity := CASE WHEN SQLSTATE = '42501' THEN 'warning' ELSE 'error' END;
                finding := format('one check could not be made: %s', SQLERRM);
                hint := format('Check it yourself, or let role "%s" read it', current_user);
                RETURN NEXT;
        END;
    END LOOP;
END
$$;

-- Whether each of the last ten runs took longer than the shortest time between two ticks, as far as the history shows
-- them. In seconds, because an interval cannot have every length, and not between infinite times.
CREATE OR REPLACE FUNCTION shedlock_is_slow(name text) RETURNS boolean
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pg_catalog.count(*) OPERATOR(pg_catalog.=) 10 AND pg_catalog.bool_and(r.took OPERATOR(pg_catalog.>) r.shortest)
      FROM (SELECT g.took, pg_catalog.min(g.gap) OVER () AS shortest,
                   pg_catalog.row_number() OVER (ORDER BY g.ended_at USING OPERATOR(pg_catalog.>)) AS no
              FROM (SELECT t.ended_at, t.ended_at OPERATOR(pg_catalog.-) t.acquired_at AS took,
                           NULLIF(t.tick OPERATOR(pg_catalog.-) pg_catalog.lag(t.tick)
                                  OVER (ORDER BY t.tick USING OPERATOR(pg_catalog.<)), 0::pg_catalog.float8) AS gap
                      FROM (SELECT pg_catalog.date_part('epoch', h.acquired_at) AS acquired_at,
                                   pg_catalog.date_part('epoch', h.ended_at) AS ended_at,
                                   pg_catalog.date_part('epoch', h.tick) AS tick
                              FROM shedlock_history(ARRAY[name], NULL::pg_catalog.timestamptz, 100) h
                             WHERE h.tick IS NOT NULL) t) g) r
     WHERE r.no OPERATOR(pg_catalog.<=) 10;
END;

-- As in shedlock_ticks. The views are read only if they can be.
CREATE OR REPLACE FUNCTION shedlock_doctor(OUT severity text, OUT finding text, OUT hint text) RETURNS SETOF record
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT f.severity, f.finding, f.hint
      FROM shedlock_inspect() i,
           LATERAL shedlock_findings(i.lock_table, i.complaint, i.remedy,
               CASE WHEN i.lock_table IS NOT NULL THEN ARRAY(SELECT l FROM shedlock_locks l) END,
               CASE WHEN i.has_counters THEN ARRAY(SELECT s FROM shedlock_stats s) END, i.history, i.history_fault,
               CASE WHEN i.history IS NOT NULL AND i.history_fault IS NULL
                    THEN ARRAY(SELECT l.name FROM shedlock_locks l WHERE shedlock_is_slow(l.name)) END) f;
END;

-- end: Doctor

-- shared: Protect -----------------------------------------------------------------------------------------------------

-- Skips what other clients write to a row of ours that is not free. They see that no row was changed, as if it were
-- held.
--
-- Other clients do not know lock_at_least_until, so a statement that changes it is ours. The extension writes without
-- triggers. In the portable edition a release changes it, and functions that would not change it (an extend, a resume)
-- set it to infinity first. So the row itself shows whose statement it is. A setting of the session could not show that
-- reliably, because a function that aborts could leave the setting behind.
--
-- It runs with the rights of the role that writes, which may not execute our functions, so it cannot call any of them.
CREATE OR REPLACE FUNCTION shedlock_protect_row() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The end that every locked_by of ours has, as in the view. A variable, because the column may have a collation
    -- that does not support regular expressions.
    locked_by CONSTANT text := OLD.locked_by;
    ending CONSTANT text := substring(locked_by,
-- shared: Ending
        '(?:/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}[:!&]|[#*])-?[0-9]+$'::pg_catalog.text
-- end: Ending
        );
    number CONSTANT text := trunc(EXTRACT(epoch FROM OLD.locked_at) * 1000000)::text;
BEGIN
    IF OLD.lock_until > clock_timestamp() AT TIME ZONE interval '0'
       AND right(ending, length(number) + 1)
           IN ('#' || number, ':' || number, '!' || number, '&' || number, '*' || number)
       AND OLD.locked_at < timestamp '294247-01-10 04:00:54' -- no later one is a token
       AND (TG_OP = 'DELETE' OR NEW.lock_at_least_until IS NOT DISTINCT FROM OLD.lock_at_least_until) THEN
        RAISE NOTICE 'lock "%" of "%" was protected from this %', OLD.name, left(locked_by, -length(ending)), TG_OP
            USING DETAIL = format('It is taken until %s (UTC). The statement came from "%s@%s", role "%s".',
                                  OLD.lock_until,
                                  COALESCE(NULLIF(current_setting('application_name'), ''), session_user),
                                  COALESCE(host(inet_client_addr()), '[local]'), current_user),
                  HINT = 'shedlock_force_release frees a lock whoever holds it.';
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;

-- end: Protect

CREATE OR REPLACE FUNCTION shedlock_protect("on" boolean DEFAULT true) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lock_table regclass;
    is_on boolean;
BEGIN
    @here@
    IF shedlock_protect."on" IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'on must not be NULL';
    END IF;
    SELECT t.id INTO lock_table FROM @extschema@.shedlock_table t;
    is_on := EXISTS (SELECT FROM pg_trigger WHERE tgrelid = lock_table AND tgname = 'shedlock_protect');
    IF is_on AND NOT shedlock_protect."on" THEN
        EXECUTE format('DROP TRIGGER shedlock_protect ON %s', lock_table);
    ELSIF shedlock_protect."on" AND NOT is_on THEN
        EXECUTE format('CREATE TRIGGER shedlock_protect BEFORE UPDATE OR DELETE ON %s
            FOR EACH ROW EXECUTE FUNCTION %s', lock_table, '@extschema@.shedlock_protect_row()'::regprocedure);
    END IF;
END
$$;

-- shared: Grant -------------------------------------------------------------------------------------------------------

-- GRANT and REVOKE take names, which may mean other objects by then than those that were found. So either is executed
-- only where it must change something, and that must have changed on the object that was found.

CREATE OR REPLACE FUNCTION shedlock__change_rights(grants boolean, role text, admin boolean, java boolean, read_only boolean)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home CONSTANT regnamespace := '@extschema@';
-- shared: Names
    ours CONSTANT text := '^shedlock_(_.*|(acquire|extend|release|guard|complete)(_token)?|wait_any|end_wait|not_due|((find|list|sort)_)?ticks?|read_schedule|run(_check|_begin|_guard|_tick|_end|_failed)?'
        '|force_release|forget|pause|resume|rows|locks|session_alive|stats_rows|stats_reset|(keep_)?history|is_slow|protect(_row)?|doctor|findings|inspect|grant|revoke|after_pg_upgrade|raise|version)$';
-- end: Names
    role_id CONSTANT oid := CASE role WHEN 'public' THEN 0 ELSE (SELECT r.oid FROM pg_roles r WHERE r.rolname = role COLLATE "default") END;
    -- What role $1 can be granted, for whom it is, and whether the role has it from us. It is found by its owner, too, the
    -- role with whose rights this runs: what others have planted belongs to others. The lock table is what shedlock_link
    -- reads; in the portable edition, which has no such view, it belongs to that role.
    rights CONSTANT text := format($rights$
        SELECT o.*, EXISTS (SELECT FROM aclexplode(o.acl) a
                             WHERE (a.grantee, a.grantor, a.privilege_type) = ($1, o.owner, o.privilege)) AS is_granted
          FROM (SELECT p.tableoid, p.oid, format('ROUTINE %%s', p.oid::regprocedure) AS object, 'EXECUTE' AS privilege,
                       p.pronamespace AS schema_id, p.proowner AS owner,
                       COALESCE(p.proacl, acldefault('f', p.proowner)) AS acl,
                       CASE WHEN p.proname ~ '^shedlock_(force_release|forget|pause|resume|keep_history|protect(_row)?|stats_reset|grant|revoke|after_pg_upgrade)$' THEN 'administrators'
                            -- The views call functions with the rights of the role that reads them.
                            WHEN p.proname ~ '^shedlock_(rows|locks|history|is_slow|session_alive|stats_rows|inspect|version|((find|list|sort)_)?ticks?|read_schedule|doctor|findings)$' THEN 'readers'
                            ELSE 'users' END AS audience
                  FROM pg_proc p
                 WHERE (p.pronamespace, p.proowner) = (%1$s, %2$s) AND p.proname ~ %3$L AND NOT starts_with(p.proname, 'shedlock__')
                UNION ALL
                SELECT c.tableoid, c.oid, format('TABLE %%s', c.oid::regclass), u.privilege, c.relnamespace, c.relowner, c.relacl, u.audience
                  FROM pg_class c,
                       LATERAL (SELECT 'SELECT' AS privilege, 'readers' AS audience
                                 WHERE (c.relnamespace, c.relowner) = (%1$s, %2$s) AND c.relname ~ '^shedlock_(locks|stats)$'
                                UNION ALL
                                SELECT unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']), 'java'
                                 WHERE (c.relnamespace, c.relowner, c.relname) = (%1$s, %2$s, 'shedlock')
                                    OR c.oid = (SELECT d.refobjid FROM pg_class l JOIN pg_rewrite r ON r.ev_class = l.oid JOIN pg_depend d ON d.objid = r.oid
                                                 WHERE (l.relnamespace, l.relowner, l.relname) = (%1$s, %2$s, 'shedlock_link')
                                                   AND (d.classid, d.refclassid) = (r.tableoid, l.tableoid) AND d.refobjid <> l.oid)) u) o
         ORDER BY o.tableoid, o.object COLLATE "C", o.privilege COLLATE "C" $rights$, home::oid, quote_ident(current_user)::regrole::oid, ours);
    one_right CONSTANT text := format('SELECT r.is_granted FROM (%s) r WHERE (r.tableoid, r.oid, r.privilege) = ($2, $3, $4)', rights);
    wanted record;
    is_granted boolean;
    needed oid[];
    schema_name regnamespace;
    remaining text; -- functions
    remaining_of_table text; -- privileges
BEGIN
    @here@
    IF role IS NULL OR admin IS NULL OR java IS NULL OR read_only IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = CASE WHEN grants THEN 'role, admin, java and read_only must not be NULL'
                                                          ELSE 'role, admin and java must not be NULL' END;
    ELSIF read_only AND (admin OR java) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'read_only excludes admin and java',
            HINT = 'Without read_only the role may read the views, too.';
    ELSIF role_id IS NULL THEN -- GRANT and REVOKE would cut a long name, and find another role
        RAISE undefined_object USING MESSAGE = format('role "%s" does not exist', role);
    END IF;
    FOR wanted IN EXECUTE rights USING role_id LOOP
        IF NOT grants AND (role_id = wanted.owner
                           OR role_id = (SELECT extowner FROM pg_extension WHERE extname = 'shedlock')) THEN
            -- shedlock_grant did not give these rights, and without them the functions would fail for all roles.
            RAISE invalid_parameter_value USING MESSAGE = format('role "%s" owns shedlock', role),
                HINT = 'The rights of the owner cannot be revoked.';
        END IF;
        CONTINUE WHEN NOT CASE wanted.audience WHEN 'users' THEN NOT read_only WHEN 'administrators' THEN admin
                                               WHEN 'java' THEN java ELSE true END;
        needed := needed || wanted.schema_id;
        CONTINUE WHEN wanted.is_granted = grants;
        EXECUTE format(CASE WHEN grants THEN 'GRANT %s ON %s TO %I' ELSE 'REVOKE %s ON %s FROM %I' END,
                       wanted.privilege, wanted.object, role);
        EXECUTE one_right INTO is_granted USING role_id, wanted.tableoid, wanted.oid, wanted.privilege;
        IF is_granted IS DISTINCT FROM grants THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = format('%s was replaced while it was being %s', wanted.object,
                                       CASE WHEN grants THEN 'granted' ELSE 'revoked' END),
                      HINT = 'Who may create objects in that schema, or rename it?';
        END IF;
    END LOOP;

    IF grants THEN
        FOREACH schema_name IN ARRAY ARRAY(SELECT n FROM unnest(needed) WITH ORDINALITY u (n, no)
                                            GROUP BY n ORDER BY min(no)) LOOP
            IF NOT has_schema_privilege(role, schema_name::oid, 'USAGE') THEN
                RAISE NOTICE 'role "%" cannot use schema % yet', role, schema_name
                    USING HINT = format('GRANT USAGE ON SCHEMA %s TO %I', schema_name, role);
            END IF;
        END LOOP;
        RETURN;
    END IF;
    EXECUTE format('SELECT string_agg(DISTINCT p.proname, '', '' ORDER BY p.proname),
                           string_agg(r.privilege, '', '' ORDER BY r.privilege) FILTER (WHERE r.audience = ''java'' AND has_table_privilege($2, r.oid, r.privilege))
                      FROM (%s) r LEFT JOIN pg_proc p ON p.oid = r.oid AND p.tableoid = r.tableoid
                                                     AND has_function_privilege($2, p.oid, ''EXECUTE'')', rights)
       INTO remaining, remaining_of_table USING role_id, role;
    IF remaining <> '' THEN
        RAISE NOTICE 'role "%" may still call %', role, remaining
            USING HINT = 'It may do so as a superuser, as their owner, as a member of another role, or because of '
                         'shedlock_grant(..., admin => true), which shedlock_revoke(..., admin => true) undoes.';
    END IF;
    IF remaining_of_table <> '' THEN
        RAISE NOTICE 'role "%" still has these privileges on the lock table: %', role, remaining_of_table
            USING HINT = 'shedlock_revoke(..., java => true) undoes what shedlock_grant(..., java => true) did.';
    END IF;
END
$$;

-- These have their owner's rights. They find the function by its OID, whatever its name is by then.

CREATE OR REPLACE FUNCTION shedlock_grant(role text, admin boolean DEFAULT false, java boolean DEFAULT false,
                                          read_only boolean DEFAULT false) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
SELECT shedlock__change_rights(true, role, admin, java, read_only);
END;

CREATE OR REPLACE FUNCTION shedlock_revoke(role text, admin boolean DEFAULT false, java boolean DEFAULT false) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
SELECT shedlock__change_rights(false, role, admin, java, false);
END;

-- end: Grant

-- Several names -------------------------------------------------------------------------------------------------------

-- Acquire, extend, release and complete, also by token, have twins that change several locks, all or none. They have the
-- same arguments and the same text, without the usual case.
DO $$
DECLARE
    one oid;
BEGIN
    FOR one IN
        SELECT p.oid FROM pg_catalog.pg_proc p
         WHERE p.oid = ANY (SELECT routine::oid FROM shedlock_routines)
           AND p.proname::text OPERATOR(pg_catalog.~) '^shedlock_(acquire|extend|release|complete)(_token)?$'
           AND p.proargtypes[0] OPERATOR(pg_catalog.=) 'text'::regtype::oid
           AND pg_catalog.strpos(p.prosrc, '@here@') > 0
    LOOP
        EXECUTE pg_catalog.regexp_replace(
            pg_catalog.replace(pg_catalog.regexp_replace(pg_catalog.pg_get_functiondef(one), '@usual_[a-z_]+@', ''),
                               '.shedlock__name(', '.shedlock__names('),
            '[(]name text', '(name text[]');
    END LOOP;
END
$$;

-- shared: Comments ----------------------------------------------------------------------------------------------------

-- A function that takes several names instead of one shares the comment of the other.
DO $$
DECLARE
    described record;
BEGIN
    FOR described IN
        SELECT p.oid::regprocedure AS routine,
               pg_catalog.concat(
                   CASE WHEN p.proargtypes[0] OPERATOR(pg_catalog.=) 'text[]'::regtype::oid
                             AND p.proname OPERATOR(pg_catalog.~) '^shedlock_(acquire|extend|release|complete)'
                        THEN 'For several locks, all or none. ' END, c.comment) AS comment
          FROM (VALUES
        ('shedlock_acquire',
         'Acquires a lock for this session: true, and the lock is held until it is released or at_most has passed; or '
         'false, and nothing was written. Never waits until another transaction has ended; with wait it tries again '
         'for that long. With a tick, it succeeds once for that instant of the schedule (see shedlock_tick); with '
         'retry the tick is due again if its last run was not done, and with start_within no run for it begins later '
         'than that after it. With ends_with_session the lease also ends with this session, but not before at_least '
         'has passed.'),
        ('shedlock_acquire_token',
         'Acquires a lock and returns its token, with which any session can use the lock; NULL if it was refused. Each '
         'token of a name is greater than the one before. holder is any text, which the view shows, by default '
         'application_name@client_addr. With ends_with_session the lease also ends with the session that acquired it, '
         'but not before at_least has passed. Several locks get one common token.'),
        ('shedlock_wait_any',
         'For the client library, in which many callers wait in one session: caller number which[i] waits for the lock '
         'names[i]. Sleeps until all locks of a caller look free, and returns the numbers of those callers; returns '
         'none after wait or half of statement_timeout or transaction_timeout, or when shedlock_end_wait(wait_id) is '
         'called. NULL: nothing would wake it, so poll instead. It acquires nothing: the callers must do that.'),
        ('shedlock_end_wait',
         'For the client library: ends the shedlock_wait_any with that wait_id, in any session. False if there is '
         'none.'),
        ('shedlock_not_due',
         'For the client library: why an acquire with this tick is refused for good, had run or late. NULL if it is '
         'not.'),
        ('shedlock_extend',
         'Extends a lock of this session, so that it lasts for at_most from now, or until its at_least has passed if '
         'that is later; at_least, if given, also counts from now. False, with a WARNING that says why, if this session '
         'does not have the lock or its lease is over; nothing is changed then. The SQLSTATE of the WARNING is SL002 if '
         'the lock has been released as done, '
         'otherwise SL001.'),
        ('shedlock_extend_token',
         'Extends the acquisition that has this token. False, with a WARNING that says why, if its lease is over, '
         'others have the lock, or it was released. If another transaction has locked the row, it waits; with nowait '
         'it returns NULL and changes nothing.'),
        ('shedlock_release',
         'Releases a lock of this session: it is free now, or when its at_least has passed. done says whether its work '
         'was done; if not, an acquire with retry can get the same tick again. False, with a WARNING that says why, if '
         'this session does not have the lock or its lease is over; nothing is changed then. The SQLSTATE of the '
         'WARNING is SL002 if the lock has been released as done, otherwise SL001. detail is recorded in '
         'the history, if there is one: why the work failed, for example. Its first 1000 characters are kept.'),
        ('shedlock_release_token',
         'Releases the acquisition that has this token; done and detail as in shedlock_release, nowait as in '
         'shedlock_extend_token. False, with a WARNING that says why, if its lease is over, others have the lock, or '
         'it was released.'),
        ('shedlock_keep_history',
         'From now on each run of ours that ends is recorded, in the transaction that ends it, in the table '
         'shedlock_history in the schema of the lock table; with false, not any more. The table is created if there is '
         'none, and kept. An empty name with outcome on or off says when this was changed. Waits for transactions that '
         'have written the lock table (portable edition: or locked rows of it), and other calls wait behind it. '
         'SQLSTATE 55000 if a table of that name cannot be the history.'),
        ('shedlock_history',
         'The rows of the history for these names (NULL: for all) that ended since then (NULL: ever), and for each '
         'name only the latest ones, if their number is given. tick is NULL for a run without a tick; outcome is done, '
         'failed, ran out (never released, and its lease is over: ended_at is the end of the lease, or when it was '
         'found if it ended with its session) or freed (by shedlock_force_release); detail is what the release said. '
         'Rows with an empty name say since when a history is kept (on) or not (off). SQLSTATE 42P01 if there is none.'),
        ('shedlock_guard',
         'From now on this transaction commits, or is prepared, only if no other acquisition of that lock has happened '
         'since this session''s. If one has, it fails with SQLSTATE SL001, at once or at the commit.'),
        ('shedlock_guard_token',
         'From now on this transaction commits, or is prepared, only if no other acquisition of that lock has happened '
         'since the one that has this token. If one has, it fails with SQLSTATE SL001, at once or at the commit.'),
        ('shedlock_complete',
         'For the end of the transaction that did the work: guards it as shedlock_guard does, and releases this '
         'session''s lock as done when it commits. If the transaction is rolled back, the lock is still held. A lease '
         'that is over is no obstacle if no other acquisition has happened. SQLSTATE SL001, at once or at the commit, '
         'if another acquisition has happened since, or if the lock has been released before.'),
        ('shedlock_complete_token',
         'Completes the acquisition that has this token, as shedlock_complete does for a session.'),
        ('shedlock_tick',
         'The instant of a schedule that is due now: the latest one that is not after at + 30 seconds, or at + every / 2 '
         'if that is less. A schedule is an interval or a crontab expression. An interval is whole months, whole days, '
         'or hours and smaller units, all counted from midnight of Monday 1 January 2001 in zone. Months and days '
         'begin at midnight, only once if the clock shows midnight twice. An interval of less than 24 hours '
         'follows the wall clock of zone: a time that it shows twice has two ticks, and a time that it skips is due at '
         'the instant of the change; from 24 hours on there is only the first. An expression (''30 2 * * mon-fri'') '
         'follows the wall clock, too, if its minute or hour begins with *; otherwise each of its times comes once per day.'),
        ('shedlock_ticks',
         'The instants of a schedule after since, up to the one that is due now (see shedlock_tick), in ascending '
         'order: for a loop that catches up on missed runs. SQLSTATE 54000 if there are more than 100000.'),
        ('shedlock_read_schedule',
         'For shedlock_tick and shedlock_ticks.'),
        ('shedlock_find_tick',
         'For shedlock_tick and shedlock_ticks.'),
        ('shedlock_list_ticks',
         'For shedlock_ticks.'),
        ('shedlock_sort_ticks',
         'For shedlock_ticks.'),
        ('shedlock_run',
         'Runs a command under a lock: acquires and commits; then one transaction runs the command, guarded as by '
         'shedlock_guard, and releases the lock. executed is true if the work is committed and counts as done, and '
         'false if the lock was refused. If the command fails, its work is rolled back, the lock is released as not '
         'done, and the caller gets the command''s error; the same happens with SQLSTATE SL001 if another acquisition '
         'has happened since. The lease ends with the session. Not inside a transaction block.'),
        ('shedlock_force_release',
         'Frees a lock, whoever holds it; true if it was not free. The old holder has lost it, and its guarded '
         'transactions fail. Waits for a transaction in progress that has changed or locked the row.'),
        ('shedlock_forget',
         'Deletes the row of a job that no longer exists, and returns true. Returns false and changes nothing unless '
         'the lock is free, its last acquisition and its last tick are in the past, and no transaction in progress has '
         'changed or locked the row. Never waits for another transaction. All ticks of that name are due again.'),
        ('shedlock_pause',
         'Keeps a job from running until shedlock_resume: takes the lock like an acquire, and is refused (false) while '
         'it is held; with wait it tries again for that long.'),
        ('shedlock_resume',
         'Frees a lock if it is paused; otherwise false, with a WARNING.'),
        ('shedlock_protect',
         'Creates a trigger on the lock table, or drops it. The trigger keeps the SQL of other clients from changing '
         'or deleting a lock of ours that is not free (Java before 7.0, ports that DELETE, clients with a wrong '
         'clock); they get a NOTICE. Waits for transactions that have written the table; to drop the trigger, also for '
         'those that have read it.'),
        ('shedlock_protect_row',
         'For shedlock_protect: the trigger.'),
        ('shedlock_doctor',
         'Problems, and what may become one, with severity (error, warning, notice), finding and hint: the table''s '
         'shape and bloat, harmful settings, clients that write local time, leases that are about to end or too short, '
         'holders that are gone, jobs whose last run failed, locks in long transactions, several writers. No rows if '
         'nothing was found. It has the rights of its caller; what that role may not see is reported as not checked.'),
        ('shedlock_findings',
         'For shedlock_doctor.'),
        ('shedlock_is_slow',
         'For shedlock_doctor.'),
        ('shedlock__change_rights',
         'For shedlock_grant and shedlock_revoke.'),
        ('shedlock_grant',
         'Lets a role use the lock functions and read the views; with admin, also use the administrators'' functions; '
         'with java, also read and write the table, as Java clients do; with read_only, only read the views and the '
         'history, and call shedlock_tick, shedlock_ticks, shedlock_doctor and shedlock_version. Without '
         'shedlock_grant, only superusers and the role that installed shedlock may do any of that.'),
        ('shedlock_revoke',
         'Takes back what shedlock_grant gives with the same arguments, and what it gives with read_only. NOTICEs '
         'say what the role may still do.'),
        ('shedlock_stats_reset',
         'Forgets what shedlock_stats has counted in this database.'),
        ('shedlock_locks',
         'The rows of the view shedlock_locks for these names, found by the index: with very many locks the view takes '
         'longer. A name without a row gives none. NULL: all.'),
        ('shedlock_version',
         'Which edition of these functions this is, extension or portable, and its version.'),
        ('shedlock_session_alive',
         'For the view shedlock_locks: whether a session, written as in locked_by (/PID.START.SERVER), is still '
         'running. NULL on a standby, and for a session of another server.'),
        ('shedlock_inspect',
         'For shedlock_doctor: the lock table, or why it cannot be one; whether shedlock_stats can be read; and the '
         'table of the history, and why runs are not recorded in it.'),
        ('shedlock_rows',
         'For shedlock_locks: the lock table''s rows, or at least those of these names. The extension checks the shape '
         'of the table first (SQLSTATE 55000).'),
        ('shedlock_stats_rows',
         'For the view shedlock_stats.')) c (name, comment)
               JOIN pg_catalog.pg_proc p ON p.proname OPERATOR(pg_catalog.=) c.name::name
         WHERE p.pronamespace
               OPERATOR(pg_catalog.=) pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace::oid
           AND pg_catalog.pg_get_userbyid(p.proowner) OPERATOR(pg_catalog.=) current_user
    LOOP
        EXECUTE pg_catalog.format('COMMENT ON ROUTINE %s IS %L', described.routine, described.comment);
    END LOOP;
END
$$;

COMMENT ON VIEW shedlock_stats IS
'Counters per lock name, since shedlock_stats_reset() or a start of the server. A clean restart keeps them if '
'the library is preloaded. failed: how many of the releases were of work that was not done; expired: how often '
'an acquire found that a lease had run out, because its holder died or took too long; lost: how often a release, '
'extend, guard or completion came too late, or from a session that did not hold the lock. Needs '
'shared_preload_libraries up to PostgreSQL 16. The portable edition has no counters.';
COMMENT ON VIEW shedlock_locks IS
'One row per lock. state is held, kept (released, or its session is gone, but its at_least has not passed), '
'free, or paused. Times by the server''s clock; token is what shedlock_acquire_token returned; holder_pid and '
'holder_alive are those of the session that acquired it, if the row records a session; ends_with_session says '
'whether the lease ends with it; last_duration is how long the last holder had it, at_least included, NULL after '
'a pause or a release by force; last_outcome is done, failed (released as not done) or ran out (never released), '
'NULL while held, for Java rows, and after a pause or a release by force; last_done_at is when a run was last '
'released as done, except by Java clients; last_tick is the tick of the last run that had one; all ticks up to '
'last_done_tick are done: it is the tick of a run that was done, or, for a run without a tick and for one of a Java '
'client, the time at which it was acquired; run_tick is the same for the last run, whatever became of it, NULL for '
'Java rows, and after a pause or a release by force.';

-- end: Comments

-- Done ----------------------------------------------------------------------------------------------------------------

SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
    home CONSTANT text := quote_ident(current_setting('shedlock_portable.home'));
    -- Whether a function is still in the schema that was written into it. From PostgreSQL 16 on it knows itself. Before
    -- that, it looks for one of our functions that has its owner: somebody else may have created another schema of that
    -- name, but not that function. (PG_CONTEXT would give the name that a function had when this session first called
    -- it.)
    knows_itself CONSTANT boolean := current_setting('server_version_num')::int >= 160000;
    here CONSTANT text := CASE WHEN knows_itself THEN
$here$DECLARE
        itself oid;
    BEGIN
        GET DIAGNOSTICS itself = PG_ROUTINE_OID;
        IF itself::regproc::text <> '@itself@'
           AND itself::regproc::text <> '@quoted@' THEN -- with quote_all_identifiers
            @moved@
        END IF;
    END;$here$ ELSE
$here$PERFORM FROM pg_proc
      WHERE oid = to_regprocedure('@extschema@.shedlock__here()') AND pg_get_userbyid(proowner) = current_user;
    IF NOT FOUND THEN
        @moved@
    END IF;$here$ END;
    -- shedlock_run has its caller's rights, so current_user says nothing. It finds itself by a text and the name of its
    -- owner. Any role can copy the text, and REASSIGN OWNED, ALTER ROLE ... RENAME and pg_restore --no-owner change the
    -- owner's name. After these, it refuses if another schema has the text, too: that may be a copy, but it may also be
    -- itself, moved there.
    run_here CONSTANT text := CASE WHEN knows_itself THEN
$here$GET DIAGNOSTICS itself = PG_ROUTINE_OID;
    PERFORM FROM pg_catalog.pg_proc p
      WHERE p.oid OPERATOR(pg_catalog.=) itself
        AND p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('@extschema@')::pg_catalog.oid;$here$ ELSE
$here$PERFORM FROM pg_catalog.pg_proc p
      WHERE p.proname OPERATOR(pg_catalog.=) 'shedlock_run'
        AND p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('@extschema@')::pg_catalog.oid
        AND pg_catalog.strpos(p.prosrc, '@mark@') OPERATOR(pg_catalog.>) 0
        AND (pg_catalog.pg_get_userbyid(p.proowner) OPERATOR(pg_catalog.=) @writer@
             OR NOT EXISTS (SELECT FROM pg_catalog.pg_proc o
                             WHERE o.pronamespace OPERATOR(pg_catalog.<>) p.pronamespace
                               AND pg_catalog.strpos(o.prosrc, '@mark@') OPERATOR(pg_catalog.>) 0));$here$ END
|| $here$
    IF NOT FOUND THEN
        @moved@
    END IF;$here$;
    moved CONSTANT text := $moved$RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'the functions of shedlock are no longer in schema @extschema@, for which they were written',
            HINT = 'Set search_path to the schema in which they are now, and run shedlock.sql again.';$moved$;
    -- $ would end the function's text
    writer CONSTANT text := concat('E''', replace(replace(replace(
        current_user, E'\\', E'\\\\'), '''', ''''''), '$', E'\\x24'), '''::pg_catalog.name');
    routine regprocedure;
    definition text;
    known text;
    made record;
BEGIN
    FOR routine IN EXECUTE format('SELECT routine FROM %s.shedlock_routines', home) LOOP
        definition := pg_get_functiondef(routine);
        FOREACH known IN ARRAY ARRAY['usual_acquire', 'usual_acquire_token', 'usual_extend', 'usual_release',
                                     'usual_release_token', 'take', 'default_holder', 'columns', 'is_session',
                                     'is_rest', 'no_history', 'history_fault', 'foreign_code'] LOOP
            definition := replace(definition, '@' || known || '@', current_setting('shedlock_portable.' || known));
        END LOOP;
        definition := replace(replace(replace(replace(definition, '@here@', here), '@run_here@', run_here),
                                      '@mark@', gen_random_uuid()::text), '@moved@', moved);
        EXECUTE replace(replace(replace(replace(definition, '@itself@', routine::regproc::text), '@quoted@',
            (SELECT format('"%s"."%s"', current_setting('shedlock_portable.home'), p.proname)
               FROM pg_proc p WHERE p.oid = routine)), '@extschema@', home), '@writer@', writer);
        -- It is new, or it was restored without its privileges. Then everybody may execute it.
        IF (SELECT p.proacl IS NULL FROM pg_proc p WHERE p.oid = routine) THEN
            EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', routine);
        END IF;
    END LOOP;
    -- Default privileges may give rights on what is new to anybody. What existed before keeps the rights that
    -- shedlock_grant has given.
    FOR made IN
        SELECT o.signature, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS privileged
          FROM (SELECT p.tableoid, p.oid, 'ROUTINE ' || p.oid::regprocedure AS signature, p.proowner AS owner,
                       COALESCE(p.proacl, acldefault('f', p.proowner)) AS acl
                  FROM pg_proc p WHERE p.pronamespace = home::regnamespace AND starts_with(p.proname, 'shedlock_')
                UNION ALL
                SELECT c.tableoid, c.oid, c.oid::regclass::text, c.relowner, c.relacl
                  FROM pg_class c
                 WHERE c.relnamespace = home::regnamespace AND c.relkind IN ('r', 'v')
                   AND starts_with(c.relname, 'shedlock')) o,
               aclexplode(o.acl) a
         WHERE a.grantee <> o.owner AND o.owner = quote_ident(current_user)::regrole
           AND concat(o.tableoid, '.', o.oid)
               <> ALL (string_to_array(current_setting('shedlock_portable.existing'), ' '))
         GROUP BY 1, 2
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', made.signature, made.privileged);
    END LOOP;
    EXECUTE format('SELECT id FROM %s.shedlock_table', home);
END
$$;

COMMIT;
