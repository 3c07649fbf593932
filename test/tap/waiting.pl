# Whoever waits is woken, and when that goes amiss looks by himself; the machine's speed matters little, for what is measured is
# compared with those whose wake-up was lost on purpose.
use strict;
use warnings;
use List::Util qw(max min sum);
use Test::More;
use Time::HiRes qw(sleep);
use IPC::Run;
use PostgreSQL::Test::Utils;
use ShedLock;

# From PostgreSQL 17 on the shared memory needs no preload.
my ($version) = `pg_config --version` =~ /(\d+)/;
my $preload = $version < 17 ? "shared_preload_libraries = 'shedlock'\n" : '';
my $node = new_server('server', "${preload}max_connections = 200\nmax_prepared_transactions = 10\n");
my $connection = $node->connstr('postgres');
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub start { return IPC::Run::start([ 'psql', '-XAtq', '-c', $_[0], '-d', "$connection application_name=" . ($_[1] // 'holder') ], '<', \undef, '>', \my $out, '2>', \my $err); }

# A session for each row of `wanted` waits for its names after a delay, and writes down when it has them.
sql(<<'SQL');
CREATE TABLE wanted (id int PRIMARY KEY, names text[], wait interval, delay float8);
CREATE TABLE got (names text[], at timestamptz);
CREATE FUNCTION want(number int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE mine wanted;
BEGIN
    SELECT * INTO mine FROM wanted WHERE id = number;
    PERFORM pg_sleep(mine.delay);
    IF shedlock_acquire_token(mine.names, '1 h', wait => mine.wait) IS NOT NULL THEN
        INSERT INTO got VALUES (mine.names, clock_timestamp());
    END IF;
END $$;
SQL
my $file = PostgreSQL::Test::Utils::tempdir() . '/want.sql';
PostgreSQL::Test::Utils::append_to_file($file, 'SELECT want(:client_id);');

sub start_waiting
{
	my @wanted = @_; # [names, wait, delay]
	my $id = 0;
	sql('TRUNCATE wanted, got; INSERT INTO wanted VALUES '
		. join(', ', map { sprintf "(%d, '{%s}', '%s', %s)", $id++, $_->[0], $_->[1] // '1 min', $_->[2] // 0 } @wanted));
	my $waiters = IPC::Run::start([ 'pgbench', '-n', '-f', $file, '-c', scalar @wanted, '-t', 1, '-d', 'postgres', '-h', $node->host, '-p', $node->port ],
		'<', \undef, '>', \my $out, '2>', \my $err);
	sleep(2.5 + max(map { $_->[2] // 0 } @wanted)); # their naps have grown
	return $waiters;
}

# How late each of them was, in seconds.
sub lateness
{
	my ($since, $pattern) = @_;
	return split /\n/, sql("SELECT extract(epoch FROM at - '$since') FROM got WHERE names[1] LIKE '$pattern'");
}

# What ends a hold, eight times each, and beside them sixteen that nobody is told of. Those come within their naps, of up to
# a second; if the others had only their naps, all eight would come in the first third of that in one run of a thousand.
my $many = 8;
my %kinds = (release => $many, token => $many, force => $many, resume => $many, rollback => $many, run => $many, terminated => $many, prepared => 1, edited => 2 * $many);
my %names = map { my $kind = $_; ($kind => [ map { "$kind $_" } 1 .. $kinds{$kind} ]) } keys %kinds;
sub each_of { my ($kind, $call) = @_; return "SELECT $call FROM unnest('{" . join(', ', @{ $names{$kind} }) . "}'::text[]) n"; }

my $holder = $node->background_psql('postgres');
$holder->query_safe(each_of($_, "shedlock_acquire(n, '1 h')")) for qw(release edited prepared force);
$holder->query_safe('CREATE TEMP TABLE tokens AS ' . each_of('token', "n, shedlock_acquire_token(n, '1 h') AS token"));
$holder->query_safe(each_of('resume', 'shedlock_pause(n)'));
$holder->query_safe('SELECT pg_advisory_lock(1)');
my @runs = map { start("CALL shedlock_run('$_', 'SELECT pg_advisory_xact_lock_shared(1)', '1 h')") } @{ $names{run} };
push @runs, map { start("CALL shedlock_run('$_', 'SELECT pg_sleep(100)', '1 h')", 'dying') } @{ $names{terminated} };
$node->poll_query_until('postgres', "SELECT count(*) = 2 * $many FROM shedlock_locks WHERE name ~ '^(run|terminated)'") or die 'no runs';
$holder->query_safe('BEGIN');
$holder->query_safe(each_of('rollback', "shedlock_acquire(n, '1 h')"));

my $waiters = start_waiting(map { [$_] } map { @$_ } values %names);
my %freed;
sub free { my ($kind, $statement) = @_; $freed{$kind} = sql('SELECT clock_timestamp()'); $holder->query_safe($statement); return; }
free('rollback', 'ROLLBACK');
free('edited', "UPDATE shedlock SET lock_until = timezone('UTC', clock_timestamp()) WHERE name LIKE 'edited%'");
free('run', 'SELECT pg_advisory_unlock(1)');
free('release', each_of('release', 'shedlock_release(n)'));
free('token', 'SELECT shedlock_release_token(n, token) FROM tokens');
free('force', each_of('force', 'shedlock_force_release(n)'));
free('resume', each_of('resume', 'shedlock_resume(n)'));
free('terminated', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dying'");
# By whom it is committed nobody knows. But the row was undecided, and then the first looks often.
$holder->query_safe("BEGIN; SELECT shedlock_release('prepared 1'); PREPARE TRANSACTION 'p'");
free('prepared', "COMMIT PREPARED 'p'");
$holder->quit;
$waiters->finish;
my @lost = lateness($freed{edited}, 'edited%');
is(@lost, 2 * $many, 'whoever is not told of a release looks by himself');
cmp_ok(min(@lost), '>', 0, '... not before it is free');
cmp_ok(max(@lost), '<', 5, '... in time');
for my $kind (grep { $_ ne 'edited' } sort keys %kinds)
{
	my @late = lateness($freed{$kind}, "$kind%");
	is(@late, $kinds{$kind}, "$kind: all who waited have the lock");
	cmp_ok(max(@late), '<', 0.4 * max(@lost), "$kind: ... and were woken");
}
$_->finish for @runs;

# The first in the queue sets its alarm at the end of the lease. When it is cancelled shortly before, the next one does.
sub hold { return sql("SELECT shedlock_acquire_token(n, '$_[1]') FROM unnest('{" . join(', ', map { "$_[0] $_" } 1 .. $many) . "}'::text[]) n"); }
hold('handed on', '5 s');
my $ends = sql("SELECT min(lock_until) FROM shedlock_locks WHERE name LIKE 'handed on%'");
$waiters = start_waiting(map { (["handed on $_"], [ "handed on $_", '1 min', 0.5 ]) } 1 .. $many);
sql("SELECT pg_sleep(extract(epoch FROM '$ends' - clock_timestamp()) - 0.25)");
sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE substring(query FROM 'want.(\\d+)')::int % 2 = 0");
$waiters->finish;
my @late = lateness($ends, 'handed on%');
is(@late, $many, 'who waits behind one who gives up gets the lock when the lease ends');
cmp_ok(min(@late), '>=', 0, '... not before');
cmp_ok(max(@late), '<', 0.4 * max(@lost), '... at once');

# Who needs several locks, and is woken for one while another is held, hands that on.
hold('one', '1 h');
hold('other', '1 h');
$waiters = start_waiting(map { ([ "one $_, other $_", '5 s' ], [ "one $_", '1 min', 0.5 ]) } 1 .. $many);
my $freed = sql('SELECT clock_timestamp()');
sql("SELECT shedlock_force_release('one ' || n) FROM generate_series(1, $many) n");
$waiters->finish;
@late = lateness($freed, 'one%');
is(@late, $many, 'who waits behind one who needs another lock as well gets it');
cmp_ok(max(@late), '<', 0.4 * max(@lost), '... at once');

# Of forty who wait for one name, a change of its row wakes one. (Each sleeps of his own accord once or twice a second.)
my $token = sql("SELECT shedlock_acquire_token('herd', '1 h')");
$waiters = start_waiting(map { ['herd'] } 1 .. 40);
my @pids = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT want%'");
sub switches { return sum(map { PostgreSQL::Test::Utils::slurp_file("/proc/$_/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m; $1 } @pids); }
my $before = switches();
my ($extends, $began) = (300, Time::HiRes::time());
sql(join(' ', map { "BEGIN; SELECT shedlock_extend_token('herd', $token, '1 h'); ROLLBACK;" } 1 .. $extends));
my $woken = switches() - $before;
cmp_ok($woken, '<', 5 * $extends + 40 * 3 * (1 + Time::HiRes::time() - $began), "$extends changes of a row for which forty wait wake $woken");
cmp_ok($woken, '>', $extends / 2, '... that is about one each');

# A first one that is stopped holds up the others for no longer than their naps.
kill 'STOP', $_ for @pids[ 0 .. 19 ];
sql("SELECT shedlock_release_token('herd', $token)");
ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM got'), 'while the first are stopped another one gets the lock');
kill 'CONT', $_ for @pids[ 0 .. 19 ];
sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN (' . join(', ', @pids) . ')');
$waiters->finish;

$node->stop;
done_testing();
