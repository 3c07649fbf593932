# Row 38: the n-th allocation fails, for one n after the other (in make check not for all): in the backend while a lock
# function runs and its transaction commits, and in the C++ client while it acquires, extends and releases.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = new_server('server',
	"log_statement = none\nlog_min_error_statement = panic\nshared_preload_libraries = 'shedlock'\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }
my $module = program('starve');
sql(<<"SQL");
CREATE FUNCTION starve(bigint) RETURNS void LANGUAGE c AS '$module';
CREATE FUNCTION starve_left() RETURNS bigint LANGUAGE c AS '$module';
CREATE TABLE outcome (scenario text, n bigint, sqlstate text, reached text, before text, after text);
CREATE TABLE memory (scenario text, n bigint, bytes numeric, ours bigint);
CREATE TABLE work (n bigint);
CREATE FUNCTION shape(state text) RETURNS text LANGUAGE sql RETURN regexp_replace(state, '[0-9][0-9.: -]*', '0', 'g');
CREATE VIEW state AS
 SELECT coalesce(string_agg(s::text, ' ' ORDER BY name), 'none') || ' work ' || (SELECT count(*) FROM work) AS state
   FROM shedlock s;
CREATE PROCEDURE reset() LANGUAGE plpgsql AS \$\$
BEGIN
    DELETE FROM shedlock;
    DELETE FROM work;
    PERFORM shedlock_acquire(n, '1 h') FROM unnest(ARRAY['held', 'free', 'second']) n;
    PERFORM shedlock_release(n) FROM unnest(ARRAY['free', 'second']) n;
    PERFORM shedlock_pause('paused');
END \$\$;
SQL
my $started = sql('SELECT pg_postmaster_start_time()');

# The statements that run out of memory. With a COMMIT at the end they run in a transaction block.
my %scenario = (
	'acquire' => q{SELECT shedlock_acquire('free', '1 h');},
	'acquire a new name' => q{SELECT shedlock_acquire('new', '1 h');},
	'acquire several' => q{SELECT shedlock_acquire(ARRAY['free', 'second', 'new'], '1 h', tick => now());},
	'acquire and be refused' => q{SELECT shedlock_acquire('held', '1 h', wait => '1 ms');},
	'acquire a token' => q{SELECT shedlock_acquire_token('free', '1 h', holder => repeat('x', 300));},
	'extend' => q{SELECT shedlock_extend('held', '2 h');},
	'release' => q{SELECT shedlock_release('held');},
	'release and be refused' => q{SELECT shedlock_release_token('held', 1);},
	'guard' => q{INSERT INTO work VALUES (1); SELECT shedlock_guard('held'); COMMIT;},
	'guard and acquire' => q{SELECT shedlock_guard('held'); SAVEPOINT s; SELECT shedlock_guard('held'); }
		. q{ROLLBACK TO s; SELECT shedlock_acquire('free', '1 h'); COMMIT;},
	'run' => q{CALL shedlock_run('free', 'INSERT INTO work VALUES (1)', '1 h');},
	'run and fail' => q{CALL shedlock_run('free', 'INSERT INTO work VALUES (1); SELECT 1/0', '1 h');},
	'force_release' => q{SELECT shedlock_force_release('held');},
	'pause' => q{SELECT shedlock_pause('free', 'why');},
	'resume' => q{SELECT shedlock_resume('paused');},
	'views' => q{SELECT count(*) FROM shedlock_locks, shedlock_stats;},
	'doctor' => q{SELECT count(*) FROM shedlock_doctor();});

# Runs all attempts in one session, as behind a pooler, so that an attempt would be affected by what an earlier failure
# left behind. Or runs each in a new session, whose caches contain less. With the number 0 nothing fails, for
# comparison.
sub attempts
{
	my ($name, $statement, $session, @numbers) = @_;
	my $script = "\\o /dev/null\n";
	my $begin = $statement =~ /COMMIT/ ? 'BEGIN;' : '';
	for my $n (@numbers)
	{
		$script .= "\\c\n" if $session eq 'new';
		# psql keeps the last SQLSTATE until it is reset. After an error in a transaction block it becomes 25P02.
		# Failures of the calls of starve and starve_left do not matter.
		$script .= <<"PSQL";
CALL reset();
SELECT state AS before FROM state \\gset
$begin
SELECT starve($n);
\\set LAST_ERROR_SQLSTATE 00000
$statement
\\set result :LAST_ERROR_SQLSTATE
ROLLBACK;
\\set reached no
SELECT CASE starve_left() WHEN 0 THEN 'yes' ELSE 'no' END AS reached \\gset
SELECT starve(0);
SELECT starve(0);
INSERT INTO outcome
 SELECT '$name, $session', $n, CASE :'result' WHEN '25P02' THEN '53200' ELSE :'result' END, :'reached', :'before', state
   FROM state;
INSERT INTO memory
 SELECT '$name, $session', $n, sum(total_bytes), count(*) FILTER (WHERE name LIKE 'shedlock%')
   FROM pg_backend_memory_contexts;
PSQL
	}
	$script =~ s/; (?=[A-Z])/;\n/g unless $statement =~ /^CALL/;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-Xq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres') ], '<', \$script,
		'>', \$out, '2>', \$err);
	return $err;
}
my $errors = '';
for my $name (sort keys %scenario)
{
	# These two make thousands of allocations, most of them in the planner.
	my $step = { views => 100, doctor => 500 }->{$name} // 1;
	$errors .= attempts($name, $scenario{$name}, 'one session', 0, map { often(17, $step) * $_ } 1 .. often(11, 600));
	$errors .= attempts($name, $scenario{$name}, 'new', 0, map { often(37, 3) * $_ } 1 .. often(3, 1000));
}
like($errors, qr/ERROR:  53200/, 'control: memory ran out');

