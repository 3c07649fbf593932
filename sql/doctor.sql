-- shedlock_doctor. Findings about runs and ticks are in sql/doctor_runs.sql, those about several servers in
-- sql/writers.sql, and bloat, standbys and long transactions in test/tap/operations.pl. The first finding here is that
-- the throw-away server has fsync off.
CREATE VIEW complaints AS
    SELECT severity,
           regexp_replace(finding,
               '\d{4}-\d\d-\d\d \S+|\w{3} \w{3} \d\d [0-9:.]+ \d{4} \w+|@ [0-9a-z. ]*(secs?|mins?)|pid \d+|@[^"]*"',
               '…', 'g') AS finding,
           hint
      FROM shedlock_doctor() WHERE finding NOT LIKE 'fsync is off%' AND finding NOT LIKE '% dead rows %';
SELECT shedlock_stats_reset();
\pset format aligned
\x on
\pset tuples_only on
SELECT severity, finding, hint FROM shedlock_doctor() WHERE finding LIKE 'fsync%';
SELECT * FROM complaints;
-- Clients that write local time.
INSERT INTO shedlock VALUES
    ('local', timezone('utc', now()) + interval '3 h', timezone('utc', now()) + interval '2 h', 'jvm-in-helsinki');
SELECT * FROM complaints;
DELETE FROM shedlock;
-- A tick slightly ahead of the clock is no such case.
SELECT shedlock_acquire('ahead', '1 min', tick => now() + interval '50 s');
SELECT * FROM complaints;
-- A holder that is gone.
SELECT shedlock_acquire('gone', '1 h');
\c
-- (A backend takes a moment to exit.)
DO $$
BEGIN
    WHILE EXISTS (SELECT FROM shedlock_locks WHERE holder_alive) LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END $$;
SELECT * FROM complaints;
DELETE FROM shedlock;
-- A lease about to end, and one that is kept alive.
SELECT shedlock_acquire('late', '1 min');
SELECT shedlock_acquire('kept', '1 min'), shedlock_extend('kept', '1 min');
UPDATE shedlock SET locked_at = locked_at - interval '9 min';
SELECT * FROM complaints;
DELETE FROM shedlock;
-- A pause.
SELECT shedlock_pause('paused', 'x');
SELECT severity, replace(finding, session_user, '…') AS finding, hint FROM complaints;
DELETE FROM shedlock;
-- Odd rows do not confuse it.
INSERT INTO shedlock VALUES ('odd', '-infinity', 'infinity', '/.#'), ('odder', 'infinity', '-infinity', '#'),
    ('long', '294276-12-31 23:59:59.999999', '4713-01-01 BC', '#'), ('backwards', '4713-01-01 BC', '1999-01-01', '#'),
    ('far', '294276-12-31 23:59:59.999999', '-infinity', '#');
SELECT * FROM complaints;
DELETE FROM shedlock;
-- Counters: a lease that is too short for the runs so far, and leases that ran out.
SELECT shedlock_acquire('close', '1 min');
SELECT pg_sleep(0.03);
SELECT shedlock_release('close'), shedlock_acquire('close', '20 ms');
UPDATE shedlock SET lock_until = lock_until + interval '1 h', locked_at = locked_at + interval '1 h'
 WHERE name = 'close';
SELECT * FROM complaints WHERE finding LIKE '%ends after%';
UPDATE shedlock
   SET lock_until = timezone('utc', now()), locked_at = timezone('utc', now()),
       locked_by = regexp_replace(locked_by, '\d+$', (extract(epoch FROM now()) * 1000000)::bigint::text);
SELECT shedlock_acquire('close', '1 min'), shedlock_release('close');
SELECT * FROM complaints;
-- A release that came too late, of a lease that did not run out.
SELECT shedlock_stats_reset();
SET client_min_messages = error;
SELECT shedlock_acquire('close', '1 min'), shedlock_force_release('close'), shedlock_release('close');
RESET client_min_messages;
SELECT * FROM complaints;
-- Counters of a lock whose row is gone cause no finding.
DELETE FROM shedlock;
SELECT * FROM complaints;
SELECT shedlock_stats_reset();
-- Names that look alike; blanks inside a name are harmless.
INSERT INTO shedlock
    SELECT name, timezone('utc', now()), timezone('utc', now()), 'host'
      FROM unnest(ARRAY['a', 'a b', ' a', 'a ', E'a\t', E'\na']) name;
