-- shedlock_force_release frees a lock, whoever holds it; the old holder's token is no longer valid.
SELECT shedlock_acquire_token('f', '1 h', at_least => '1 h', holder => 'web-1') AS token \gset
SELECT shedlock_force_release('f') AS was_held;
SELECT state, holder = 'released by force: ' || session_user AS says_who, token > :token AS token_grew
  FROM shedlock_locks;
\set VERBOSITY terse
SELECT shedlock_release_token('f', :token) AS old_token;
\set VERBOSITY default
SELECT shedlock_force_release('f') AS was_held_again, shedlock_force_release('nobody') AS no_such_lock;
SELECT shedlock_acquire('f', '1 h');
SELECT shedlock_force_release('f'), shedlock_acquire('f', '1 min') AS free_at_once;
-- I11: after that, even a guarded transaction whose lease had run out fails to commit.
SELECT shedlock_acquire_token('z', '1 ms') AS token \gset
SELECT pg_sleep(0.002);
BEGIN;
SELECT shedlock_guard_token('z', :token);
SELECT shedlock_force_release('z');
\set VERBOSITY terse
COMMIT;
-- It frees a lock that Java holds, and one that somebody has paused or edited by hand.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES
    ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host'),
    ('odd', 'infinity', 'infinity', 'x');
SELECT shedlock_force_release('java') AS java, shedlock_force_release('odd') AS odd;
SELECT shedlock_acquire('java', '1 min') AS java, shedlock_acquire('odd', '1 min') AS odd;
\set QUIET off
-- Java's late unlock no longer finds its lock.
UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = 'java' AND locked_by = 'host';
\set QUIET on
DELETE FROM shedlock;

-- shedlock_pause takes the lock like an acquire, but without an end.
SELECT shedlock_pause('p', 'migration of the ledger');
SELECT state, holder = 'paused: ' || session_user || ': migration of the ledger' AS says_who_and_why, remaining,
       held_for < '1 min' AS since, lock_until
  FROM shedlock_locks;
SELECT shedlock_acquire('p', '1 min') AS acquired, shedlock_pause('p') AS paused;
-- Nobody can release or extend it, not even with its token.
SELECT shedlock_release('p') AS session;
SELECT shedlock_release_token('p', token) AS by_token, shedlock_extend_token('p', token, '1 min') AS extend
  FROM shedlock_locks;
\set QUIET off
-- Java honours it.
UPDATE shedlock
   SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => 60),
       locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = 'host'
  WHERE shedlock.name = 'p' AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP);
\set QUIET on
SELECT shedlock_resume('p');
SELECT state FROM shedlock_locks;
SELECT shedlock_resume('p') AS again, shedlock_resume('nobody') AS nobody;
SELECT shedlock_acquire('p', '1 min') AS free;
-- A lock that somebody holds cannot be paused; resume frees only a paused lock.
SELECT shedlock_pause('p') AS held;
SELECT shedlock_resume('p') AS not_paused;
SELECT shedlock_acquire('short', '100 ms');
SELECT shedlock_pause('short', wait => '1 h') AS after_waiting;
-- Without a reason, and with one that is too long.
SELECT holder = 'paused: ' || session_user AS who FROM shedlock_locks WHERE name = 'short';
SELECT shedlock_pause('long', repeat('x', 300));
SELECT length(locked_by) FROM shedlock WHERE name = 'long';
-- force_release ends a pause, too.
SELECT shedlock_force_release('long');
DELETE FROM shedlock;

-- Arguments.
SELECT shedlock_force_release(NULL);
SELECT shedlock_pause('x', wait => '-1 s');
SELECT shedlock_pause('x', wait => NULL);
BEGIN READ ONLY;
SELECT shedlock_pause('x');
ROLLBACK;
DELETE FROM shedlock;
