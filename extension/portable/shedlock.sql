-- Ticks ---------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock_tick(
    every interval,
    zone text DEFAULT 'UTC',
    at timestamptz DEFAULT pg_catalog.clock_timestamp()
) RETURNS timestamptz
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
-- Nothing longer than hours is added to an instant: days would be those of the session's TimeZone.
DECLARE
    origin CONSTANT timestamp := '2001-01-01'; -- a Monday
    half_a_day CONSTANT interval := '12 hours';
    by_the_hour CONSTANT boolean := every < interval '1 day';
    months int;
    rest interval;
    latest timestamptz;
    ahead interval;
    shown timestamp;
    due timestamp;
    tick timestamptz;
    before timestamptz;
    changed timestamptz;
    middle timestamptz;
    was timestamp;
BEGIN
    IF every IS NULL OR zone IS NULL OR at IS NULL THEN
        RAISE null_value_not_allowed
            USING MESSAGE = CASE WHEN every IS NULL THEN 'every' WHEN zone IS NULL THEN 'zone' ELSE 'at' END || ' must not be NULL';
    ELSIF NOT isfinite(every) OR NOT isfinite(at) THEN
        RAISE invalid_parameter_value USING MESSAGE = CASE WHEN isfinite(every) THEN 'at' ELSE 'every' END || ' must be finite';
    ELSIF every <= interval '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'every must be positive';
    END IF;
    months := extract(year FROM every) * 12 + extract(month FROM every);
    rest := every - make_interval(months => months);
    IF months <> 0 AND rest <> interval '0' OR extract(day FROM rest) <> 0 AND extract(epoch FROM rest) % 86400 <> 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'every must be whole months, whole days or a time, not a mixture',
            HINT = 'A day and a half is ''36 hours''.';
    END IF;

    latest := at + LEAST(every / 2, interval '1 minute');
    -- Clocks that are put back over midnight show the day before once more, when the new day has had its tick.
    FOREACH ahead IN ARRAY CASE WHEN by_the_hour THEN ARRAY[interval '0'] ELSE ARRAY[interval '3 hours', '0'] END LOOP
        shown := latest AT TIME ZONE zone + ahead;
        due := CASE WHEN months = 0 THEN date_bin(every, shown, origin)
                    ELSE origin + make_interval(months =>
                        (floor(((extract(year FROM shown) - 2001) * 12 + extract(month FROM shown) - 1) / months) * months)::int) END;
        -- When did, or does, the wall clock show that? By the hour: if nobody has changed it since. Else for the first
        -- time, as if nobody changed it in the half day before, or in the half day after.
        IF by_the_hour THEN
            changed := latest;
            tick := latest - (shown - due);
        ELSE
            changed := (due - half_a_day) AT TIME ZONE zone + half_a_day;
            tick := changed;
            IF tick AT TIME ZONE zone <> due THEN
                tick := (due + half_a_day) AT TIME ZONE zone - half_a_day;
            END IF;
        END IF;
        IF tick AT TIME ZONE zone <> due THEN
            -- It was changed between the two, at a whole second. Which?
            before := date_trunc('second', tick);
            changed := date_trunc('second', changed);
            WHILE changed - before > interval '1 second' LOOP
                middle := before + date_trunc('second', (changed - before) / 2);
                IF changed - middle = changed AT TIME ZONE zone - middle AT TIME ZONE zone THEN
                    changed := middle;
                ELSE
                    before := middle;
                END IF;
            END LOOP;
            -- What it would have shown. What it skipped is due now; else the last that was shown before.
            was := (changed - interval '1 second') AT TIME ZONE zone + interval '1 second';
            tick := CASE WHEN due >= was THEN changed
                         ELSE changed - (was - date_bin(every, was - interval '1 microsecond', origin)) END;
        END IF;
        EXIT WHEN tick <= latest;
    END LOOP;
    RETURN tick;
END
$$;

