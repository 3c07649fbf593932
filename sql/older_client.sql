-- The calls that the library, pqxx.hpp and the tool sent at commit e0de929, with the names and types of all arguments.
-- These programs are installed on other hosts, so no later function may lose an argument or column that they name.
-- (test/older is the other way round.)
SELECT shedlock_acquire_token('o'::text, at_most => '1 h'::interval, at_least => '0'::interval, wait => '0'::interval,
                              tick => tick, retry => true::bool, holder => 'me'::text) AS token
  FROM (SELECT shedlock_tick('1 day'::interval, zone => 'UTC'::text,
                             at => clock_timestamp() - '0'::interval) AS tick) AS due \gset
SELECT shedlock_extend_token('o'::text, :token::int8, '1 h'::interval, NULL::interval, nowait => true) AS extended,
       shedlock_release_token('o'::text, :token::int8, false::bool, nowait => true) AS released;
SELECT shedlock_acquire_token('{o,p}'::text[], at_most => '1 h'::interval, at_least => '0'::interval,
                              wait => '0'::interval, tick => NULL::timestamptz, retry => false::bool,
                              holder => 'me'::text) AS token \gset
SELECT shedlock_extend_token(one.names::text[], one.token, one.at_most, NULL::interval, nowait => true) AS extended
  FROM ROWS FROM (unnest('{"{o,p}"}'::text[]), unnest(ARRAY[:token]::int8[]), unnest('{1 h}'::interval[]))
       AS one (names, token, at_most);
SELECT shedlock_extend_token('{o,p}'::text[], :token::int8, '1 h'::interval, '0'::interval, nowait => true) AS extended,
       shedlock_release_token('{o,p}'::text[], :token::int8, true::bool, nowait => true) AS released;
-- What this answers depends on the edition.
SELECT array_to_string(shedlock_wait_any('{o}'::text[], '{1}'::int4[], '10 ms'::interval, 1::int8), ' ') AS is_free,
       shedlock_end_wait(1::int8) AS has_ended \gset

-- pqxx.hpp
SELECT shedlock_acquire_token('q'::text, at_most => '1 h'::interval, at_least => '0'::interval, wait => '0'::interval,
                              tick => tick, retry => true, holder => ''::text, ends_with_session => true) AS token
  FROM (SELECT shedlock_tick('1 h'::interval, 'UTC'::text) AS tick OFFSET 0) AS due \gset
BEGIN;
SELECT shedlock_guard_token('q'::text, :token::int8);
COMMIT;
SELECT shedlock_extend_token('q'::text, :token::int8, '1 h'::interval) AS extended;
BEGIN;
SELECT shedlock_complete_token('q'::text, :token::int8);
COMMIT;
\set VERBOSITY sqlstate
SELECT shedlock_release_token('q'::text, :token::int8, false) AS released;
\set VERBOSITY default

-- For people and monitoring.
SELECT shedlock_pause('o'::text, 'why'::text, '0'::interval), shedlock_resume('o'::text),
       shedlock_force_release('o'::text), shedlock_forget('o'::text);
SELECT version FROM shedlock_version() WHERE edition IN ('extension', 'portable');
SELECT name, state, last_outcome FROM shedlock_locks WHERE name = ANY ('{p,q}'::text[]) ORDER BY name;
SELECT holder, token, locked_at, lock_until, remaining, held_for, last_duration, holder_pid, holder_alive, last_done_at,
       last_tick, last_done_tick, ends_with_session
  FROM shedlock_locks LIMIT 0;
SELECT name, attempts, acquired, refused, released, failed, extended, expired, lost, wait_time, total_hold, longest_hold
  FROM shedlock_stats LIMIT 0;
SELECT severity, finding, hint FROM shedlock_doctor() LIMIT 0;
DELETE FROM shedlock;
