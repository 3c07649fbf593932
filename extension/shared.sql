-- What both editions share. extension/include.awk copies each section to where extension/shedlock.sql and
-- extension/portable.sql say "-- include NAME". In the extension's script CREATE OR REPLACE becomes CREATE, '@extschema@'
-- becomes a lookup, because the extension may be moved to another schema, and @here@ vanishes.
--
-- Code that runs with rights that its caller does not have looks up no name outside pg_catalog: PostgreSQL looks a name up
-- again after it has waited for a lock on what the name meant, and then the name may mean something else (test/tap/rights.pl).

-- Names ---------------------------------------------------------------------------------------------------------------
    ours CONSTANT text := '^shedlock_(_.*|(acquire|extend|release|guard|complete)(_token)?|wait_any|end_wait|(list_)?ticks?|run(_check|_begin|_guard|_tick|_end|_failed)?'
        '|force_release|forget|pause|resume|rows|locks|session_alive|stats_rows|stats_reset|protect(_row)?|doctor|findings|inspect|grant|revoke|after_pg_upgrade|raise|version)$';

-- Ticks ---------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION shedlock_tick(
    every interval,
    zone text DEFAULT 'UTC',
    at timestamptz DEFAULT pg_catalog.clock_timestamp()
) RETURNS timestamptz
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
-- Only hours and less are added to an instant, because days would be those of the session's TimeZone.
DECLARE
    origin CONSTANT timestamp := '2001-01-01'; -- a Monday
    half_a_day CONSTANT interval := '12 hours';
    by_the_hour CONSTANT boolean := every < interval '1 day';
    is_name boolean := true;
    months int;
    rest interval;
    latest timestamptz;
    ahead interval;
    shown timestamp;
    due timestamp; -- by the wall clock
    tick timestamptz;
    changed timestamptz;
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

    -- PostgreSQL takes any text with an offset for a POSIX time zone, whose sign is the other way round: UTC+3 is west. And
    -- it prefers an abbreviation, which has the same offset all year, to a zone of that name (CET, EST, MET). Reading the
    -- names of all zones takes 35 ms.
    IF zone ~ '[0-9]' THEN
        IF zone !~* '^((Etc/)?GMT[+-]?0|Etc/GMT(-([1-9]|1[0-4])|[+]([1-9]|1[0-2]))|EST5EDT|CST6CDT|MST7MDT|PST8PDT)$' AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE lower(name) = lower(zone)) THEN
            is_name := false;
        END IF;
    ELSIF strpos(zone, '/') = 0 AND upper(zone) <> ALL ('{UTC,GMT}') THEN
        is_name := NOT EXISTS (SELECT FROM pg_timezone_abbrevs WHERE abbrev = upper(zone));
    END IF;
    IF NOT is_name THEN
        RAISE invalid_parameter_value USING MESSAGE = format('zone "%s" is an offset or an abbreviation, not the name of a time zone', zone),
            HINT = 'The names are in pg_timezone_names: Europe/Berlin, for example. Three hours east of UTC is Etc/GMT-3.';
    END IF;

    latest := at + LEAST(every / 2, interval '30 seconds');
    -- A clock that is put back across midnight shows the previous day again, after the new day has had its tick. So a
    -- tick up to three hours ahead by the wall clock is tried first, and taken if its instant has come.
    FOREACH ahead IN ARRAY CASE WHEN by_the_hour THEN ARRAY[interval '0'] ELSE ARRAY[interval '3 hours', '0'] END LOOP
        shown := latest AT TIME ZONE zone + ahead;
        due := CASE WHEN months = 0 THEN date_bin(every, shown, origin)
                    ELSE origin + make_interval(months =>
                        (floor(((extract(year FROM shown) + (extract(year FROM shown) < 0)::int -- there is no year 0
                                 - 2001) * 12 + extract(month FROM shown) - 1) / months) * months)::int) END;
        -- `tick` becomes the instant at which the wall clock shows `due`. By the hour, this is right if the clock was not
        -- changed between that instant and `latest`. Otherwise it is counted from half a day before `due` (this finds the
        -- first of two such instants) or, if that is wrong, half a day after it. Each is right without a change in between.
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
            -- The clock was changed after `tick`, but no later than `changed`, at a whole second. Bisection makes `changed`
            -- the first second of the new time.
            DECLARE
                before timestamptz := date_trunc('second', tick);
                middle timestamptz;
                unchanged timestamp; -- what the clock would have shown at `changed`
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
                unchanged := (changed - interval '1 second') AT TIME ZONE zone + interval '1 second';
                -- A tick that was skipped is due at the instant of the change. Otherwise the latest tick is the last one
                -- before the change, by the time that the clock showed until then.
                tick := CASE WHEN due >= unchanged THEN changed
                             ELSE changed - (unchanged - date_bin(every, unchanged - interval '1 microsecond', origin)) END;
            END;
        END IF;
        EXIT WHEN tick <= latest;
    END LOOP;
    RETURN tick;
END
$$;

-- The ticks in ascending order, of which shedlock_ticks finds no more than 100,001; or an error.
CREATE OR REPLACE FUNCTION shedlock_list_ticks(every interval, since timestamptz, zone text, ticks timestamptz[]) RETURNS SETOF timestamptz
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF every IS NULL OR since IS NULL OR zone IS NULL THEN
        RAISE null_value_not_allowed
            USING MESSAGE = CASE WHEN every IS NULL THEN 'every' WHEN since IS NULL THEN 'since' ELSE 'zone' END || ' must not be NULL';
    ELSIF NOT isfinite(since) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'since must be finite';
    END IF;
    IF cardinality(ticks) > 100000 THEN
        RAISE program_limit_exceeded USING MESSAGE = 'there are more than 100000 ticks after since',
            HINT = 'Choose a later since, or a longer every.';
    END IF;
    RETURN QUERY SELECT t FROM unnest(ticks) t ORDER BY t;
END
$$;

