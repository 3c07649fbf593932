-- The view shedlock_locks: one row per name, readable times, by the server's clock.
\pset format aligned
\d shedlock_locks
\pset format csv
SELECT shedlock_acquire('held', '1 h', at_least => '1 min');
SELECT shedlock_acquire('kept', '1 h', at_least => '30 min'), shedlock_release('kept');
SELECT shedlock_acquire('free', '1 h'), shedlock_release('free');
SELECT shedlock_acquire_token('token', '1 h', holder => 'web-1') IS NOT NULL AS taken;
-- Locks of Java clients, held and free.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES
    ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()) - interval '10 min', 'build-7.internal'),
    ('java free', timezone('utc', now()) - interval '1 h', timezone('utc', now()) - interval '2 h', 'build-7'),
-- Edited by hand.
    ('paused', 'infinity', timezone('utc', now()), 'Maria: migration'),
    ('odd', '-infinity', 'infinity', '/.#'),
    ('odder', 'infinity', '-infinity', '/999999999.999999999999999999'),
    ('oddest of all', 'infinity', '294276-12-31 23:59:59.999999', '#'),
    ('oddest', '294276-12-31 23:59:59.999999', '4713-01-01 BC', '#99999999999999999999'),
    ('backwards', '4713-01-01 BC', '294276-12-31 23:59:59.999999', '#');
SELECT name, state, regexp_replace(holder, '@.*', '@…') AS holder, holder_pid = pg_backend_pid() AS own_pid,
       holder_alive, remaining > '29 min' AS remaining, held_for < '1 min' AS just_taken,
       last_duration >= '0' AS last_duration
  FROM shedlock_locks ORDER BY name;
-- No token if it would exceed bigint.
SELECT name, token FROM shedlock_locks WHERE name LIKE 'odd%' ORDER BY name;
SELECT held_for >= '10 min' AS held_for FROM shedlock_locks WHERE name = 'java';
SELECT last_duration FROM shedlock_locks WHERE name = 'java free';
-- A pause and a release by force are not runs, so they do not say how long a run takes.
SELECT shedlock_pause('was paused') AND shedlock_resume('was paused') AS was_paused,
       shedlock_acquire('forced', '1 h') AND shedlock_force_release('forced') AS forced;
SELECT name, last_duration, last_outcome FROM shedlock_locks WHERE name IN ('was paused', 'forced') ORDER BY name;
-- No row contradicts itself. (The query reads the clock once.)
SELECT count(*)
  FROM shedlock_locks
 WHERE (state = 'held') <> (held_for IS NOT NULL) AND state NOT IN ('paused', 'kept') AND name NOT LIKE 'odd%';
-- The same rows by their names, which are found by the index.
BEGIN;
SET LOCAL enable_seqscan = off; -- what the portable edition reads, the planner decides
SELECT seq_scan AS scans, idx_scan AS looks FROM pg_stat_xact_user_tables WHERE relname = 'shedlock' \gset
SELECT name, state FROM shedlock_locks(ARRAY['java free', 'held', NULL, 'none', 'held']) ORDER BY name;
SELECT count(*) FROM shedlock_locks('{}');
SELECT seq_scan - :scans AS scans, idx_scan > :looks AS by_the_index
  FROM pg_stat_xact_user_tables WHERE relname = 'shedlock';
SELECT count(*) > 5 AS all, count(*) = (SELECT count(*) FROM shedlock_locks) AS as_in_the_view
  FROM shedlock_locks(NULL);
COMMIT;
-- In a transaction with one snapshot, as in the view, the rows are those of the snapshot.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT name, state FROM shedlock_locks(ARRAY['java free', 'held']) ORDER BY name;
COMMIT;
-- The statement that acquires does not see its row in the view yet.
DELETE FROM shedlock;
SELECT shedlock_acquire_token('t', '1 min') = (SELECT token FROM shedlock_locks) AS before_it_was_there;
-- The token is the number that shedlock_acquire_token returned.
SELECT shedlock_extend_token('t', token, '1 h') FROM shedlock_locks;
-- The name of a Java host may look like a locked_by of ours, but ours ends with the row's own token.
INSERT INTO shedlock VALUES
    ('java 3', '2999-01-01', '2026-01-01', 'worker#3', NULL), ('java 4', '2999-01-01', '2026-01-01', 'worker/4', NULL),
    ('ours', '2999-01-01', '2026-01-01', 'worker#1767225600000000', NULL),
    ('java 5', '2020-01-01', '2020-01-01', 'worker#5', '2020-01-01');
SELECT name, state, holder, held_for IS NOT NULL AS held_for
  FROM shedlock_locks WHERE holder LIKE 'worker%' ORDER BY name;
SELECT shedlock_acquire('java 5', '1 min');
SELECT expired FROM shedlock_stats WHERE name = 'java 5';
-- The view works in a read-only transaction.
BEGIN READ ONLY;
SELECT count(*) FROM shedlock_locks;
COMMIT;
DELETE FROM shedlock;
