-- The array forms: all or nothing, with one common token.
SELECT shedlock_acquire(ARRAY['b', 'a', 'c'], '1 min', '10 s');
SELECT name, state, token = min(token) OVER () AS common_token FROM shedlock_locks ORDER BY name;
-- Refused as one: c is held, so d is not taken.
SELECT shedlock_acquire(ARRAY['c', 'd'], '1 min');
SELECT shedlock_acquire(ARRAY['d', 'c'], '1 min') AS in_other_order;
SELECT count(*) FROM shedlock WHERE name = 'd';
-- Extended and released as one. The session may also release one of them alone.
SELECT shedlock_extend(ARRAY['a', 'b', 'c'], '1 h', '0');
SELECT shedlock_release('b');
SELECT shedlock_release(ARRAY['a', 'b', 'c']) AS one_was_released;
SELECT shedlock_extend(ARRAY['a', 'nobody'], '1 h') AS one_does_not_exist;
SELECT name, state FROM shedlock_locks ORDER BY name;
SELECT shedlock_release(ARRAY['c', 'a']);
SELECT name, state FROM shedlock_locks ORDER BY name;
-- By token: the common token is greater than every former token of any of the names.
UPDATE shedlock SET locked_at = locked_at + interval '1 day' WHERE name = 'b';
SELECT token AS future FROM shedlock_locks WHERE name = 'b' \gset
SELECT shedlock_acquire_token(ARRAY['a', 'b', 'new'], '1 min') - :future AS one_more;
SELECT name, token - :future AS one_more, state FROM shedlock_locks ORDER BY name;
SELECT shedlock_acquire_token(ARRAY['a', 'z'], '1 min') IS NULL AS refused;
SELECT shedlock_extend_token(ARRAY['a', 'b', 'new'], :future + 1, '1 h');
\set VERBOSITY terse
SELECT shedlock_release_token(ARRAY['a', 'b', 'new'], :future) AS wrong_token;
SELECT shedlock_release_token(ARRAY['a', 'b', 'new'], :future + 1);
-- A single element, and many.
SELECT shedlock_acquire(ARRAY['one'], '1 min');
SELECT shedlock_acquire(array_agg('n' || i), '1 min') FROM generate_series(1, 1000) i;
SELECT count(*), count(DISTINCT token) FROM shedlock_locks WHERE state = 'held' AND name LIKE 'n%' AND name <> 'new';
SELECT shedlock_release(array_agg('n' || i)) FROM generate_series(1, 1000) i;
-- I12, inside an exception block: the subtransaction of the array form does not interfere with that of the block.
DO $$
BEGIN
    BEGIN
        PERFORM shedlock_acquire(ARRAY['t1', 't2'], '1 min');
        PERFORM shedlock_acquire(ARRAY['t1', 't3'], '1 min');
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
        RAISE NOTICE 'free again: %', shedlock_acquire(ARRAY['t1', 't2'], '1 min');
    END;
END $$;
-- An error inside the subtransaction (an infinite locked_at, by hand) is trapped like any other.
UPDATE shedlock SET locked_at = 'infinity' WHERE name = 'n7';
DO $$
BEGIN
    BEGIN
        PERFORM shedlock_acquire(ARRAY['n6', 'n7'], '1 min');
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        RAISE NOTICE '%', SQLERRM;
    END;
    RAISE NOTICE 'n6 alone: %', shedlock_acquire('n6', '1 min');
END $$;
SELECT state FROM shedlock_locks WHERE name = 'n6';
DELETE FROM shedlock;
