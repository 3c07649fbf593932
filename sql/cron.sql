-- shedlock_tick and shedlock_ticks with crontab expressions.
SET TimeZone = 'UTC';
SET jit = off;
-- Half a minute past ten on a Thursday, in winter and in summer.
SELECT schedule, shedlock_tick(schedule, at => '2023-02-16 10:00:30Z') AS utc,
       shedlock_tick(schedule, 'America/New_York', '2023-02-16 10:00:30Z') AS winter,
       shedlock_tick(schedule, 'America/New_York', '2023-07-13 10:00:30Z') AS summer
  FROM unnest('{"* * * * *","*/15 * * * *","30 2 * * 1-5","0 3 L * *","0 9 * * mon#1","0 0 29 2 *","0 0 * 2 mon#5",
                @yearly,@monthly,@weekly,@daily,@hourly}'::text[]) schedule;
-- By the server's clock at the moment of each call, and looking ahead by half a minute, exact to the microsecond.
SELECT shedlock_tick('* * * * *') BETWEEN now() - interval '1 min' AND clock_timestamp() + interval '30 s' AS due_now,
       shedlock_tick(schedule => '@daily', zone => 'UTC') <= clock_timestamp() + interval '30 s' AS today;
SELECT shedlock_tick('0 * * * *', at => timestamptz '2023-06-01 00:00Z' - interval '30 s') AS due,
       shedlock_tick('0 * * * *', at => timestamptz '2023-06-01 00:00Z' - interval '30.000001 s') AS not_yet;
-- Acquire accepts what shedlock_tick returns.
SELECT shedlock_acquire('quarter', '1 min', tick => shedlock_tick('*/15 * * * *'));
DELETE FROM shedlock;

-- Nights in which clocks are changed. In Apia the whole 30 December was skipped.
SELECT zone, schedule, tick
  FROM (VALUES ('Europe/Berlin', '30 2 * * *', '2023-03-24'), ('Europe/Berlin', '30 2 * * *', '2023-10-28'),
               ('Europe/Berlin', '15,45 2 26 3 *', '2023-03-24'), ('Europe/Berlin', '*/15 2 26 3 *', '2023-03-24'),
               ('Europe/Berlin', '*/30 2 29 10 *', '2023-10-28'), ('Pacific/Apia', '30 2 * * *', '2011-12-28'))
           AS v (zone, schedule, day),
       LATERAL (SELECT DISTINCT tick
                  FROM generate_series(day::timestamptz, day::timestamptz + interval '3 days', '10 min') at,
                       shedlock_tick(schedule, zone, at) tick
                 WHERE tick >= day::timestamptz) t
 ORDER BY zone, schedule, tick;

-- The same nights, seen from the summers after them.
SELECT shedlock_tick('*/30 2 29 10 *', 'Europe/Berlin', '2024-07-01') AS second,
       shedlock_tick('30 2 29 10 *', 'Europe/Berlin', '2024-07-01') AS first,
       shedlock_tick('*/30 2 26 3 *', 'Europe/Berlin', '2023-07-01') AS skipped;

-- By brute force: what the wall clocks show in every minute of the nights in which they are changed, and which minutes
-- they skip. Each expression has a condition in SQL that says the same.
CREATE TEMP TABLE night AS
SELECT row_number() OVER (ORDER BY zone, at) AS n, zone, at
  FROM (SELECT zone, at, at AT TIME ZONE zone - lag(at AT TIME ZONE zone) OVER (PARTITION BY zone ORDER BY at) AS passed
          FROM (VALUES ('Europe/Berlin', '2021-01-01', '2024-01-01'), ('America/New_York', '2022-01-01', '2025-01-01'),
                       ('Australia/Lord_Howe', '2022-01-01', '2025-01-01'),
                       ('America/St_Johns', '2008-01-01', '2012-06-01'),
                       ('Africa/Casablanca', '2012-01-01', '2014-01-01'),
                       ('America/Santiago', '2021-01-01', '2023-01-01'), ('Pacific/Apia', '2011-01-01', '2013-01-01'),
                       ('Asia/Kathmandu', '1985-01-01', '1987-01-01')) AS v (zone, first, last),
               generate_series(first::timestamptz, last::timestamptz, interval '1 hour') at) h
 WHERE passed <> '1 hour';
CREATE TEMP TABLE clock AS
SELECT n, at AS now, shown, lag(shown) OVER (PARTITION BY n ORDER BY at) + interval '1 min' AS shown_without_change
  FROM (SELECT n, minute AS at, minute AT TIME ZONE zone AS shown
          FROM night, generate_series(at - interval '28 hours', at + interval '26 hours', interval '1 min') minute) m;
