-- The locks are safe only if a single server writes the table. Citus, Spock, pgactive and PGD cannot be installed here,
-- so their catalogs are imitated, with the columns that we read. (The real Citus is tested by test/citus, where it is
-- installed. The real pglogical was tried by hand. A real subscription is in test/tap/operations.pl.)
CREATE VIEW complaints AS
SELECT severity, finding, hint
  FROM shedlock_doctor() WHERE finding !~ '^fsync is off| dead rows | session that is gone ';
CREATE PROCEDURE install(extension name) LANGUAGE sql AS $$
    DELETE FROM pg_extension WHERE oid = 32767;
    INSERT INTO pg_extension VALUES (32767, extension, 10, 'public'::regnamespace, false, '1.0', NULL, NULL);
$$;
\pset format aligned
\x on
\pset tuples_only on
\set SHOW_CONTEXT never

-- Citus.
SELECT shedlock_acquire_token('before', '1 h') AS token \gset
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_local_group (groupid int PRIMARY KEY);
CREATE TABLE pg_catalog.pg_dist_node (nodeid int PRIMARY KEY, groupid int NOT NULL);
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass PRIMARY KEY);
GRANT SELECT ON pg_catalog.pg_dist_local_group, pg_catalog.pg_dist_node, pg_catalog.pg_dist_partition TO PUBLIC;
CALL install('citus');
-- Citus has triggers that invalidate pg_dist_local_group when the server's number (groupid) changes; here
-- ALTER TABLE does.
CREATE PROCEDURE become(node int) LANGUAGE plpgsql SET allow_system_table_mods = on AS $$
BEGIN
    DELETE FROM pg_dist_local_group;
    INSERT INTO pg_dist_local_group VALUES (node);
    ALTER TABLE pg_catalog.pg_dist_local_group SET (fillfactor = 100);
END
$$;
-- An open session notices the new extension. A server without a number (pg_upgrade) or without workers
-- is like any other.
SELECT shedlock_acquire('upgrading', '1 h');
CALL become(0);
SELECT shedlock_acquire('alone', '1 h');
SELECT * FROM complaints;
-- A coordinator with two workers, one of which has a standby.
INSERT INTO pg_dist_node VALUES (1, 0), (2, 1), (3, 2), (4, 2);
SELECT shedlock_acquire('coordinator', '1 h');
SELECT * FROM complaints;
-- A worker: every function that acquires a lock fails, even in a session that has acquired locks before.
CALL become(2);
SELECT shedlock_acquire('new', '1 h');
\echo :LAST_ERROR_SQLSTATE
SELECT shedlock_acquire(ARRAY['new', 'newer'], '1 h', wait => '10 ms');
SELECT shedlock_acquire_token('new', '1 h');
SELECT shedlock_acquire_token('alone', '1 h');
SELECT shedlock_pause('new');
CALL shedlock_run('new', 'SELECT 1', '1 h');
\c
SELECT shedlock_acquire('new', '1 h');
-- Locks that were acquired before can be seen and released.
SELECT name, state FROM shedlock_locks ORDER BY name;
SELECT shedlock_release_token('before', :token), shedlock_force_release('alone');
SELECT * FROM complaints;
-- CREATE EXTENSION must work on a worker, because the coordinator executes it there.
SET client_min_messages = error;
DROP EXTENSION shedlock CASCADE; DROP TABLE shedlock; CREATE EXTENSION shedlock;
RESET client_min_messages;
CREATE VIEW complaints AS
SELECT severity, finding, hint
  FROM shedlock_doctor() WHERE finding !~ '^fsync is off| dead rows | session that is gone ';
SELECT shedlock_acquire('new', '1 h');
-- The coordinator again; the lock table has been distributed.
CALL become(0);
SELECT shedlock_acquire('new', '1 h');
DELETE FROM pg_dist_node;
INSERT INTO pg_dist_partition VALUES ('complaints'), ('shedlock');
SELECT * FROM complaints;
SET allow_system_table_mods = on;
DROP TABLE pg_catalog.pg_dist_local_group, pg_catalog.pg_dist_node, pg_catalog.pg_dist_partition;
DELETE FROM pg_extension WHERE oid = 32767;
SELECT shedlock_acquire('newer', '1 h');