-- Locks ---------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW shedlock_locks AS
SELECT
    l.name COLLATE pg_catalog."C" AS name,
    s.state,
    COALESCE(o.end[1], l.locked_by) AS holder,
    t.token,
    pg_catalog.timezone('UTC'::pg_catalog.text, l.locked_at) AS locked_at,
    pg_catalog.timezone('UTC'::pg_catalog.text, l.lock_until) AS lock_until,
    CASE WHEN e.lock_until OPERATOR(pg_catalog.>) c.now AND pg_catalog.isfinite(e.lock_until)
        THEN e.lock_until OPERATOR(pg_catalog.-) c.now
    END AS remaining,
    CASE WHEN s.state OPERATOR(pg_catalog.=) ANY (ARRAY['held', 'paused']::pg_catalog.text[]) AND pg_catalog.isfinite(l.locked_at)
        THEN GREATEST(c.now OPERATOR(pg_catalog.-) l.locked_at, '0'::pg_catalog.interval)
    END AS held_for,
    o.end[4]::pg_catalog.int4 AS holder_pid,
    o.alive AS holder_alive,
    CASE WHEN l.lock_until OPERATOR(pg_catalog.<=) c.now AND pg_catalog.isfinite(l.lock_until) AND pg_catalog.isfinite(l.locked_at)
        THEN l.lock_until OPERATOR(pg_catalog.-) LEAST(l.locked_at, l.lock_until)
    END AS last_duration,
    -- A pause and a release by force are no runs.
    CASE
        WHEN o.end IS NULL OR s.state OPERATOR(pg_catalog.=) ANY (ARRAY['held', 'paused']::pg_catalog.text[])
             OR o.end[1] OPERATOR(pg_catalog.~) '^(paused|released by force): '::pg_catalog.text THEN NULL
        WHEN l.lock_at_least_until IS NULL THEN 'done'::pg_catalog.text
        WHEN e.is_released THEN 'failed'::pg_catalog.text
        ELSE 'ran out'::pg_catalog.text
    END AS last_outcome
FROM shedlock_rows() l
    -- The clock is read once for the whole query: OFFSET keeps the planner from reading it once per use.
    CROSS JOIN (SELECT pg_catalog.timezone('UTC'::pg_catalog.text, pg_catalog.clock_timestamp()) AS now OFFSET 0) c
    CROSS JOIN LATERAL (
        -- Counted from 1970, the last thirty years of timestamp's range do not fit a token.
        SELECT CASE WHEN pg_catalog.isfinite(l.locked_at) AND l.locked_at OPERATOR(pg_catalog.<) '294247-01-10 04:00:54'::pg_catalog.timestamp
            THEN (EXTRACT(epoch FROM l.locked_at) OPERATOR(pg_catalog.*) 1000000::pg_catalog.numeric)::pg_catalog.int8
        END AS token
        OFFSET 0
    ) t
    -- The end that every locked_by of ours has, taken apart: {holder, tick, run, pid, start, token}; NULL, if it is none
    -- or has another row's token. (holder.cpp does the same.)
    LEFT JOIN LATERAL (
        SELECT p.end, shedlock_session_alive(p.end[4]::pg_catalog.int4, p.end[5]::pg_catalog.int8) AS alive
          FROM (SELECT pg_catalog.regexp_match(l.locked_by,
                    '^(.*?)(?:/tick([0-9]{1,18}))?(?:(/run)?/([0-9]{1,9})[.]([0-9]{1,18})|#(-?[0-9]+))$'::pg_catalog.text) AS "end"
                OFFSET 0) p
         WHERE p.end[4] IS NOT NULL OR p.end[6] OPERATOR(pg_catalog.=) t.token::pg_catalog.text
        OFFSET 0
    ) o ON true
    -- As acquire sees it: a run ends with its session, at_least honoured. On a standby nobody knows.
    CROSS JOIN LATERAL (
        SELECT r.is_released, r.has_ended,
               CASE WHEN r.has_ended THEN LEAST(l.lock_until, l.lock_at_least_until) ELSE l.lock_until END AS lock_until
          FROM (SELECT COALESCE(l.lock_at_least_until OPERATOR(pg_catalog.=) '-infinity'::pg_catalog.timestamp, true) AS is_released,
                       COALESCE(o.end[3] IS NOT NULL AND NOT o.alive
                                AND l.lock_at_least_until OPERATOR(pg_catalog.<>) '-infinity'::pg_catalog.timestamp, false) AS has_ended) r
        OFFSET 0
    ) e
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN e.lock_until OPERATOR(pg_catalog.<=) c.now THEN 'free'::pg_catalog.text
            WHEN e.lock_until OPERATOR(pg_catalog.=) 'infinity'::pg_catalog.timestamp THEN 'paused'::pg_catalog.text
            WHEN o.end IS NOT NULL AND (e.is_released OR e.has_ended) THEN 'kept'::pg_catalog.text
            ELSE 'held'::pg_catalog.text
        END AS state
        OFFSET 0
    ) s;

