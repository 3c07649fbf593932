-- I4, I8: in a mixed fleet Java clients and we exclude each other. J is a Java client with usingDbTime() and its exact
-- statements; U is us.
\set VERBOSITY terse
-- $1 name, $2 seconds, $3 host. UPDATE 1 means acquired, UPDATE 0 refused; INSERT likewise.
PREPARE java_first(text, int, text) AS
    INSERT INTO shedlock(name, lock_until, locked_at, locked_by)
    VALUES($1, timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2), timezone('utc', CURRENT_TIMESTAMP), $3)
    ON CONFLICT (name) DO UPDATE SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2),
      locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = $3
      WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP);
PREPARE java_again(text, int, text) AS
    UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2),
      locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = $3
      WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP);
PREPARE java_unlock(text, int, text) AS
    UPDATE shedlock SET lock_until = CASE
      WHEN locked_at + make_interval(secs => $2) > timezone('utc', CURRENT_TIMESTAMP)
      THEN locked_at + make_interval(secs => $2) ELSE timezone('utc', CURRENT_TIMESTAMP) END
      WHERE name = $1 AND locked_by = $3;
PREPARE java_extend(text, int, text) AS
    UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2)
      WHERE name = $1 AND locked_by = $3 AND lock_until > timezone('utc', CURRENT_TIMESTAMP);
\set QUIET off

-- J holds, U refused.
EXECUTE java_first('j', 3600, 'host');
SELECT shedlock_acquire('j', '1 min'), shedlock_acquire_token('j', '1 min');
-- U can neither extend nor release it, not even with the token that J's locked_at would make.
SELECT shedlock_extend('j', '1 min'), shedlock_release('j');
SELECT shedlock_release_token('j', token), shedlock_extend_token('j', token, '1 min')
  FROM shedlock_locks WHERE name = 'j';

-- U holds, J gets 0 rows, in its first attempt and in later ones.
SELECT shedlock_acquire('u', '1 h');
EXECUTE java_first('u', 3600, 'host');
EXECUTE java_again('u', 3600, 'host');

-- J's lease has ended, U acquires.
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'j';
SELECT shedlock_acquire('j', '1 h');
-- J's late unlock and extend after U took over leave the row alone.
EXECUTE java_unlock('j', 0, 'host');
EXECUTE java_extend('j', 3600, 'host');
SELECT state FROM shedlock_locks WHERE name = 'j';

-- U's lease has ended, J acquires.
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'u';
EXECUTE java_again('u', 3600, 'host');
-- U's late release and extend after J took over: false, row untouched.
SELECT shedlock_release('u'), shedlock_extend('u', '2 h');
SELECT state, holder FROM shedlock_locks WHERE name = 'u';
EXECUTE java_unlock('u', 0, 'host');

-- U released, J acquires at once.
SELECT shedlock_release('j');
EXECUTE java_again('j', 3600, 'host');
-- J released with at_least, U refused until then.
EXECUTE java_unlock('j', 1800, 'host');
SELECT shedlock_acquire('j', '1 min');
SELECT state, remaining > '29 min' AS half_an_hour FROM shedlock_locks WHERE name = 'j';
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'j';
SELECT shedlock_acquire('j', '1 min');

-- U released with at_least, J refused until then. Afterwards J acquires.
SELECT shedlock_acquire('l', '1 h', at_least => '30 min'), shedlock_release('l');
EXECUTE java_again('l', 3600, 'host');
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'l';
EXECUTE java_again('l', 3600, 'host');
SELECT state, holder FROM shedlock_locks WHERE name = 'l';

-- A holder with the name of a Java host is not that host, because our locked_by is never the bare host name.
SELECT shedlock_acquire_token('h', '1 h', holder => 'host') IS NOT NULL AS acquired;
EXECUTE java_unlock('h', 0, 'host');
EXECUTE java_extend('h', 7200, 'host');
-- Several names at once, one of which J holds.
SELECT shedlock_acquire(ARRAY['h2', 'l'], '1 h');
-- Tokens exceed those of J's acquisitions (I6), and ticks take them into account.
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'l';
SELECT shedlock_acquire('l', '1 min', tick => now() - interval '1 h') AS after_javas_run;
SELECT token AS javas FROM shedlock_locks WHERE name = 'l' \gset
SELECT shedlock_acquire_token('l', '1 min') > :javas AS grows;
-- Infinity is honoured by both.
UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'l';
EXECUTE java_again('l', 3600, 'host');
SELECT shedlock_acquire('l', '1 min');
-- For both, a name is its bytes: blanks at its ends make another lock.
EXECUTE java_first('nightly ', 3600, 'host');
SELECT shedlock_acquire('nightly ', '1 min') AS javas, shedlock_acquire('nightly', '1 min') AS another,
       shedlock_acquire(E'\nnightly', '1 min') AS a_third;
EXECUTE java_first('nightly', 3600, 'host');
EXECUTE java_first(E'\nnightly', 3600, 'host');
EXECUTE java_unlock('nightly ', 0, 'host');
SELECT shedlock_acquire('nightly ', '1 h'), shedlock_release('nightly');
EXECUTE java_again('nightly ', 3600, 'host');
EXECUTE java_again('nightly', 3600, 'host');

-- J is configured with another table name, which is a view on shedlock, and J's role may use nothing else.
DELETE FROM shedlock;
CREATE ROLE regress_java;
GRANT ALL ON SCHEMA public TO regress_java;
CREATE VIEW java_locks AS SELECT name, lock_until, locked_at, locked_by FROM shedlock;
GRANT SELECT, INSERT, UPDATE ON java_locks TO regress_java;
SELECT shedlock_acquire('u', '1 h');
SET ROLE regress_java;
PREPARE view_first(text, int, text) AS
    INSERT INTO java_locks(name, lock_until, locked_at, locked_by)
    VALUES($1, timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2), timezone('utc', CURRENT_TIMESTAMP), $3)
    ON CONFLICT (name) DO UPDATE SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $2),
      locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = $3
      WHERE java_locks.name = $1 AND java_locks.lock_until <= timezone('utc', CURRENT_TIMESTAMP);
PREPARE view_unlock(text, int, text) AS
    UPDATE java_locks SET lock_until = CASE
      WHEN locked_at + make_interval(secs => $2) > timezone('utc', CURRENT_TIMESTAMP)
      THEN locked_at + make_interval(secs => $2) ELSE timezone('utc', CURRENT_TIMESTAMP) END
      WHERE name = $1 AND locked_by = $3;
EXECUTE view_first('u', 3600, 'host');
EXECUTE view_first('j', 3600, 'host');
EXECUTE view_first('j', 3600, 'host');
RESET ROLE;
SELECT shedlock_acquire('j', '1 h') AS acquired;
SET ROLE regress_java;
EXECUTE view_unlock('j', 0, 'host');
RESET ROLE;
SELECT shedlock_acquire('j', '1 h') AS acquired;
DROP VIEW java_locks;
REVOKE ALL ON SCHEMA public FROM regress_java;
DROP ROLE regress_java;
\set QUIET on
DEALLOCATE ALL;
DELETE FROM shedlock;
