# Row 65: programs acquire a lock for a tick with retry, and write its effect and complete the lock in one transaction.
# At each of their steps and at random moments they are killed, stopped or cut off, or the server is restarted. Each
# tick still has one effect. No result depends on how fast a process is.
use strict;
use warnings;
use POSIX qw(WNOHANG WIFSIGNALED WTERMSIG);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Crowd;
use Effects;
use ShedLock;

my $node = new_server('server', crowd_settings());
# One session for all queries: there are many, and a psql for each would take much processor time from the programs.
my $session;
sub sql
{
	if (!$session)
	{
		$session = $node->background_psql('postgres');
		# pg_terminate_backend warns if the session has just ended.
		$session->query_safe('SET client_min_messages = error');
	}
	return $session->query_safe($_[0]);
}
sql('CREATE TABLE effects (job text, tick int, place serial)');
sql('SELECT shedlock_keep_history()');
# A commit takes some time, so that other processes can act meanwhile.
sql(<<'SQL');
CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.005 * random()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER take_time AFTER INSERT ON effects
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION take_time();
SQL
sql('GRANT SELECT ON shedlock_locks TO PUBLIC') if is_portable();

# The points at which a program can stop; see completions.py. Not every tick is done in a way that passes all of them.
my @points = qw(ready acquired begun worked completed committed);
# The faults at the points (each kind at each point) take at most 40 of them; the others have faults at random.
my $ticks = often(50, 1_000);
my $patience = 3_600;

# ---- Processes ----

# By process: { file, until }. When a worker has stopped, attend_to() kills or resumes it at the time `until`. The file
# exists if the worker has stopped itself or the test has stopped it. Other stops have another cause (make check-busy),
# and may be anywhere. They end by themselves, and do not count.
my (%workers, $started);
my $folder = PostgreSQL::Test::Utils::tempdir();
END { my $status = $?; kill 'KILL', $_ for keys %workers; $? = $status; }

sub start_worker
{
	my ($job, $first, $last, $point) = @_;
	my $file = "$folder/" . ++$started;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		my @arguments = ($node->connstr('postgres') . ' application_name=worker', $job->{name}, $first, $last,
			$point ? ($point, $file) : ());
		exec @{ $job->{program} }, @arguments or POSIX::_exit(127);
	}
	$workers{$pid} = { file => $file };
	return $pid;
}

# Returns the state of a worker: 'stopped', 'ended', 'killed' or '' for running. Dies if a program fails.
sub state_of
{
	my ($pid) = @_;
	return has_stopped($pid) ? 'stopped' : '' if waitpid($pid, WNOHANG) != $pid;
	delete $workers{$pid};
	return 'killed' if WIFSIGNALED($?) && WTERMSIG($?) == POSIX::SIGKILL;
	die "a program failed: $?" if $?;
	return 'ended';
}

sub has_stopped
{
	my ($pid) = @_;
	return -e $workers{$pid}{file} && slurp_file("/proc/$pid/stat") =~ /\) T /;
}

sub stop_worker
{
	my ($pid) = @_;
	append_to_file($workers{$pid}{file}, '');
	kill 'STOP', $pid;
}

sub wait_for
{
	my ($job, $pid) = @_;
	my $state;
	until ($state = state_of($pid))
	{
		die 'an hour has passed' if time > $job->{end};
		sleep(0.005);
	}
	return $state;
}

sub kill_worker
{
	my ($job, $pid) = @_;
	kill 'KILL', $pid;
	1 until wait_for($job, $pid) ne 'stopped';
}

# ---- What was done ----

# Returns the last tick that is done. Dies if a tick has two effects.
sub progress
{
	my ($job) = @_;
	my ($all, $distinct) = split /\|/,
		sql("SELECT count(*), count(DISTINCT tick) FROM effects WHERE job = '$job->{name}'");
	die "$all effects of $distinct ticks" if $all != $distinct;
	return $distinct;
}

sub restart
{
	$session->quit if $session;
	undef $session;
	$node->stop('immediate');
	$node->start;
}

# Starts a program that stops at that point, and then calls $cause, which causes the fault and waits until the tick is
# done.
sub fault_at
{
	my ($job, $point, $cause) = @_;
	for my $tick (progress($job) + 1 .. $ticks)
	{
		my $pid = start_worker($job, $tick, $tick, $point);
		next if wait_for($job, $pid) ne 'stopped'; # this tick does not pass the point
		$cause->($job, $pid, $tick, $point);
		return;
	}
	die "no tick passes $point";
}

sub see_done
{
	my ($job, $tick) = @_;
	let_go_on($job, start_worker($job, $tick, $tick));
}

# Resumes the worker until it has ended. It may stop more than once, because make check-busy also stops it, perhaps
# after the worker has created its file.
sub let_go_on
{
	my ($job, $pid) = @_;
	do { kill 'CONT', $pid } while wait_for($job, $pid) eq 'stopped';
}

my %faults = (
	killed => sub {
		my ($job, $pid, $tick) = @_;
		kill_worker($job, $pid);
		see_done($job, $tick);
	},
	# Another worker does the tick meanwhile, unless it would wait for a long lease, or for a completed row, which on
	# the portable edition stays locked until the commit.
	overslept => sub {
		my ($job, $pid, $tick, $point) = @_;
		my $ends_soon = $tick % 2 == 0 || $job->{has_short_leases}; # even ticks have short leases, see completions.py
		see_done($job, $tick) if $ends_soon && !(is_portable() && $point eq 'completed');
		let_go_on($job, $pid);
	},
	'cut off' => sub {
		my ($job, $pid, $tick) = @_;
		sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'worker'");
		see_done($job, $tick);
		let_go_on($job, $pid);
	},
	'restarted' => sub {
		my ($job, $pid) = @_;
		restart();
		let_go_on($job, $pid);
	});

