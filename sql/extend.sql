-- shedlock_extend returns true if the lock is ours and live; the lease then lasts at_most from now.
SELECT shedlock_acquire('e', '1 h', at_least => '30 min');
SELECT shedlock_extend('e', '2 h');
SELECT state, locked_at < lock_until - interval '2 h' AS same_acquisition, remaining > '90 min' AS extended
  FROM shedlock_locks WHERE name = 'e';
-- at_least NULL leaves it unchanged, otherwise it is counted from now; a short at_most cannot undercut it.
SELECT lock_at_least_until - locked_at AS at_least FROM shedlock WHERE name = 'e';
SELECT shedlock_extend('e', '1 s');
SELECT lock_until = lock_at_least_until AS kept_for_at_least FROM shedlock WHERE name = 'e';
SELECT shedlock_extend('e', '2 h', '1 h');
SELECT lock_until - lock_at_least_until AS from_now FROM shedlock WHERE name = 'e';
-- I5 holds after extends, too.
SELECT shedlock_release('e');
SELECT state, remaining > '30 min' AS for_at_least FROM shedlock_locks WHERE name = 'e';
SELECT shedlock_acquire('e', '1 min') AS within_at_least;

-- Not ours or not live: it returns false with a WARNING that says why, and the row is unchanged.
SELECT * FROM shedlock WHERE name = 'e' \gset before_
SELECT shedlock_extend('e', '1 h') AS after_release;
SELECT shedlock_extend('nobody', '1 h') AS no_such_lock;
UPDATE shedlock SET locked_by = 'host' WHERE name = 'e';
\set VERBOSITY terse
SELECT shedlock_extend('e', '1 h') AS of_java;
\set VERBOSITY default
SELECT lock_until = :'before_lock_until' AND locked_at = :'before_locked_at' AS untouched
  FROM shedlock WHERE name = 'e';
SELECT shedlock_acquire('x', '1 ms');
SELECT pg_sleep(0.002);
\set VERBOSITY terse
SELECT shedlock_extend('x', '1 h') AS after_the_end;
-- In a transaction, and rolled back (I12).
SELECT shedlock_acquire('x', '1 min');
BEGIN;
SELECT shedlock_extend('x', '1 h');
ROLLBACK;
SELECT remaining <= '1 min' AS as_before FROM shedlock_locks WHERE name = 'x';
DELETE FROM shedlock;
