-- I10: nothing is truncated, defaulted or swallowed. Covers the lines of the table of arguments in docs/reference.md
-- that name this file: the SQLSTATE, and a message that names the argument. (Infinite intervals, which are new in
-- 17: see the fuzzer.)
CREATE FUNCTION attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    detail text;
    result text;
BEGIN
    EXECUTE 'SELECT ' || call INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, detail = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' -> '

-- name
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire(NULL::text, '1 min')$$,
    $$shedlock_acquire('', '1 min')$$,
    $$shedlock_acquire(repeat('x', 256), '1 min')$$,
    $$shedlock_acquire(repeat('x', 256), '1 min', tick => '2020-01-01', start_within => '1 s')$$, -- too late as well
    $$shedlock_acquire(repeat('x', 255) || ' ', '1 min')$$,
    $$shedlock_acquire(repeat(E'\u00e9', 256), '1 min')$$,
    $$shedlock_release(NULL::text)$$,
    $$shedlock_release('')$$,
    $$shedlock_release(repeat('x', 256))$$,
    $$shedlock_release(ARRAY['nobody''s', repeat('x', 256)])$$,
    $$shedlock_extend(NULL::text, '1 min')$$,
    $$shedlock_extend(repeat('x', 256), '1 min')$$,
    $$shedlock_guard(NULL)$$,
    $$shedlock_guard(repeat('x', 256))$$,
    $$shedlock_complete(NULL::text)$$,
    $$shedlock_complete('')$$,
    $$shedlock_complete(repeat('x', 256))$$,
    $$shedlock_complete_token(NULL::text, 1)$$,
    $$shedlock_complete_token('', 1)$$,
    $$shedlock_force_release('')$$,
    $$shedlock_force_release(repeat('x', 256))$$,
    $$shedlock_pause('')$$,
    $$shedlock_pause(repeat('x', 256))$$,
    $$shedlock_resume('')$$,
    $$shedlock_resume(repeat('x', 256))$$
]) c;

-- A name that is an array literal is a list that lost its type: drivers send lists without one, and PostgreSQL prefers
-- text. But if a row has that very name, it is a name.
PREPARE untyped AS SELECT attempt(format('shedlock_acquire_token(%L, ''1 min'')', shedlock_acquire_token($1, '1 min')));
PREPARE list AS SELECT shedlock_acquire($1::text[], '1 min'), shedlock_release($1::text[]);
\set VERBOSITY terse
EXECUTE untyped('{a,b}');
\set VERBOSITY default
EXECUTE list('{a,b}');
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire('{a,b}', '1 min')$$,
    $$shedlock_acquire('{}', '1 min')$$,
    $$shedlock_acquire('{{a},{b}}', '1 min')$$,
    $$shedlock_acquire(ARRAY['a', '{b}'], '1 min')$$,
    $$shedlock_extend('{"a","b"}', '1 min')$$,
    $$shedlock_release('{a}')$$,
    $$shedlock_release_token('{a}', 1)$$,
    $$shedlock_guard('{a}')$$,
    $$shedlock_complete_token('{a}', 1)$$,
    $$shedlock_pause('{a}')$$,
    $$shedlock_force_release('{a}')$$,
    $$shedlock_forget('{a}')$$,
    $$shedlock_acquire('{a', '1 min') AND shedlock_release('{a')$$,
    $$shedlock_acquire('a}', '1 min') AND shedlock_release('a}')$$
]) c;
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('{a}', '-infinity', '-infinity', '');
SELECT attempt($$shedlock_acquire('{a}', '1 min')$$), attempt($$shedlock_acquire('{a}', '1 min')$$),
       attempt($$shedlock_release('{a}')$$), attempt($$shedlock_forget('{a}')$$);
DEALLOCATE ALL;
DELETE FROM shedlock;

