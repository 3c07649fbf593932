-- Acquire and release of one name that was acquired before. The portable edition has a fast path for the usual calls,
-- which must notice whatever is unusual about an argument or the row.
SELECT shedlock_acquire('done', '1 h'), shedlock_release('done'), shedlock_acquire('held', '1 h');

-- Errors do not depend on whether the lock is free or held.
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE 'SELECT ' || call INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' -> '
SELECT arguments, string_agg(DISTINCT attempt(format('%s(%L, %s)', f, n, arguments)), ' or ')
  FROM unnest(ARRAY['shedlock_acquire', 'shedlock_acquire_token']) f, unnest(ARRAY['done', 'held']) n,
       unnest(ARRAY['NULL', $$'0'$$, $$'999 us'$$, $$'-100 months 3010 days'$$, $$'106751991 days'$$,
                    $$'1 h', NULL$$, $$'1 h', '-1 s'$$, $$'1 h', '61 min'$$,
                    $$'1 h', wait => NULL$$, $$'1 h', wait => '-1 s'$$, $$'1 h', tick => 'infinity'$$,
                    $$'1 h', retry => NULL$$, $$'1 h', retry => true$$, $$'1 h', ends_with_session => NULL$$]) arguments
 GROUP BY arguments ORDER BY arguments COLLATE "C";
-- Nor on whether somebody has inserted a row whose name is empty.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by, last_tick, last_done_tick)
    SELECT '', t, t, 'by hand', t, t FROM timezone('UTC', now() - interval '1 h') t;
SELECT attempt($$shedlock_acquire('', '1 h')$$), attempt($$shedlock_acquire_token('', '1 h')$$),
       attempt($$shedlock_release('')$$);
UPDATE shedlock SET lock_until = lock_until + interval '1 day' WHERE name = '';
SELECT attempt($$shedlock_acquire('', '1 h')$$), attempt($$shedlock_acquire_token('', '1 h')$$),
       attempt($$shedlock_release('')$$);
-- Nor on whether such a row looks like a lock of this session, or of a token.
DELETE FROM shedlock WHERE name = '';
SELECT shedlock_acquire('renamed', '1 h');
UPDATE shedlock SET name = '' WHERE name = 'renamed';
SELECT attempt($$shedlock_extend('', '1 h')$$), attempt($$shedlock_release('')$$);
DELETE FROM shedlock WHERE name = '';
SELECT shedlock_acquire_token('renamed', '1 h') AS t \gset
UPDATE shedlock SET name = '' WHERE name = 'renamed';
SELECT attempt(format($$shedlock_extend_token('', %s, '1 h')$$, :t)),
       attempt(format($$shedlock_release_token('', %s)$$, :t));
DELETE FROM shedlock WHERE name = '';
BEGIN READ ONLY;
SELECT attempt($$shedlock_acquire('done', '1 h')$$), attempt($$shedlock_acquire('held', '1 h')$$),
       attempt($$shedlock_release('held')$$);
SELECT attempt($$shedlock_acquire_token('done', '1 h')$$), attempt($$shedlock_acquire_token('held', '1 h')$$),
       attempt($$shedlock_release_token('held', 1)$$);
COMMIT;
\pset tuples_only off
\pset format csv
\pset fieldsep '|'

-- The first call of a session, and what it writes.
\c -
SELECT shedlock_acquire('done', '1 h');
SELECT locked_by ~ '@.*/[0-9]+[.][0-9]+[.,][0-9a-f]{8}:[0-9]{16}$' AS names_session,
       lock_until - locked_at AS at_most, lock_at_least_until - locked_at AS at_least,
       run_tick = locked_at AND last_tick IS NULL AS tick,
       right(locked_by, 16)::bigint = extract(epoch FROM locked_at) * 1000000 AS token
  FROM shedlock WHERE name = 'done';
SELECT shedlock_acquire('done', '1 h'), shedlock_release('done'),
       shedlock_acquire('done', '1 h', ends_with_session => true), shedlock_release('done');
SELECT locked_by ~ '![0-9]{16}$' AS ends_with_session, last_done_tick = run_tick AS done,
       last_done_at > locked_at AS at, lock_until = last_done_at AS free,
       lock_at_least_until IS NULL AS released FROM shedlock WHERE name = 'done';
SELECT shedlock_acquire_token('done', '1 h', holder => repeat('h', 300)) AS t \gset
SELECT locked_by = repeat('h', 238) || '#' || :t AS fits,
       (SELECT token FROM shedlock_locks WHERE name = 'done') = :t AS token
  FROM shedlock WHERE name = 'done';
SELECT shedlock_release_token('done', :t);
SET application_name = '';
SELECT shedlock_acquire('done', '1 h'), shedlock_release('done');
SELECT locked_by ~ ('^' || session_user || '@') AS session_user FROM shedlock WHERE name = 'done';
RESET application_name;

-- A tick, an at_least and months are taken into account.
SELECT shedlock_acquire('done', '1 h', tick => '2026-01-01Z') AS earlier,
       shedlock_acquire('done', '1 h', tick => now()), shedlock_release('done');
