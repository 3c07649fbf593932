# I11 with postgres_fdw, which commits on the other server just before the local commit, and cannot undo that. The guard
# checks before that, with one exception: a session that connects by postgres_fdw for the first time, and does so after
# its guard, commits on the other server first (docs/guarantees.md, "Limits").
use strict;
use warnings;
use Test::More;
use ShedLock;

my $server = new_server('server', "shared_preload_libraries = 'shedlock'\n");
my ($host, $port) = ($server->host, $server->port);
$server->safe_psql('postgres', <<"SQL");
CREATE TABLE effects (who text);
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER far;
CREATE FOREIGN TABLE far_effects (who text) SERVER far OPTIONS (table_name 'effects');
SQL

my $psql = "psql -XqAt -o /dev/null -d '" . $server->connstr('postgres') . "' -c";
my (undef, undef, $err) = $server->psql('postgres', <<"SQL", on_error_stop => 0);
INSERT INTO far_effects VALUES ('connected');
SELECT shedlock_acquire('job', '1 h');
BEGIN;
SELECT shedlock_guard('job');
INSERT INTO far_effects VALUES ('lost');
\\! $psql "SELECT shedlock_force_release('job')"
COMMIT;
SELECT shedlock_acquire('job', '1 h');
BEGIN;
SELECT shedlock_guard('job');
INSERT INTO far_effects VALUES ('held');
COMMIT;
SQL
like($err, qr/lock "job" is lost/, 'a guarded transaction fails if its lock was released by force');
is($server->safe_psql('postgres', 'SELECT string_agg(who, $$ $$ ORDER BY who) FROM effects'), 'connected held',
	'... and nothing of it is committed on the other server');

# The session guards and commits once before it first connects to the other server, so postgres_fdw registers its
# callback after our first guard. Callbacks run in the reverse order of registration, so a guard in a later transaction
# must register its own again.
(undef, undef, $err) = $server->psql('postgres', <<"SQL", on_error_stop => 0);
SELECT shedlock_acquire('late', '1 h');
BEGIN;
SELECT shedlock_guard('late');
COMMIT;
INSERT INTO far_effects VALUES ('connected after a guard');
BEGIN;
SELECT shedlock_guard('late');
INSERT INTO far_effects VALUES ('lost after an earlier guard');
\\! $psql "SELECT shedlock_force_release('late')"
COMMIT;
SQL
like($err, qr/lock "late" is lost/, 'the same in a session that guarded before it first used postgres_fdw');
is($server->safe_psql('postgres', "SELECT string_agg(who, ' ') FROM effects WHERE who ~ 'after'"),
	'connected after a guard', '... and nothing of it is committed on the other server');

# A run registers its callback again when its command has ended, so it is also safe in a session that has not used
# postgres_fdw before.
$server->safe_psql('postgres', 'CREATE TABLE said (what text)');
(undef, undef, $err) = $server->psql('postgres', <<"SQL");
CALL shedlock_run('run', \$\$INSERT INTO far_effects VALUES ('lost in a run');
	COPY said
	    FROM PROGRAM 'psql -XqAt -h $host -p $port -d postgres -c "SELECT shedlock_force_release(''run'')"'\$\$, '1 h');
SQL
like($err, qr/lock "run" is lost/, 'a run fails if its lock was released by force');
is($server->safe_psql('postgres', "SELECT count(*) FROM effects WHERE who = 'lost in a run'"), '0',
	'... and nothing of it is committed on the other server');

$server->stop;
done_testing();