-- Doctor --------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock_doctor(OUT severity text, OUT finding text, OUT hint text) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home CONSTANT regnamespace := '@extschema@';
    -- From 2000 on, timestamp counts: no lease that begins then is too long for an interval, whatever somebody wrote
    -- into the row.
    sources CONSTANT text := format($sources$ WITH
        locks AS (SELECT *, CASE WHEN state = 'held' AND isfinite(locked_at)
                                 THEN lock_until - GREATEST(locked_at, timestamptz '2000-01-01 00:00:00Z') END AS lease
                    FROM %1$s.shedlock_locks WHERE isfinite(locked_at)),
        counters AS (SELECT * FROM %1$s.shedlock_stats) $sources$, home);
    lock_table regclass;
    query text;
BEGIN
    -- Without a sound table there is nothing more to look at.
    BEGIN
        EXECUTE format('SELECT %s.shedlock_table()', home) INTO lock_table;
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        severity := 'error';
        GET STACKED DIAGNOSTICS finding = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
        RETURN NEXT;
        RETURN;
    END;

    -- One query each gives severity, finding and hint, in the order in which they are told. $1 is the table.
    FOREACH query IN ARRAY ARRAY[

    $q$ SELECT 'error', format('table %s is UNLOGGED: a crash of the server forgets every lock', $1),
               format('ALTER TABLE %s SET LOGGED', $1)
          FROM pg_class WHERE oid = $1 AND relpersistence = 'u' $q$,

    -- An adopted one that pg_upgrade has moved: it keeps what depends on members, but not what the extension depends on.
    $q$ SELECT 'warning', format('pg_dump does not know that table %s must be restored before the extension', $1),
               format('DROP EXTENSION shedlock; CREATE EXTENSION shedlock SCHEMA %s. The locks stay; repeat shedlock_grant', t.relnamespace::regnamespace)
          FROM pg_class t, pg_extension e
         WHERE t.oid = $1 AND e.extname = 'shedlock' AND NOT EXISTS (
            SELECT FROM pg_depend WHERE (classid, objid, refclassid, refobjid) IN (
                ('pg_class'::regclass, t.oid, 'pg_extension'::regclass, e.oid),
                ('pg_extension'::regclass, e.oid, 'pg_class'::regclass, t.oid))) $q$,

    $q$ SELECT 'warning', format('table %s has %s dead rows beside %s live ones', $1, n_dead_tup, n_live_tup),
               'Look for transactions that have been open for long, here and on standbys, then VACUUM it'
          FROM pg_stat_all_tables WHERE relid = $1 AND n_dead_tup > 1000 AND n_dead_tup > 10 * n_live_tup $q$,

    $q$ SELECT 'error', format('%s is off: a crash of the server can forget or corrupt locks', name),
               format('ALTER SYSTEM SET %s = on', name)
          FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name $q$,

    $q$ SELECT 'warning', 'there are standbys, but none is synchronous: a fail-over can forget a lock',
               'Set synchronous_standby_names, or guard the work with shedlock_guard'
          FROM pg_stat_replication
        HAVING count(*) > 0 AND count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) = 0 $q$,

    -- A tick may be a minute ahead of the clock; nothing of ours is further.
    $q$ SELECT 'error', format('lock "%s" was acquired in the future, at %s, by "%s"', name, locked_at, holder),
               'That client writes local time instead of UTC (Java: usingDbTime()), or the server''s clock has stepped back'
          FROM locks WHERE locked_at > clock_timestamp() + interval '2 minutes' ORDER BY name $q$,

    $q$ SELECT 'warning', format('lock "%s" is held by a session that is gone (pid %s), for %s more', name, holder_pid, remaining),
               'It ends by itself. shedlock_force_release frees it now; a shorter at_most with extends would have been free earlier'
          FROM locks WHERE state = 'held' AND NOT holder_alive ORDER BY name $q$,

    $q$ SELECT 'warning', format('lock "%s" has been held for %s and ends in %s', name, held_for, remaining),
               'Another run may start then. Choose a longer at_most, or extend in time'
          FROM locks WHERE lease > interval '10 seconds' AND held_for > 0.8 * lease AND holder_alive IS NOT FALSE ORDER BY name $q$,

    $q$ SELECT 'notice', format('lock "%s" is paused since %s, by "%s"', name, locked_at, holder), 'shedlock_resume ends it'
          FROM locks WHERE state = 'paused' ORDER BY name $q$,

    $q$ SELECT 'notice', format('the name of lock "%s" begins or ends with blanks', name),
               'Two names that differ in blanks only are two locks'
          FROM locks WHERE name ~ '^\s|\s$' ORDER BY name $q$,

    $q$ SELECT 'warning', format('lock "%s" has been held for up to %s, and this time it ends after %s', name, longest_hold, lease),
               'Choose a longer at_most, or extend in time'
          FROM locks JOIN counters USING (name) WHERE longest_hold > 0.8 * lease ORDER BY name $q$,

    $q$ SELECT 'warning', format('lock "%s" ran out %s times before it was released, and was missed by its holder %s times', name, expired, lost),
               'Holders died, ran longer than at_most, or were released by force. shedlock_stats_reset() once it is mended'
          FROM locks JOIN counters USING (name) WHERE expired > 0 OR lost > 0 ORDER BY name $q$,

    -- Others are refused, Java clients wait, VACUUM cannot clean up.
    $q$ SELECT 'warning', format('session %s ("%s") has had the lock table in an open transaction for %s', pid, application_name,
                                 date_trunc('second', clock_timestamp() - xact_start)),
               'Commit after the acquire, then work: a lock needs no open transaction'
          FROM pg_stat_activity
         WHERE xact_start < clock_timestamp() - interval '10 seconds' AND pid <> pg_backend_pid()
           AND pid IN (SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                        WHERE d.datname = current_database() AND l.relation = $1 AND l.mode = 'RowExclusiveLock' AND l.granted)
         ORDER BY pid $q$]
    LOOP
        BEGIN
            RETURN QUERY EXECUTE sources || query USING lock_table;
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            NULL; -- there are no counters
        END;
    END LOOP;