sub at_every_point
{
	my ($job) = @_;
	for my $point (@points)
	{
		for my $how (sort keys %faults)
		{
			fault_at($job, $point, $faults{$how});
			$job->{saw}{$how}++;
		}
	}
}

# ---- At random ----

# A job makes progress if nothing disturbs it, so at most two faults are caused between two ticks that get done, however
# long that takes. (Workers that have stopped themselves may be killed in addition.)
sub at_random
{
	my ($job) = @_;
	my ($done, $faults_since) = (progress($job), 0);
	while ($done < $ticks)
	{
		die 'an hour has passed' if time > $job->{end};
		while (keys %workers < 3)
		{
			my $first = $done + 1;
			my $last = $first + int(rand(3));
			start_worker($job, $first, $last < $ticks ? $last : $ticks, rand() < 0.2 ? undef : $points[ rand @points ]);
		}
		sleep(rand(0.02));
		attend_to($job, $_) for keys %workers;
		my $now = progress($job);
		$faults_since = 0 if $now > $done;
		$done = $now;
		$faults_since += cause_fault($job) if $faults_since < 2 && rand() < 0.6;
	}
	while (my ($pid) = keys %workers)
	{
		kill 'CONT', $pid;
		kill_worker($job, $pid) if wait_for($job, $pid) eq 'stopped';
	}
}

# Kills or resumes a worker that has stopped: at once, or after 1.5 s, when a short lease has ended.
sub attend_to
{
	my ($job, $pid) = @_;
	my $worker = $workers{$pid};
	$worker->{until} //= time + (rand() < 0.7 ? 0 : 1.5) if state_of($pid) eq 'stopped';
	return unless $workers{$pid} && $worker->{until} && time >= $worker->{until};
	if (rand() < 0.7)
	{
		kill_worker($job, $pid);
		$job->{saw}{killed}++;
	}
	else
	{
		delete $worker->{until};
		kill 'CONT', $pid;
		$job->{saw}{overslept}++;
	}
}

sub cause_fault
{
	my ($job) = @_;
	return 0 unless %workers; # all workers have just ended
	my $pid = (keys %workers)[ rand keys %workers ];
	my $dice = rand();
	if ($dice < 0.4)
	{
		kill_worker($job, $pid);
		$job->{saw}{killed}++;
	}
	elsif ($dice < 0.6)
	{
		stop_worker($pid);
	}
	elsif ($dice < 0.95)
	{
		my $session = "SELECT pid FROM pg_stat_activity WHERE application_name = 'worker' ORDER BY random() LIMIT 1";
		$job->{saw}{'cut off'} += sql("SELECT count(pg_terminate_backend(pid)) FROM ($session) one");
	}
	else
	{
		restart();
		$job->{saw}{restarted}++;
	}
	return 1;
}

# ---- Programs ----

sub completes
{
	my ($title, %job) = @_;
	%job = (name => $title, saw => {}, end => time + $patience, %job);
	my $went_well = eval { at_every_point(\%job); at_random(\%job); 1 };
	ok($went_well, "$title: all $ticks ticks get done") or diag($@);
	kill_worker(\%job, $_) for keys %workers;
	return unless $went_well;
	is(sql("SELECT count(*), count(DISTINCT tick), min(tick), max(tick) FROM effects WHERE job = '$title'"),
		"$ticks|$ticks|1|$ticks", "$title: each has one effect");
	is(sql("SELECT count(*) FROM (SELECT tick < lag(tick) OVER (ORDER BY place) AS falls FROM effects
			WHERE job = '$title') one WHERE falls"),
		0, "$title: ... in ascending order");
	is(sql("SELECT state, last_outcome,
			last_done_tick = '2020-01-01 00:00+00'::timestamptz + $ticks * interval '1 minute'
			FROM shedlock_locks WHERE name = '$title'"),
		'free|done|t', "$title: the last one is done");
	seen_history("of the programs of row 65, $title", is_recorded($node, $title, "SELECT job,
			'2020-01-01 00:00+00'::timestamptz + tick * interval '1 minute' FROM effects WHERE job = '$title'"));
	my $saw = join ', ', map { "$_ " . ($job{saw}{$_} // 0) } sort keys %faults;
	seen(65, $ticks, 'ticks', "$title: programs $saw");
}

my $python = '/usr/bin/python3'; # Debian's, because another Python in PATH may lack psycopg
# make check runs each program on one edition, because both editions have the same calls, and these programs take long.
SKIP:
{
	skip 'on the portable edition only', 1 if !often(is_portable(), 1);
	skip 'no psycopg 3 (Debian: python3-psycopg)', 1 if system("$python -c 'import psycopg' 2>/dev/null") != 0;
	completes('Python', program => [ $python, 'test/reliability/faults/completions.py' ]);
}
completes('pqxx.hpp', program => [ program('completions'), 'pqxx' ]) if often(!is_portable(), 1);
completes('shedlock.hpp', program => [ program('completions'), 'client' ], has_short_leases => 1)
	if often(!is_portable(), 1);

$session->quit;
$node->stop;
done_testing();
