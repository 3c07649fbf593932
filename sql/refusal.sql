-- I3: a refused acquire assigns no transaction id, writes no WAL, locks no row and leaves no dead tuple.
-- (test/tap shows that it leaves no line in the server's log.)
SELECT shedlock_acquire('held', '1 h', at_least => '1 h');
SELECT shedlock_acquire(ARRAY['b', 'c'], '1 h');
SELECT shedlock_acquire('ticked', '1 h', tick => now()), shedlock_release('ticked');
-- WAL is measured by EXPLAIN, which counts what this session wrote; the server also writes WAL of its own accord.
CREATE FUNCTION refuse(
    times integer, OUT granted numeric, OUT wal_bytes bigint, OUT xid xid8, OUT row_locks bigint, OUT versions bigint
) LANGUAGE plpgsql AS $$
DECLARE
    written bigint := pg_stat_get_xact_tuples_inserted('shedlock'::regclass)
        + pg_stat_get_xact_tuples_updated('shedlock'::regclass);
    plan json;
BEGIN
    EXECUTE format($x$
        EXPLAIN (ANALYZE, WAL, FORMAT JSON) SELECT FROM (
            SELECT shedlock_acquire('held', '1 min') AS a, shedlock_acquire(ARRAY['a', 'b', 'z'], '1 min') AS b,
                shedlock_acquire('ticked', '1 min', tick => now() - interval '1 min') AS c,
                shedlock_acquire_token('held', '1 min') AS d,
                shedlock_acquire('new', '1 min', tick => now() - interval '2 h', start_within => '1 h') AS e
            FROM generate_series(1, %s)) AS answer
        WHERE a OR b OR c OR d IS NOT NULL OR e$x$, times) INTO plan;
    granted := trim_scale((plan->0->'Plan'->>'Actual Rows')::numeric);
    wal_bytes := plan->0->'Plan'->>'WAL Bytes';
    xid := pg_current_xact_id_if_assigned();
    versions := pg_stat_get_xact_tuples_inserted('shedlock'::regclass)
        + pg_stat_get_xact_tuples_updated('shedlock'::regclass) - written;
    SELECT count(*) INTO row_locks
      FROM shedlock WHERE xmax::text NOT IN ('0', xmin::text); -- xmax = xmin: the writer locked it
END $$;
-- The first call may prune pages of the catalog and so write WAL.
SELECT granted FROM refuse(1);
-- Many dead versions: reading them through the table access method would prune them and write WAL.
SELECT bool_and(shedlock_extend('held', '2 h')) FROM generate_series(1, 500);
SELECT * FROM refuse(1000);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM refuse(1000);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM refuse(1000);
COMMIT;
-- Held by a run whose session is alive.
UPDATE shedlock SET locked_by = (
    SELECT format('job@host/%s.%s.%s!%s', pid, (extract(epoch FROM backend_start) * 1000000)::bigint,
                  lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0'),
                  (extract(epoch FROM locked_at) * 1000000)::bigint)
      FROM pg_stat_activity WHERE pid = pg_backend_pid())
 WHERE name = 'held';
SELECT * FROM refuse(1000);
-- A refused acquire does not keep the table locked either.
BEGIN;
SELECT shedlock_acquire('held', '1 min');
SELECT count(*) AS locks
  FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('shedlock'::regclass, 'shedlock_pkey'::regclass);
COMMIT;
-- Release and extend of a lock that is not ours write nothing either.
SET client_min_messages = error;
BEGIN;
SELECT shedlock_release('nobody'), shedlock_extend('nobody', '1 min'), pg_current_xact_id_if_assigned() AS xid;
COMMIT;
RESET client_min_messages;
DROP FUNCTION refuse;
DELETE FROM shedlock;
