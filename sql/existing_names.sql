-- Names that an adopted table already has, although no acquire would have inserted them.
\set VERBOSITY terse
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE TABLE shedlock (
    name text PRIMARY KEY,
    lock_until timestamp NOT NULL,
    locked_at timestamp NOT NULL,
    locked_by text NOT NULL
);
CREATE EXTENSION shedlock;
INSERT INTO shedlock
    SELECT n, timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host'
      FROM unnest(ARRAY['', repeat('x', 300), repeat('y', 20000)]) n;
SELECT length(name), shedlock_force_release(name) AS was_held, shedlock_pause(name) AS paused,
       shedlock_resume(name) AS resumed
  FROM shedlock ORDER BY 1;
-- The functions that are not for administrators refuse such names, except a name that is too long but has a row.
SELECT shedlock_acquire('', '1 min');
SELECT shedlock_release('');
SELECT shedlock_acquire(repeat('x', 301), '1 min');
SELECT length(n), shedlock_acquire(n, '1 min') AS acquired, shedlock_acquire(n, '1 min') AS again,
       shedlock_extend(n, '2 min') AS extended, shedlock_guard(n), shedlock_release(n) AS released
  FROM unnest(ARRAY[repeat('x', 300), repeat('y', 20000)]) n;
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE EXTENSION shedlock;
