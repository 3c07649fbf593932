-- I9: times come from the server's clock at the moment of the call, not from the start of the transaction. TimeZone and
-- DST do not matter.
BEGIN;
SELECT shedlock_acquire('old', '1 s');
SELECT pg_sleep(0.3);
SELECT shedlock_acquire('in an old transaction', '1 h');
SELECT locked_at - now() >= interval '0.3 s' AS not_the_start_of_the_transaction
  FROM shedlock_locks WHERE name = 'in an old transaction';
COMMIT;
BEGIN;
SELECT pg_sleep(0.05);
SELECT shedlock_acquire('short in an old transaction', '10 s');
SELECT lock_until - now() > interval '10 s' AS not_shortened FROM shedlock_locks WHERE name LIKE 'short in%';
COMMIT;

-- The days alone are out of range, but the hours are subtracted: 20 hours are left.
SELECT shedlock_acquire('sum', interval '106751992 days' + interval '-2562047788 hours');
SELECT lock_until - locked_at AS lease FROM shedlock WHERE name = 'sum';

-- The same row in six time zones: the session sees the same instants and is refused in each of them.
CREATE TABLE seen (zone text, locked_at timestamptz, lock_until timestamptz, utc boolean, refused boolean);
SELECT shedlock_acquire('zoned', '1 h');
\set look 'INSERT INTO seen SELECT current_setting(\'TimeZone\'), v.locked_at, v.lock_until, abs(extract(epoch FROM t.locked_at - clock_timestamp() AT TIME ZONE interval \'0\')) < 600, NOT shedlock_acquire(\'zoned\', \'1 h\') FROM shedlock_locks v JOIN shedlock t USING (name) WHERE name = \'zoned\';'
SET TimeZone = 'UTC';
:look
SET TimeZone = 'America/St_Johns';
:look
SET TimeZone = 'Asia/Kolkata';
:look
SET TimeZone = 'Pacific/Kiritimati';
:look
SET TimeZone = 'Europe/Berlin';
:look
SET TimeZone = 'UTC-3';
:look
SELECT count(*), count(DISTINCT locked_at) AS instants, count(DISTINCT lock_until) AS ends, bool_and(utc) AS utc,
       bool_and(refused) AS refused
  FROM seen;

-- DST: the night in which 02:30 does not exist, and the one in which it occurs twice. The stored UTC is unambiguous.
SET TimeZone = 'Europe/Berlin';
UPDATE shedlock SET locked_at = '2026-03-29 00:59:59', lock_until = '2026-03-29 01:30:00' WHERE name = 'zoned';
SELECT locked_at, lock_until, last_duration FROM shedlock_locks WHERE name = 'zoned';
UPDATE shedlock SET locked_at = '2026-10-25 00:30:00', lock_until = '2026-10-25 01:30:00' WHERE name = 'zoned';
SELECT locked_at, lock_until, last_duration, token FROM shedlock_locks WHERE name = 'zoned';
SELECT shedlock_acquire('zoned', '1 min') AS long_over;
-- A tick is an instant, whatever zone it is written in.
SELECT shedlock_acquire('dst', '1 min', tick => '2026-10-25 02:30:00+02'), shedlock_release('dst');
UPDATE shedlock SET locked_at = '2026-10-25 00:30:00' WHERE name = 'dst';
SELECT shedlock_acquire('dst', '1 min', tick => '2026-10-25 02:30:00+02') AS same,
       shedlock_acquire('dst', '1 min', tick => '2026-10-25 02:30:00+01') AS an_hour_later;
-- From PostgreSQL 18 on, the name UTC means the session's zone here, and so does Europe/Berlin.
SELECT shedlock_acquire('posix', '1 h');
SET TimeZone = 'UTC-3';
SELECT shedlock_acquire('posix', '1 h', at_least => '1 ms') AS taken_from_its_holder;
SET TimeZone = 'UTC+3';
SELECT shedlock_acquire('posix 2', '1 h', at_least => '1 ms', ends_with_session => true,
                        tick => '2026-01-02 00:00:00+00'), shedlock_extend('posix 2', '1 h', at_least => '2 ms');
SELECT state, held_for < '50 min' AS new, holder_alive, last_tick = '2026-01-02 00:00:00+00' AS tick
  FROM shedlock_locks WHERE name = 'posix 2';
RESET TimeZone;
SELECT shedlock_acquire('posix 2', '1 h', at_least => '1 ms') AS taken_from_its_holder, shedlock_release('posix 2', false);
SELECT shedlock_acquire('posix 2', '1 h', tick => '2026-01-02 00:00:00+00') AS twice;
SET TimeZone = '<EUROPE/BERLIN>5';
SELECT extract(epoch FROM shedlock_tick(s, zone, '2026-07-01 23:00:00+00')) % 86400 / 3600 AS hour, s, zone
  FROM unnest('{1 day,30 2 * * *}'::text[]) s, unnest('{UTC,Europe/Berlin}'::text[]) zone ORDER BY 2, 3;
RESET TimeZone;
DROP TABLE seen;
DELETE FROM shedlock;
