-- shedlock_tick: the instant of a schedule that is due now.
SET TimeZone = 'UTC';

-- Half a minute past ten on a Thursday, in winter and in summer.
SELECT every, shedlock_tick(every, at => '2023-02-16 10:00:30Z') AS utc,
       shedlock_tick(every, 'America/New_York', '2023-02-16 10:00:30Z') AS winter,
       shedlock_tick(every, 'America/New_York', '2023-07-13 10:00:30Z') AS summer
  FROM unnest(ARRAY['10 s', '1 min', '15 min', '1 hour', '6 hours', '36 hours', '1 day', '48 hours', '7 days',
                    '1 month', '3 months', '1 year']::interval[]) every;
-- By the server's clock at the moment of each call.
SELECT shedlock_tick('1 hour') BETWEEN now() - interval '1 hour' AND clock_timestamp() + interval '30 s' AS due_now,
       shedlock_tick(every => '1 day', zone => 'UTC') <= clock_timestamp() + interval '30 s' AS today;
BEGIN;
SELECT shedlock_tick('1 ms') AS first \gset
SELECT pg_sleep(0.005);
SELECT shedlock_tick('1 ms') > :'first' AS not_that_of_the_transaction;
COMMIT;

-- A scheduler whose clock is a little ahead, and one whose clock is a little behind: date_trunc would give
-- them different hours.
SELECT shedlock_acquire('hourly', '1 min', tick => shedlock_tick('1 hour', at => '2023-06-01 11:59:59.9Z')) AS ahead,
       shedlock_release('hourly');
SELECT shedlock_acquire('hourly', '1 min', tick => shedlock_tick('1 hour', at => '2023-06-01 12:00:00.1Z')) AS behind,
       shedlock_acquire('hourly', '1 min', tick => shedlock_tick('1 hour', at => '2023-06-01 12:59:59.9Z'))
           AS next_hour;
-- Acquire accepts every tick that shedlock_tick returns, although it may be up to 30 seconds ahead.
SELECT bool_and(shedlock_acquire('any ' || every, '1 min', tick => shedlock_tick(every)))
  FROM unnest(ARRAY['1 us', '2 s', '119 s', '1 hour', '1 day', '1 month']::interval[]) every;
DELETE FROM shedlock;
-- shedlock_tick looks ahead by half of the period, at most 30 seconds, exact to the microsecond.
SELECT v.*, shedlock_tick(every::interval, at => timestamptz '2023-06-01 00:00Z' - ahead::interval) AS due,
       shedlock_tick(every::interval, at => timestamptz '2023-06-01 00:00Z' - ahead::interval - interval '1 us')
           AS not_yet
  FROM (VALUES ('1 s', '0.5 s'), ('40 s', '20 s'), ('1 min', '30 s'), ('2 min', '30 s'), ('1 hour', '30 s'),
               ('12 hours', '30 s'), ('1 month', '30 s')) AS v (every, ahead);

-- The nights in which clocks are changed, from noon to noon, one call per minute.
CREATE FUNCTION night(
    zone text, morning date, every interval,
    OUT ticks bigint, OUT first timestamptz, OUT last timestamptz, OUT only_forward boolean
) LANGUAGE sql AS $$
    SELECT count(DISTINCT tick), min(tick), max(tick), bool_and(forward)
      FROM (SELECT tick, tick >= lag(tick, 1, tick) OVER (ORDER BY at) AS forward
              FROM generate_series((morning - time '12:00') AT TIME ZONE zone,
                                   (morning + time '12:00') AT TIME ZONE zone - interval '2 min', '1 min') at,
                   shedlock_tick(every, zone, at) tick) t
$$;
SELECT zone, morning, every, n.*
  FROM (VALUES ('Europe/Berlin', '2023-03-26'), ('Europe/Berlin', '2023-10-29'),
               ('America/New_York', '2023-03-12'), ('America/New_York', '2023-11-05')) AS z (zone, morning),
       unnest(ARRAY['30 min', '1 hour', '2 hours', '6 hours', '1 day', '7 days']::interval[]) every,
       night(zone, morning::date, every) n;
-- Midnight does not exist or occurs twice, even on the first of a month; the day begins at its first instant.
SELECT zone, morning, every, n.*
  FROM (VALUES ('America/Havana', '2023-03-12'), ('America/Havana', '2023-11-05'), ('America/Asuncion', '2023-10-01'),
               ('America/Havana', '2020-11-01'), ('America/St_Johns', '2010-11-07'), ('Asia/Beirut', '2022-10-30'))
           AS z (zone, morning),
       unnest(ARRAY['1 hour', '1 day', '1 month']::interval[]) every, night(zone, morning::date, every) n;
-- A change by half an hour, and a day that did not exist: Samoa moved to the other side of the date line.
SELECT every, n.*
  FROM unnest(ARRAY['20 min', '1 hour']::interval[]) every, night('Australia/Lord_Howe', '2023-04-02', every) n;
SELECT every, n.*
  FROM unnest(ARRAY['20 min', '1 hour']::interval[]) every, night('Australia/Lord_Howe', '2023-10-01', every) n;
