-- In a parallel worker a guard would be forgotten, and the transaction would commit unguarded. So whatever changes or
-- guards a lock fails with 25000 there, and also in the leader. (That takes a function marked PARALLEL SAFE by
-- mistake: ours are not.)
CREATE TABLE many AS SELECT g FROM generate_series(1, 10000) g;
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$
DECLARE
    result text;
BEGIN
    EXECUTE 'SELECT ' || call INTO result;
    RETURN result;
END $$;
SELECT shedlock_acquire_token('job', '1 h') AS token \gset
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
\set VERBOSITY sqlstate
SELECT count(*) FROM many WHERE attempt('1') <> 'x';
SELECT count(*) FROM many WHERE attempt('shedlock_guard_token(''job'', ' || :token || ')') <> 'x';
SELECT count(*) FROM many WHERE attempt('shedlock_complete_token(''job'', ' || :token || ')') <> 'x';
SELECT count(*) FROM many WHERE attempt('shedlock_extend_token(''job'', ' || :token || ', ''1 h'')') <> 'x';
SELECT count(*) FROM many WHERE attempt('shedlock_release_token(''job'', ' || :token || ')') <> 'x';
SELECT count(*) FROM many WHERE attempt('shedlock_acquire(''new'', ''1 h'')') <> 'x';
SELECT count(*) FROM many WHERE attempt('shedlock_force_release(''job'')') <> 'x';
\set VERBOSITY default
RESET ALL;
-- Nothing has happened.
SELECT name, state, token = :token AS same FROM shedlock_locks;
-- What only reads works.
SELECT count(*) FROM many WHERE attempt('shedlock_tick(''1 day'')') <> 'x';
DROP FUNCTION attempt;
DROP TABLE many;
DELETE FROM shedlock;