-- shedlock_tick looks ahead by half of every, or 30 seconds. So at a tick minus that and a microsecond it gives the
-- previous tick. With a body of this kind PostgreSQL stores what the names mean now.
CREATE OR REPLACE FUNCTION shedlock_ticks(every interval, since timestamptz, zone text DEFAULT 'UTC') RETURNS SETOF timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.tick FROM shedlock_list_ticks(every, since, zone, ARRAY(
        WITH RECURSIVE past (tick) AS (
            SELECT shedlock_tick(every, zone, pg_catalog.clock_timestamp())
            UNION ALL
            SELECT shedlock_tick(every, zone, tick OPERATOR(pg_catalog.-) LEAST(every OPERATOR(pg_catalog./) '2'::pg_catalog.float8, '30 seconds'::pg_catalog.interval)
                                                   OPERATOR(pg_catalog.-) '1 microsecond'::pg_catalog.interval)
              FROM past WHERE tick OPERATOR(pg_catalog.>) since AND pg_catalog.isfinite(since))
        SELECT tick FROM past WHERE tick OPERATOR(pg_catalog.>) since LIMIT 100001)) t (tick);
END;

-- Locks ---------------------------------------------------------------------------------------------------------------

-- The planner puts this query in the place of the call, because it is STABLE.
CREATE OR REPLACE FUNCTION shedlock_locks(names text[],
    OUT name text, OUT state text, OUT holder text, OUT token bigint, OUT locked_at timestamptz, OUT lock_until timestamptz,
    OUT remaining interval, OUT held_for interval, OUT holder_pid int, OUT holder_alive boolean, OUT last_duration interval,
    OUT last_outcome text, OUT last_done_at timestamptz, OUT last_tick timestamptz, OUT last_done_tick timestamptz,
    OUT ends_with_session boolean
) RETURNS SETOF record
    LANGUAGE sql STABLE
BEGIN ATOMIC
SELECT
    l.name,
    s.state,
    COALESCE(pg_catalog.left(l.locked_by, OPERATOR(pg_catalog.-) pg_catalog.length(o.ending)), l.locked_by) AS holder,
    t.token,
    pg_catalog.timezone('UTC'::pg_catalog.text, l.locked_at) AS locked_at,
    pg_catalog.timezone('UTC'::pg_catalog.text, l.lock_until) AS lock_until,
    CASE WHEN e.lock_until OPERATOR(pg_catalog.>) c.now AND pg_catalog.isfinite(e.lock_until)
        THEN e.lock_until OPERATOR(pg_catalog.-) c.now
    END AS remaining,
    CASE WHEN s.state OPERATOR(pg_catalog.=) ANY (ARRAY['held', 'paused']::pg_catalog.text[]) AND pg_catalog.isfinite(l.locked_at)
        THEN GREATEST(c.now OPERATOR(pg_catalog.-) l.locked_at, '0'::pg_catalog.interval)
    END AS held_for,
    o.pid AS holder_pid,
    o.alive AS holder_alive,
    -- A pause and a release by force are not runs.
    CASE WHEN l.lock_until OPERATOR(pg_catalog.<=) c.now AND pg_catalog.isfinite(l.lock_until) AND pg_catalog.isfinite(l.locked_at)
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
    pg_catalog.timezone('UTC'::pg_catalog.text, l.last_done_at) AS last_done_at,
    pg_catalog.timezone('UTC'::pg_catalog.text, GREATEST(l.last_tick, j.ran_at)) AS last_tick,
    pg_catalog.timezone('UTC'::pg_catalog.text, GREATEST(l.last_done_tick, j.ran_at)) AS last_done_tick,
    CASE WHEN o.kind OPERATOR(pg_catalog.<>) '*'::pg_catalog.text
        THEN o.kind OPERATOR(pg_catalog.=) ANY (ARRAY['!', '&']::pg_catalog.text[])
    END AS ends_with_session