SELECT DISTINCT shedlock_tick('1 day', 'Pacific/Apia', at) AT TIME ZONE 'Pacific/Apia'
  FROM generate_series('2011-12-29 12:00Z', '2012-01-01 12:00Z', interval '1 hour') at ORDER BY 1;
-- A tick that the wall clock skips is due at the moment of the skip: here 02:20, with a period of 50 minutes.
SELECT shedlock_tick('50 min', 'Europe/Berlin', at)
  FROM unnest(ARRAY['2023-03-26 00:59:29.999999Z', '2023-03-26 00:59:30Z', '2023-03-26 01:19Z']::timestamptz[]) at;

-- By brute force: a tick is a minute at which the wall clock shows a multiple of the period, or just before which it
-- skipped one; with periods of a day or more, the first minute of a later period. Tried every minute around these
-- nights, and every 15 minutes of a year.
CREATE TEMP TABLE period (n serial, zone text, first timestamptz, last timestamptz, step interval);
INSERT INTO period (zone, first, last, step)
SELECT zone, night - interval '50 hours', night + interval '30 hours', '1 min'
  FROM (VALUES ('Europe/Berlin', '2023-03-26'), ('Europe/Berlin', '2023-10-29'), ('Europe/Berlin', '1999-10-31'),
               ('America/New_York', '2023-03-12'), ('America/New_York', '2023-11-05'),
               ('America/Havana', '2023-03-12'), ('America/Havana', '2020-11-01'),
               ('America/Asuncion', '2023-10-01'),
               ('America/St_Johns', '2010-03-14'), ('America/St_Johns', '2010-11-07'),
               ('Asia/Beirut', '2022-10-30'),
               ('Australia/Lord_Howe', '2023-04-02'), ('Australia/Lord_Howe', '2023-10-01'),
               ('Antarctica/Troll', '2023-10-29'), ('Pacific/Apia', '2011-12-30')) AS v (zone, day),
       LATERAL (SELECT day::timestamp AT TIME ZONE zone) AS l (night)
 -- date_bin is wrong before its origin in some versions of the server, for example 16.2.
 WHERE day > '2001-01-01' OR date_bin('1 day', timestamp '1999-10-31', '2001-01-01') = '1999-10-31';
INSERT INTO period (zone, first, last, step)
SELECT zone, '2022-12-31 12:00Z', '2024-01-02Z', '15 min'
  FROM unnest(ARRAY['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu']) zone;
CREATE TEMP TABLE clock AS
SELECT n,
       zone,
       at,
       step,
       shown,
       lag(shown) OVER past + step AS shown_without_change,
       max(shown) OVER (past ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
  FROM period,
       generate_series(first, last, step) at,
       LATERAL (SELECT at AT TIME ZONE zone OFFSET 0) AS l (shown)
WINDOW past AS (PARTITION BY n ORDER BY at);
CREATE TEMP TABLE schedule (every interval, in_a_year boolean);
INSERT INTO schedule SELECT every::interval, every IN ('1 hour', '6 hours', '1 day', '7 days', '1 month', '3 months')
  FROM unnest(ARRAY['7 min', '20 min', '30 min', '45 min', '1 hour', '90 min', '2 hours', '3 hours', '5 hours',
                    '6 hours', '12 hours', '1 day', '36 hours', '2 days', '7 days', '1 month', '3 months']) every;
CREATE FUNCTION multiple(every interval, shown timestamp) RETURNS timestamp LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE every
           WHEN '1 month' THEN date_trunc('month', shown)
           WHEN '3 months' THEN date_trunc('quarter', shown)
           ELSE date_bin(every, shown, '2001-01-01')
           END
$$;
CREATE TEMP TABLE expected_tick AS
SELECT n,
       every,
       at
  FROM clock, schedule
 WHERE (step = '1 min' OR in_a_year)
   AND CASE
       WHEN every < '1 day' THEN
           multiple(every, shown) = shown OR multiple(every, shown - interval '1 us') >= shown_without_change
       ELSE
           multiple(every, shown) > multiple(every, latest)
       END;
CREATE INDEX ON expected_tick (n, every, at);
-- The calls are around each tick and between ticks. So it suffices to ask just before, at and after each expected tick.
CREATE TEMP TABLE asked AS
SELECT n,
       zone,
       every,
       at - LEAST(every / 2, '30 s') AS at,
       (SELECT max(b.at) FROM expected_tick b WHERE b.n = a.n AND b.every = a.every AND b.at <= a.at) AS tick
  FROM (SELECT n, every, at + i * interval '1 us' AS at
          FROM expected_tick, unnest(ARRAY[-1, 0, 12345678]) i
        UNION ALL
        SELECT n, every, at + interval '1 s'
          FROM schedule, period, generate_series(first, last, step * 37) at
         WHERE step = '1 min' OR in_a_year) a
  JOIN period USING (n);
SELECT every, count(*) > 200 AS enough, count(DISTINCT tick) > 10 AS ticks,
       count(*) FILTER (WHERE shedlock_tick(every, zone, at) IS DISTINCT FROM tick) AS wrong
  FROM asked WHERE tick IS NOT NULL GROUP BY every ORDER BY every;
-- The session's TimeZone and IntervalStyle do not matter.
SET IntervalStyle = sql_standard;
SET TimeZone = 'America/New_York';
SELECT count(*) > 20 AS enough,
       count(*) FILTER (WHERE shedlock_tick(every, zone, at) IS DISTINCT FROM tick) AS wrong
  FROM asked
 WHERE every BETWEEN '5 hours' AND '2 days' AND zone IN ('Europe/Berlin', 'America/New_York') AND tick IS NOT NULL;
RESET IntervalStyle;
RESET TimeZone;
DROP FUNCTION night, multiple;
DROP TABLE asked, expected_tick, schedule, clock, period;

-- every, zone, at: errors.
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    result text;
BEGIN
    EXECUTE 'SELECT shedlock_tick' || call INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(hint, ''));
