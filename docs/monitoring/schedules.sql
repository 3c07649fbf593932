-- For each schedule below, whether its run is late, as metrics for the textfile collector of node_exporter. Every minute, as a role
-- with shedlock_grant(role, read_only => true), whose search_path has the views:
--   psql -XAtq -v ON_ERROR_STOP=1 -f schedules.sql >shedlock_schedules.new && mv shedlock_schedules.new shedlock_schedules.prom
-- alerts.yaml has the rules. A Java run that began at the tick or later counts as done. A run without a tick
-- that is under way is not that of the tick.

WITH job (name, schedule, zone, grace, since) AS MATERIALIZED (VALUES
    -- The job, when it is due, the zone of that, by when it must be done; and since when the job exists: earlier ticks do not count.
    ('nightly', '30 2 * * 1-5', 'Europe/Berlin', interval '1 hour', timestamptz '2026-01-01 00:00+00'),
    ('report', '1 day', 'UTC', interval '90 minutes', '2026-01-01 00:00+00')
),
due AS MATERIALIZED (
    -- shedlock_tick looks ahead by up to 30 seconds.
    SELECT name, grace, since, shedlock_tick(schedule, zone, clock_timestamp() - grace - interval '30 seconds') AS tick FROM job
),
run AS (
    SELECT replace(replace(replace(due.name, '\', '\\'), '"', '\"'), chr(10), '\n') AS label,
           CASE WHEN tick >= since AND (last_done_tick >= tick) IS NOT TRUE THEN extract(epoch FROM tick)::bigint ELSE 0 END AS overdue,
           (state = 'held' AND run_tick = tick) IS TRUE AS is_under_way
      FROM due LEFT JOIN shedlock_locks(ARRAY(SELECT job.name FROM job)) l ON l.name = due.name COLLATE "C"
)
SELECT '# HELP shedlock_schedule_overdue_tick_timestamp_seconds The latest tick that is older than its grace, if its run is not done, as Unix time; otherwise 0.'
UNION ALL
SELECT '# TYPE shedlock_schedule_overdue_tick_timestamp_seconds gauge'
UNION ALL
SELECT format('shedlock_schedule_overdue_tick_timestamp_seconds{name="%s"} %s', label, overdue) FROM run
UNION ALL
SELECT '# HELP shedlock_schedule_run_under_way 1 while the run of that tick is under way.'
UNION ALL
SELECT '# TYPE shedlock_schedule_run_under_way gauge'
UNION ALL
SELECT format('shedlock_schedule_run_under_way{name="%s"} %s', label, (overdue > 0 AND is_under_way)::int) FROM run;
