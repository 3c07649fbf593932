-- shedlock_acquire_token, shedlock_extend_token, shedlock_release_token: whoever has the token owns the lock.
SELECT shedlock_acquire_token('a', '1 min') AS token \gset
SELECT :token = (extract(epoch FROM locked_at) * 1000000)::bigint AS is_locked_at,
       locked_by LIKE '%#' || :token AS in_locked_by
  FROM shedlock;
SELECT shedlock_acquire_token('a', '1 min') IS NULL AS refused;

-- I4: a wrong token does nothing, and the functions for sessions never touch a lock held by token, even in the session
-- that acquired it.
SELECT shedlock_release_token('a', :token + 1);
\set VERBOSITY terse
SELECT shedlock_extend_token('a', :token - 1, '1 h');
SELECT shedlock_release('a');
SELECT shedlock_extend('a', '1 h');
SELECT lock_until - locked_at AS at_most FROM shedlock;
\set VERBOSITY default

-- Another session with the token may do everything.
\c
SELECT shedlock_extend_token('a', :token, '1 h', at_least => '1 ms');
SELECT lock_until > timezone('UTC', now()) + interval '59 min' AS extended,
       (extract(epoch FROM locked_at) * 1000000)::bigint = :token AS same_token FROM shedlock;
SELECT pg_sleep(0.002);
SELECT shedlock_release_token('a', :token);
SELECT shedlock_release_token('a', :token) AS twice;
\set VERBOSITY sqlstate
SELECT shedlock_release_token('a', :token) AS and_its_sqlstate;
\set VERBOSITY default
SELECT shedlock_extend_token('a', :token, '1 h') AS after_release;

-- I4: the token of a session's lock cannot be used to release it.
SELECT shedlock_acquire('s', '1 min');
SELECT token AS session_token FROM shedlock_locks WHERE name = 's' \gset
\set VERBOSITY terse
SELECT shedlock_release_token('s', :session_token);
SELECT state FROM shedlock_locks WHERE name = 's';

-- I6: tokens strictly grow, from acquisition to acquisition ...
SELECT shedlock_acquire_token('a', '1 ms') AS second \gset
SELECT :second > :token AS grows;
-- ... after the row has been deleted ...
DELETE FROM shedlock WHERE name = 'a';
SELECT shedlock_acquire_token('a', '1 min') AS third \gset
SELECT :third > :second AS grows;
SELECT shedlock_release_token('a', :third);
-- ... after a Java client has had the lock ...
UPDATE shedlock
   SET lock_until = timezone('utc', CURRENT_TIMESTAMP), locked_at = timezone('utc', CURRENT_TIMESTAMP),
       locked_by = 'host'
 WHERE name = 'a';
SELECT token AS java FROM shedlock_locks WHERE name = 'a' \gset
SELECT pg_sleep(0.001);
SELECT shedlock_acquire_token('a', '1 min') AS fourth \gset
SELECT :fourth > :java AS grows;
SELECT shedlock_release_token('a', :fourth);
-- ... and repeatedly after the clock has stepped back by an hour.
UPDATE shedlock SET locked_at = locked_at + interval '1 hour' WHERE name = 'a';
SELECT token AS future FROM shedlock_locks WHERE name = 'a' \gset
SELECT shedlock_acquire_token('a', '1 ms') AS fifth \gset
SELECT pg_sleep(0.002);
SELECT shedlock_acquire_token('a', '1 ms') AS sixth \gset
SELECT :fifth - :future AS one_more, :sixth - :fifth AS and_one_more;
-- The lease itself is counted from the clock, not from locked_at.
SELECT pg_sleep(0.002);
SELECT state FROM shedlock_locks WHERE name = 'a';

-- holder: text for people to read, cut between characters so that it fits. It cannot imitate ownership.
SELECT shedlock_acquire_token('h', '1 min', holder => 'nightly on web-1') AS t \gset
SELECT locked_by = 'nightly on web-1#' || :t AS as_given FROM shedlock WHERE name = 'h';
SELECT shedlock_acquire_token('long', '1 min', holder => repeat(E'\U0001F512', 300)) AS t \gset
SELECT length(locked_by), locked_by = repeat(E'\U0001F512', 255 - 17) || '#' || :t AS cut
  FROM shedlock WHERE name = 'long';
SELECT holder = repeat(E'\U0001F512', 255 - 17) AS holder FROM shedlock_locks WHERE name = 'long';
SELECT shedlock_acquire_token('fake', '1 min',
           holder => 'x' || (SELECT substring(locked_by, '/[^/]*$') FROM shedlock WHERE name = 's')) IS NOT NULL
           AS taken;
SELECT shedlock_release('fake');
SET application_name = '';
SELECT shedlock_acquire('anonymous', '1 min');
SELECT holder LIKE current_user || '@%' AS role_instead FROM shedlock_locks WHERE name = 'anonymous';
DELETE FROM shedlock;
