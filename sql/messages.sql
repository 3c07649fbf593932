-- What is said to a caller that does not have the lock, word for word. The portable edition must say the same. (The
-- fuzzer compares the two in many more states.)
\set VERBOSITY default
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
CREATE VIEW states AS
SELECT s.no, s.state, s.lock_until::timestamp, s.locked_at::timestamp, s.locked_by, s.lock_at_least_until::timestamp,
       s.last_done_tick::timestamp
  FROM (VALUES
    (1, 'held by a token', '2100-01-01', '2026-01-01', 'me#1767225600000000', '2026-01-01', NULL),
    (2, 'run out', '2026-01-02', '2026-01-01', 'me#1767225600000000', '2026-01-01', NULL),
    (3, 'done', '2026-01-02', '2026-01-01', 'me#1767225600000000', NULL, '2026-01-01'),
    (4, 'failed', '2026-01-02', '2026-01-01', 'me#1767225600000000', '-infinity', NULL),
    (5, 'taken after the one before was done', '2100-01-01', '2026-01-01', 'me#1767225600000000', '2026-01-01',
        '2025-12-31 23:59:59.999999'),
    (6, 'held by a session', '2100-01-01', '2026-01-01', 'me/1.1.00000000:1767225600000000', '2026-01-01', NULL),
    (7, 'done by a session', '2026-01-02', '2026-01-01', 'me/1.1.00000000!1767225600000000', NULL, NULL),
    (8, 'held by Java', '2100-01-01', '2026-01-01', 'java', NULL, NULL),
    (9, 'last held by Java', '2026-01-02', '2026-01-01', 'java', NULL, NULL),
    (10, 'released by force', '2026-01-01', '2026-01-01', 'released by force: me*1767225600000000', NULL, NULL),
    (11, 'paused', 'infinity', '2026-01-01', 'paused: me*1767225600000000', NULL, NULL),
    (12, 'resumed', '2026-01-02', '2026-01-01', 'paused: me*1767225600000000', NULL, NULL),
    (13, 'paused by hand', 'infinity', '2026-01-01', 'me#1767225600000000', '2026-01-01', NULL),
    (14, 'never held', '-infinity', '-infinity', '', NULL, NULL),
    (15, 'held since infinity', '2100-01-01', 'infinity', 'java', NULL, NULL),
    (16, 'done since infinity', '2100-01-01', '2026-01-01', 'me#1767225600000000', '2026-01-01', '-infinity'),
    (17, 'deleted', NULL, NULL, NULL, NULL, NULL))
    s (no, state, lock_until, locked_at, locked_by, lock_at_least_until, last_done_tick);
-- Rolls back what the command has done.
CREATE FUNCTION answer(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    message text;
    detail text;
    hint text;
BEGIN
    EXECUTE command INTO answer;
    RAISE SQLSTATE 'ZZ000' USING MESSAGE = 'gives ' || COALESCE(NULLIF(answer, ''), 'nothing');
EXCEPTION
    WHEN SQLSTATE 'ZZ000' THEN
        RETURN SQLERRM;
    WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RETURN concat_ws(' | ', SQLSTATE, message, NULLIF(detail, ''), NULLIF(hint, ''));
END $$;
CREATE FUNCTION ask_in(state states, commands text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    command text;
BEGIN
    DELETE FROM shedlock;
    IF state.locked_at IS NOT NULL THEN
        INSERT INTO shedlock (name, lock_until, locked_at, locked_by, lock_at_least_until, last_done_tick)
            VALUES ('m', state.lock_until, state.locked_at, state.locked_by, state.lock_at_least_until,
                    state.last_done_tick);
    END IF;
    RAISE INFO '---- %', state.state;
    FOREACH command IN ARRAY commands LOOP
        RAISE INFO '% -> %', command, answer('SELECT ' || command);
    END LOOP;
END $$;
DO $$
DECLARE
    state states;
BEGIN
    FOR state IN SELECT * FROM states ORDER BY no LOOP
        -- A release is told what an extend is told, and a completion what a guard is told. Then with the token of these
        -- rows, and its neighbours.
        PERFORM ask_in(state, ARRAY['shedlock_extend(''m'', ''1 h'')', 'shedlock_guard(''m'')'] || ARRAY(
            SELECT format(call, token) FROM unnest(ARRAY[1767225600000000, 1767225600000001, 1767225599999999]) token,
                unnest(ARRAY['shedlock_extend_token(''m'', %s, ''1 h'')', 'shedlock_guard_token(''m'', %s)']) call));
    END LOOP;
END $$;
-- Any bigint may be passed as a token.
DO $$
DECLARE
    state states;
BEGIN
    FOR state IN
        SELECT * FROM states
         WHERE states.state IN ('held by a token', 'held by Java', 'never held', 'held since infinity',
                                'done since infinity')
         ORDER BY no
    LOOP
        PERFORM ask_in(state, ARRAY(
            SELECT format(call, token) FROM unnest('{0, 9223372036854775807, -9223372036854775808}'::bigint[]) token,
                unnest(ARRAY['shedlock_extend_token(''m'', %L, ''1 h'')', 'shedlock_guard_token(''m'', %L)']) call));
    END LOOP;
END $$;
DELETE FROM shedlock;
-- A table that is adopted may have a row with an empty name. Only administrators can do anything with it.
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('', '2026-01-02', '2026-01-01', 'java');
DO $$
DECLARE
    command text;
BEGIN
    FOREACH command IN ARRAY ARRAY[
        'shedlock_acquire('''', ''1 h'')', 'shedlock_acquire('''', ''1 h'', tick => ''2026-01-03'')',
        'shedlock_acquire_token('''', ''1 h'')', 'shedlock_extend('''', ''1 h'')',
        'shedlock_extend_token('''', 1, ''1 h'')', 'shedlock_release('''')', 'shedlock_release_token('''', 1)',
        'shedlock_guard('''')', 'shedlock_complete('''')', 'shedlock_pause('''')', 'shedlock_resume('''')',
        'shedlock_force_release('''')', 'shedlock_forget('''')']
    LOOP
        RAISE INFO '% -> %', command, answer('SELECT ' || command);
    END LOOP;
END $$;
DELETE FROM shedlock;
DROP FUNCTION ask_in;
DROP FUNCTION answer;
DROP VIEW states;
