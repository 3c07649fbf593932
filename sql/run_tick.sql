-- The command of shedlock_run can read its tick from the setting shedlock.tick, which casts back to exactly that tick.
CREATE TABLE work (what text, tick text);
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'America/New_York';

CALL shedlock_run('t', $$
    INSERT INTO work VALUES ('with a tick', current_setting('shedlock.tick', true))
$$, '1 h', tick => '2026-11-01 00:00:00.25 Europe/Berlin');
CALL shedlock_run('bc', $$
    INSERT INTO work VALUES ('long ago', current_setting('shedlock.tick', true))
$$, '1 h', tick => '0044-03-15 00:00:00.000001+00 BC');
SELECT what, tick, tick::timestamptz = l.last_tick AS is_the_tick
  FROM work JOIN shedlock_locks l ON name = CASE what WHEN 'long ago' THEN 'bc' ELSE 't' END ORDER BY what;
SELECT COALESCE(current_setting('shedlock.tick', true), '') AS afterwards;

-- In a run without a tick the setting is empty, whatever the session has set it to.
SET shedlock.tick = 'mine';
CALL shedlock_run('t', $$INSERT INTO work VALUES ('without', current_setting('shedlock.tick', true))$$, '1 h');
SELECT * FROM work WHERE what = 'without';
RESET shedlock.tick;

-- After an error it is empty as well, and so it is in a calling procedure that rolls back after a run.
CALL shedlock_run('t', 'SELECT 1/0', '1 h', tick => clock_timestamp());
SELECT COALESCE(current_setting('shedlock.tick', true), '') AS afterwards;
CREATE PROCEDURE runs_one() LANGUAGE plpgsql AS $$
DECLARE
    executed boolean;
BEGIN
    CALL shedlock_run('rolled back', 'SELECT 1', '1 h', tick => clock_timestamp(), executed => executed);
    ROLLBACK;
    INSERT INTO work VALUES ('in the caller', current_setting('shedlock.tick', true));
END $$;
CALL runs_one();
SELECT * FROM work WHERE what = 'in the caller';

-- Parallel workers can read it.
SELECT set_config(name, 'on', false) AS forced
  FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE TABLE seen_by_workers AS SELECT i FROM generate_series(1, 10000) i;
ANALYZE seen_by_workers;
CALL shedlock_run('t', $$
    CREATE TABLE told AS
    SELECT DISTINCT current_setting('shedlock.tick', true) || left(i::text, 0) AS tick FROM seen_by_workers
$$, '1 h', tick => clock_timestamp());
SELECT count(*) AS ticks, bool_and(tick::timestamptz = last_tick) AS are_the_tick
  FROM told, shedlock_locks WHERE name = 't';

-- It lasts through commits and rollbacks of the command.
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO work VALUES ('first', current_setting('shedlock.tick', true));
    COMMIT;
    INSERT INTO work VALUES ('undone', current_setting('shedlock.tick', true));
    ROLLBACK;
    INSERT INTO work VALUES ('last', current_setting('shedlock.tick', true));
END $$;
CALL shedlock_run('c', 'CALL commits()', '1 h', tick => '2026-11-02 00:00+00');
SELECT * FROM work WHERE what IN ('first', 'last');

-- A run inside a run has its own tick.
CALL shedlock_run('outer', $$
    CALL shedlock_run('inner', 'INSERT INTO work VALUES (''inner'', current_setting(''shedlock.tick'', true))',
                      '1 h', tick => '2026-11-04 00:00+00');
    INSERT INTO work VALUES ('outer', current_setting('shedlock.tick', true))
$$, '1 h', tick => '2026-11-03 00:00+00');
SELECT * FROM work WHERE what IN ('inner', 'outer') ORDER BY what;
SELECT COALESCE(current_setting('shedlock.tick', true), '') AS afterwards;

DROP TABLE work, told, seen_by_workers;
DROP PROCEDURE runs_one;
DROP PROCEDURE commits;
DELETE FROM shedlock;