FROM shedlock_rows(names) l
    -- The clock is read once for the whole query: OFFSET keeps the planner from reading it once per use.
    CROSS JOIN (SELECT pg_catalog.timezone('UTC'::pg_catalog.text, pg_catalog.clock_timestamp()) AS now OFFSET 0) c
    CROSS JOIN LATERAL (
        -- Counted from 1970, the last thirty years of timestamp's range do not fit a token.
        SELECT CASE WHEN pg_catalog.isfinite(l.locked_at) AND l.locked_at OPERATOR(pg_catalog.<) '294247-01-10 04:00:54'::pg_catalog.timestamp
            THEN (EXTRACT(epoch FROM l.locked_at) OPERATOR(pg_catalog.*) 1000000::pg_catalog.numeric)::pg_catalog.int8
        END AS token
        OFFSET 0
    ) t
    -- The end that every locked_by of ours has: a session (/PID.START.SERVER) or none, the kind, and the row's
    -- locked_at. NULL if there is no such end, or if it has another locked_at. (holder.cpp and shedlock_protect_row
    -- have the same rule.)
    LEFT JOIN LATERAL (
        SELECT k.ending, k.kind, pg_catalog.substring(k.session, '^/([0-9]+)'::pg_catalog.text)::pg_catalog.int4 AS pid,
               shedlock_session_alive(k.session) AS alive
          FROM (SELECT p.ending, pg_catalog.left(pg_catalog.right(p.ending, pg_catalog.length(t.token::pg_catalog.text) OPERATOR(pg_catalog.+) 1), 1) AS kind,
                       pg_catalog.substring(p.ending, '^/[0-9]+[.][0-9]+[.,][0-9a-f]{8}'::pg_catalog.text) AS session
                  FROM (SELECT pg_catalog.substring(l.locked_by, '(?:/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}[:!&]|[#*])-?[0-9]+$'::pg_catalog.text) AS ending OFFSET 0) p
                 WHERE pg_catalog.right(p.ending, pg_catalog.length(t.token::pg_catalog.text)) OPERATOR(pg_catalog.=) t.token::pg_catalog.text
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
          FROM (SELECT COALESCE(l.lock_at_least_until OPERATOR(pg_catalog.=) '-infinity'::pg_catalog.timestamp, true) AS is_released,
                       COALESCE(o.kind OPERATOR(pg_catalog.=) ANY (ARRAY['!', '&']::pg_catalog.text[]) AND NOT o.alive
                                AND l.lock_at_least_until OPERATOR(pg_catalog.<>) '-infinity'::pg_catalog.timestamp, false) AS has_ended) r
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
SELECT l.name COLLATE pg_catalog."C" AS name, l.state, l.holder, l.token, l.locked_at, l.lock_until, l.remaining, l.held_for,
       l.holder_pid, l.holder_alive, l.last_duration, l.last_outcome, l.last_done_at, l.last_tick, l.last_done_tick,
       l.ends_with_session
  FROM shedlock_locks(NULL::pg_catalog.text[]) l;

-- Second --------------------------------------------------------------------------------------------------------------
    -- Created by mistake, or left behind. Foreign tables and tables of other extensions do not count.
    second_table CONSTANT text := $q$ SELECT 'warning', format('table %s looks like a lock table, too: its locks and those in %s do not exclude each other', c.oid::regclass, $1),
           'If Java clients use that table, all clients must: see docs/migrating-from-java.md. If nobody does, drop it'
      FROM pg_class c
     WHERE c.oid <> $1 AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
       AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')
       AND (SELECT count(*) FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
             WHERE a.attrelid = c.oid AND NOT a.attisdropped
               AND (a.attname, y.typcategory) IN (('name', 'S'), ('lock_until', 'D'), ('locked_at', 'D'), ('locked_by', 'S'))) = 4
     ORDER BY c.oid::regclass::text $q$;

-- Doctor --------------------------------------------------------------------------------------------------------------

-- It has the rights of its caller. So it reads only catalogs, and shedlock_doctor gives it what is ours. lock_table is NULL if
-- there is a complaint about its shape.
CREATE OR REPLACE FUNCTION shedlock_findings(lock_table regclass, complaint text, remedy text, locks shedlock_locks[], counters shedlock_stats[],
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
        advice AS (SELECT 'Let one server grant all locks, and all clients connect to it') $sources$;
-- include Second
    query text;
BEGIN
    -- If the table's shape is wrong, there are no findings about its contents, but the other findings may say why:
    -- multi-master extensions put triggers on tables.
    IF complaint IS NOT NULL THEN
        RETURN QUERY VALUES ('error', complaint, remedy);
    END IF;

    -- One query per finding, in the order in which the findings are reported. It gives severity, finding and hint. $1 is
    -- the lock table. A query with extensions runs once for each of them that is installed, and the extension's name
    -- replaces @. Any role could have made an extension or a schema of that name (with pg_tle), so the extension and the
    -- schema must belong to superusers.
    FOR query IN SELECT CASE WHEN e.oid IS NULL THEN f.query WHEN e.is_trusted THEN replace(f.query, '@', e.extname)
                             ELSE format('SELECT ''warning'', %L, %L', format('extension "%s" was not asked which servers write: it, or its schema, does not belong to a superuser', e.extname),
                                         'Ask it yourself') END
                   FROM (SELECT v.query, v.extensions, row_number() OVER () AS no FROM (VALUES

($q$ SELECT 'error', format('table %s is UNLOGGED: a server crash loses every lock', $1),
           format('ALTER TABLE %s SET LOGGED', $1)
      FROM pg_class WHERE oid = $1 AND relpersistence = 'u' $q$, NULL),

-- The extension writes without the executor, which runs triggers and fills in the other columns of a new row.
($q$ SELECT 'error', format('trigger "%s" on table %s does not fire when shedlock changes a lock', tgname, $1), 'It fires for the SQL of other clients. Drop it, unless that is meant'
      FROM pg_trigger
     WHERE tgrelid = $1 AND NOT tgisinternal AND EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock')
       AND NOT EXISTS (SELECT FROM pg_depend WHERE (classid, objid, deptype) = ('pg_proc'::regclass, tgfoid, 'e')) -- that of shedlock_protect
     ORDER BY tgname $q$, NULL),

($q$ SELECT 'warning', format('no lock with a new name can be acquired: %s', what),
           format('Change table %s; or insert the row of each new lock as its owner: INSERT INTO %1$s (name, lock_until, locked_at, locked_by) VALUES (..., ''-infinity'', ''-infinity'', '''')', $1)
      FROM (SELECT format('column "%s" is NOT NULL, has a default or is generated', attname) FROM pg_attribute
             WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND (attnotnull OR atthasdef OR attidentity <> '')
               AND attname <> ALL ('{name,lock_until,locked_at,locked_by,lock_at_least_until,last_tick,last_done_tick,last_done_at}')
            UNION ALL
            SELECT format('constraint "%s" would not be checked', conname) FROM pg_constraint WHERE conrelid = $1 AND contype = 'c') w (what)
     WHERE EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock') ORDER BY what $q$, NULL),

-- Row security does not concern us: the extension does not use SQL, and the portable edition owns the table.
($q$ SELECT 'error', format('row security of table %s hides its rows from role "%s", so Java clients of that role never get a lock', $1, role),
           format('CREATE POLICY %I ON %s TO %I USING (true)', 'shedlock ' || role, $1, role)
      FROM pg_class t, aclexplode(t.relacl) a, LATERAL (SELECT CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END AS role) g
     WHERE t.oid = $1 AND t.relrowsecurity AND a.privilege_type = 'UPDATE'
       AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.grantee AND (r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, t.relowner, 'USAGE') AND NOT t.relforcerowsecurity))
       AND NOT EXISTS (SELECT FROM pg_policy p, unnest(p.polroles) m
                        WHERE p.polrelid = $1 AND p.polpermissive AND p.polcmd IN ('*', 'w') AND (m = 0 OR a.grantee <> 0 AND pg_has_role(a.grantee, m, 'USAGE')))
     ORDER BY role $q$, NULL),

-- pg_upgrade keeps the extension's members, but loses the extension's dependency on the table.
($q$ SELECT 'warning', format('pg_dump does not know that table %s must be restored before the extension', $1),
           format('SELECT %s.shedlock_after_pg_upgrade()', extnamespace::regnamespace)
      FROM pg_extension e
     WHERE $1 IS NOT NULL AND extname = 'shedlock' AND NOT EXISTS (
        SELECT FROM pg_depend WHERE (classid, objid, refclassid, refobjid) = ('pg_extension'::regclass, e.oid, 'pg_class'::regclass, $1)) $q$, NULL),

-- Functions are looked up by name and types. An overload in the schema of the portable edition makes calls between its
-- functions ambiguous. In the schema of the extension, a caller that passes a literal without a type may run the
-- overload instead.
($q$ SELECT CASE WHEN is_extension THEN 'warning' ELSE 'error' END,
           format('others may create objects in schema %s, next to the functions of shedlock: %s', home, string_agg(creator, ', ' ORDER BY creator)),
           CASE WHEN is_extension THEN format('REVOKE CREATE ON SCHEMA %s from them: callers may run an overload of theirs instead of ours', home)
                ELSE format('REVOKE CREATE ON SCHEMA %s from them: with an overload they can keep every lock from being acquired. The owner of the schema can replace the functions and act as their owner', home) END
      FROM (SELECT t.relnamespace::regnamespace AS home, t.relowner AS installer, false AS is_extension FROM pg_class t
             WHERE t.oid = $1 AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock')
            UNION ALL
            SELECT extnamespace::regnamespace, extowner, true FROM pg_extension WHERE extname = 'shedlock') h,
           LATERAL (SELECT 'PUBLIC' AS creator FROM pg_namespace n, aclexplode(n.nspacl) a
                     WHERE n.oid = home AND a.grantee = 0 AND a.privilege_type = 'CREATE'
                    UNION ALL
                    SELECT r.oid::regrole::text FROM pg_roles r
                     WHERE NOT r.rolsuper AND r.rolname <> 'pg_database_owner' AND NOT pg_has_role(r.oid, installer, 'MEMBER')
                       AND (has_schema_privilege(r.oid, home, 'CREATE') OR NOT is_extension AND pg_has_role(r.oid, (SELECT nspowner FROM pg_namespace WHERE oid = home), 'MEMBER'))
                       AND NOT (is_extension AND pg_has_role(r.oid, (SELECT datdba FROM pg_database WHERE datname = current_database()), 'MEMBER'))) c
     GROUP BY home, is_extension $q$, NULL),

(second_table, NULL),

-- Our tokens are rounded to the coarsest of these columns, and each is at least one unit greater than the previous one,
-- so they may run ahead of the clock. Then a Java client writes the clock's time, which is lower, and our next token
-- repeats an old one.
($q$ SELECT 'warning', format('column "%s" of table %s is %s: next to Java clients a token can be given twice', attname, $1, format_type(atttypid, atttypmod)),
           format('ALTER TABLE %s ALTER COLUMN %s TYPE timestamp. Until then a former holder may release the lock of a later one', $1, attname)
      FROM pg_attribute
     WHERE attrelid = $1 AND attname IN ('lock_until', 'locked_at', 'lock_at_least_until') AND atttypmod BETWEEN 0 AND 2 ORDER BY attnum $q$, NULL),

($q$ SELECT 'warning', format('table %s has %s dead rows and %s live ones', $1, n_dead_tup, n_live_tup),
           'Look for transactions that have been open for a long time, here and on standbys, then VACUUM the table'
      FROM pg_stat_all_tables WHERE relid = $1 AND n_dead_tup > 1000 AND n_dead_tup > 10 * n_live_tup $q$, NULL),

($q$ SELECT 'error', format('%s is off: a crash of the server can forget or corrupt locks', name),
           format('ALTER SYSTEM SET %s = on', name)
      FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name $q$, NULL),

($q$ SELECT 'warning', 'there are standbys, but none is synchronous: a fail-over can forget a lock',
           'Set synchronous_standby_names, or guard the work with shedlock_guard'
      FROM pg_stat_replication
     WHERE pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
    HAVING count(sync_state) > 0 AND count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) = 0 $q$, NULL),

-- pg_stat_activity and pg_stat_replication show their rows, but not what is in them.
($q$ SELECT 'notice', format('open transactions and standbys could not be checked: role "%s" may not see those of other roles', current_user),
            format('GRANT pg_read_all_stats TO %I', current_user)
      WHERE NOT pg_has_role('pg_read_all_stats', 'USAGE') $q$, NULL),

-- Clients that write their own clock's time may be a little ahead. Ours write the server's time.
($q$ SELECT 'error', format('lock "%s" was acquired in the future, at %s, by "%s"', name, locked_at, holder),
           'That client writes local time instead of UTC (Java: usingDbTime()), or the server''s clock has stepped back'
      FROM locks WHERE locked_at > clock_timestamp() + interval '2 minutes' ORDER BY name $q$, NULL),

($q$ SELECT 'warning', format('lock "%s" is held by a session that is gone (pid %s), for %s more', name, holder_pid, remaining),
           'It ends by itself. shedlock_force_release frees it now; with ends_with_session it would have been free at once'
      FROM locks WHERE state = 'held' AND NOT holder_alive ORDER BY name $q$, NULL),

($q$ SELECT 'warning', format('lock "%s" has been held for %s and ends in %s', name, held_for, remaining),
           'Another run may start then. Choose a longer at_most, or extend in time'
      FROM locks WHERE lease > interval '10 seconds' AND held_for > 0.8 * lease AND holder_alive IS NOT FALSE ORDER BY name $q$, NULL),

-- Such a job may run at every tick, and never get its work done.
($q$ SELECT 'warning', format('the last run of lock "%s" %s, and %s', name, last_outcome,
                             CASE WHEN last_done_at IS NULL THEN 'no run has ever been released as done' ELSE format('no run has been released as done since %s', last_done_at) END),
           'Its work is not done: look at the log of its last holder, ' || holder
      FROM locks WHERE last_outcome IN ('failed', 'ran out') ORDER BY name $q$, NULL),

-- This leaves out a row whose last tick is the locked_at of a Java client, because the UPDATE would not change that.
($q$ SELECT 'warning', format('the last tick of lock "%s" is in the future, %s: all earlier ones are refused', name, last_tick),
           format('If the server''s clock jumped forward: UPDATE %s SET last_tick = NULL, last_done_tick = NULL WHERE name = %L, as its owner, while the lock is free', $1, name)
      FROM locks WHERE last_tick > clock_timestamp() + interval '2 minutes' AND (ends_with_session IS NOT NULL OR last_tick <> locked_at) ORDER BY name $q$, NULL),

($q$ SELECT 'notice', format('lock "%s" has been paused since %s, by "%s"', name, locked_at, holder), 'shedlock_resume ends it'
      FROM locks WHERE state = 'paused' ORDER BY name $q$, NULL),

($q$ SELECT 'notice', format('the name of lock "%s" begins or ends with blanks', name),
           'Two names that differ only in blanks are two locks'
      FROM locks WHERE name ~ '^[[:space:]]|[[:space:]]$' ORDER BY name $q$, NULL),

($q$ SELECT 'warning', format('lock "%s" has been held for up to %s, and this time it ends after %s', name, longest_hold, lease),
           'Choose a longer at_most, or extend in time'
      FROM locks JOIN counters USING (name) WHERE longest_hold > 0.8 * lease ORDER BY name $q$, NULL),

($q$ SELECT 'warning', format('lock "%s" ', name)
               || concat_ws(', and ', CASE WHEN expired > 0 THEN 'ran out ' || expired || CASE expired WHEN 1 THEN ' time' ELSE ' times' END || ' before it was released' END,
                                      CASE WHEN lost > 0 THEN 'was released, extended or guarded too late ' || lost || CASE lost WHEN 1 THEN ' time' ELSE ' times' END END),
           'Holders died or ran longer than at_most, or locks were released by force. Call shedlock_stats_reset() once the cause is fixed'
      FROM locks JOIN counters USING (name) WHERE expired > 0 OR lost > 0 ORDER BY name $q$, NULL),

-- Others are refused, Java clients wait, and VACUUM cannot clean up.
($q$ SELECT 'warning', format('session %s ("%s") has had the lock table in an open transaction for %s', pid, application_name,
                             date_trunc('second', clock_timestamp() - xact_start)),
           'Commit after the acquire, then work: a lock needs no open transaction'
      FROM pg_stat_activity
     WHERE xact_start < clock_timestamp() - interval '10 seconds' AND pid <> pg_backend_pid()
       AND pid IN (SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                    WHERE d.datname = current_database() AND l.relation = $1 AND l.mode = 'RowExclusiveLock' AND l.granted)
     ORDER BY pid $q$, NULL),

-- Several servers that write. (A publication does not make a second writer. If it keeps us from writing, the inspection
-- reports it.)
($q$ SELECT 'error', format('subscription "%s" writes into the lock table: the publisher grants the same locks', subname), (TABLE advice)
      FROM pg_subscription_rel JOIN pg_subscription s ON s.oid = srsubid
     WHERE srrelid = $1 ORDER BY subname $q$, NULL),

($q$ SELECT 'error', 'this server is a Citus worker, whose lock table is its own', 'Connect to the coordinator: what is locked here is locked nowhere else'
      FROM pg_dist_local_group WHERE groupid <> 0 $q$, '{citus}'),

($q$ SELECT 'notice', format('this Citus coordinator has %s nothing of its locks',
                            count(DISTINCT groupid) || CASE count(DISTINCT groupid) WHEN 1 THEN ' worker, which knows' ELSE ' workers, which know' END),
           'All clients must connect to the coordinator, including Java clients'
      FROM pg_dist_node WHERE groupid <> 0 AND EXISTS (SELECT FROM pg_dist_local_group WHERE groupid = 0)
    HAVING count(*) > 0 $q$, '{citus}'),

-- The functions would not see what SQL does with a distributed table. Citus puts a trigger on it, which makes
-- the inspection complain and leaves $1 NULL. So this finds the table by name.
($q$ SELECT 'error', format('table %s is distributed by Citus, or in its metadata: rows may be elsewhere', logicalrelid::regclass),
           format(CASE WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'shedlock')
                       THEN 'Stop the jobs. DROP EXTENSION shedlock, which leaves the table; SELECT undistribute_table(%L); CREATE EXTENSION shedlock; and repeat shedlock_grant'
                       ELSE 'Stop the jobs. SELECT undistribute_table(%L), and run shedlock.sql again' END, logicalrelid::regclass)
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

($q$ SELECT 'error', format('EDB Postgres Distributed has %s nodes: each grants the same locks', count(*)), (TABLE advice)
      FROM bdr.node HAVING count(*) > 1 $q$, '{bdr}')

                        ) v (query, extensions)) f
                       LEFT JOIN (SELECT oid, extname, true = ALL (SELECT rolsuper FROM pg_roles r
                                    WHERE r.oid = extowner OR r.oid = (SELECT nspowner FROM pg_namespace WHERE nspname = extname)) AS is_trusted
                                    FROM pg_extension) e ON e.extname = ANY (f.extensions::text[])
                  WHERE e.oid IS NOT NULL OR f.extensions IS NULL ORDER BY f.no
    LOOP
        BEGIN
            RETURN QUERY EXECUTE sources || query USING lock_table, locks, counters;
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

-- As in shedlock_ticks. The views are read only if they can be.
CREATE OR REPLACE FUNCTION shedlock_doctor(OUT severity text, OUT finding text, OUT hint text) RETURNS SETOF record
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT f.severity, f.finding, f.hint
      FROM shedlock_inspect() i,
           LATERAL shedlock_findings(i.lock_table, i.complaint, i.remedy,
               CASE WHEN i.lock_table IS NOT NULL THEN ARRAY(SELECT l FROM shedlock_locks l) END,
               CASE WHEN i.has_counters THEN ARRAY(SELECT s FROM shedlock_stats s) END) f;
END;

-- Protect -------------------------------------------------------------------------------------------------------------

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
    ending CONSTANT text := substring(locked_by, '(?:/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}[:!&]|[#*])-?[0-9]+$');
    number CONSTANT text := trunc(EXTRACT(epoch FROM OLD.locked_at) * 1000000)::text;
BEGIN
    IF OLD.lock_until > timezone('utc', clock_timestamp())
       AND right(ending, length(number) + 1) IN ('#' || number, ':' || number, '!' || number, '&' || number, '*' || number)
       AND OLD.locked_at < timestamp '294247-01-10 04:00:54' -- no later one is a token
       AND (TG_OP = 'DELETE' OR NEW.lock_at_least_until IS NOT DISTINCT FROM OLD.lock_at_least_until) THEN
        RAISE NOTICE 'lock "%" of "%" was protected from this %', OLD.name, left(locked_by, -length(ending)), TG_OP
            USING DETAIL = format('It is taken until %s (UTC). The statement came from "%s@%s", role "%s".', OLD.lock_until,
                      COALESCE(NULLIF(current_setting('application_name'), ''), session_user), COALESCE(host(inet_client_addr()), '[local]'), current_user),
                  HINT = 'shedlock_force_release frees a lock whoever holds it.';
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;

-- Rights --------------------------------------------------------------------------------------------------------------
    home CONSTANT regnamespace := '@extschema@';
-- include Names
    role_id CONSTANT oid := CASE role WHEN 'public' THEN 0 ELSE to_regrole(quote_ident(role)) END;
    -- What role $1 can be granted, for whom it is, and whether the role has it from us. It is found by its owner, too, the
    -- role with whose rights this runs: what others have planted belongs to others. The lock table is what shedlock_link
    -- reads; in the portable edition, which has no such view, it belongs to that role.
    rights CONSTANT text := format($rights$
        SELECT o.*, EXISTS (SELECT FROM aclexplode(o.acl) a
                             WHERE (a.grantee, a.grantor, a.privilege_type) = ($1, o.owner, o.privilege)) AS is_granted
          FROM (SELECT p.tableoid, p.oid, format('ROUTINE %%s', p.oid::regprocedure) AS object, 'EXECUTE' AS privilege,
                       p.pronamespace AS schema_id, p.proowner AS owner, p.proacl AS acl,
                       CASE WHEN p.proname ~ '^shedlock_(force_release|forget|pause|resume|protect(_row)?|stats_reset|grant|revoke|after_pg_upgrade)$' THEN 'administrators'
                            -- The views call functions with the rights of the role that reads them.
                            WHEN p.proname ~ '^shedlock_(rows|locks|session_alive|stats_rows|inspect|version|(list_)?ticks?|doctor|findings)$' THEN 'readers'
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
         ORDER BY o.tableoid, o.object COLLATE "C", o.privilege COLLATE "C" $rights$, home::oid, current_user::regrole::oid, ours);
    one_right CONSTANT text := format('SELECT r.is_granted FROM (%s) r WHERE (r.tableoid, r.oid, r.privilege) = ($2, $3, $4)', rights);
    wanted record;
    is_granted boolean;

-- Grant ---------------------------------------------------------------------------------------------------------------

-- GRANT and REVOKE take names, which may mean other objects by then than those that were found. So either is executed
-- only where it must change something, and that must have changed on the object that was found.

CREATE OR REPLACE FUNCTION shedlock_grant(role text, admin boolean DEFAULT false, java boolean DEFAULT false, read_only boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
-- include Rights
    needed oid[];
    schema_name regnamespace;
BEGIN
    @here@
    IF role IS NULL OR admin IS NULL OR java IS NULL OR read_only IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role, admin, java and read_only must not be NULL';
    ELSIF read_only AND (admin OR java) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'read_only excludes admin and java',
            HINT = 'Without read_only the role may read the views, too.';
    END IF;
    FOR wanted IN EXECUTE rights USING role_id LOOP
        CONTINUE WHEN NOT CASE wanted.audience WHEN 'users' THEN NOT read_only WHEN 'administrators' THEN admin WHEN 'java' THEN java ELSE true END;
        needed := needed || wanted.schema_id;
        CONTINUE WHEN wanted.is_granted;
        EXECUTE format('GRANT %s ON %s TO %I', wanted.privilege, wanted.object, role);
        EXECUTE one_right INTO is_granted USING role_id, wanted.tableoid, wanted.oid, wanted.privilege;
        IF is_granted IS NOT TRUE THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('%s was replaced while it was being granted', wanted.object),
                HINT = 'Who may create objects in that schema, or rename it?';
        END IF;
    END LOOP;
    FOREACH schema_name IN ARRAY ARRAY(SELECT n FROM unnest(needed) WITH ORDINALITY u (n, no) GROUP BY n ORDER BY min(no)) LOOP
        IF NOT has_schema_privilege(role, schema_name::oid, 'USAGE') THEN
            RAISE NOTICE 'role "%" cannot use schema % yet', role, schema_name
                USING HINT = format('GRANT USAGE ON SCHEMA %s TO %I', schema_name, role);
        END IF;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION shedlock_revoke(role text, admin boolean DEFAULT false, java boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
-- include Rights
    remaining text;
BEGIN
    @here@
    IF role IS NULL OR admin IS NULL OR java IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role, admin and java must not be NULL';
    END IF;
    FOR wanted IN EXECUTE rights USING role_id LOOP
        IF role_id = wanted.owner OR role_id = (SELECT extowner FROM pg_extension WHERE extname = 'shedlock') THEN
            -- shedlock_grant did not give these rights, and without them the functions would fail for all roles.
            RAISE invalid_parameter_value USING MESSAGE = format('role "%s" owns shedlock', role),
                HINT = 'The rights of the owner cannot be revoked.';
        END IF;
        CONTINUE WHEN NOT CASE wanted.audience WHEN 'administrators' THEN admin WHEN 'java' THEN java ELSE true END OR role_id IS NOT NULL AND NOT wanted.is_granted;
        EXECUTE format('REVOKE %s ON %s FROM %I', wanted.privilege, wanted.object, role);
        EXECUTE one_right INTO is_granted USING role_id, wanted.tableoid, wanted.oid, wanted.privilege;
        IF is_granted IS NOT FALSE THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('%s was replaced while it was being revoked', wanted.object),
                HINT = 'Who may create objects in that schema, or rename it?';
        END IF;
    END LOOP;
    EXECUTE format('SELECT string_agg(DISTINCT p.proname, '', '' ORDER BY p.proname) FROM (%s) r JOIN pg_proc p ON p.oid = r.oid AND p.tableoid = r.tableoid
                     WHERE has_function_privilege($2, p.oid, ''EXECUTE'')', rights)
       INTO remaining USING role_id, role;
    IF remaining <> '' THEN
        RAISE NOTICE 'role "%" may still call %', role, remaining
            USING HINT = 'It may do so as a superuser, as their owner, as a member of another role, or because of shedlock_grant(..., admin => true), '
                      || 'which shedlock_revoke(..., admin => true) undoes.';
    END IF;
END
$$;

-- Comments ------------------------------------------------------------------------------------------------------------

COMMENT ON FUNCTION shedlock_acquire(text, interval, interval, interval, timestamptz, boolean, boolean) IS
'Acquires a lock for this session: true, and the lock is held until it is released or at_most has passed; or false, and nothing was written. Never waits until another transaction has ended; with wait it tries again for that long. With a tick, it succeeds once for that instant of the schedule (see shedlock_tick); with retry the tick is due again if its last run was not done. With ends_with_session the lease also ends with this session, but not before at_least has passed.';
COMMENT ON FUNCTION shedlock_acquire(text[], interval, interval, interval, timestamptz, boolean, boolean) IS
'Acquires several locks for this session: all or none.';
COMMENT ON FUNCTION shedlock_acquire_token(text, interval, interval, interval, timestamptz, boolean, text, boolean) IS
'Acquires a lock and returns its token, with which any session can use the lock; NULL if it was refused. Each token of a name is greater than the one before. holder is any text, which the view shows, by default application_name@client_addr. With ends_with_session the lease also ends with the session that acquired it, but not before at_least has passed.';
COMMENT ON FUNCTION shedlock_acquire_token(text[], interval, interval, interval, timestamptz, boolean, text, boolean) IS
'Acquires several locks, all or none, with one common token.';
COMMENT ON FUNCTION shedlock_wait_any(text[], integer[], interval, bigint) IS
'For the client library, in which many callers wait in one session: caller number which[i] waits for the lock names[i]. Sleeps until all locks of a caller look free, and returns the numbers of those callers; returns none after wait or half of statement_timeout, or when shedlock_end_wait(wait_id) is called. NULL: nothing would wake it, so poll instead. It acquires nothing: the callers must do that.';
COMMENT ON FUNCTION shedlock_end_wait(bigint) IS
'For the client library: ends the shedlock_wait_any with that wait_id, in any session. False if there is none.';
COMMENT ON FUNCTION shedlock_extend(text, interval, interval) IS
'Extends a lock of this session, so that it lasts for at_most from now; at_least, if given, also counts from now. False, with a WARNING that says why, if this session does not have the lock or its lease is over; nothing is changed then. The SQLSTATE of the WARNING is SL002 if the lock has been released as done, otherwise SL001.';
COMMENT ON FUNCTION shedlock_extend(text[], interval, interval) IS
'Extends several locks of this session: all or none.';
COMMENT ON FUNCTION shedlock_extend_token(text, bigint, interval, interval, boolean) IS
'Extends the acquisition that has this token. False, with a WARNING that says why, if its lease is over, others have the lock, or it was released. If another transaction has locked the row, it waits; with nowait it returns NULL and changes nothing.';
COMMENT ON FUNCTION shedlock_extend_token(text[], bigint, interval, interval, boolean) IS
'Extends several locks that were acquired together with this token: all or none.';
COMMENT ON FUNCTION shedlock_release(text, boolean) IS
'Releases a lock of this session: it is free now, or when its at_least has passed. done says whether its work was done; if not, an acquire with retry can get the same tick again. False, with a WARNING that says why, if this session does not have the lock or its lease is over; nothing is changed then. The SQLSTATE of the WARNING is SL002 if the lock has been released as done, otherwise SL001.';
COMMENT ON FUNCTION shedlock_release(text[], boolean) IS
'Releases several locks of this session: all or none.';
COMMENT ON FUNCTION shedlock_release_token(text, bigint, boolean, boolean) IS
'Releases the acquisition that has this token; done as in shedlock_release, nowait as in shedlock_extend_token. False, with a WARNING that says why, if its lease is over, others have the lock, or it was released.';
COMMENT ON FUNCTION shedlock_release_token(text[], bigint, boolean, boolean) IS
'Releases several locks that were acquired together with this token: all or none.';
COMMENT ON FUNCTION shedlock_guard(text) IS
'From now on this transaction commits, or is prepared, only if no other acquisition of that lock has happened since this session''s. If one has, it fails with SQLSTATE SL001, at once or at the commit.';
COMMENT ON FUNCTION shedlock_guard_token(text, bigint) IS
'From now on this transaction commits, or is prepared, only if no other acquisition of that lock has happened since the one that has this token. If one has, it fails with SQLSTATE SL001, at once or at the commit.';
COMMENT ON FUNCTION shedlock_complete(text) IS
'For the end of the transaction that did the work: guards it as shedlock_guard does, and releases this session''s lock as done when it commits. If the transaction is rolled back, the lock is still held. A lease that is over is no obstacle if no other acquisition has happened. SQLSTATE SL001, at once or at the commit, if another acquisition has happened since, or if the lock has been released before.';
COMMENT ON FUNCTION shedlock_complete(text[]) IS
'Completes several locks of this session: all or none.';
COMMENT ON FUNCTION shedlock_complete_token(text, bigint) IS
'Completes the acquisition that has this token, as shedlock_complete does for a session.';
COMMENT ON FUNCTION shedlock_complete_token(text[], bigint) IS
'Completes several locks that were acquired together with this token: all or none.';
COMMENT ON FUNCTION shedlock_tick(interval, text, timestamptz) IS
'The instant of a schedule that is due now: the latest one that is not after at + min(every / 2, 30 seconds). every is whole months, whole days, or hours and smaller units, all counted from midnight of Monday 1 January 2001 in zone. Months and days begin at midnight, only once if the clock shows midnight twice. Hours and smaller units follow the wall clock of zone: a time that it shows twice has two ticks, and a time that it skips is due at the instant of the change.';
COMMENT ON FUNCTION shedlock_ticks(interval, timestamptz, text) IS
'The instants of a schedule after since, up to the one that is due now (see shedlock_tick), in ascending order: for a loop that catches up on missed runs. SQLSTATE 54000 if there are more than 100000.';
COMMENT ON FUNCTION shedlock_list_ticks(interval, timestamptz, text, timestamptz[]) IS
'For shedlock_ticks.';
COMMENT ON PROCEDURE shedlock_run(text, text, interval, interval, interval, timestamptz, boolean, boolean) IS
'Runs a command under a lock: acquires and commits; then one transaction runs the command, guarded as by shedlock_guard, and releases the lock. executed is true if the work is committed and counts as done, and false if the lock was refused. If the command fails, its work is rolled back, the lock is released as not done, and the caller gets the command''s error; the same happens with SQLSTATE SL001 if another acquisition has happened since. The lease ends with the session. Not inside a transaction block.';
COMMENT ON FUNCTION shedlock_force_release(text) IS
'Frees a lock, whoever holds it; true if it was not free. The old holder has lost it, and its guarded transactions fail. Waits for a transaction in progress that has changed or locked the row.';
COMMENT ON FUNCTION shedlock_forget(text) IS
'Deletes the row of a job that no longer exists, and returns true. Returns false and changes nothing unless the lock is free, its last acquisition and its last tick are in the past, and no transaction in progress has changed or locked the row. Never waits for another transaction. All ticks of that name are due again.';
COMMENT ON FUNCTION shedlock_pause(text, text, interval) IS
'Keeps a job from running until shedlock_resume: takes the lock like an acquire, and is refused (false) while it is held; with wait it tries again for that long.';
COMMENT ON FUNCTION shedlock_resume(text) IS
'Frees a lock if it is paused; otherwise false, with a WARNING.';
COMMENT ON FUNCTION shedlock_protect(boolean) IS
'Creates a trigger on the lock table, or drops it. The trigger keeps the SQL of other clients from changing or deleting a lock of ours that is not free (Java before 7.0, ports that DELETE, clients with a wrong clock); they get a NOTICE. Waits for transactions that have written the table; to drop the trigger, also for those that have read it.';
COMMENT ON FUNCTION shedlock_protect_row() IS
'For shedlock_protect: the trigger.';
COMMENT ON FUNCTION shedlock_doctor() IS
'Problems, and what may become one, with severity (error, warning, notice), finding and hint: the table''s shape and bloat, harmful settings, clients that write local time, leases that are about to end or too short, holders that are gone, jobs whose last run failed, locks in long transactions, several writers. No rows if nothing was found. It has the rights of its caller; what that role may not see is reported as not checked.';
COMMENT ON FUNCTION shedlock_findings(regclass, text, text, shedlock_locks[], shedlock_stats[]) IS
'For shedlock_doctor.';
COMMENT ON FUNCTION shedlock_grant(text, boolean, boolean, boolean) IS
'Lets a role use the lock functions and read the views; with admin, also use the administrators'' functions; with java, also read and write the table, as Java clients do; with read_only, only read the views and call shedlock_tick, shedlock_ticks, shedlock_doctor and shedlock_version. Without shedlock_grant, only superusers and the role that installed shedlock may do any of that.';
COMMENT ON FUNCTION shedlock_revoke(text, boolean, boolean) IS
'Takes back what shedlock_grant gives with the same arguments, and what it gives with read_only. A NOTICE names the functions that the role may still call.';
COMMENT ON FUNCTION shedlock_stats_reset() IS
'Forgets what shedlock_stats has counted in this database.';
COMMENT ON VIEW shedlock_stats IS
'Counters per lock name, since shedlock_stats_reset() or a start of the server. A clean restart keeps them if the library is preloaded. failed: how many of the releases were of work that was not done; expired: how often an acquire found that a lease had run out, because its holder died or took too long; lost: how often a release, extend, guard or completion came too late, or from a session that did not hold the lock. Needs shared_preload_libraries up to PostgreSQL 16. The portable edition has no counters.';
COMMENT ON FUNCTION shedlock_locks(text[]) IS
'The rows of the view shedlock_locks for these names, found by the index: with very many locks the view takes longer. A name without a row gives none. NULL: all.';
COMMENT ON VIEW shedlock_locks IS
'One row per lock. state is held, kept (released, or its session is gone, but its at_least has not passed), free, or paused. Times by the server''s clock; token is what shedlock_acquire_token returned; holder_pid and holder_alive are those of the session that acquired it, if the row records a session; ends_with_session says whether the lease ends with it; last_duration is how long the last holder had it, at_least included, NULL after a pause or a release by force; last_outcome is done, failed (released as not done) or ran out (never released), NULL while held, for Java rows, and after a pause or a release by force; last_done_at is when a run was last released as done, except by Java clients; last_tick is the tick of the last run, last_done_tick that of the last run that was done, where a run without a tick, or of a Java client, counts for the time at which it began.';
COMMENT ON FUNCTION shedlock_version() IS
'Which edition of these functions this is, extension or portable, and its version.';
