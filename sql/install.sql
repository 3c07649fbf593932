-- What CREATE EXTENSION creates, and the comments on it.
CREATE EXTENSION shedlock;
\pset format aligned
\d shedlock
\pset format csv
SELECT indexdef FROM pg_indexes WHERE tablename = 'shedlock';

-- Every object has a comment.
SELECT pg_describe_object(classid, objid, objsubid) AS without_comment
  FROM pg_depend
 WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shedlock')
   AND classid IN ('pg_class'::regclass, 'pg_proc'::regclass)
   AND obj_description(objid, classid::regclass::name) IS NULL;

-- The lock functions have effects and count calls: VOLATILE, PARALLEL UNSAFE, called on NULL too.
SELECT proname, pg_get_function_arguments(oid) AS arguments, pg_get_function_result(oid) AS result,
       provolatile, proparallel, proisstrict, prosecdef
  FROM pg_proc WHERE proname LIKE 'shedlock%' ORDER BY 1, 2;

-- Settings exist once the library is loaded, and a misspelt one is refused.
SELECT shedlock_session_alive(NULL);
SELECT name, setting, unit, context FROM pg_settings WHERE name LIKE 'shedlock.%' ORDER BY name;
SET shedlock.async_releases = 1;

-- The extension can be moved to another schema; the table, which Java clients may use, stays and is found. A name that
-- is an untyped literal is taken for text, not for text[].
CREATE SCHEMA elsewhere;
SELECT shedlock_acquire('moving', '1 min');
ALTER EXTENSION shedlock SET SCHEMA elsewhere;
SELECT elsewhere.shedlock_acquire('moving', '1 min') AS second, elsewhere.shedlock_release('moving') AS released;
SELECT name, state FROM elsewhere.shedlock_locks;
ALTER TABLE shedlock SET SCHEMA elsewhere;
SELECT elsewhere.shedlock_acquire('moving', '1 min') AS moved_too;
ALTER TABLE elsewhere.shedlock RENAME TO renamed;
SELECT elsewhere.shedlock_acquire('moving', '1 min') AS after_rename;
ALTER TABLE elsewhere.renamed RENAME TO shedlock;
ALTER EXTENSION shedlock SET SCHEMA public;
ALTER TABLE elsewhere.shedlock SET SCHEMA public;
DROP SCHEMA elsewhere;

-- The table belongs to its owner, not to the extension: DROP TABLE is refused while the extension uses it, DROP
-- EXTENSION leaves it with all locks, including those of Java clients, and CREATE EXTENSION adopts it.
INSERT INTO shedlock VALUES ('java', 'infinity', timezone('utc', now()), 'host');
SELECT shedlock_acquire('held', '1 min');
DROP TABLE shedlock;
DROP EXTENSION shedlock;
SELECT name FROM shedlock ORDER BY name;
CREATE EXTENSION shedlock;
SELECT shedlock_acquire('java', '1 min') AS acquired, shedlock_release('held') AS still_ours;
-- If there is no table, a new one is created, and this session finds it at once.
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE EXTENSION shedlock;
SELECT shedlock_acquire('moving', '1 min');
DELETE FROM shedlock;

-- If there is another lock table, the one that CREATE EXTENSION has just created may be a mistake. So it reports
-- the other one, although it silences notices while its script runs. If our table has locks already, it does not
-- report the other one.
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE SCHEMA regress_java;
CREATE TABLE regress_java.shedlock (
    name varchar(64) PRIMARY KEY,
    lock_until timestamp NOT NULL,
    locked_at timestamp NOT NULL,
    locked_by varchar(255) NOT NULL
);
CREATE EXTENSION shedlock;
SHOW client_min_messages;
SELECT shedlock_acquire('moving', '1 min');
DROP EXTENSION shedlock;
CREATE EXTENSION shedlock;
DELETE FROM shedlock;
SET client_min_messages = warning;
DROP SCHEMA regress_java CASCADE;
RESET client_min_messages;

-- The function that creates the table is gone after installation.
SELECT count(*) AS left_over FROM pg_proc WHERE proname = 'shedlock_make_or_adopt_table';