SELECT shedlock_acquire('done', '1 h', tick => now() + interval '50 s'), shedlock_release('done');
SELECT last_tick AS tick FROM shedlock WHERE name = 'done' \gset
SELECT shedlock_acquire('done', '1 h'), shedlock_release('done');
SELECT last_tick = :'tick' AND last_done_tick = :'tick' AND run_tick = locked_at AS keeps_the_later_tick
  FROM shedlock WHERE name = 'done';
SELECT shedlock_acquire('kept', '1 h'), shedlock_release('kept');
SELECT shedlock_acquire('kept', '1 h', '30 min'), shedlock_release('kept'), shedlock_acquire('kept', '1 h');
SELECT shedlock_acquire('month', '1 h'), shedlock_release('month');
SELECT shedlock_acquire('month', '1 month');
SELECT lock_until = locked_at + interval '1 month' AS one_month FROM shedlock WHERE name = 'month';

-- A Java client's run counts as done; one of ours that failed does not.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
    SELECT 'java', t, t, 'java' FROM timezone('UTC', now() - interval '1 h') t;
SELECT shedlock_acquire('java', '1 h');
SELECT last_done_tick < locked_at - interval '59 min' AS java_was_done FROM shedlock WHERE name = 'java';
SELECT shedlock_release('java', false);
SELECT shedlock_acquire('java', '1 h'), last_outcome FROM shedlock_locks WHERE name = 'java';
SELECT last_done_tick < locked_at - interval '59 min' AS java_was_done FROM shedlock WHERE name = 'java';

-- A new token is greater than the last one even if the row's time is ahead of the clock.
UPDATE shedlock
   SET locked_at = locked_at + interval '1 day', last_tick = last_tick + interval '1 day',
       last_done_tick = last_tick + interval '1 day'
 WHERE name = 'done';
SELECT shedlock_acquire_token('done', '1 h') AS t \gset
SELECT :t > extract(epoch FROM now() + interval '12 h') * 1000000 AS greater, shedlock_release_token('done', :t);
SELECT shedlock_acquire('done', '1 h');
SELECT locked_at > now() + interval '12 h' AS greater, shedlock_release('done') FROM shedlock WHERE name = 'done';

-- A row that was edited so that the caller does not hold the lock any more is neither released nor extended. (The first
-- edit changes nothing.)
CREATE FUNCTION after(edit text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    token bigint;
    result text;
BEGIN
    PERFORM shedlock_acquire('edited', '1 h'), shedlock_release('edited'), shedlock_acquire('edited', '1 h');
    EXECUTE 'UPDATE shedlock SET ' || edit || ' WHERE name = ''edited''';
    result := concat_ws(' ', shedlock_release('edited'), shedlock_extend('edited', '1 h'));
    DELETE FROM shedlock WHERE name = 'edited';
    token := shedlock_acquire_token('edited', '1 h');
    PERFORM shedlock_release_token('edited', token);
    token := shedlock_acquire_token('edited', '1 h');
    EXECUTE 'UPDATE shedlock SET ' || edit || ' WHERE name = ''edited''';
    result := result || ' ' || concat_ws(' ', shedlock_release_token('edited', token),
                                         shedlock_extend_token('edited', token, '1 h'));
    DELETE FROM shedlock WHERE name = 'edited';
    RETURN result;
END $$;
SET client_min_messages = error;
SELECT edit, after(edit) FROM unnest(ARRAY[
    'name = name',
    $$lock_until = 'infinity'$$, $$lock_until = timezone('UTC', clock_timestamp())$$,
    $$locked_at = locked_at - interval '1 s'$$, $$locked_at = '-infinity'$$, $$locked_at = 'infinity'$$,
    $$locked_at = '294276-01-01'$$,
    $$lock_at_least_until = '-infinity'$$, 'lock_at_least_until = NULL',
    $$locked_by = 'java'$$, $$locked_by = regexp_replace(locked_by, '[:#]', '*', 'g')$$,
    $$locked_by = regexp_replace(locked_by, '[:#]([0-9]+)$', '&\1')$$]) edit;
RESET client_min_messages;
-- An at_least that has not passed keeps the lock, even if it was edited.
SELECT shedlock_acquire('edited', '1 h');
UPDATE shedlock SET lock_at_least_until = lock_until - interval '10 min' WHERE name = 'edited';
SELECT shedlock_release('edited'), shedlock_acquire('edited', '1 h');
-- A second release, a failed one, and a token's lock that ends with this session.
SET client_min_messages = error;
SELECT shedlock_release('done'), shedlock_acquire('done', '1 h'), shedlock_release('done', false),
       shedlock_release('done');
SELECT last_outcome FROM shedlock_locks WHERE name = 'done';
SELECT shedlock_acquire_token('session', '1 h', ends_with_session => true) AS t \gset
SELECT shedlock_release('session'), shedlock_release_token('session', :t), shedlock_release_token('session', :t);

RESET client_min_messages;
DROP FUNCTION after, attempt;
DELETE FROM shedlock;
