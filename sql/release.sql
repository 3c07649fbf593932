-- shedlock_release returns true if the lock was ours and live; the lock is then free, at once or when its
-- at_least has passed (I5).
SELECT shedlock_acquire('r', '1 min');
SELECT shedlock_release('r');
SELECT state FROM shedlock_locks WHERE name = 'r';
SELECT shedlock_acquire('r', '1 min', at_least => '1 min');
SELECT shedlock_release('r');
SELECT state, shedlock_acquire('r', '1 min') AS acquired FROM shedlock_locks WHERE name = 'r';
-- With at_least as long as at_most, held and kept still differ.
SELECT shedlock_release('r') AS twice;
SELECT shedlock_extend('r', '1 h') AS extend_after_release;
-- After a release as failed: another SQLSTATE.
SELECT shedlock_acquire('f', '1 min'), shedlock_release('f', done => false);
SELECT shedlock_release('f') AS twice;
\set VERBOSITY sqlstate
SELECT shedlock_release('f') AS failed, shedlock_release('r') AS done;
\set VERBOSITY default

-- I10: otherwise it returns false with a WARNING that says why, and the row is not touched.
SELECT shedlock_release('nobody');
SELECT shedlock_acquire('x', '1 ms');
SELECT pg_sleep(0.002);
CREATE TABLE before AS SELECT ctid AS place, xmin AS writer, xmax AS locker, * FROM shedlock;
\set VERBOSITY terse
SELECT shedlock_release('x') AS expired;
SELECT count(*) AS touched
  FROM shedlock s JOIN before b USING (name) WHERE s.ctid <> b.place OR s.xmin <> b.writer OR s.xmax <> b.locker;
UPDATE shedlock SET lock_until = timezone('utc', now()) + interval '1 h', locked_by = 'java-host' WHERE name = 'x';
SELECT shedlock_release('x') AS of_java;
SELECT name, locked_by FROM shedlock WHERE name = 'x';
\set VERBOSITY sqlstate
SELECT shedlock_release('x');
\set VERBOSITY default
\c
SELECT shedlock_acquire('mine', '1 min');
\c
-- I4: a session does not own the locks of an earlier one, even if it has got the same process id.
\set VERBOSITY terse
SELECT shedlock_release('mine') AS another_session;
UPDATE shedlock SET locked_by = regexp_replace(locked_by, '/\d+\.', '/' || pg_backend_pid() || '.') WHERE name = 'mine';
SELECT shedlock_release('mine') AS same_pid_another_start;
SELECT state, holder_pid = pg_backend_pid() AS same_pid, holder_alive FROM shedlock_locks WHERE name = 'mine';
-- I12
SELECT shedlock_acquire('t', '1 min');
BEGIN;
SELECT shedlock_release('t');
SELECT shedlock_acquire('t', '1 min') AS again_in_the_same_transaction;
ROLLBACK;
SELECT shedlock_release('t');
DROP TABLE before;
DELETE FROM shedlock;

-- Our calls change synchronous_commit only for their own commit: afterwards the session's setting is as before, even if
-- the commit fails.
SET synchronous_commit = local;
SELECT shedlock_acquire('durable', '1 min');
SHOW synchronous_commit;
SELECT shedlock_release('durable');
SHOW synchronous_commit;
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT shedlock_acquire('durable', '1 min');
COMMIT;
SHOW synchronous_commit;
BEGIN;
SELECT shedlock_extend('durable', '1 min');
NOTIFY nobody;
PREPARE TRANSACTION 'impossible';
SHOW synchronous_commit;
SELECT shedlock_release('durable');
RESET synchronous_commit;
DELETE FROM shedlock;
