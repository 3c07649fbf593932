# Many sessions at once, by pgbench: what the random histories of test/reliability do not count, and work on a table
# that was adopted.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = new_server('server', "log_statement = none\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }
my ($ok, $done, $err);

# I2, I3: all sessions try to acquire the same new names at the same time. Each name has one winner, no call fails, and
# a refused call uses no transaction id.
sql(<<'SQL');
CREATE TABLE winner (name text);
CREATE FUNCTION go(round int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF shedlock_acquire('fresh' || round, '1 h') THEN
        INSERT INTO winner VALUES ('fresh' || round);
        RETURN true;
    END IF;
    RETURN false;
END $$;
SQL
my $start = sql("SELECT pg_current_xact_id()");
($ok, $done, $err) = pgbench_script($node, <<'SCRIPT', '-c', 16, '-j', 2, '-t', 300);
\set round random(1, 200)
SELECT go(:round);
SCRIPT
ok($ok, 'concurrent first inserts do not fail') or diag($err);
is($done, 16 * 300, 'I2 every call got an answer');
is(sql('SELECT count(*), count(DISTINCT name) FROM winner'), '200|200', 'I1 one winner per name');
is(sql("SELECT count(*) FROM shedlock WHERE name LIKE 'fresh%'"), 200, 'one row per name');
my $used = sql("SELECT pg_current_xact_id()::text::bigint - $start - 1");
is($used, 200, 'I3 200 transaction ids for 200 winners, none for the losers');

# An adopted table with an index on lock_until: no update is HOT, so each one also inserts index entries, and a
# concurrent scan may miss the row. Java clients update the table as well, and DDL rebuilds the table and its index
# meanwhile.
sql('CREATE DATABASE adopted');
sub adopted { return $node->safe_psql('adopted', $_[0]); }
adopted(<<'SQL');
CREATE TABLE shedlock (name varchar(64) PRIMARY KEY,
    lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
CREATE INDEX ON shedlock (lock_until);
CREATE EXTENSION shedlock;
CREATE TABLE counter (id int PRIMARY KEY, n int);
INSERT INTO counter VALUES (1, 0), (2, 0);
CREATE TABLE java_run (n int);
CREATE PROCEDURE java(id int) LANGUAGE plpgsql AS $$
DECLARE
    old int;
BEGIN
    UPDATE shedlock SET lock_until = timezone('utc', clock_timestamp()) + make_interval(secs => 3600),
        locked_at = timezone('utc', clock_timestamp()), locked_by = 'host' || pg_backend_pid()
     WHERE name = 'c' || id AND lock_until <= timezone('utc', clock_timestamp());
    IF FOUND THEN
        COMMIT;
        SELECT n INTO old FROM counter c WHERE c.id = java.id;
        PERFORM pg_sleep(0.001);
        UPDATE counter c SET n = old + 1 WHERE c.id = java.id;
        INSERT INTO java_run VALUES (1);
        COMMIT;
        UPDATE shedlock SET lock_until = timezone('utc', clock_timestamp())
            WHERE name = 'c' || id AND locked_by = 'host' || pg_backend_pid();
    END IF;
END $$;
SQL
my $ddl_file = PostgreSQL::Test::Utils::tempdir() . '/ddl.sql';
my @ddl = ('REINDEX TABLE CONCURRENTLY shedlock', 'VACUUM FULL shedlock', 'REINDEX TABLE shedlock', 'VACUUM shedlock',
	'CLUSTER shedlock USING shedlock_pkey', 'ALTER TABLE shedlock ADD further text',
	'ALTER TABLE shedlock DROP further', 'SELECT pg_sleep(0.05)');
append_to_file($ddl_file, join(";\n", (@ddl) x 5) . ";\n");
my $ddl = IPC::Run::start([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $ddl_file, '-d', $node->connstr('adopted') ],
	'>', '/dev/null', '2>', \my $ddl_err);
($ok, $done, $err) = pgbench_script($node, <<'SCRIPT', '-c', 8, '-j', 2, '-t', 100, 'adopted');
\set is_java :client_id % 4 = 3
\set id random(1, 2)
\if :is_java
CALL java(:id);
\else
SELECT shedlock_acquire('c' || :id, '1 h', wait => '1 h');
SELECT n AS old FROM counter WHERE id = :id \gset
\sleep 1 ms
UPDATE counter SET n = :old + 1 WHERE id = :id;
SELECT shedlock_release('c' || :id);
\endif
SCRIPT
ok($ddl->finish, 'the concurrent DDL succeeds') or diag($ddl_err);
ok($ok, 'counting on an adopted table with Java clients and DDL does not fail') or diag($err);
is(adopted('SELECT sum(n) FROM counter'), 6 * 100 + adopted('SELECT count(*) FROM java_run'),
	'I1, I8 no update is lost');

# I3: none of this writes an error or a warning to the server's log.
my $log = slurp_file($node->logfile);
my @lines = grep { !/LOG:/ } split /\n/, $log;
is("@lines", '', 'I3 refusals and races write no error or warning to the server\'s log');

$node->stop;
done_testing();
