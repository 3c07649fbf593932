-- locked_by: only its end is interpreted. Each of ours ends with the row's own locked_at, which no constant name of a
-- Java client can match. The text of a holder and the reason of a pause mean nothing.
SET TimeZone = 'UTC';
-- A Java client's lock is not ours, even if the client's name looks like our locked_by. The client takes over a
-- lock of ours that had run out, and leaves our other columns as they were.
CREATE TABLE alike (no int GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO alike (text) VALUES
    ('billing/2.14'), ('batch/run/1.0'), ('worker#3'), ('worker#-3'), ('job*1'),
    ('a/1.2:3'), ('a/1.2!3'), ('a/1.2.0a1b2c3d:3'), ('a/1.2,0a1b2c3d!3'), ('a/1.2.0a1b2c3d&3'), ('a/1.2.0a1b2c3d&'),
    ('a/tick5/1.2'), ('cron/tick5'), ('paused: x'), ('released by force: x'), ('paused: x*1'),
    (''), ('#'), ('*'), (E'two\nlines#1');
SELECT bool_and(shedlock_acquire_token('java ' || no, '1 ms', tick => '2020-01-01Z') IS NOT NULL), pg_sleep(0.002)
  FROM alike;
UPDATE shedlock
   SET lock_until = timezone('utc', clock_timestamp()) + interval '1 h', locked_at = timezone('utc', clock_timestamp()),
       locked_by = text
  FROM alike WHERE name = 'java ' || no;
SELECT text, state, holder = text AS holder, holder_pid, last_outcome,
       last_done_tick = locked_at AS javas, shedlock_acquire(name, '1 h') AS second_holder
  FROM shedlock_locks JOIN alike ON name = 'java ' || no ORDER BY no;
SET client_min_messages = error;
SELECT bool_or(shedlock_release(name) OR shedlock_extend(name, '1 h')
               OR shedlock_release_token(name, token) OR shedlock_extend_token(name, token, '1 h')) AS any_is_ours
  FROM shedlock_locks;
-- shedlock_protect does not suppress a Java client's unlock.
SELECT shedlock_protect();
RESET client_min_messages;
WITH unlocked AS (
    UPDATE shedlock SET lock_until = timezone('utc', now()) FROM alike WHERE name = 'java ' || no RETURNING 1)
SELECT count(*) = (SELECT count(*) FROM alike) AS all_are_unlocked FROM unlocked;
SELECT bool_or(shedlock_acquire(name, '1 min', tick => '2020-01-02Z', retry => true)) AS any_tick_is_due,
       bool_and(shedlock_acquire(name, '1 min')) AS all_are_free
  FROM shedlock;
DELETE FROM shedlock WHERE lock_until < timezone('utc', clock_timestamp());
SELECT shedlock_protect(false);
DELETE FROM shedlock;

-- Passed as the holder, the same texts mean nothing, with and without a tick, and a tick that was done is not due
-- again. (An empty text means the default.)
SELECT bool_and(shedlock_acquire_token('tick ' || no, '1 h', tick => '2020-01-02Z', holder => text) IS NOT NULL)
           AS tick,
       bool_and(shedlock_acquire_token('none ' || no, '1 h', holder => text) IS NOT NULL) AS none
  FROM alike;
SELECT count(*) FILTER (WHERE holder <> text AND text <> '') AS differ,
       count(*) FILTER (WHERE state <> 'held' OR holder_pid IS NOT NULL) AS wrong
  FROM shedlock_locks JOIN alike ON name IN ('tick ' || no, 'none ' || no);
SELECT bool_and(shedlock_release_token(name, token, done => name ~ '^tick')) FROM shedlock_locks;
SELECT split_part(name, ' ', 1) AS name, state, last_outcome, count(*) FROM shedlock_locks GROUP BY 1, 2, 3 ORDER BY 1;
SELECT bool_or(shedlock_acquire('tick ' || no, '1 h', tick => t, retry => true)) AS any_is_due
  FROM alike, unnest(ARRAY['1970-01-01 00:00:00.000005Z', '2020-01-01Z', '2020-01-02Z']::timestamptz[]) t;
DELETE FROM shedlock;
SELECT shedlock_acquire_token('cron', '1 h', tick => '2020-01-01Z') AS token \gset
SELECT shedlock_release_token('cron', :token),
       shedlock_acquire_token('cron', '1 h', holder => 'cron/tick1577836800000000') AS token \gset
SELECT shedlock_release_token('cron', :token, done => false),
       shedlock_acquire('cron', '1 h', tick => '2020-01-01Z', retry => true) AS is_due;
-- The same for the reason of a pause.
SELECT bool_and(shedlock_pause('pause ' || no, text)) FROM alike;
SELECT count(*) FILTER (WHERE holder <> 'paused: ' || session_user || CASE WHEN text = '' THEN '' ELSE ': ' || text END)
           AS differ,
       count(*) FILTER (WHERE state <> 'paused' OR holder_pid IS NOT NULL OR last_outcome IS NOT NULL
                              OR last_done_tick IS NOT NULL) AS wrong
  FROM shedlock_locks JOIN alike ON name = 'pause ' || no;
SELECT bool_and(shedlock_resume('pause ' || no)) FROM alike;
SELECT state, last_outcome, count(*) FROM shedlock_locks WHERE name ~ '^pause' GROUP BY 1, 2;
DELETE FROM shedlock;
DROP TABLE alike;

-- Nobody owns a lock that was paused and resumed, or one that was released by force.
SELECT shedlock_pause('p'), shedlock_resume('p'), shedlock_acquire('f', '1 h'), shedlock_force_release('f');
SELECT name, locked_by = holder || '*' || token AS kind FROM shedlock JOIN shedlock_locks USING (name) ORDER BY name;
\set VERBOSITY terse
SELECT shedlock_guard_token(name, token) FROM shedlock_locks WHERE name = 'p';
SELECT shedlock_guard_token(name, token) FROM shedlock_locks WHERE name = 'f';
SET client_min_messages = error;
SELECT name, shedlock_release_token(name, token) AS released, shedlock_extend_token(name, token, '1 h') AS extended
  FROM shedlock_locks ORDER BY name;
RESET client_min_messages;
\set VERBOSITY default
UPDATE shedlock SET locked_at = '2026-01-01', locked_by = 'released by force: me*1767225600000000' WHERE name = 'f';
SELECT shedlock_release_token('f', 1767225600000000);
DELETE FROM shedlock;

-- The functions, the view and the trigger agree on which texts are ours: on texts that match in every part, and on some
-- that differ slightly.
CREATE TABLE fuzz AS
SELECT row_number() OVER () AS no, locked_at, own, text FROM (
    SELECT t.locked_at, own, number, holder || before || separator || number AS text
      FROM (SELECT locked_at, (extract(epoch FROM locked_at) * 1000000)::bigint::text AS own
              FROM unnest(ARRAY['2026-01-01', '2026-01-01 00:00:00.000001', '1969-12-31 23:59:59.999995',
                                '1970-01-01', '4713-01-01 BC', '200000-01-01']::timestamp[]) locked_at) t,
           unnest(ARRAY['', 'h', E'\n', 'h/1.2.0a1b2c3d!' || own, 'é#']) holder,
           unnest(ARRAY['', '/1.2.0a1b2c3d', '/1.2,89abcdef', '/123456789.123456789012345678.01234567',
                        '//1.2.0a1b2c3d', '/run/1.2,0a1b2c3d', '/1.2.0a1b2c3d/3.4.0a1b2c3d', '/1.2', '/1.2.',
                        '/1.2.0a1b2c3', '/1.2.00a1b2c3d', '/1.2.0A1B2C3D', '/1.2.0a1b2c3g', '/1.2;0a1b2c3d',
                        '/1.20a1b2c3d', '/1234567890.2.0a1b2c3d', '/1.1234567890123456789.0a1b2c3d',
                        '/.2.0a1b2c3d', '/1..0a1b2c3d', '/1.0a1b2c3d', '1.2.0a1b2c3d', '/1.2.3.0a1b2c3d',
                        '/1,2.0a1b2c3d', '/-1.2.0a1b2c3d', '/1.-2.0a1b2c3d', '/1.2.0a1b2c3d ', '/ 1.2.0a1b2c3d',
                        E'/1\n.2.0a1b2c3d', '/٣.2.0a1b2c3d', '/1.2.٣a1b2c3d']) before,
           unnest(ARRAY[':', '!', '&', '#', '*', '', '-', '::', '#!', '&:', '&#', '+', '/']) separator,
           unnest(ARRAY[own, '0' || own, '-' || own, own || ' ', own || E'\n', own || '0', ' ' || own, '-0', '',
                        ltrim(own, '-'), overlay(own PLACING '.' FROM 2 FOR 0)]) number) texts
 WHERE number = own AND left(md5(text), 1) < '8' OR left(md5(text), 2) < '03';
-- The same rule in another way, reading from the end.
ALTER TABLE fuzz ADD is_ours boolean, ADD is_session boolean;
UPDATE fuzz
   SET is_session = right(text, length(own) + 1) IN (':' || own, '!' || own, '&' || own)
                    AND left(text, -length(own) - 1) ~ '/\d{1,9}\.\d{1,18}[.,][0-9a-f]{8}$'
                    AND text !~ '٣';
UPDATE fuzz SET is_ours = is_session OR right(text, length(own) + 1) IN ('#' || own, '*' || own);
SELECT count(*), count(*) FILTER (WHERE is_session) AS sessions, count(*) FILTER (WHERE is_ours) AS ours FROM fuzz;
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) SELECT no, '2999-01-01', locked_at, text FROM fuzz;
SELECT count(*) AS differ FROM shedlock_locks v JOIN fuzz f ON v.name = f.no::text WHERE (holder <> text) <> is_ours;
SELECT count(*) AS differ FROM shedlock_locks v JOIN fuzz f ON v.name = f.no::text
 WHERE (holder_pid IS NOT NULL) <> is_session OR (last_done_tick IS NULL) <> is_ours;
-- The trigger.
SET client_min_messages = error;
SELECT shedlock_protect();
CREATE TEMP TABLE changed AS SELECT '' AS name WHERE false;
WITH u AS (UPDATE shedlock SET lock_until = '2020-01-01' RETURNING name) INSERT INTO changed SELECT name FROM u;
SELECT shedlock_protect(false);
RESET client_min_messages;
SELECT count(*) AS differ FROM fuzz f LEFT JOIN changed c ON c.name = f.no::text WHERE (c.name IS NULL) <> is_ours;
-- The functions: a pause stores the tick of a Java run.
UPDATE shedlock SET lock_until = '2020-01-01';
SELECT bool_and(shedlock_pause(no::text)) FROM fuzz;
SELECT count(*) AS differ FROM shedlock s JOIN fuzz f ON s.name = f.no::text
 WHERE (s.last_done_tick IS NULL) <> is_ours;
DROP TABLE fuzz, changed;
DELETE FROM shedlock;
RESET TimeZone;