-- name as an array
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire(NULL::text[], '1 min')$$,
    $$shedlock_acquire('{}'::text[], '1 min')$$,
    $$shedlock_acquire('{{a},{b}}'::text[], '1 min')$$,
    $$shedlock_acquire('{a,NULL}'::text[], '1 min')$$,
    $$shedlock_acquire('{a,b,a}'::text[], '1 min')$$,
    $$shedlock_acquire('{a,""}'::text[], '1 min')$$,
    $$shedlock_acquire(ARRAY['a', repeat('x', 256)], '1 min')$$,
    $$shedlock_release('{}'::text[])$$,
    $$shedlock_extend('{a,a}'::text[], '1 min')$$,
    $$shedlock_complete(NULL::text[])$$,
    $$shedlock_complete('{}'::text[])$$,
    $$shedlock_complete('{a,NULL}'::text[])$$,
    $$shedlock_complete('{a,b,a}'::text[])$$,
    $$shedlock_complete('{a,""}'::text[])$$,
    $$shedlock_complete_token('{}'::text[], 1)$$
]) c;

-- name as an array that is too long. (sql/arrays shows that 1000 elements are allowed.)
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire(array_fill('a'::text, '{1001}'), '1 min')$$,
    $$shedlock_acquire_token(array_fill(NULL::text, '{1001}'), '1 min')$$,
    $$shedlock_extend(array_fill('a'::text, '{1001}'), '1 min')$$,
    $$shedlock_extend_token(array_fill('a'::text, '{1001}'), 1, '1 min')$$,
    $$shedlock_release(array_fill('a'::text, '{1001}'))$$,
    $$shedlock_release_token(array_fill('a'::text, '{1001}'), 1)$$,
    $$shedlock_complete(array_fill('a'::text, '{1001}'))$$,
    $$shedlock_complete_token(array_fill('a'::text, '{1001}'), 1)$$,
    $$shedlock_acquire(array_fill('a'::text, '{100,100}'), '1 min')$$
]) c;

-- at_most
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire('a')$$,
    $$shedlock_acquire('a', NULL)$$,
    $$shedlock_acquire('a', '0')$$,
    $$shedlock_acquire('a', '-1 s')$$,
    $$shedlock_acquire('a', '999 us')$$,
    $$shedlock_acquire('a', '1 month -31 days')$$,
    $$shedlock_acquire('a', '-100 months 3010 days')$$,
    $$shedlock_extend('a', '-100 months 3010 days')$$,
    $$shedlock_acquire('a', '10000000 years')$$,
    $$shedlock_acquire('a', '178956970 years')$$,
    $$shedlock_acquire('a', '-178956970 years')$$,
    $$shedlock_extend('a', NULL)$$,
    $$shedlock_extend('a', '0')$$
]) c;

-- at_least
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire('a', '1 min', NULL)$$,
    $$shedlock_acquire('a', '1 min', '-1 us')$$,
    $$shedlock_acquire('a', '1 min', '61 s')$$,
    $$shedlock_acquire('a', '1 year', '-100 months 3010 days')$$,
    $$shedlock_acquire('a', '1 year', '-100 months 3000 days')$$,
    $$shedlock_extend('a', '1 min', '-1 s')$$,
    $$shedlock_extend('a', '1 min', '2 min')$$
]) c;

-- wait, tick, token
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire('a', '1 min', wait => NULL)$$,
    $$shedlock_acquire('a', '1 min', wait => '-1 s')$$,
    $$shedlock_acquire('a', '1 min', wait => '-100 months 3010 days')$$,
    $$shedlock_acquire('a', '1 min', wait => '-100 months 3000 days')$$,
    $$shedlock_acquire_token('a', '1 min', wait => '-100 months 3000 days')$$,
    $$shedlock_acquire('a', '1 min', tick => 'infinity')$$,
    $$shedlock_acquire('a', '1 min', tick => '-infinity')$$,
    $$shedlock_acquire('a', '1 min', tick => '294276-12-31')$$,
    $$shedlock_acquire('a', '1 min', tick => now() + interval '2 min')$$,
    $$shedlock_release_token('a', NULL)$$,
    $$shedlock_extend_token('a', NULL, '1 min')$$,
    $$shedlock_guard_token('a', NULL)$$,
    $$shedlock_complete_token('a', NULL)$$,
    $$shedlock_complete_token('{a}'::text[], NULL)$$
]) c;

