-- shedlock_stats: counters per name. The server of these tests has shedlock in shared_preload_libraries.
-- (test/tap/operations.pl tests a server without it.)
SELECT shedlock_stats_reset();
SELECT * FROM shedlock_stats;
CREATE VIEW counts AS
SELECT name, attempts, acquired, refused, released, extended, expired, lost FROM shedlock_stats ORDER BY name;
SELECT shedlock_acquire('a', '1 h'), shedlock_acquire('a', '1 h'), shedlock_extend('a', '2 h');
SELECT pg_sleep(0.02);
SELECT shedlock_release('a'), shedlock_acquire('a', '1 h'), shedlock_release('a');
SELECT * FROM counts;
SELECT longest_hold >= '20 ms' AS longest, total_hold >= longest_hold AS total, total_hold < '1 h' AS plausible,
       wait_time
  FROM shedlock_stats;
-- expired: an acquire found that the lease had run out. A lock that was released in time does not count, and neither
-- does one of a Java client, whose row does not say whether it was released.
SELECT shedlock_acquire('e', '1 ms');
SELECT pg_sleep(0.002);
SELECT shedlock_acquire('e', '1 min'), shedlock_release('e'), shedlock_acquire('e', '1 min');
UPDATE shedlock SET lock_until = timezone('utc', now()), locked_by = 'host' WHERE name = 'e';
SELECT shedlock_acquire('e', '1 min');
SELECT * FROM counts WHERE name = 'e';
-- lost: release, extend or guard came too late.
\set VERBOSITY terse
SELECT shedlock_acquire_token('l', '1 ms') AS token \gset
SELECT pg_sleep(0.002);
SELECT shedlock_extend_token('l', :token, '1 min');
SELECT shedlock_acquire('l', '1 min');
SELECT shedlock_release_token('l', :token);
SELECT shedlock_guard_token('l', :token);
SELECT shedlock_release('l');
-- Released twice, never acquired, or a token that was never issued: nothing was lost.
SELECT shedlock_release('l');
SELECT shedlock_release('never');
SELECT shedlock_release_token('l', 9000000000000000000);
SELECT shedlock_guard_token('l', 9000000000000000000);
SELECT shedlock_guard_token('never', 1);
SELECT * FROM counts WHERE name IN ('l', 'never');
-- A completion counts as a release or, if the lock has been acquired again before the call or the commit, as lost. A
-- lock that was released as done is not lost.
SELECT shedlock_acquire_token('c', '1 h') AS token \gset
SELECT shedlock_complete_token('c', :token);
SELECT shedlock_complete_token('c', :token);
SELECT shedlock_complete('never');
SELECT shedlock_extend_token('c', :token, '1 h'), shedlock_release_token('c', :token);
SELECT shedlock_acquire('c', '1 ms') AS again, shedlock_extend_token('c', :token, '1 h'),
       shedlock_release_token('c', :token), pg_sleep(0.002);
SELECT * FROM counts WHERE name IN ('c', 'never');
BEGIN;
SELECT shedlock_complete('c'), shedlock_acquire_token('c', '1 ms') IS NOT NULL AS taken;
COMMIT;
SELECT shedlock_acquire_token('c', '1 h') IS NOT NULL AS taken;
SELECT shedlock_complete('c');
SELECT * FROM counts WHERE name IN ('c', 'never');
-- A lease that ended with its session has expired, and the token's owner has lost it.
SELECT shedlock_acquire_token('gone', '1 h', ends_with_session => true) AS token \gset
UPDATE shedlock SET locked_by = regexp_replace(locked_by, '/[0-9]+[.]', '/999999999.') WHERE name = 'gone';
SELECT shedlock_extend_token('gone', :token, '1 h');
SELECT shedlock_acquire('gone', '1 h');
SELECT * FROM counts WHERE name = 'gone';
-- With several names each is counted, and so is the time of waiting.
SELECT shedlock_acquire(ARRAY['w1', 'w2'], '1 h');
SELECT shedlock_acquire(ARRAY['w1', 'w2'], '1 min', wait => '50 ms');
UPDATE shedlock SET lock_until = timezone('utc', clock_timestamp()) WHERE name LIKE 'w_';
SELECT shedlock_acquire(ARRAY['w1', 'w2'], '1 min');
SELECT shedlock_release(ARRAY['w1', 'w2']);
SELECT * FROM counts WHERE name LIKE 'w_';
SELECT bool_and(wait_time >= '50 ms' AND wait_time < '1 h') FROM shedlock_stats WHERE name LIKE 'w_';
-- Counters are not part of the transaction.
BEGIN;
SELECT shedlock_acquire('rolled back', '1 min');
ROLLBACK;
SELECT * FROM counts WHERE name = 'rolled back';
-- A run counts as an acquire and a release.
CALL shedlock_run('run', 'SELECT 1', '1 min');
SELECT * FROM counts WHERE name = 'run';
-- The longest name that is counted: 255 characters of four bytes.
SELECT shedlock_acquire(repeat(E'\U0001F512', 255), '1 min');
SELECT length(name), attempts FROM counts WHERE length(name) = 255;
-- A role with shedlock_grant can read the view, and only an administrator can reset the counters.
CREATE ROLE regress_shedlock_stats;
SELECT shedlock_grant('regress_shedlock_stats');
SET ROLE regress_shedlock_stats;
SELECT count(*) > 0 AS readable FROM shedlock_stats;
SELECT shedlock_stats_reset();
RESET ROLE;
DROP OWNED BY regress_shedlock_stats;
DROP ROLE regress_shedlock_stats;
SELECT shedlock_stats_reset();
SELECT count(*) FROM shedlock_stats;
DROP VIEW counts;
DELETE FROM shedlock;
