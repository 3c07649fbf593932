-- ends_with_session: the lease ends when the session that acquired it is gone, for a session's lock and for a token's;
-- at_least is honoured.
CREATE FUNCTION wait_until_gone(process int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_get_activity(process)) LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END $$;
CREATE VIEW locks AS
SELECT name, state, last_outcome, ends_with_session, holder_pid IS NOT NULL AS has_pid, holder_alive,
       remaining > '50 min' AS remaining, held_for IS NOT NULL AS held_for
  FROM shedlock_locks ORDER BY name;
SELECT pg_backend_pid() AS process \gset
SELECT shedlock_acquire('s', '1 h', ends_with_session => true), shedlock_acquire('s plain', '1 h'),
       shedlock_acquire('s kept', '1 h', at_least => '1 h', ends_with_session => true),
       shedlock_acquire(ARRAY['s1', 's2'], '1 h', '0', '0', NULL, false, NULL, true) AS several,
       shedlock_acquire('s tick', '1 h', tick => '2026-01-01Z', ends_with_session => true) AS ticked;
SELECT shedlock_acquire_token('t', '1 h', ends_with_session => true) AS token,
       shedlock_acquire_token('t plain', '1 h') AS plain,
       shedlock_acquire_token('t kept', '1 h', at_least => '30 min', ends_with_session => true) AS kept,
       shedlock_acquire_token(ARRAY['t1', 't2'], '1 h', '0', '0', NULL, false, NULL, 'a holder', true) AS several,
       shedlock_acquire_token('t done', '1 h', ends_with_session => true) AS done,
       shedlock_acquire_token('t failed', '1 h', at_least => '1 h', ends_with_session => true) AS failed \gset