-- retry, start_within, ends_with_session, done, nowait, on
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire('a', '1 min', retry => true)$$,
    $$shedlock_acquire('a', '1 min', tick => now(), retry => NULL)$$,
    $$shedlock_acquire_token('{a}'::text[], '1 min', retry => true)$$,
    $$shedlock_acquire('a', '1 min', start_within => '1 h')$$,
    $$shedlock_acquire_token('{a}'::text[], '1 min', tick => now(), start_within => '0')$$,
    $$shedlock_acquire('a', '1 min', tick => now(), start_within => '-1 h')$$,
    $$shedlock_acquire('a', '1 min', tick => now(), start_within => '200000000 days')$$,
    $$shedlock_acquire('a', '1 min', ends_with_session => NULL)$$,
    $$shedlock_acquire('{a}'::text[], '1 min', ends_with_session => NULL)$$,
    $$shedlock_acquire_token('a', '1 min', ends_with_session => NULL)$$,
    $$shedlock_acquire_token('{a}'::text[], '1 min', ends_with_session => NULL)$$,
    $$shedlock_release('a', NULL)$$,
    $$shedlock_release_token('{a}'::text[], 1, NULL)$$,
    $$shedlock_release_token('a', 1, nowait => NULL)$$,
    $$shedlock_extend_token('{a}'::text[], 1, '1 min', nowait => NULL)$$,
    $$shedlock_protect(NULL)$$
]) c;

-- names, which, wait_id
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_wait_any(NULL, '{1}', '0', 1)$$,
    $$shedlock_wait_any('{a, NULL}', '{1, 2}', '0', 1)$$,
    $$shedlock_wait_any('{}', '{}', '0', 1)$$,
    $$shedlock_wait_any('{{a}}', '{1}', '0', 1)$$,
    $$shedlock_wait_any('{a}', NULL, '0', 1)$$,
    $$shedlock_wait_any('{a}', '{NULL}', '0', 1)$$,
    $$shedlock_wait_any('{a}', '{1, 2}', '0', 1)$$,
    $$shedlock_wait_any('{a}', '{1}', NULL, 1)$$,
    $$shedlock_wait_any('{a}', '{1}', '-1 s', 1)$$,
    $$shedlock_wait_any('{a}', '{1}', '0', NULL)$$,
    $$shedlock_end_wait(NULL)$$
]) c;

-- None of these calls left anything behind.
SELECT count(*) FROM shedlock;

-- If several arguments are wrong, the first one is reported. (retry is wrong only if there is no tick.)
CREATE FUNCTION first_wrong(call text, names text[], good text[], bad text[]) RETURNS SETOF text LANGUAGE sql AS $f$
    SELECT c || ': ' || said FROM (
        SELECT format(call, VARIADIC good[:i - 1] || bad[i:]) AS c, names[i] AS first
          FROM generate_series(1, cardinality(names)) i) c, attempt(c) said
     WHERE said !~ ('^22(004|023): ' || first || ' ')
$f$;
SELECT first_wrong('shedlock_acquire_token(%s, %s, %s, %s, %s, %s, %s, NULL, %s)',
    '{name,at_most,at_least,wait,tick,retry,start_within,ends_with_session}',
    ARRAY['''a''::text', '''1 min''', '''0''', '''0''', 'now()', 'true', '''1 h''', 'false'],
    ARRAY['NULL::text', '''0''', 'NULL', 'NULL', 'now() + interval ''1 h''', 'NULL', '''0''', 'NULL']);