END
$$;

-- Grant ---------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock_grant(role text, admin boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home CONSTANT regnamespace := '@extschema@';
    for_administrators CONSTANT name[] := ARRAY['shedlock_force_release', 'shedlock_pause', 'shedlock_resume', 'shedlock_doctor',
        'shedlock_table', 'shedlock_stats_reset', 'shedlock_grant'];
    routine record;
BEGIN
    IF shedlock_grant.role IS NULL OR shedlock_grant.admin IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role and admin must not be NULL';
    END IF;
    FOR routine IN EXECUTE format('SELECT p.oid::regprocedure AS signature, p.proname AS name
                                     FROM %s.shedlock_routines() r JOIN pg_proc p ON p.oid = r ORDER BY 1', home) LOOP
        IF shedlock_grant.admin OR routine.name <> ALL (for_administrators) THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', routine.signature, shedlock_grant.role);
        END IF;
    END LOOP;
    EXECUTE format('GRANT SELECT ON %1$s.shedlock_locks, %1$s.shedlock_stats TO %2$I', home, shedlock_grant.role);
    IF NOT has_schema_privilege(shedlock_grant.role, home::oid, 'USAGE') THEN
        RAISE NOTICE 'role "%" cannot look into schema % yet', shedlock_grant.role, home
            USING HINT = format('GRANT USAGE ON SCHEMA %s TO %I', home, shedlock_grant.role);
    END IF;
END
$$;

-- Comments ------------------------------------------------------------------------------------------------------------

COMMENT ON FUNCTION shedlock_acquire(text, interval, interval, interval, timestamptz, boolean) IS
'Acquires a lock for this session: true, and it is held until at_most has passed or it is released; false, refused, and nothing was written. Never waits for another transaction; with wait it tries again for that long. With a tick, once for that instant of the schedule (see shedlock_tick); with retry the tick is due again when its last run was not done.';
COMMENT ON FUNCTION shedlock_acquire(text[], interval, interval, interval, timestamptz, boolean) IS
'Acquires several locks for this session: all or none.';
COMMENT ON FUNCTION shedlock_acquire_token(text, interval, interval, interval, timestamptz, boolean, text) IS
'Acquires a lock for whoever has the token it returns, in any session; NULL: refused. The tokens of a name strictly grow. holder is text for people, by default application_name@client_addr.';
COMMENT ON FUNCTION shedlock_acquire_token(text[], interval, interval, interval, timestamptz, boolean, text) IS
'Acquires several locks, all or none, with one common token.';
COMMENT ON FUNCTION shedlock_wait_any(text[], integer[], interval, bigint) IS
'For the client library, many of whose callers wait in one session: names[i] is a lock that caller number which[i] waits for. Sleeps until all locks of a caller look free: the numbers of those callers; none when wait, or half of statement_timeout, is over, or at shedlock_end_wait(room). NULL: nobody would wake it, ask instead. Takes nothing: who wants a lock must acquire it then.';
COMMENT ON FUNCTION shedlock_end_wait(bigint) IS
'For the client library: ends the shedlock_wait_any with that room, in whatever session. False: none sleeps there.';
COMMENT ON FUNCTION shedlock_extend(text, interval, interval) IS
'Lets a lock of this session last for at_most from now, and if at_least is given keeps it that long from now. False, with a WARNING that says why, when it is not ours and live; nothing is changed then.';
COMMENT ON FUNCTION shedlock_extend(text[], interval, interval) IS
'Extends several locks of this session: all or none.';
COMMENT ON FUNCTION shedlock_extend_token(text, bigint, interval, interval) IS
'Extends the acquisition that has this token. False, with a WARNING that says why, when it is not live.';
COMMENT ON FUNCTION shedlock_extend_token(text[], bigint, interval, interval) IS
'Extends several locks that were acquired together with this token: all or none.';
COMMENT ON FUNCTION shedlock_release(text, boolean) IS
'Releases a lock of this session: it is free now, or when its at_least has passed. done: whether its work was; if not, an acquire with retry may have the same tick again. False, with a WARNING that says why, when it is not ours and live; nothing is changed then.';
COMMENT ON FUNCTION shedlock_release(text[], boolean) IS
'Releases several locks of this session: all or none.';
COMMENT ON FUNCTION shedlock_release_token(text, bigint, boolean) IS
'Releases the acquisition that has this token; done as in shedlock_release. False, with a WARNING that says why, when it is not live.';
COMMENT ON FUNCTION shedlock_release_token(text[], bigint, boolean) IS
'Releases several locks that were acquired together with this token: all or none.';
COMMENT ON FUNCTION shedlock_guard(text) IS
'From here on this transaction commits, or is prepared, only if no other acquisition of that lock has happened since this session''s. SQLSTATE SL001, at once or at the end, if one has.';
COMMENT ON FUNCTION shedlock_guard_token(text, bigint) IS
'From here on this transaction commits, or is prepared, only if no other acquisition of that lock has happened since the one that has this token. SQLSTATE SL001, at once or at the end, if one has.';
COMMENT ON FUNCTION shedlock_tick(interval, text, timestamptz) IS
'The instant of a schedule that is due now: the latest not after at + min(every / 2, 1 minute). every: months, from 1 January 2001; days, from Monday 1 January 2001 (midnight in zone, once a day); or a time (by the wall clock of zone: an hour that it shows twice has two ticks, what it skips is due at that instant).';
COMMENT ON PROCEDURE shedlock_run(text, text, interval, interval, interval, timestamptz, boolean, boolean) IS
'Runs a command under a lock: acquire, commit; then the command, guarded as by shedlock_guard, and the release, in one transaction. executed: true, its work is committed and counts as done; false, refused. If the command fails its work is rolled back, the lock is released as not done and its error reaches the caller; SQLSTATE SL001 likewise if others have had the lock meanwhile. The lock ends with the session. Not inside a transaction block.';
COMMENT ON FUNCTION shedlock_force_release(text) IS
'Frees a lock, whoever holds it: true if somebody did. The old holder''s token is lost, its guarded transactions fail. Waits for a transaction in progress that has the row.';
COMMENT ON FUNCTION shedlock_pause(text, text, interval) IS
'Keeps a job from running, without end: takes the lock like any acquire, and is refused like any (false) while somebody holds it; with wait it tries again for that long.';
COMMENT ON FUNCTION shedlock_resume(text) IS
'Frees a paused lock, and only a paused one; otherwise false, with a WARNING.';
COMMENT ON FUNCTION shedlock_doctor() IS
'What is wrong or may become so, with severity (error, warning, notice), finding and hint: the table''s shape and bloat, settings that hurt, clients that write local time, leases about to end or too short, holders that are gone, locks in long transactions. No rows: nothing found.';
COMMENT ON FUNCTION shedlock_grant(text, boolean) IS
'Lets a role use the lock functions and read the views; with admin also the administrators'' functions. Nobody else may but superusers and whoever created the extension.';
COMMENT ON FUNCTION shedlock_stats_reset() IS
'Forgets what shedlock_stats has counted in this database.';
COMMENT ON VIEW shedlock_stats IS
'Counters per lock name, since the start of the server or shedlock_stats_reset(). failed: of those released, how many as not done; expired: somebody else found the lease run out, its holder died or overran; lost: a release, extend or guard came too late. Needs shared_preload_libraries up to PostgreSQL 16.';
COMMENT ON VIEW shedlock_locks IS
'A row per lock. state: held, kept (released, but within its at_least), free, or paused. Times by the server''s clock; token is what shedlock_acquire_token returned; holder_pid and holder_alive tell of the session that holds it; last_duration is how long the last holder had it, at_least included; last_outcome is done, failed (released as not done) or ran out (never released), NULL while held and for Java''s.';
COMMENT ON FUNCTION shedlock_version() IS
'Which edition of these functions this is, extension or portable, and its version.';