-- A native subscription to the table. One without the table, and a publication, do no harm.
SET client_min_messages = error;
CREATE PUBLICATION regress_all FOR ALL TABLES;
CREATE SUBSCRIPTION "regress Sub" CONNECTION '' PUBLICATION regress_all WITH (connect = false);
RESET client_min_messages;
SELECT * FROM complaints;
INSERT INTO pg_subscription_rel SELECT oid, 'complaints'::regclass, 'r' FROM pg_subscription;
SELECT * FROM complaints;
INSERT INTO pg_subscription_rel SELECT oid, 'shedlock'::regclass, 'r' FROM pg_subscription;
SELECT * FROM complaints;
-- The subscription can be seen even without the rights of a superuser. The doctor has the rights of its caller, and
-- says what it could not read.
CALL install('pgactive');
CREATE SCHEMA pgactive;
GRANT USAGE ON SCHEMA pgactive TO PUBLIC;
CREATE TABLE pgactive.pgactive_nodes (node_name text NOT NULL, node_status "char" NOT NULL);
CREATE ROLE regress_ordinary;
SELECT shedlock_grant('regress_ordinary');
SET ROLE regress_ordinary;
SELECT severity, finding, hint
  FROM shedlock_doctor() WHERE finding !~ '^fsync is off| dead rows | session that is gone ';
RESET ROLE;
DROP OWNED BY regress_ordinary;
DROP ROLE regress_ordinary;
ALTER SUBSCRIPTION "regress Sub" SET (slot_name = NONE);
DROP SUBSCRIPTION "regress Sub";
DROP PUBLICATION regress_all;

-- pgactive: a single node, one that was removed, and two nodes.
INSERT INTO pgactive.pgactive_nodes VALUES ('a', 'r'), ('removed', 'k');
SELECT * FROM complaints;
INSERT INTO pgactive.pgactive_nodes VALUES ('joining', 'i');
SELECT * FROM complaints;
-- pgactive puts a trigger on each table. The finding about the trigger would not explain the problem by itself.
CREATE TRIGGER truncate_trigger AFTER TRUNCATE ON shedlock EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT * FROM complaints;
DROP TRIGGER truncate_trigger ON shedlock;
DROP SCHEMA pgactive CASCADE;

-- PGD.
CALL install('bdr');
CREATE SCHEMA bdr;
CREATE TABLE bdr.node (node_id oid PRIMARY KEY, node_name name NOT NULL);
INSERT INTO bdr.node VALUES (1, 'a');
SELECT * FROM complaints;
INSERT INTO bdr.node VALUES (2, 'b');
SELECT * FROM complaints;
DROP SCHEMA bdr CASCADE;

-- With pg_tle any role can make an extension of such a name.
CREATE ROLE regress_tle;
CREATE SCHEMA bdr AUTHORIZATION regress_tle;
CREATE FUNCTION bdr.trap() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'A TRAP RUNS AS %', current_user;
END $$;
CREATE VIEW bdr.node AS SELECT bdr.trap() AS node_id;
SELECT * FROM complaints;
ALTER SCHEMA bdr OWNER TO CURRENT_USER;
UPDATE pg_extension SET extowner = 'regress_tle'::regrole WHERE oid = 32767;
SELECT * FROM complaints;
DROP SCHEMA bdr CASCADE;
DROP ROLE regress_tle;

-- pglogical and Spock have the same catalogs. Without a subscription; a subscription to other tables; one that has
-- copied ours; and one that may bring our own changes back.
CALL install('spock');
CREATE SCHEMA spock;
CREATE TABLE spock.subscription (sub_id oid PRIMARY KEY, sub_name name NOT NULL);
CREATE TABLE spock.replication_set_table (set_id oid, set_reloid regclass, PRIMARY KEY (set_id, set_reloid));
CREATE TABLE spock.local_sync_status (sync_subid oid NOT NULL, sync_nspname name, sync_relname name);
INSERT INTO spock.replication_set_table VALUES (1, 'shedlock');
SELECT * FROM complaints;
DELETE FROM spock.replication_set_table;
INSERT INTO spock.subscription VALUES (1, 'from_b');
INSERT INTO spock.local_sync_status VALUES
    (1, NULL, NULL), (1, 'public', 'complaints'), (1, 'elsewhere', 'shedlock'), (2, 'public', 'shedlock');
SELECT * FROM complaints;
INSERT INTO spock.local_sync_status VALUES (1, 'public', 'shedlock');
SELECT * FROM complaints;
DELETE FROM spock.local_sync_status;
INSERT INTO spock.replication_set_table VALUES (1, 'shedlock');
SELECT * FROM complaints;
ALTER SCHEMA spock RENAME TO pglogical;
-- A version with other catalogs.
SELECT * FROM complaints;
CALL install('pglogical');
SELECT * FROM complaints;
-- If pglogical is not installed, objects in a schema of that name may be a trap.
DELETE FROM pg_extension WHERE oid = 32767;
DROP TABLE pglogical.subscription;
CREATE FUNCTION pglogical.trap() RETURNS name LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'A TRAP RUNS AS %', current_user;
END $$;
CREATE VIEW pglogical.subscription AS SELECT 1::oid AS sub_id, pglogical.trap() AS sub_name;
SELECT * FROM complaints;
SET client_min_messages = error;
DROP SCHEMA pglogical CASCADE;
\pset tuples_only off
\x off
\pset format csv
DROP VIEW complaints;
DROP PROCEDURE install, become;
DELETE FROM shedlock;
