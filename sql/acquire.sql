-- shedlock_acquire returns true if the caller now holds the lock, false if it was refused. It is not reentrant.
SELECT shedlock_acquire('a', '1 min');
SELECT shedlock_acquire('a', '1 min') AS same_session;
SELECT shedlock_acquire('b', at_most => '1 min', at_least => '10 s') AS other_name;

-- I9: times are UTC by the server's clock, whatever the session's time zone.
SELECT name, lock_until - locked_at AS at_most, lock_at_least_until - locked_at AS at_least,
       abs(extract(epoch FROM locked_at - timezone('UTC', clock_timestamp()))) < 600 AS is_utc_now
  FROM shedlock ORDER BY name;
-- The table that was created leaves room for new versions of its rows, and VACUUM does not lock it to shorten it.
SELECT reloptions FROM pg_class WHERE oid = 'shedlock'::regclass;
-- locked_by is the holder, then the session by its pid, start and server, then locked_at in microseconds.
SELECT locked_by ~ ('^pg_regress/acquire@[^/]+/' || pg_backend_pid() || '\.\d+[.,][0-9a-f]{8}:'
                    || (extract(epoch FROM locked_at) * 1000000)::bigint || '$') AS is_session
  FROM shedlock WHERE name = 'a';

-- I4: several calls in one statement; the lock is released and acquired again in one transaction.
SELECT shedlock_release('a'), shedlock_acquire('a', '1 min'), shedlock_acquire('a', '1 min'), shedlock_release('a');

-- After at_most the lease ends, even if nobody releases it.
SELECT shedlock_acquire('short', '1 ms');
SELECT pg_sleep(0.002);
SELECT shedlock_acquire('short', '1 min') AS after_the_end;

-- at_most without a default, and with one.
\set VERBOSITY terse
SELECT shedlock_acquire('default');
SET shedlock.default_at_most = '90s';
SELECT shedlock_acquire('default');
SELECT lock_until - locked_at AS at_most FROM shedlock WHERE name = 'default';
-- Without a unit it is milliseconds.
SET shedlock.default_at_most = 90000;
SELECT shedlock_extend('default', NULL), shedlock_acquire('another default');
SELECT lock_until - locked_at AS at_most FROM shedlock WHERE name = 'another default';
RESET shedlock.default_at_most;

-- Names are bytes: case, Unicode composition and inner blanks matter; quotes and percent signs have no meaning.
SELECT n AS name, shedlock_acquire(n, '1 min')
  FROM unnest(ARRAY['Job', 'job', E'caf\u00e9', E'cafe\u0301', 'two words', 'two  words', '''; DROP TABLE shedlock; --',
                    '%s%n', 'back\slash', E'new\nline', E'tab\there', E'\U0001F512', '"quoted"', '{a,b} ']) n;
SELECT count(*) FROM shedlock WHERE name IN (E'caf\u00e9', E'cafe\u0301');
SELECT shedlock_acquire(repeat('x', 255), '1 min') AS ascii_255,
       shedlock_acquire(repeat(E'\u00e9', 255), '1 min') AS multibyte_255;
SELECT length(name), octet_length(name) FROM shedlock WHERE length(name) = 255 ORDER BY 2;

-- I12: an acquire that is rolled back, in a transaction or to a savepoint, never happened.
BEGIN;
SELECT shedlock_acquire('rolled back', '1 min');
ROLLBACK;
SELECT count(*) FROM shedlock WHERE name = 'rolled back';
BEGIN;
SAVEPOINT s;
SELECT shedlock_acquire('rolled back', '1 min');
ROLLBACK TO s;
SELECT shedlock_acquire('rolled back', '1 min') AS free_again;
COMMIT;
SELECT state FROM shedlock_locks WHERE name = 'rolled back';

-- A lock acquired in an exception block vanishes if the block fails.
DO $$
BEGIN
    BEGIN
        PERFORM shedlock_acquire('trapped', '1 min');
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
        RAISE NOTICE 'free again: %', shedlock_acquire('trapped', '1 min');
    END;
END $$;

-- A row that our own transaction has locked can be acquired.
SELECT shedlock_release('trapped');
BEGIN;
SELECT name FROM shedlock WHERE name = 'trapped' FOR UPDATE;
SELECT shedlock_acquire('trapped', '1 min');
COMMIT;
SELECT state FROM shedlock_locks WHERE name = 'trapped';

-- A deleted row is created again.
DELETE FROM shedlock;
SELECT shedlock_acquire('a', '1 min');

-- Edited by hand: an infinite lease is held, and after an infinite locked_at there is no next token.
UPDATE shedlock SET lock_until = 'infinity';
SELECT shedlock_acquire('a', '1 min') AS paused;
UPDATE shedlock SET lock_until = '-infinity', locked_at = 'infinity';
\set VERBOSITY default
SELECT shedlock_acquire('a', '1 min');
UPDATE shedlock SET locked_at = '-infinity';
SELECT shedlock_acquire('a', '1 min') AS repaired;
SET quote_all_identifiers = on;
SELECT shedlock_acquire('quoted', '1 min') AS whatever_the_settings;
RESET quote_all_identifiers;
DELETE FROM shedlock;
