-- Traps for sql/hostile.sql and test/tap/hostile.pl. The role that runs this file owns the schema regress_evil. A
-- statement that runs into a trap fails, and reports the role with whose rights the trap ran.
CREATE FUNCTION regress_evil.trap() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'A TRAP RUNS AS %', current_user;
END $$;

-- Creates, in the schema `home`, objects with many of the names that the script, the views and the
-- PL/pgSQL functions use.
CREATE FUNCTION regress_evil.lay_traps(home text) RETURNS bigint LANGUAGE plpgsql AS $lay$
DECLARE
    mixed CONSTANT text[] := '{oid,name,text,regclass,regtype,regproc,regrole,regnamespace}';
    bait text;
    made bigint := 0;
BEGIN
    -- Functions, with the argument types of the originals.
    FOREACH bait IN ARRAY ARRAY[
        'clock_timestamp() RETURNS timestamptz', 'now() RETURNS timestamptz',
        'timezone(text, timestamptz) RETURNS timestamp', 'timezone(text, timestamp) RETURNS timestamptz',
        'regexp_replace(text, text, text) RETURNS text', 'regexp_match(text, text) RETURNS text[]',
        'isfinite(interval) RETURNS boolean', 'date_bin(interval, timestamp, timestamp) RETURNS timestamp',
        'date_trunc(text, timestamptz) RETURNS timestamptz', 'floor(numeric) RETURNS numeric',
        'make_interval(int, int, int, int, int, int, float8) RETURNS interval',
        'isfinite(timestamp) RETURNS boolean', 'isfinite(timestamptz) RETURNS boolean',
        'format(text, VARIADIC "any") RETURNS text', 'extract(text, timestamp) RETURNS numeric',
        'date_part(text, timestamp) RETURNS float8', 'date_trunc(text, interval) RETURNS interval',
        'current_database() RETURNS name', 'pg_backend_pid() RETURNS int',
        'pg_stat_get_live_tuples(oid) RETURNS bigint', 'pg_stat_get_dead_tuples(oid) RETURNS bigint',
        'has_schema_privilege(text, text, text) RETURNS boolean',
        'has_schema_privilege(name, name, text) RETURNS boolean',
        'pg_extension_config_dump(regclass, text) RETURNS void', 'quote_ident(text) RETURNS text',
        'aclexplode(aclitem[]) RETURNS boolean', 'varchar(varchar, int, boolean) RETURNS varchar',
        'timestamp(timestamp, int) RETURNS timestamp', 'text(name) RETURNS text',
        -- A better or equally good match for calls of the script to its own functions.
        'shedlock_make_or_adopt_table(VARIADIC text[]) RETURNS void',
        'shedlock_inspect(VARIADIC text[]) RETURNS regclass',
        'shedlock_session_alive(varchar) RETURNS boolean', 'shedlock_session_alive(name) RETURNS boolean',
        'shedlock_session_alive(VARIADIC text[]) RETURNS boolean',
        'shedlock_locks(int) RETURNS text']
    LOOP
        IF bait LIKE '%"any"%' THEN
            bait := replace(bait, 'VARIADIC "any"', 'VARIADIC text[]');
        END IF;
        EXECUTE format('CREATE FUNCTION %I.%s LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_evil.trap(); END $$', home,
                       regexp_replace(bait, '^(\w+)', '"\1"'));
        made := made + 1;
    END LOOP;
    -- Operators, for the types that are compared or subtracted somewhere.
    FOR bait IN
        SELECT format('CREATE OPERATOR %I.%s (LEFTARG = %s, RIGHTARG = %3$s, FUNCTION = %1$I.trapped)', home, o, t)
          FROM unnest(ARRAY['text', 'varchar', 'name', 'timestamp', 'timestamptz', 'interval', 'oid', 'bigint', 'int',
                            '"char"', 'boolean', 'numeric']) t,
               unnest(ARRAY['=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '/', '%', '||', '~', '!~', '~~']) o
         UNION ALL -- for different types: pg_catalog has few of these, and casts an operand instead
        SELECT format('CREATE OPERATOR %I.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %1$I.trapped)', home, o, a, b)
          FROM unnest(mixed) a, unnest(mixed) b, unnest(ARRAY['=', '<>']) o
         WHERE a <> b
    LOOP
        IF bait LIKE '%.= %' THEN
            EXECUTE format('CREATE FUNCTION %I.trapped(%s, %s) RETURNS boolean LANGUAGE plpgsql
                            AS $$ BEGIN RETURN regress_evil.trap(); END $$',
                           home, substring(bait FROM 'LEFTARG = ([^,]+),'), substring(bait FROM 'RIGHTARG = ([^,]+),'));
        END IF;
        EXECUTE bait;
        made := made + 1;
    END LOOP;
    -- Types whose check runs the trap, and views in place of tables.
    FOREACH bait IN ARRAY ARRAY[
        'text', 'varchar', 'name', 'timestamp', 'timestamptz', 'interval', 'regclass', 'regprocedure', 'oid', 'int4',
        'int8', 'numeric', 'bool', 'char']
    LOOP
        EXECUTE format('CREATE DOMAIN %I.%I AS pg_catalog.text CHECK (regress_evil.trap())', home, bait);
        made := made + 1;
    END LOOP;
    FOREACH bait IN ARRAY ARRAY[
        'pg_extension', 'pg_namespace', 'pg_proc', 'pg_depend', 'pg_class', 'pg_settings', 'pg_locks',
        'pg_stat_activity', 'pg_stat_replication', 'pg_database']
    LOOP
        EXECUTE format('CREATE VIEW %I.%I AS
                        SELECT regress_evil.trap() AS oid, ''shedlock'' AS extname, ''public'' AS nspname', home, bait);
        made := made + 1;
    END LOOP;
    -- A new type, with a cast to text.
    EXECUTE format('CREATE TYPE %I.bait AS (x int)', home);
    EXECUTE format('CREATE FUNCTION %1$I.cast_away(%1$I.bait) RETURNS pg_catalog.text LANGUAGE plpgsql
                    AS $$ BEGIN PERFORM regress_evil.trap(); END $$', home);
    EXECUTE format('CREATE CAST (%1$I.bait AS pg_catalog.text)
                    WITH FUNCTION %1$I.cast_away(%1$I.bait) AS IMPLICIT', home);
    RETURN made + 2;
END $lay$;

-- Creates, in the schema `home`, an overload of each PostgreSQL function that `named_in` names: with the same types,
-- but with text where the original takes anything. An unqualified call may prefer an overload that takes text.
CREATE FUNCTION regress_evil.lay_overloads_of_named(home text, named_in text) RETURNS bigint LANGUAGE plpgsql AS $lay$
DECLARE
    bait text;
    made bigint := 0;
BEGIN
    FOR bait IN
        SELECT DISTINCT pg_catalog.format('%I(%s)', p.proname, (
                   SELECT pg_catalog.string_agg(
                              CASE WHEN y.typtype = 'p' AND y.typelem = 0 THEN 'pg_catalog.text'
                                   ELSE pg_catalog.format_type(y.oid, NULL) END, ', ' ORDER BY a.n)
                     FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY a (type, n)
                     JOIN pg_catalog.pg_type y ON y.oid = a.type))
          FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
           AND NOT p.proargtypes::oid[] && ARRAY['internal', 'cstring', 'trigger', 'event_trigger']::regtype[]::oid[]
           AND named_in ~ ('\m' || p.proname || '\(')
    LOOP
        BEGIN
            EXECUTE pg_catalog.format('CREATE FUNCTION %I.%s RETURNS boolean LANGUAGE plpgsql
                                       AS $$ BEGIN RETURN regress_evil.trap(); END $$', home, bait);
            made := made + 1;
        EXCEPTION WHEN duplicate_function THEN -- one that takes text and one that takes anything, or it exists already
            NULL;
        END;
    END LOOP;
    RETURN made;
END $lay$;

-- Creates overloads of those functions in the schema `home` that the caller does not own: for each position one with
-- each other type of a list, and those that take fewer arguments. If a call passes a literal, a NULL, a varchar for a
-- text, or omits an argument, PostgreSQL prefers one of these, or finds the call ambiguous.
CREATE FUNCTION regress_evil.lay_overloads_of_ours(home text) RETURNS bigint LANGUAGE plpgsql AS $lay$
DECLARE
    ours record;
    made bigint := 0;
    bait text;
BEGIN
    FOR ours IN
        SELECT p.proname, p.prokind,
               ARRAY(SELECT pg_catalog.format_type(t, NULL)
                       FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY a (t, n) ORDER BY n) AS types
          FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = home::regnamespace AND p.proname ~ '^shedlock' AND p.proowner <> current_user::regrole
    LOOP
        FOR bait IN
            SELECT pg_catalog.array_to_string(ours.types[:i - 1] || t || ours.types[i + 1:], ', ')
              FROM pg_catalog.generate_series(1, pg_catalog.cardinality(ours.types)) i,
                   pg_catalog.unnest(ARRAY['text', 'varchar', 'name', 'interval', 'boolean', 'int', 'bigint', 'numeric',
                                           'float8', 'timestamp', 'timestamptz', 'oid', 'regclass', '"char"', 'text[]',
                                           'varchar[]', 'name[]', 'int[]', 'anyelement', 'anyarray']) t
             WHERE t::regtype <> ours.types[i]::regtype
            UNION ALL
            SELECT pg_catalog.array_to_string(ours.types[:i], ', ')
              FROM pg_catalog.generate_series(0, pg_catalog.cardinality(ours.types) - 1) i
        LOOP
            BEGIN
                EXECUTE pg_catalog.format(
                    'CREATE %s %I.%I(%s) %s LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_evil.trap(); END $$',
                    CASE ours.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, home, ours.proname, bait,
                    CASE ours.prokind WHEN 'p' THEN '' ELSE 'RETURNS boolean' END);
                made := made + 1;
            EXCEPTION WHEN duplicate_function THEN -- one of our functions, or another overload, has these types
                NULL;
            END;
        END LOOP;
    END LOOP;
    RETURN made;
END $lay$;

-- Creates overloads of those functions in the schema `home` that the caller does not own, with one more argument that
-- has a default: a call that matches both fails as ambiguous.
CREATE FUNCTION regress_evil.lay_ambiguities(home text) RETURNS bigint LANGUAGE plpgsql AS $lay$
DECLARE
    ours record;
    made bigint := 0;
BEGIN
    FOR ours IN
        SELECT p.proname,
               pg_catalog.array_to_string(
                   ARRAY(SELECT pg_catalog.format_type(t, NULL)
                           FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY a (t, n) ORDER BY n)
                   || 'int DEFAULT 1'::text, ', ') AS arguments
          FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = home::regnamespace AND p.proname ~ '^shedlock' AND p.prokind = 'f'
           AND p.proowner <> current_user::regrole
    LOOP
        EXECUTE pg_catalog.format('CREATE FUNCTION %I.%I(%s) RETURNS boolean LANGUAGE plpgsql
                                   AS $$ BEGIN PERFORM regress_evil.trap(); END $$',
                                  home, ours.proname, ours.arguments);
        made := made + 1;
    END LOOP;
    RETURN made;
END $lay$;
