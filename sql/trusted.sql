-- Which roles may create the extension, and what prevents it.
CREATE ROLE regress_shedlock_app;
CREATE ROLE regress_shedlock_java;
-- If the role cannot use the schema, shedlock_grant says what is missing.
CREATE SCHEMA regress_hidden;
ALTER EXTENSION shedlock SET SCHEMA regress_hidden;
SELECT regress_hidden.shedlock_grant('regress_shedlock_app');
SELECT regress_hidden.shedlock_grant('regress_shedlock_app', java => true);
REVOKE ALL ON shedlock FROM regress_shedlock_app;
ALTER EXTENSION shedlock SET SCHEMA public;
DROP SCHEMA regress_hidden;

-- The extension is trusted: a role with CREATE on the database and on the schema may create the extension, and then
-- read its table and grant its use. That role owns the table; a superuser owns the functions.
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE ROLE regress_shedlock_dba;
SELECT current_database() AS database \gset
GRANT CREATE ON DATABASE :"database" TO regress_shedlock_dba;
GRANT CREATE ON SCHEMA public TO regress_shedlock_dba;
SET ROLE regress_shedlock_dba;
CREATE EXTENSION shedlock;
SELECT shedlock_acquire('dba', '1 min'), shedlock_release('dba');
SELECT name, state FROM shedlock_locks;
SELECT count(*) FROM shedlock;
SELECT shedlock_grant('regress_shedlock_app');
SELECT shedlock_grant('regress_shedlock_java', java => true);
SELECT grantor::regrole, privilege_type
  FROM pg_class, aclexplode(relacl)
 WHERE oid = 'shedlock'::regclass AND grantee = 'regress_shedlock_java'::regrole
 ORDER BY 2;
-- It can revoke as well, although it does not own the functions.
SELECT shedlock_revoke('regress_shedlock_app'), shedlock_revoke('regress_shedlock_java', java => true);
SELECT count(*) FROM pg_shdepend WHERE refobjid IN ('regress_shedlock_app'::regrole, 'regress_shedlock_java'::regrole);
SELECT relname, relowner::regrole = current_user::regrole AS mine
  FROM pg_class WHERE relname IN ('shedlock', 'shedlock_locks') ORDER BY 1;
DROP EXTENSION shedlock;
CREATE EXTENSION shedlock;
DROP EXTENSION shedlock;
DROP TABLE shedlock;
-- CREATE EXTENSION fails in a schema in which the role may not create a table, although its script, as a
-- superuser, could.
RESET ROLE;
CREATE SCHEMA regress_closed;
GRANT USAGE ON SCHEMA regress_closed TO regress_shedlock_dba;
SET ROLE regress_shedlock_dba;
\set VERBOSITY terse
CREATE EXTENSION shedlock SCHEMA regress_closed;
\set VERBOSITY default
RESET ROLE;
DROP SCHEMA regress_closed;
-- Default privileges give nobody any right to the objects that the script creates.
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO regress_shedlock_app;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_shedlock_app, PUBLIC;
SET ROLE regress_shedlock_dba;
CREATE EXTENSION shedlock;
RESET ROLE;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM regress_shedlock_app;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM regress_shedlock_app, PUBLIC;
SELECT p.proname
  FROM pg_proc p WHERE p.proname ~ '^shedlock' AND has_function_privilege('regress_shedlock_app', p.oid, 'EXECUTE');
SELECT c.relname, a.privilege_type
  FROM pg_class c, aclexplode(c.relacl) a
 WHERE c.relname ~ '^shedlock' AND a.grantee NOT IN (c.relowner, 'regress_shedlock_dba'::regrole);
SELECT shedlock_acquire('dba', '1 min'), shedlock_release('dba');
DROP EXTENSION shedlock;
DROP TABLE shedlock;
CREATE EXTENSION shedlock;
REVOKE CREATE ON DATABASE :"database" FROM regress_shedlock_dba;
REVOKE CREATE ON SCHEMA public FROM regress_shedlock_dba;
DROP ROLE regress_shedlock_dba;
DROP ROLE regress_shedlock_app;
DROP OWNED BY regress_shedlock_java;
DROP ROLE regress_shedlock_java;
