-- Drops what shedlock.sql has made in the current schema, except the tables: psql -v ON_ERROR_STOP=1 -f uninstall.sql,
-- as the same role. Its search_path has only pg_catalog and, last, pg_temp.

BEGIN;
DO $$
BEGIN
    PERFORM pg_catalog.set_config('shedlock_portable.home',
        COALESCE(pg_catalog.current_schema()::pg_catalog.text, ''), true);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;

DO $$
DECLARE
    home CONSTANT text := quote_ident(current_setting('shedlock_portable.home'));
    installer CONSTANT regrole := (SELECT relowner FROM pg_class WHERE oid = to_regclass(home || '.shedlock_routines'));
    routines text;
BEGIN
    IF installer IS NULL THEN
        RAISE undefined_table
            USING MESSAGE = format('the portable edition of shedlock is not installed in schema %s', home),
                  HINT = 'Set search_path to the schema in which it is.';
    ELSIF installer <> quote_ident(current_user)::regrole THEN
        RAISE insufficient_privilege
            USING MESSAGE = format('the portable edition of shedlock in schema %s belongs to role %s, not to %s',
                                   home, installer, quote_ident(current_user)::regrole),
                  HINT = format('SET ROLE %s.', installer);
    ELSIF EXISTS (SELECT FROM pg_trigger
                   WHERE tgrelid = to_regclass(home || '.shedlock') AND tgname = 'shedlock_protect') THEN
        EXECUTE format('DROP TRIGGER shedlock_protect ON %s.shedlock', home);
    END IF;
    EXECUTE format('DROP FUNCTION %1$s.shedlock_doctor(), %1$s.shedlock_findings', home);
    EXECUTE format('DROP VIEW %1$s.shedlock_locks, %1$s.shedlock_stats, %1$s.shedlock_table', home);
    EXECUTE format('SELECT string_agg(routine::text, '', '') FROM %s.shedlock_routines', home) INTO routines;
    EXECUTE format('DROP ROUTINE %s', routines); -- in one statement, because some depend on others
    EXECUTE format('DROP VIEW %s.shedlock_routines', home);
    EXECUTE format('DROP TYPE %s.shedlock__row', home);
END
$$;
COMMIT;