SELECT first_wrong('shedlock_acquire(%s, %s, %s, %s, %s, %s, %s, %s)',
    '{name,at_most,at_least,wait,tick,retry,start_within,ends_with_session}',
    ARRAY['''{a,b}''::text[]', '''1 min''', '''0''', '''0''', 'NULL', 'false', 'NULL', 'false'],
    ARRAY['NULL::text[]', 'NULL', '''1 h''', '''-1 s''', '''infinity''', 'true', '''1 h''', 'NULL']);
SELECT first_wrong('shedlock_extend_token(%s, %s, %s, %s, %s)', '{name,token,at_most,at_least,nowait}',
    ARRAY['''a''::text', '1', '''1 min''', '''0''', 'false'],
    ARRAY['NULL::text', 'NULL', 'NULL', '''-1 s''', 'NULL']);
SELECT first_wrong('shedlock_release_token(%s, %s, %s, %s)', '{name,token,done,nowait}',
    ARRAY['''a''::text', '1', 'true', 'false'],
    ARRAY['''''::text', 'NULL', 'NULL', 'NULL']);
DROP FUNCTION first_wrong;
-- That one of several locks is held does not hide that another one cannot be stored.
SELECT shedlock_acquire('a', '1 min');
SELECT attempt($$shedlock_acquire(ARRAY['a', repeat('x', 256)], '1 min')$$);
DELETE FROM shedlock;

-- Allowed: a lease of 140,000 years, one of 1 ms (the shortest), at_least as long as at_most, and the extreme tokens.
SELECT c AS call, attempt(c) AS result FROM unnest(ARRAY[
    $$shedlock_acquire('long', '140000 years', '140000 years')$$,
    $$shedlock_acquire('longest', '52083333 days', '52083333 days')$$,
    $$shedlock_acquire('short', '1 ms', '1 ms')$$,
    $$shedlock_release_token('none', 9223372036854775807)$$,
    $$shedlock_release_token('none', (-9223372036854775808)::bigint)$$
]) c;
\pset tuples_only off
\pset format csv
SELECT lock_until = lock_at_least_until AS same, extract(year FROM lock_until) > 142000 AS far
  FROM shedlock WHERE name = 'long';

-- Months and days are added in UTC: a day is 24 hours in any time zone, across any change of clocks.
SET TimeZone = 'America/New_York';
SELECT shedlock_acquire('day', '1 day'), shedlock_acquire('year', '365 days');
SELECT name, extract(epoch FROM lock_until - lock_at_least_until) / 3600 AS hours
  FROM shedlock WHERE name IN ('day', 'year') ORDER BY 1;
SELECT shedlock_acquire('month', '1 month');
SELECT abs(extract(epoch FROM lock_until - (timezone('UTC', now()) + interval '1 month'))) < 60 AS one_month
  FROM shedlock WHERE name = 'month';
-- Months are counted from now, not as 30 days each.
SELECT shedlock_acquire('months', '100 months -3010 days'), shedlock_extend('months', '100 months -3010 days');
SELECT lock_until > timezone('UTC', now()) + interval '30 days' AS more_than_30_days
  FROM shedlock WHERE name = 'months';
SELECT '100 months -3000 days' = interval '0' AS equal, shedlock_acquire('more', '1 year', '100 months -3000 days'),
       shedlock_acquire_token('more by token', '1 year', '100 months -3000 days') > 0 AS token;
SELECT name, lock_at_least_until > locked_at + interval '30 days' AS more_than_30_days
  FROM shedlock WHERE name LIKE 'more%' ORDER BY name;
-- Days and hours are added up first: these are one hour.
SELECT shedlock_acquire('mixed', '1 min'), shedlock_release('mixed');
SELECT shedlock_acquire('mixed', '-106751991 days 2562047785 hours'),
       shedlock_extend('mixed', '-106751991 days 2562047785 hours');
SELECT abs(extract(epoch FROM lock_until - (timezone('UTC', now()) + interval '1 hour'))) < 60 AS one_hour
  FROM shedlock WHERE name = 'mixed';
RESET TimeZone;

-- In a read-only transaction: 25006 with a hint, before any argument is checked.
BEGIN READ ONLY;
SELECT attempt($$shedlock_acquire(NULL::text)$$) AS "acquire in a read-only transaction";
SELECT attempt($$shedlock_release(NULL::text)$$) AS "release";
SELECT attempt($$shedlock_extend(NULL::text, NULL)$$) AS "extend";
SELECT attempt($$shedlock_guard(NULL)$$) AS "guard";
SELECT attempt($$shedlock_acquire_token(NULL::text)$$) AS "acquire_token";
SELECT attempt($$shedlock_release_token(NULL::text, NULL)$$) AS "release_token";
SELECT attempt($$shedlock_extend_token(NULL::text, NULL, NULL)$$) AS "extend_token";
SELECT attempt($$shedlock_guard_token(NULL, NULL)$$) AS "guard_token";
SELECT attempt($$shedlock_complete(NULL::text)$$) AS "complete";
SELECT attempt($$shedlock_complete_token(NULL::text, NULL)$$) AS "complete_token";
SELECT attempt($$shedlock_wait_any(NULL, NULL, NULL, NULL)$$) AS "wait_any";
SELECT attempt($$shedlock_end_wait(NULL)$$) AS "end_wait";
SELECT name FROM shedlock_locks WHERE name = 'long';
COMMIT;

-- A shift in the order in which a function reads its arguments: each in turn gets a value that is wrong for it, and the
-- message must name that one. (shedlock_run cannot be called here; holder and reason may be any text.)
SELECT count(*) AS arguments,
       string_agg(concat_ws(': ', call, result), E'\n' ORDER BY call)
           FILTER (WHERE (result ~ ('^22[0-9A-Z]{3}: ' || a.name || ' must ')) IS NOT TRUE) AS wrong
  FROM pg_proc p
       CROSS JOIN LATERAL unnest(p.proargnames, p.proargtypes::regtype[]) WITH ORDINALITY a (name, type, number)
       CROSS JOIN LATERAL (
           SELECT format('%s(%s)', p.oid::regproc, string_agg(format('%I => %s', o.name,
                      CASE WHEN o.number = a.number THEN
                               CASE a.type WHEN 'interval'::regtype THEN $$interval '-1 s'$$
                                           WHEN 'timestamptz'::regtype THEN $$timestamptz 'infinity'$$
                                           ELSE format('NULL::%s', a.type) END
                           ELSE CASE o.type WHEN 'text'::regtype THEN $$'a'::text$$
                                            WHEN 'text[]'::regtype THEN $$ARRAY['a']$$
                                            WHEN 'integer[]'::regtype THEN 'ARRAY[1]'
                                            WHEN 'interval'::regtype THEN $$interval '1 s'$$
                                            WHEN 'timestamptz'::regtype THEN 'now()'
                                            WHEN 'boolean'::regtype THEN 'false'
                                            ELSE '1' END
                      END), ', '))
             FROM unnest(p.proargnames, p.proargtypes::regtype[]) WITH ORDINALITY o (name, type, number)) c (call)
       CROSS JOIN LATERAL attempt(call) AS result
 WHERE p.proname ~ '^shedlock_(acquire|extend|release|guard|complete)(_token)?$' AND a.name NOT IN ('holder', 'detail')
    OR p.proname ~ '^shedlock_(force_release|forget|pause|resume|wait_any|end_wait|not_due)$' AND a.name <> 'reason';

-- command
\set VERBOSITY sqlstate
CALL shedlock_run('a', NULL, '1 min');
CALL shedlock_run('a', '  ', '1 min');

-- Settings refuse values that make no sense.
SET shedlock.default_at_most = -1;
DROP FUNCTION attempt;
DELETE FROM shedlock;