SELECT severity, replace(replace(finding, E'\t', '<tab>'), E'\n', '<newline>') AS finding, hint FROM complaints;
DELETE FROM shedlock;
-- A second lock table, whatever its schema and name. The other relations are not lock tables.
CREATE SCHEMA regress_java;
CREATE TABLE regress_java.shedlock (
    name varchar(64) PRIMARY KEY,
    lock_until timestamptz(3),
    locked_at timestamptz(3),
    locked_by varchar(255)
);
CREATE TABLE regress_java."Job Locks" (id int, name text, locked_by text, locked_at timestamp, lock_until timestamp);
CREATE VIEW regress_java.java_locks AS SELECT name, lock_until, locked_at, locked_by FROM shedlock;
CREATE TABLE regress_java.lacks_one (name text, lock_until timestamp, locked_at timestamp, locked_by_nobody text);
CREATE TABLE regress_java.of_other_types (name text, lock_until bigint, locked_at bigint, locked_by text);
CREATE TEMP TABLE shedlock (LIKE public.shedlock);
CREATE TABLE regress_java.of_an_extension (LIKE public.shedlock);
ALTER EXTENSION plpgsql ADD TABLE regress_java.of_an_extension;
SELECT * FROM complaints;
ALTER EXTENSION plpgsql DROP TABLE regress_java.of_an_extension;
DROP TABLE pg_temp.shedlock;
SET client_min_messages = warning;
DROP SCHEMA regress_java CASCADE;
RESET client_min_messages;
-- What pg_upgrade loses, and what repairs it.
DELETE FROM pg_depend WHERE classid = 'pg_extension'::regclass AND refobjid = 'shedlock'::regclass;
SELECT * FROM complaints;
\set VERBOSITY sqlstate
SELECT shedlock_after_pg_upgrade(), shedlock_after_pg_upgrade();
\set VERBOSITY default
SELECT * FROM complaints;
SELECT count(*) FROM pg_depend WHERE classid = 'pg_extension'::regclass AND refobjid = 'shedlock'::regclass;
-- The table's shape.
ALTER TABLE shedlock ALTER last_tick SET DEFAULT now();
SELECT * FROM complaints;
ALTER TABLE shedlock ALTER last_tick DROP DEFAULT;
-- What others attach to the table. Triggers do not fire for the extension, which cannot insert rows that an
-- INSERT would fill in.
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER audit AFTER UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE shedlock ADD created_at timestamptz NOT NULL DEFAULT now(), ADD note text CHECK (note <> ''), ADD more text;
SELECT * FROM complaints;
ALTER TABLE shedlock DROP created_at, DROP note, DROP more;
DROP TRIGGER audit ON shedlock;
DROP FUNCTION audit;
-- Row security hides rows from Java clients, unless a policy shows them. The hint can be followed.
CREATE ROLE regress_java;
CREATE ROLE "regress Seen";
CREATE ROLE regress_bypass BYPASSRLS;
SELECT shedlock_grant(r, java => true) FROM unnest('{regress_java,regress Seen,regress_bypass}'::text[]) r;
ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON shedlock TO "regress Seen" USING (true);
CREATE POLICY half ON shedlock FOR UPDATE TO regress_java USING (true); -- an UPDATE also reads
SELECT * FROM complaints;
SELECT hint FROM complaints \gexec
SELECT * FROM complaints;
DROP POLICY seen ON shedlock;
DROP POLICY half ON shedlock;
DROP POLICY "shedlock regress_java" ON shedlock;
ALTER TABLE shedlock DISABLE ROW LEVEL SECURITY;
SELECT shedlock_revoke(r, java => true) FROM unnest('{regress_java,regress Seen,regress_bypass}'::text[]) r;
DROP ROLE regress_java, "regress Seen", regress_bypass;
-- Columns with a time zone, into which a JVM in Los Angeles has written as Java does. Following the hints literally, in
-- a session in UTC, restores the UTC times that Java wrote.
ALTER TABLE shedlock ALTER lock_until TYPE timestamptz, ALTER locked_at TYPE timestamptz;
BEGIN;
SET LOCAL TimeZone = 'America/Los_Angeles';
INSERT INTO shedlock VALUES ('java', timestamp '2026-07-01 12:10', timestamp '2026-07-01 12:00', 'jvm');
COMMIT;
SET TimeZone = 'UTC';
CREATE VIEW advice AS
    SELECT replace(replace(step, 'TABLE ...', 'TABLE shedlock'), $$'...'$$, $$'America/Los_Angeles'$$)
      FROM complaints, regexp_split_to_table(substring(hint FROM '((SET|ALTER) .*)\.$'), '; ') step
     WHERE finding LIKE '%with time zone';
SELECT * FROM complaints;
SELECT * FROM advice \gexec
SET TimeZone = 'UTC';
SELECT * FROM complaints;
SELECT * FROM advice \gexec
RESET TimeZone;
SELECT locked_at, lock_until FROM shedlock;
SELECT * FROM complaints;
DROP VIEW advice;
DELETE FROM shedlock;
-- Columns so coarse that tokens repeat when Java clients use the table, too.
ALTER TABLE shedlock ALTER lock_until TYPE timestamp(0), ALTER locked_at TYPE timestamp(2),
    ALTER lock_at_least_until TYPE timestamp(1);
SELECT * FROM complaints;
ALTER TABLE shedlock ALTER lock_until TYPE timestamp(3), ALTER locked_at TYPE timestamp(3),
    ALTER lock_at_least_until TYPE timestamp(3);
SELECT * FROM complaints;
ALTER TABLE shedlock ALTER lock_until TYPE timestamp, ALTER locked_at TYPE timestamp,
    ALTER lock_at_least_until TYPE timestamp;
ALTER TABLE shedlock SET UNLOGGED;
SET client_min_messages = error;
SELECT * FROM complaints;
ALTER TABLE shedlock SET LOGGED;
RESET client_min_messages;
SELECT * FROM complaints;
-- On a standby, and wherever else nothing can be written, it works as well.
BEGIN READ ONLY;
SELECT * FROM complaints;
COMMIT;
\pset tuples_only off
\x off
\pset format csv
DROP VIEW complaints;