-- When each local minute comes: whenever the clock shows it, or at the change that skips it.
CREATE TEMP TABLE coming AS
SELECT n, local, now, now = min(now) OVER (PARTITION BY n, local) AS is_first,
       bool_or(NOT is_skipped) OVER (PARTITION BY n, local::date) AS has_date,
       extract(minute FROM local)::int AS minute, extract(hour FROM local)::int AS hour,
       extract(day FROM local)::int AS day, extract(month FROM local)::int AS month,
       extract(dow FROM local)::int AS weekday, extract(day FROM local + interval '1 day') = 1 AS is_last_day
  FROM (SELECT n, shown AS local, now, false AS is_skipped FROM clock
        UNION ALL
        SELECT n, local, now, true
          FROM clock, generate_series(shown_without_change, shown - interval '1 min', '1 min') local) c;
CREATE INDEX ON coming (n, now);
CREATE FUNCTION wrong_at_night(schedule text, condition text, OUT asked bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
    -- a repeated time has two ticks
    each CONSTANT text := CASE WHEN split_part(schedule, ' ', 1) LIKE '*%' OR split_part(schedule, ' ', 2) LIKE '*%'
                               THEN 'true' ELSE 'is_first AND has_date' END;
BEGIN
    EXECUTE format('CREATE TEMP TABLE expected_tick AS
        SELECT DISTINCT n, now AS tick FROM coming WHERE (%s) AND %s', condition, each);
    CREATE INDEX ON expected_tick (n, tick);
    EXECUTE format($q$
        SELECT count(*), count(*) FILTER (WHERE shedlock_tick(%L, zone, at) IS DISTINCT FROM tick)
          FROM (SELECT n, zone, a.at,
                       (SELECT max(tick) FROM expected_tick e
                         WHERE e.n = a.n AND tick <= a.at + interval '30 s') AS tick
                  FROM (SELECT n, zone, tick - interval '30 s' + i * interval '1 us' AS at
                          FROM expected_tick JOIN night USING (n), unnest(ARRAY[-1, 0, 12345678]) i
                         WHERE tick BETWEEN at - interval '4 hours' AND at + interval '4 hours'
                           AND (extract(minute FROM tick)::int IN (0, 1, 15, 30, 45, 59) OR n %% 10 = 0)
                        UNION ALL
                        SELECT n, zone, minute + interval '1 s'
                          FROM night, generate_series(at - interval '24 hours', at + interval '26 hours',
                                                      interval '67 min') minute) a) q
         WHERE tick IS NOT NULL$q$, schedule) INTO asked, wrong;
    DROP TABLE expected_tick;
END $$;
CREATE TEMP TABLE example (n serial, schedule text, condition text);
INSERT INTO example (schedule, condition) VALUES
    ('30 2 * * *', 'hour = 2 AND minute = 30'),
    ('0 0 * * *', 'hour = 0 AND minute = 0'),
    ('59 23 * * *', 'hour = 23 AND minute = 59'),
    ('0-59 2 * * *', 'hour = 2'),
    ('0-59 0-23 * * *', 'true'),
    ('15,45 1-3 * * *', 'hour IN (1, 2, 3) AND minute IN (15, 45)'),
    ('1-59/7 0-3,22-23 * * *', 'hour IN (0, 1, 2, 3, 22, 23) AND minute % 7 = 1'),
    ('0 0,1,2,3,23 * * sun', 'minute = 0 AND hour IN (0, 1, 2, 3, 23) AND weekday = 0'),
    ('5 0-3 * * sun#1,sun#2,7#5', 'minute = 5 AND hour <= 3 AND weekday = 0 AND (day <= 14 OR day > 28)'),
    ('30 0,2 L 3,10 *', 'minute = 30 AND hour IN (0, 2) AND month IN (3, 10) AND is_last_day'),
    ('0 0,12 30,31 12 *', 'minute = 0 AND hour IN (0, 12) AND month = 12 AND day IN (30, 31)'),
    ('* * * * *', 'true'),
    ('*/15 * * * *', 'minute % 15 = 0'),
    ('0 * * * *', 'minute = 0'),
    ('*/15 2 * * *', 'minute % 15 = 0 AND hour = 2'),
    ('*/20 0-1,23 * * *', 'minute % 20 = 0 AND hour IN (0, 1, 23)'),
    ('30 */2 * * *', 'minute = 30 AND hour % 2 = 0'),
    ('10-50/20 */3 * * sat,sun', 'minute IN (10, 30, 50) AND hour % 3 = 0 AND weekday IN (0, 6)'),
    ('45 * * * 7', 'minute = 45 AND weekday = 0'),
    ('* 2 */2 * *', 'hour = 2 AND day % 2 = 1'),
    ('*/10 2 30 12 *', 'minute % 10 = 0 AND hour = 2 AND day = 30 AND month = 12');
SELECT count(*) AS nights FROM night;
SELECT schedule, asked, wrong
  FROM example, wrong_at_night(schedule, condition) ORDER BY n;
-- The session's TimeZone does not matter.
SET TimeZone = 'America/New_York';
SELECT schedule, asked, wrong
  FROM example, wrong_at_night(schedule, condition) WHERE schedule IN ('30 2 * * *', '*/15 2 * * *') ORDER BY n;
SET TimeZone = 'UTC';
DROP FUNCTION wrong_at_night;
DROP TABLE example, coming, clock, night;

-- By brute force: which days an expression means, from 1890 to 2140.
CREATE TEMP TABLE day AS
SELECT date AT TIME ZONE 'Europe/Berlin' AS noon, extract(day FROM date)::int AS day,
       extract(month FROM date)::int AS month, extract(dow FROM date)::int AS weekday,
       extract(day FROM date + interval '1 day') = 1 AS is_last_day
  FROM generate_series(timestamp '1890-01-01 12:00', '2140-12-31 12:00', '1 day') date;
CREATE FUNCTION wrong_on_days(schedule text, condition text, OUT asked bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TEMP TABLE expected_tick AS
        SELECT noon AS tick, row_number() OVER (ORDER BY noon) AS n FROM day WHERE %s', condition);
    CREATE INDEX ON expected_tick (tick);
    -- Around 250 of its ticks, and all over the centuries.
    EXECUTE format($q$
        SELECT count(*), count(*) FILTER (WHERE shedlock_tick(%L, 'Europe/Berlin', at) IS DISTINCT FROM tick)
          FROM (SELECT at, (SELECT max(tick) FROM expected_tick WHERE tick <= at + interval '30 s') AS tick
                  FROM (SELECT tick - interval '30 s' + i * interval '1 us' AS at
                          FROM expected_tick, unnest(ARRAY[-1, 0, 12345678]) i
                         WHERE n %% (SELECT count(*) / 250 + 1 FROM expected_tick) = 0
                        UNION ALL
                        SELECT generate_series('1930-01-01', '2140-12-31 12:00'::timestamptz, '391 days 5 hours')) a) q
         WHERE tick IS NOT NULL$q$, schedule) INTO asked, wrong;
    DROP TABLE expected_tick;
END $$;
CREATE TEMP TABLE example (n serial, schedule text, condition text);
INSERT INTO example (schedule, condition) VALUES
    ('0 12 * * *', 'true'),
    -- values, lists, ranges, steps, names
    ('0 12 13 * *', 'day = 13'),
    ('0 12 1,15,31 * *', 'day IN (1, 15, 31)'),
    ('0 12 10-20 * *', 'day BETWEEN 10 AND 20'),
    ('0 12 */10 * *', 'day IN (1, 11, 21, 31)'),
    ('0 12 5-25/10,07-08,31 * *', 'day IN (5, 7, 8, 15, 25, 31)'),
    ('0 12 * 2,11 *', 'month IN (2, 11)'),
    ('0 12 * FEB-Apr,jun-dec/3 *', 'month IN (2, 3, 4, 6, 9, 12)'),
    ('0 12 * jan,mar,may,jul,aug,oct */3', 'month IN (1, 3, 5, 7, 8, 10) AND weekday IN (0, 3, 6)'),
    ('0 12 * * mon,TUE,Wed', 'weekday IN (1, 2, 3)'),
    ('0 12 * * thu-sat', 'weekday IN (4, 5, 6)'),
    ('0 12 * * 1-5/2', 'weekday IN (1, 3, 5)'),
    ('0 12 * * 0', 'weekday = 0'),
    ('0 12 * * 7', 'weekday = 0'),
    ('0 12 * * 5-7', 'weekday IN (5, 6, 0)'),
    ('0 12 * * sun-2', 'weekday IN (0, 1, 2)'),
    -- the last day of a month, and the first to fifth of a weekday
    ('0 12 L * *', 'is_last_day'),
    ('0 12 1,l 2,4,12 *', 'month IN (2, 4, 12) AND (day = 1 OR is_last_day)'),
    ('0 12 * * mon#1', 'weekday = 1 AND day <= 7'),
    ('0 12 * * 0#2,7#4', 'weekday = 0 AND (day BETWEEN 8 AND 14 OR day BETWEEN 22 AND 28)'),
    ('0 12 * * wed#5,fri', 'weekday = 3 AND day > 28 OR weekday = 5'),
    ('0 12 * jul sat#3', 'month = 7 AND weekday = 6 AND day BETWEEN 15 AND 21'),
    -- the day of the month or that of the week, unless one of them begins with *
    ('0 12 13 * fri', 'day = 13 OR weekday = 5'),
    ('0 12 1-7 * mon', 'day <= 7 OR weekday = 1'),
    ('0 12 L 9 mon#1', 'month = 9 AND (is_last_day OR weekday = 1 AND day <= 7)'),
    ('0 12 30,31 2 sun', 'month = 2 AND weekday = 0'),
    ('0 12 29 2 mon', 'month = 2 AND (day = 29 OR weekday = 1)'),
    ('0 12 */31,1-7 * mon', 'day IN (1, 2, 3, 4, 5, 6, 7, 31) AND weekday = 1 AND day <= 7'),
    ('0 12 */2 * fri', 'day % 2 = 1 AND weekday = 5'),
    ('0 12 13 * */5', 'day = 13 AND weekday IN (0, 5)'),
    ('0 12 13,*/31 * fri', 'day IN (13, 1) OR weekday = 5'),
    -- rare ones: up to 40 years apart
    ('0 12 29 2 *', 'month = 2 AND day = 29'),
    ('0 12 * 2 mon#5', 'month = 2 AND day = 29 AND weekday = 1'),
    ('0 12 29 2 */7', 'month = 2 AND day = 29 AND weekday = 0'),
    ('0 12 31 2,4,6,8,9,11 *', 'month = 8 AND day = 31');
SELECT schedule, asked, wrong FROM example, wrong_on_days(schedule, condition) ORDER BY n;
DROP FUNCTION wrong_on_days;
DROP TABLE example, day;
-- Before the year 1 there is no year 0.
SELECT shedlock_tick(schedule, at => '0001-01-15 BC')
  FROM unnest('{0 0 29 2 *,@yearly,"0 0 L 12 *","0 0 * 2 thu#5"}'::text[]) schedule;

-- The @ words are the same as five fields, and white space does not matter.
SELECT word, count(DISTINCT tick) AS ticks, bool_and(tick = shedlock_tick(fields, 'Asia/Kathmandu', at)) AS same
  FROM (VALUES ('@yearly', '0 0 1 1 *'), ('@annually', '0 0 1 1 *'), ('@monthly', '0 0 1 * *'),
               ('@weekly', '0 0 * * 0'), ('@daily', '0 0 * * *'), ('@midnight', '0 0 * * *'), ('@hourly', '0 * * * *'),
               (' @Daily ', '0 0 * * *'), (E' 5\t4  1-7 jan\n* ', '5 4 1-7 1 *')) AS v (word, fields),
       generate_series('2022-01-01Z', '2024-01-01Z', interval '31 hours') at,
       shedlock_tick(word, 'Asia/Kathmandu', at) tick
 GROUP BY word ORDER BY word;
-- An interval is one as text, too. So are those that look a little like an expression.
SELECT schedule, count(DISTINCT tick) AS ticks,
       bool_and(tick = shedlock_tick(schedule::interval, 'America/New_York', at)) AS same
  FROM unnest('{1 day,15 minutes,7 days,3 months,@ 1 day,3 hours 30 minutes 10,@ 2 hours,PT6H,06:00,0-2}'::text[])
           AS schedule,
       generate_series('2023-01-01Z', '2023-07-01Z', interval '7 hours') at,
       shedlock_tick(schedule, 'America/New_York', at) tick
 GROUP BY schedule ORDER BY schedule;

-- schedule: errors.
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    result text;
BEGIN
    EXECUTE 'SELECT count(t) FROM ' || call || ' t' INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(regexp_replace(hint, '^A field is .*', '...'), ''));
END $$;
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' => '
-- Each message names its field. The usual hint is shown once, below.
SELECT schedule, attempt(format('shedlock_tick(%L)', schedule)) FROM unnest(ARRAY[
    '60 * * * *', '* 24 * * *', '0 0 0 * *', '0 0 32 * *', '0 0 * 13 *', '0 0 * 0 *', '0 0 * * 8',
    '5/10 * * * *', '*/0 * * * *', '*/60 * * * *', '0 22-2 * * *', '0 8-18/24 * * *', '0 0 $ * *', '0 0 1,$ * *',
    '0 0 ? * *',
    '0 0 L-3 * *', '0 0 15W * *', '0 0 1#1 * *', '0 0 L/2 * *', '0 0 * feb-jan *', '0 0 * february *', '0 0 * L *',
    '0 0 * mon *', '0 0 * * fri-sun', '0 0 * * fri-0', '0 0 * * jan', '0 0 * * mon#6', '0 0 * * mon#0',
    '0 0 * * mon#1-5', '0 0 * * mon-fri#1', '0 0 * * *#1', '0 0 * * 5L', '0 0 * * L', '1,,2 * * * *', '1, * * * *',
    '*5 * * * *', '*-5 * * * *', '1- * * * *', '1-2-3 * * * *', '001 * * * *', '0.5 * * * *', '1;2 * * * *',
    '0 0 * * Mon,FRI-sun',
    -- Neither an expression nor an interval.
    '@reboot', '@every 1h', '@daily 2', '@', '30 2 * *', '0 30 2 * * *', 'H 2 * * *', '30 2 * * 1-5 root', '*', '',
    'daily', 'fri-sun',
    -- These days never come. (But the last one is any weekday in February.)
    '0 0 31 2 *', '0 0 30,31 feb *', '0 0 31 4,6,9,11 *', '0 0 31 2 */2', '0 0 30 2 0-7']) schedule;
SELECT c, attempt(c) FROM unnest(ARRAY[
    $$shedlock_tick(NULL)$$, $$shedlock_tick(NULL::interval)$$, $$shedlock_tick('@daily', NULL)$$,
    $$shedlock_tick('@daily', 'UTC', NULL)$$, $$shedlock_tick('@daily', 'Europe/Atlantis')$$,
    $$shedlock_tick('@daily', 'UTC+3')$$, $$shedlock_tick('@daily', at => 'infinity')$$,
    $$shedlock_tick('0'::interval)$$, $$shedlock_tick('-1 hour')$$, $$shedlock_tick('1 day 1 hour'::interval)$$,
    $$shedlock_ticks(NULL, now())$$, $$shedlock_ticks(NULL::interval, now())$$, $$shedlock_ticks('@daily', NULL)$$,
    $$shedlock_ticks('@daily', now(), NULL)$$, $$shedlock_ticks('@daily', '-infinity')$$,
    $$shedlock_ticks('0 0 30 2 *', now())$$]) c;
\pset tuples_only off
\pset format csv
\pset fieldsep '|'
\set SHOW_CONTEXT never
SELECT shedlock_tick('5/10 * * * *');
SELECT shedlock_tick('0 0 31 2 *', 'Europe/Berlin');
\set SHOW_CONTEXT errors
DROP FUNCTION attempt;

-- shedlock_ticks: the ticks after since, up to the one that is due, in ascending order.
SELECT tick
  FROM shedlock_ticks('30 2 * * sat,sun', '2026-03-21 02:30Z', 'Europe/Berlin') tick WHERE tick < '2026-04-01';
SELECT tick
  FROM shedlock_ticks('*/30 0-3 * * *', '2023-11-05Z', 'America/New_York') tick WHERE tick < '2023-11-05 10:00Z';
SELECT shedlock_tick('@daily', at => now() - interval '1 min') AS due \gset
SELECT count(*) FROM shedlock_ticks('@daily', :'due'::timestamptz - interval '24 h') tick WHERE tick <= :'due';
SELECT count(*) AS in_the_future FROM shedlock_ticks('@hourly', clock_timestamp() + interval '1 day');
SELECT array_agg(tick) = (SELECT array_agg(t)
                            FROM shedlock_ticks('0 */6 * * *', now() - interval '9 days') t WHERE t <= now()) AS same
  FROM shedlock_ticks('6 hours', now() - interval '9 days') tick WHERE tick <= now();

-- Columns with collations of their own, in one of which I is not the capital i.
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION turkish (provider = icu, locale = 'tr');
SELECT shedlock_tick(schedule, zone, '2023-06-02Z'), shedlock_tick(zone => schedule_zone, schedule => zone_schedule,
                                                                   at => '2023-06-02Z'),
       shedlock_tick(hour, zone, '2023-06-02Z'),
       (SELECT count(*) > 0 FROM shedlock_ticks(schedule, '2023-06-01', zone)) AS ticks
  FROM (SELECT s COLLATE caseless AS schedule, z COLLATE turkish AS zone, s COLLATE turkish AS zone_schedule,
               z COLLATE caseless AS schedule_zone, interval '1 hour' AS hour
          FROM (VALUES ('0 0 L JUN,DEC FRI', 'EUROPE/ISTANBUL')) AS v (s, z)) c;
DROP COLLATION caseless, turkish;
RESET jit;
RESET TimeZone;