END $$;
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$(every => NULL)$$, $$('1 hour', NULL)$$, $$('1 hour', 'UTC', NULL)$$,
    $$(every => '0')$$, $$(every => '-1 hour')$$, $$(every => '-1 month')$$, $$(every => '1 month -31 days')$$,
    $$(every => '1 month 1 day')$$, $$(every => '1 month 1 hour')$$, $$(every => '1 year -1 us')$$,
    $$(every => '1 day 12 hours')$$, $$(every => '2 days -1 s')$$,
    $$('1 hour', '')$$, $$('1 hour', 'Europe/Atlantis')$$,
    $$('1 hour', at => 'infinity')$$, $$('1 hour', at => '-infinity')$$, $$('1 hour', at => '294276-12-31 23:59:30Z')$$
]) c;
-- The same period, written in different ways; the longest periods; and instants before 2001, the origin.
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$('1 day 24 hours', at => '2023-06-01 12:00Z') = shedlock_tick('2 days', at => '2023-06-01 12:00Z')$$,
    $$('168 hours', 'Asia/Tokyo', '2023-06-01 12:00Z') = shedlock_tick('1 week', 'Asia/Tokyo', '2023-06-01 12:00Z')$$,
    $$('12 months', 'Asia/Tokyo', '2023-06-01 12:00Z') = shedlock_tick('1 year', 'Asia/Tokyo', '2023-06-01 12:00Z')$$,
    $$('178956970 years', at => '2023-06-01 12:00Z') = '2001-01-01Z'$$,
    $$('1000000 days', at => '2023-06-01 12:00Z') = '2001-01-01Z'$$,
    $$('1 month', at => '1970-01-15Z') = '1970-01-01Z'$$,
    $$('7 months', at => '2000-12-31Z') = '2000-06-01Z'$$
]) c;
DROP FUNCTION attempt;
SET TimeZone = 'UTC';
-- Before the year 1 there is no year 0.
SELECT count(*) AS wrong
  FROM generate_series(timestamptz '0010-01-01 BC', '0010-01-01', '13 days') at
 WHERE shedlock_tick('1 month', at => at) <> date_trunc('month', at);
SELECT shedlock_tick(every, at => '0044-03-15 BC') FROM unnest('{1 month,1 year,4 years}'::interval[]) every;
-- zone: the name of a time zone. PostgreSQL takes offsets and abbreviations, too, but not as people mean them.
CREATE FUNCTION attempt(zone text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN shedlock_tick('1 day', zone, '2026-07-01 12:00Z');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT attempt(zone) FROM unnest('{
    UTC+3,UTC-3,Etc/GMT+13,+03,-03,+03:00,GMT+3,GMT3,<+03>-3,FOO5,Berlin1,EST5,"EST5EDT,M3.2.0,M11.1.0",
    CET,cet,EST,MET,EET,WET,HST,MST,PST,Z,IST,3,Nowhere,"",Port-au-Prince}'::text[]) zone;
SELECT zone, attempt(zone) FROM unnest('{
    UTC,utc,GMT,gmt,Etc/UTC,Etc/GMT-3,etc/gmt+3,EST5EDT,
    europe/berlin,EUROPE/BERLIN,America/Port-au-Prince}'::text[]) zone;
\pset tuples_only off
\pset format csv
-- Every other name of pg_timezone_names is accepted, however it is spelled.
SELECT count(*) > 1000 AS many, count(*) FILTER (WHERE attempt(z.zone) ~ '^22023') AS refused
  FROM pg_timezone_names n, unnest(ARRAY[n.name, upper(n.name), lower(n.name)]) z (zone)
 WHERE upper(n.name) NOT IN (SELECT abbrev FROM pg_timezone_abbrevs WHERE abbrev NOT IN ('UTC', 'GMT'))
   AND n.name !~ '^(Asia|Africa|Antarctica|posix|right)/';
\set SHOW_CONTEXT never
SELECT shedlock_tick('1 day', 'UTC+3');
SELECT shedlock_tick('1 day', 'right/Europe/Berlin');
SELECT shedlock_ticks('1 hour', now() - interval '1 hour', 'MET');
\set SHOW_CONTEXT errors
DROP FUNCTION attempt;
