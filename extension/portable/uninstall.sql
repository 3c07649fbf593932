-- Drops what shedlock.sql has made in the current schema, but the table: psql -v ON_ERROR_STOP=1 -f uninstall.sql, as the
-- same role.

BEGIN;
DROP VIEW shedlock_locks, shedlock_stats;
DO $$
DECLARE
    routine regprocedure;
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('shedlock') AND tgname = 'shedlock_protect') THEN
        DROP TRIGGER shedlock_protect ON shedlock;
    END IF;
    FOR routine IN SELECT shedlock_routines() LOOP
        EXECUTE format('DROP ROUTINE %s', routine);
    END LOOP;
END
$$;
COMMIT;