-- The mark of this session, in locked_by.
SELECT format('/%s.%s.%s', pid, (extract(epoch FROM backend_start) * 1000000)::bigint,
              lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0')) AS session
  FROM pg_stat_activity WHERE pid = pg_backend_pid() \gset
SELECT name, holder = 'a holder' AS given,
       replace(right(locked_by, -length(holder)), token::text, 'TOKEN') =
       CASE WHEN name ~ '^s' THEN :'session' || CASE WHEN name ~ 'plain' THEN ':' ELSE '!' END
       ELSE CASE WHEN name ~ 'plain' THEN '#' ELSE :'session' || '&' END END || 'TOKEN' AS marked
  FROM shedlock JOIN shedlock_locks USING (name) ORDER BY name;
SELECT shedlock_release_token('t done', :done), shedlock_release_token('t failed', :failed, done => false);
-- While the session is alive it holds these locks like any others; DISCARD ALL, which poolers send, ends nothing.
DISCARD ALL;
SELECT * FROM locks;
SELECT shedlock_acquire(name, '1 h') FROM shedlock_locks WHERE name <> 't done' ORDER BY name;
\set VERBOSITY sqlstate
SELECT shedlock_extend('s', '1 h'), shedlock_extend_token('t', :token, '1 h');
\set VERBOSITY default
\c
SELECT wait_until_gone(:process);
SELECT * FROM locks;
-- The tokens' owner has lost these locks, even where at_least still keeps others away, but may complete and guard those
-- that nobody has taken.
SELECT shedlock_extend_token('t', :token, '2 h'), shedlock_release_token('t kept', :kept, done => false);
\set VERBOSITY sqlstate
SELECT shedlock_extend_token('t kept', :kept, '2 h'), shedlock_release_token('t', :token),
       shedlock_extend_token(ARRAY['t1', 't2'], :several, '2 h'), shedlock_release_token('t done', :done),
       shedlock_release_token('t failed', :failed);
SELECT shedlock_extend_token('t plain', :plain, '1 h') AS plain;
\set VERBOSITY default
SELECT * FROM locks WHERE name ~ '^t';
BEGIN;
SELECT shedlock_guard_token('t', :token), shedlock_complete_token('t kept', :kept),
       shedlock_complete_token(ARRAY['t1', 't2'], :several);
COMMIT;
SELECT name, state, last_outcome FROM locks WHERE name ~ '^t';
-- The lock is free for the next caller, at once or when at_least has passed, and with retry its tick is due again. A
-- pause and a release by force find no holder.
SELECT name, shedlock_acquire(name, '1 h')
  FROM (SELECT name FROM shedlock_locks WHERE name <> 's tick' ORDER BY name) locks;
SELECT shedlock_acquire('s tick', '1 h', tick => '2026-01-01Z') AS once,
       shedlock_acquire('s tick', '1 h', tick => '2026-01-01Z', retry => true) AS again;
\set VERBOSITY terse
SELECT shedlock_complete_token('t', :token);
\set VERBOSITY default
SELECT pg_backend_pid() AS process,
       shedlock_acquire_token(ARRAY['forced', 'paused', 'waited for'], '1 h', ends_with_session => true),
       shedlock_acquire('short', '1 h', at_least => '1 ms', ends_with_session => true) \gset
\c
SELECT wait_until_gone(:process);
SELECT shedlock_force_release('forced') AS held, shedlock_pause('paused'),
       shedlock_acquire('waited for', '1 h', wait => '1 min'), shedlock_acquire('short', '1 h', wait => '1 min');
DELETE FROM shedlock;

-- Marks that others could have written. 1 to 3 have the process id of this session, and its start time, another one
-- (that session is gone) or an unknown one. 4 and 5 have the id of no process. 6 and 7 are sessions of another server,
-- which count as alive. 8 and 9 are not the mark of a session.
SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint AS start,
       lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0') AS server
  FROM pg_stat_activity WHERE pid = pg_backend_pid() \gset
CREATE TABLE marks AS
SELECT name, replace(replace(replace(mark, 'PID', :'pid'), 'START', :'start'), 'SERVER', :'server') AS mark FROM (VALUES
    ('1 alive', '/PID.START.SERVER'),
    ('2 another start', '/PID.1.SERVER'),
    ('3 unknown start', '/PID.1,SERVER'),
    ('4 another pid', '/999999999.START.SERVER'),
    ('5 neither', '/999999999.1,SERVER'),
    ('6 another server', '/PID.START.' || translate(:'server', '0123456789abcdef', '123456789abcdef0')),
    ('7 its unknown start', '/999999999.1,' || translate(:'server', '0123456789abcdef', '123456789abcdef0')),
    ('8 no session', '/PID.START.' || left(:'server', 7)),
    ('9 without a server', '/PID.START')) AS m (name, mark);
INSERT INTO shedlock (name, lock_until, locked_at, locked_by, lock_at_least_until)
SELECT m.name || kind, now + interval '1 h', now,
       'job@host' || mark || kind || (extract(epoch FROM now) * 1000000)::bigint, now
  FROM marks m, unnest(ARRAY['!', '&']) kind, timezone('utc', clock_timestamp()) AS now;
SELECT * FROM locks;
SELECT name, shedlock_session_alive(mark) AS alive FROM marks ORDER BY name;
SELECT name, shedlock_acquire(name, '1 h') FROM (SELECT name FROM shedlock WHERE name ~ '!$' ORDER BY name) locks;
SET client_min_messages = error;
SELECT name, shedlock_extend_token(name, token, '1 h') AS extended, shedlock_release_token(name, token) AS released
  FROM (SELECT name, token FROM shedlock_locks WHERE name ~ '&$' ORDER BY name) locks;
RESET client_min_messages;
SELECT text, shedlock_session_alive(text)
  FROM unnest(ARRAY[NULL, '', '/', '1', '/1.2', '/1.2.', '/1.2.0123456', '/1.2.012345678', '/1.2.0123456X',
                    '/1.2.0123456A', '/1.2:01234567', '1.2.01234567', 'x/1.2.01234567', '/1.2.01234567:']) text;
SELECT name, shedlock_session_alive(mark || ':') AS with_more, shedlock_session_alive('x' || mark) AS with_more
  FROM marks WHERE name ~ 'alive';
-- A holder or a Java client's name that imitates a mark changes nothing.
SELECT shedlock_acquire_token('imitates &', '1 h', holder => 'job' || mark || '&') IS NOT NULL AS taken,
       shedlock_acquire_token('imitates !', '1 h', holder => 'job' || mark || '!1') IS NOT NULL AS taken
  FROM marks WHERE name ~ 'neither';
INSERT INTO shedlock (name, lock_until, locked_at, locked_by, lock_at_least_until)
    SELECT 'imitates java', now + interval '1 h', now, 'job' || mark || '!' || 1767225600000000, now
      FROM marks, timezone('utc', clock_timestamp()) AS now WHERE name ~ 'neither';
SELECT * FROM locks WHERE name ~ 'imitates';
SELECT name, shedlock_acquire(name, '1 h') FROM (SELECT name FROM shedlock WHERE name ~ 'imitates' ORDER BY name) locks;
DROP TABLE marks;
DROP VIEW locks;
DROP FUNCTION wait_until_gone;
DELETE FROM shedlock;
