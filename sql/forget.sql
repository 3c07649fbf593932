-- shedlock_forget deletes the row of a job that no longer exists, but only if nothing in it is still needed.
CREATE FUNCTION seen(lock text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(state, '') FROM shedlock_locks WHERE name = lock
$$;

-- A free lock.
SELECT shedlock_acquire('import-1', '1 h') AND shedlock_release('import-1') AS ran;
SELECT shedlock_forget('import-1') AS forgotten, seen('import-1');
SELECT shedlock_forget('import-1') AS again;
SELECT shedlock_forget('never was') AS never_was, seen('never was');

\set VERBOSITY sqlstate
SELECT shedlock_forget(NULL);
SELECT shedlock_forget('');
SELECT shedlock_forget(repeat('x', 256));
\set VERBOSITY default

-- A lock that is held, kept for its at_least, or paused is not forgotten.
SELECT shedlock_acquire('held', '1 h'), shedlock_forget('held') AS forgotten, seen('held');
SELECT shedlock_acquire('kept', '1 h', at_least => '1 h') AND shedlock_release('kept') AS ran,
       shedlock_forget('kept') AS forgotten, seen('kept');
SELECT shedlock_pause('paused'), shedlock_forget('paused') AS forgotten, seen('paused');
SELECT shedlock_resume('paused'), shedlock_forget('paused') AS forgotten, seen('paused');
SELECT shedlock_force_release('held'), pg_sleep(0.001), shedlock_forget('held') AS forgotten, seen('held');

-- A lock whose lease has run out can be forgotten: the run that has outlived it has lost the lock, whatever it does.
SELECT shedlock_acquire_token('overrun', '1 h') AS token \gset
UPDATE shedlock SET lock_until = locked_at, lock_at_least_until = locked_at WHERE name = 'overrun';
SELECT shedlock_forget('overrun') AS forgotten;
\set VERBOSITY sqlstate
SELECT shedlock_extend_token('overrun', :token, '1 h') AS extended,
       shedlock_release_token('overrun', :token) AS released \gset after_
SELECT :'after_extended' AS extended, :'after_released' AS released;
SELECT shedlock_guard_token('overrun', :token);
SELECT shedlock_complete_token('overrun', :token);
\set VERBOSITY default

-- A lock whose lease has run out can be forgotten even by the transaction that guards it.
SELECT shedlock_acquire_token('overrun', '1 h') AS token \gset
UPDATE shedlock SET lock_until = locked_at, lock_at_least_until = locked_at WHERE name = 'overrun';
BEGIN;
SELECT shedlock_guard_token('overrun', :token);
SELECT shedlock_forget('overrun') AS forgotten;
SELECT shedlock_guard_token('overrun', :token);
ROLLBACK;
SELECT seen('overrun') AS rolled_back;

-- I6: later tokens are still greater.
SELECT shedlock_acquire_token('overrun', '1 h') AS before \gset
SELECT shedlock_release_token('overrun', :before), pg_sleep(0.001), shedlock_forget('overrun') AS forgotten;
SELECT shedlock_acquire_token('overrun', '1 h') > :before AS grows;
UPDATE shedlock SET locked_at = locked_at + interval '1 h', lock_until = locked_at WHERE name = 'overrun';
SELECT shedlock_forget('overrun') AS of_the_future;
SELECT shedlock_acquire('early', '1 h') AND shedlock_release('early') AS ran;
UPDATE shedlock SET last_tick = locked_at + interval '1 h' WHERE name = 'early';
SELECT shedlock_forget('early') AS ticked_in_the_future;
UPDATE shedlock SET last_tick = NULL, last_done_tick = locked_at + interval '1 h' WHERE name = 'early';
SELECT shedlock_forget('early') AS done_in_the_future;
UPDATE shedlock SET locked_at = 'infinity' WHERE name = 'early';
SELECT shedlock_forget('early') AS edited;

-- All ticks of a forgotten lock are due again.
SELECT shedlock_acquire('ticked', '1 h', tick => '2026-11-01 00:00Z') AND shedlock_release('ticked') AS ran,
       shedlock_acquire('ticked', '1 h', tick => '2026-11-01 00:00Z') AS again;
SELECT pg_sleep(0.001), shedlock_forget('ticked'),
       shedlock_acquire('ticked', '1 h', tick => '2026-11-01 00:00Z') AS again;

-- A free row that a Java client wrote last is forgotten, but with a notice, because the client's JVM believes that the
-- row still exists.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
SELECT n, timezone('utc', now()) + u, timezone('utc', now()) - interval '1 h', 'app-7f9c'
  FROM (VALUES ('java', interval '-1 s'), ('java runs', interval '1 h')) v (n, u);
SELECT shedlock_forget('java') AS forgotten, shedlock_forget('java runs') AS runs;

-- In a transaction.
SELECT shedlock_acquire('x', '1 h') AND shedlock_release('x') AS ran;
BEGIN;
SELECT pg_sleep(0.001), shedlock_forget('x'), seen('x');
SAVEPOINT s;
SELECT shedlock_acquire('x', '1 h') AS anew, seen('x');
ROLLBACK TO s;
ROLLBACK;
SELECT seen('x') AS rolled_back;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT shedlock_forget('x'), seen('x');
COMMIT;
BEGIN READ ONLY;
SELECT shedlock_forget('x');
ROLLBACK;

-- shedlock_protect does not prevent it, not even for a lease that ended with its session.
SELECT shedlock_protect();
SELECT shedlock_acquire('protected', '1 h') AND shedlock_release('protected') AS ran, pg_sleep(0.001),
       shedlock_forget('protected') AS forgotten;
\c
SELECT shedlock_acquire('died', '1 h', ends_with_session => true);
\c
DO $$
BEGIN
    FOR i IN 1 .. 3000 LOOP
        EXIT WHEN (SELECT state = 'free' FROM shedlock_locks WHERE name = 'died');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT shedlock_forget('died') AS forgotten, seen('died');
SELECT shedlock_protect(false);

-- A purge by age, of each row that is free.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
SELECT 'import-' || i, timezone('utc', now()) - i * interval '1 day',
       timezone('utc', now()) - i * interval '1 day', 'host'
  FROM unnest(ARRAY[28, 29, 31, 32]) i; -- 30 would depend on whether the clocks have changed
\set VERBOSITY terse
SELECT name, shedlock_forget(name)
  FROM shedlock_locks
 WHERE name LIKE 'import-%' AND state = 'free' AND locked_at < now() - interval '30 days'
 ORDER BY name;
SELECT name FROM shedlock_locks WHERE name LIKE 'import-%';
\set VERBOSITY default

DELETE FROM shedlock;
DROP FUNCTION seen;
-- Other tables may refer to the lock table. Then nothing is forgotten, because the foreign keys would not be checked.
SELECT shedlock_acquire('referenced', '1 min'), shedlock_release('referenced');
CREATE TABLE runs (job varchar(255) REFERENCES shedlock);
SELECT shedlock_forget('referenced');
\echo :SQLSTATE
SELECT shedlock_acquire('referenced', '1 min'), shedlock_extend('referenced', '1 h'), shedlock_release('referenced');
DROP TABLE runs;
SELECT shedlock_forget('referenced');
