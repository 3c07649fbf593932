-- Runs a job for each day, even for days on which no server was up: psql -f catch_up.sql, then CALL catch_up() as often as you like.
-- It begins with the last day that was tried, if that one was not done, otherwise with the day after it. The very first call begins
-- three days ago. A day whose work fails makes the call fail, and is due again at the next call; no later day is begun before it is
-- done. A run of this name without a tick that is done counts for all missed days.

CREATE TABLE interest_paid (day timestamptz);

CREATE PROCEDURE catch_up() LANGUAGE plpgsql AS $$
DECLARE
    since timestamptz := COALESCE((SELECT GREATEST(last_done_tick, last_tick - interval '1 microsecond')
                                     FROM shedlock_locks WHERE name = 'interest'), now() - interval '3 days');
    day timestamptz;
    failure text;
BEGIN
    FOR day IN SELECT * FROM shedlock_ticks('1 day', since, 'Europe/Berlin') LOOP
        -- One transaction with the work: if the session dies, neither has happened. (Java clients wait meanwhile.)
        -- If it is refused, another session is running it. Do not go on to the next day, which would give this one up.
        EXIT WHEN NOT shedlock_acquire('interest', '50 min', tick => day, retry => true);
        BEGIN
            INSERT INTO interest_paid VALUES (day); -- the work of that day
            PERFORM shedlock_complete('interest');
        EXCEPTION WHEN OTHERS THEN
            PERFORM shedlock_release('interest', done => false);
            failure := format('%s: %s', day, SQLERRM);
        END;
        COMMIT;
        IF failure IS NOT NULL THEN
            RAISE EXCEPTION '%', failure; -- the next call begins with this day
        END IF;
    END LOOP;
END
$$;