is(sql('SELECT pg_postmaster_start_time()'), $started, 'the server has not restarted');
# The server reports a hash table that it cannot create as XX000.
my $hash_tables = () = slurp_file($node->logfile) =~ /ERROR:  failed to initialize hash table/g;
is(sql("SELECT count(*) FROM outcome WHERE sqlstate = 'XX000'"), $hash_tables,
	'every XX000 is a hash table that the server could not create');
is(sql("SELECT DISTINCT sqlstate FROM outcome WHERE sqlstate NOT IN ('00000', '53200', 'XX000')
		AND NOT (scenario LIKE 'run and fail%' AND sqlstate = '22012')"),
	'', 'there was no other error');
# After an error everything is undone, unless the error came from the server's own work after the commit.
is(sql("SELECT scenario, n, before, after FROM outcome o
		WHERE sqlstate = '53200' AND before <> after AND scenario NOT LIKE 'run%' AND shape(after) NOT IN
			(SELECT shape(d.after) FROM outcome d WHERE d.scenario = o.scenario AND d.sqlstate = '00000') LIMIT 3"),
	'', 'after an error either everything is undone or everything is done');
cmp_ok(sql("SELECT count(*) FROM outcome WHERE sqlstate = '53200' AND before <> after AND scenario NOT LIKE 'run%'"),
	'<', sql("SELECT count(*) / 20 + 5 FROM outcome WHERE sqlstate = '53200'"),
	'... and in nearly all cases it is undone');
is(sql("SELECT scenario, n FROM outcome
		WHERE sqlstate = '00000' AND (before = after) <> (scenario ~ 'refused|views|doctor')"),
	'', 'without an error everything is done');
# A run commits before and after its command. Wherever it failed, all other locks are unchanged, the command was done
# once or not at all, and the lock of the run is free, or held until its lease ends.
is(sql(<<'SQL'), '', 'a failed run leaves nothing behind but its lease');
SELECT scenario, n, sqlstate, before, after FROM outcome
 WHERE scenario LIKE 'run%' AND (regexp_replace(before, '[(]free[^)]*[)]| work .*', '', 'g')
        <> regexp_replace(after, '[(]free[^)]*[)]| work .*', '', 'g')
    OR after !~ '[(]free,.* work [01]$'
    OR (scenario LIKE 'run and fail%' AND after NOT LIKE '% work 0')
    OR (sqlstate = '00000' AND scenario LIKE 'run,%' AND after NOT LIKE '% work 1'));
SQL
my $ended = sql("SELECT string_agg(scenario, ', ') FROM (SELECT scenario FROM outcome
	WHERE scenario LIKE '%, one session' GROUP BY 1 HAVING NOT bool_or(reached = 'no')) s");
is($ended, '', 'each statement has been tried beyond its last allocation') if $ENV{TORTURE};
is(sql("SELECT count(*) FROM memory WHERE ours > 0"), 0, 'no memory context of ours is left behind');
is(sql(<<'SQL'), '', 'the memory of a session does not grow with the failures');
SELECT scenario, first, last FROM (
    SELECT DISTINCT scenario, first_value(bytes) OVER w AS first, last_value(bytes) OVER w AS last
      FROM memory WHERE scenario LIKE '%, one session' AND n > 20
    WINDOW w AS (PARTITION BY scenario ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) m
 WHERE last > first + 500000;
SQL
my $failures = sql("SELECT count(*) FROM outcome WHERE sqlstate = '53200'");
note("$_") for split /\n/, sql("SELECT scenario, count(*) FILTER (WHERE sqlstate = '53200') AS failed,
	count(*) AS attempts FROM outcome GROUP BY 1 ORDER BY 1");
# With messages such as "AbortTransaction while in COMMIT state" the server reports that it ran out of memory while
# committing, while beginning a subtransaction, or while aborting, where it requests 0 bytes.
my @trouble = grep {
	/PANIC|TRAP|terminated by signal|leak|still referenced|WARNING/
		&& !/WARNING:  (?:lock "|there is no transaction in progress|Abort(?:Sub)?Transaction while in [A-Z]+ state)/
} split /\n/, slurp_file($node->logfile);
is("@trouble[0 .. ($#trouble < 4 ? $#trouble : 4)]", '', 'nothing leaked, nothing crashed');

# The client.
my $client_out = '';
my $client_ended_well = IPC::Run::run([ program('starved_client'), $node->connstr('postgres'), 1, often(5, 1) ],
	'>', \$client_out, '2>&1');
note($client_out);
my @wrong = grep { /^allocation/ } split /\n/, $client_out;
is("@wrong", '', 'the client does not crash, forgets no lock, and notices when its lease ends');
ok($client_ended_well, '... with every plan of failures');
like($client_out, qr/^\d+ times, one of the caller's: bad_alloc$/m, '... and its caller gets bad_alloc');
my $client_failures = 0;
$client_failures += $_ for $client_out =~ /^(\d+) times/mg;
$node->stop;

seen(38, $failures + $client_failures, 'failures', "backend: $failures, client: $client_failures");
done_testing();
