-- I4: shedlock_protect keeps the SQL of other programs from changing or deleting a lock of ours that is not free.
\set VERBOSITY terse
-- The statements that others send. $1 name, $2 lock_until, $3 now by the client's clock, $4 host.
CREATE TEMP TABLE statements (n int GENERATED ALWAYS AS IDENTITY, who text, said text);
INSERT INTO statements (who, said) VALUES
    -- Java 4.44 to 6.10 with client time (JdbcTemplate; the plain JDBC and R2DBC providers send the same).
    ('Java 6 acquires first', 'INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES($1, $2, $3, $4)
        ON CONFLICT (name) DO UPDATE SET lock_until = $2, locked_at = $3, locked_by = $4
        WHERE shedlock.lock_until <= $3'),
    ('Java 6 acquires', 'UPDATE shedlock SET lock_until = $2, locked_at = $3, locked_by = $4
        WHERE name = $1 AND lock_until <= $3'),
    ('Java 6 extends', 'UPDATE shedlock SET lock_until = $2 WHERE name = $1 AND locked_by = $4 AND lock_until > $3'),
    ('Java 6 unlocks', 'UPDATE shedlock SET lock_until = $3 WHERE name = $1'),
    -- Java 6 and 7 with usingDbTime, and the jOOQ provider, which uses the session's time zone.
    ('Java 6, DB time, acquires', 'UPDATE shedlock
        SET lock_until = timezone(''utc'', CURRENT_TIMESTAMP) + cast(''600000 milliseconds'' as interval),
            locked_at = timezone(''utc'', CURRENT_TIMESTAMP), locked_by = $4
        WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone(''utc'', CURRENT_TIMESTAMP)'),
    ('Java 7, DB time, acquires', 'UPDATE shedlock
        SET lock_until = timezone(''utc'', CURRENT_TIMESTAMP) + make_interval(secs => 600),
            locked_at = timezone(''utc'', CURRENT_TIMESTAMP), locked_by = $4
        WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone(''utc'', CURRENT_TIMESTAMP)'),
    ('Java 7, DB time, unlocks', 'UPDATE shedlock
        SET lock_until = CASE WHEN locked_at + make_interval(secs => 0) > timezone(''utc'', CURRENT_TIMESTAMP)
            THEN locked_at + make_interval(secs => 0) ELSE timezone(''utc'', CURRENT_TIMESTAMP) END
        WHERE name = $1 AND locked_by = $4'),
    ('Java 7, DB time, extends', 'UPDATE shedlock
        SET lock_until = timezone(''utc'', CURRENT_TIMESTAMP) + make_interval(secs => 600)
        WHERE name = $1 AND locked_by = $4 AND lock_until > timezone(''utc'', CURRENT_TIMESTAMP)'),
    ('jOOQ acquires', 'UPDATE shedlock
        SET name = $1, lock_until = localtimestamp(6) + interval ''10 min'',
            locked_at = localtimestamp(6), locked_by = $4
        WHERE (name = $1 AND lock_until <= localtimestamp(6))'),
    -- Go: shedlock-go, and go-shedlock over gorm.
    ('Go acquires', 'INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ($1, $2, $3, $4)
        ON CONFLICT (name) DO UPDATE
        SET lock_until = EXCLUDED.lock_until, locked_at = EXCLUDED.locked_at, locked_by = EXCLUDED.locked_by
        WHERE shedlock.lock_until <= $3'),
    ('Go extends', 'UPDATE shedlock SET lock_until = $2 WHERE name = $1 AND locked_by = $4'),
    ('Go unlocks', 'DELETE FROM shedlock WHERE name = $1 AND locked_by = $4'),
    ('gorm unlocks', 'UPDATE "shedlock" SET "lock_until"=$3 WHERE name=$1 AND lock_until>$3'),
    -- By hand.
    ('a runbook', 'DELETE FROM shedlock WHERE name = $1'),
    ('a runbook, quoting', 'DELETE FROM shedlock
        WHERE name = $1 AND locked_by = (SELECT locked_by FROM shedlock WHERE name = $1)'),
    ('a rename', 'UPDATE shedlock SET name = $1 || ''!'' WHERE name = $1');
-- How many rows a statement changes if the client's clock is that far ahead. Its changes are rolled back.
CREATE FUNCTION rows_changed(statement text, name text, ahead interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    client_now timestamp := timezone('utc', clock_timestamp()) + ahead;
    changed bigint;
BEGIN
    PERFORM set_config('TimeZone', 'Pacific/Kiritimati', true);
    EXECUTE statement USING name, client_now + interval '10 min', client_now, 'host';
    GET DIAGNOSTICS changed = ROW_COUNT;
    RAISE SQLSTATE 'UNDO1';
EXCEPTION WHEN SQLSTATE 'UNDO1' THEN
    RETURN changed;
END $$;
CREATE TEMP VIEW changes AS
SELECT s.n, s.who, l.name,
       (SELECT string_agg(rows_changed(s.said, l.name, a)::text, ' ' ORDER BY a)
          FROM unnest(ARRAY['-2 h', '0', '2 h', '10 years']::interval[]) a) AS changed
  FROM statements s, shedlock l;

-- Locks of ours in every state, and locks of Java clients.
SELECT shedlock_acquire('session', '1 h') AND shedlock_acquire('session, tick', '1 h', tick => now()) AS by_session,
       shedlock_acquire_token('token', '1 h', holder => 'web-1') IS NOT NULL
           AND shedlock_acquire_token(ARRAY['token, tick', 'and another'], '1 h', tick => now(), holder => 'web-2')
               IS NOT NULL AS by_token,
       shedlock_acquire('kept', '1 h', at_least => '1 h') AND shedlock_release('kept') AS kept,
       shedlock_acquire('kept, failed', '1 h', at_least => '1 h')
           AND shedlock_release('kept, failed', false) AS kept_failed,
       shedlock_pause('paused', 'x') AS paused;
SELECT shedlock_acquire('over', '1 ms'),
       shedlock_acquire('released', '1 h') AND shedlock_release('released') AS released, pg_sleep(0.002);
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES
    ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host'),
    ('java over', timezone('utc', now()) - interval '1 h', timezone('utc', now()) - interval '2 h', 'host'),
    ('java, odd host', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'worker#3'),
    ('java, like a session', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'billing/2.14'),
    ('java, like a run', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'batch/run/1.0'),
    ('java, like a pause', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'paused: x');
-- Without protection: the rows changed by a client whose clock is two hours behind, right, two hours ahead
-- and ten years ahead.
CREATE TEMP TABLE unprotected AS SELECT * FROM changes;
SELECT who, changed AS of_a_session FROM unprotected WHERE name = 'session' ORDER BY n;
-- With protection: none, not even in a run.
SELECT shedlock_protect();
SET client_min_messages = warning;
CREATE TEMP TABLE protected AS SELECT * FROM changes;
CALL shedlock_run('run', 'INSERT INTO protected SELECT * FROM changes WHERE name = ''run''', '1 h');
CALL shedlock_run('run, tick', 'INSERT INTO protected SELECT * FROM changes WHERE name = ''run, tick''',
                  '1 h', tick => now());
SELECT name, count(*) AS statements, string_agg(DISTINCT changed, ', ') AS changed
  FROM protected WHERE name !~ '^(java|over|released)' GROUP BY 1 ORDER BY name COLLATE "C";
-- Locks of Java clients, and free ones of ours, behave as before.
SELECT name, p.who, p.changed, u.changed AS unprotected
  FROM protected p JOIN unprotected u USING (name, n) WHERE p.changed <> u.changed AND name ~ '^(java|over|released)';
SELECT name, count(*) AS as_ever, count(*) FILTER (WHERE p.changed ~ '1') AS that_change
  FROM protected p JOIN unprotected u USING (name, n, changed)
 WHERE name ~ '^(java|over|released)'
 GROUP BY 1
 ORDER BY name COLLATE "C";
RESET client_min_messages;

-- What the other clients see.
\set QUIET off
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'token';
UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'token, tick';
DELETE FROM shedlock WHERE name = 'token';
MERGE INTO shedlock USING (SELECT 'token' AS job) j ON name = job WHEN MATCHED THEN UPDATE SET lock_until = locked_at;
MERGE INTO shedlock USING (SELECT 'token' AS job) j ON name = job WHEN MATCHED THEN DELETE;
-- The protection also holds for a role that may only read and write the table, even if the role makes a function with
-- the name of one that the trigger calls.
CREATE ROLE regress_java;
GRANT SELECT, INSERT, UPDATE, DELETE ON shedlock TO regress_java;
CREATE SCHEMA regress_evil AUTHORIZATION regress_java;
SET ROLE regress_java;
CREATE FUNCTION regress_evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$
    SELECT timestamptz '2999-01-01'
$$;
SET search_path = regress_evil, pg_catalog, public;
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'token';
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'java';
DELETE FROM shedlock WHERE name = 'java';
RESET search_path;
RESET ROLE;
-- The clock decides, not the start of the transaction.
BEGIN;
SELECT shedlock_acquire('short', '1 ms'), pg_sleep(0.002);
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'short';
-- A statement that changes lock_at_least_until is let through: whoever wrote it knows that column.
UPDATE shedlock SET lock_until = timezone('utc', now()), lock_at_least_until = NULL WHERE name = 'token';
ROLLBACK;
-- Rows that look odd.
INSERT INTO shedlock VALUES
    ('odd', 'infinity', 'infinity', 'x#1'), ('odder', 'infinity', '-infinity', '#-1'),
    ('empty', 'infinity', '2026-01-01', ''), ('old', 'infinity', '1969-12-31 23:59:59', 'x#-1000000');
UPDATE shedlock SET locked_by = 'y' WHERE name IN ('odd', 'odder', 'empty', 'old');
\set QUIET on

-- Our acquire, extend, release, force_release, pause and resume work as before.
SELECT shedlock_extend('session', '2 h') AS extended, shedlock_extend('session', '1 min') AS shortened,
       shedlock_extend('session', '1 h', at_least => '1 min') AS kept,
       shedlock_extend('session', '2 h') AS and_extended;
SELECT shedlock_extend_token('token', token, '2 h') AS extended,
       shedlock_extend_token('token', token, '1 min') AS shortened,
       shedlock_release_token('token', token, done => false) AS failed
  FROM shedlock_locks WHERE name = 'token';
SELECT shedlock_release('session'), shedlock_resume('paused'), shedlock_force_release('kept') AS kept,
       shedlock_force_release('session, tick') AS held, shedlock_pause('paused') AS paused,
       shedlock_force_release('paused') AS was_paused;
SELECT shedlock_pause('never run'), shedlock_resume('never run');
SELECT lock_at_least_until FROM shedlock WHERE name = 'never run';
SELECT shedlock_acquire(ARRAY['token', 'over', 'new'], '1 h') AS acquired,
       shedlock_extend(ARRAY['token', 'over', 'new'], '2 h') AS extended,
       shedlock_release(ARRAY['token', 'over', 'new']) AS released;
SELECT name, state, last_outcome FROM shedlock_locks WHERE name !~ '^(java|odd|empty|old)' ORDER BY name;
-- A run whose session is gone: our functions can acquire the lock, while Java clients have to wait.
SELECT lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0') AS server \gset
INSERT INTO shedlock VALUES
    ('dead run', timezone('utc', now()) + interval '1 h', '2026-01-01',
        format('web-3/999999999.1.%s!1767225600000000', :'server'), timezone('utc', now()) - interval '1 min');
\set QUIET off
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'dead run';
\set QUIET on
SELECT shedlock_acquire('dead run', '1 h');

-- Our functions also change such a row when its lock_at_least_until stays the same, which can happen where that column
-- stores only whole seconds.
ALTER TABLE shedlock ALTER lock_at_least_until TYPE timestamp(0);
INSERT INTO shedlock VALUES
    ('dead run, coarse', timezone('utc', now()) + interval '1 h', '2026-01-01',
        format('web-3/999999999.1.%s!1767225600000000', :'server'),
        date_trunc('second', timezone('utc', clock_timestamp())));
SELECT shedlock_acquire('dead run, coarse', '1 h'), shedlock_extend('dead run, coarse', '2 h', at_least => '0'),
       shedlock_release('dead run, coarse');
ALTER TABLE shedlock ALTER lock_at_least_until TYPE timestamp;

-- It can be turned on and off repeatedly.
SELECT shedlock_protect(), shedlock_protect(true);
SELECT tgname, tgfoid::regproc FROM pg_trigger WHERE tgrelid = 'shedlock'::regclass;
SELECT shedlock_protect(NULL);
SELECT shedlock_protect(false), shedlock_protect(false);
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid = 'shedlock'::regclass;
\set QUIET off
UPDATE shedlock SET lock_until = timezone('utc', now()) WHERE name = 'dead run';
\set QUIET on
-- Only administrators may call it.
SELECT shedlock_grant('regress_java');
SET ROLE regress_java;
SELECT shedlock_protect();
RESET ROLE;
SELECT shedlock_grant('regress_java', admin => true);
SET ROLE regress_java;
SELECT shedlock_protect();
RESET ROLE;
BEGIN;
SELECT shedlock_protect(false);
ROLLBACK;
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid = 'shedlock'::regclass;
SELECT shedlock_protect(false);
DROP VIEW changes;
DROP FUNCTION rows_changed;
DROP OWNED BY regress_java;
DROP ROLE regress_java;
DELETE FROM shedlock;
