# Fail-over by promotion while the standby lags: asynchronous, synchronous, and synchronous with the wait for the
# standby cut short.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use BootClock;
use Crowd;
use Effects;
use ShedLock;

# The same primary is used for all promotions, and each round gets a new standby.
my $primary = new_server('primary',
	crowd_settings() . "wal_keep_size = 1GB\nwal_sender_timeout = 0\nwal_receiver_timeout = 0\n",
	allows_streaming => 1);
$primary->safe_psql('postgres', 'CREATE TABLE effects (tick bigint); SELECT shedlock_keep_history()');
my $standby = new_standby($primary, 'standby');
my ($data, $fresh) = ($standby->data_dir, $standby->data_dir . '.fresh');
system_or_bail('cp', '-a', $data, $fresh);

sub on_primary { return $primary->safe_psql('postgres', $_[0]); }
sub on_standby { return $standby->safe_psql('postgres', $_[0]); }

sub set_primary
{
	my (%settings) = @_;
	on_primary(join ';', map { "ALTER SYSTEM SET $_ = '$settings{$_}'" } sort keys %settings);
	$primary->reload;
}

sub start_standby
{
	my ($sync_state, %settings) = @_;
	$standby->stop('immediate') if $standby->{_pid};
	system_or_bail('rm', '-rf', $data);
	system_or_bail('cp', '-a', $fresh, $data);
	set_primary(synchronous_standby_names => ''); # releases commits that still wait for the previous standby
	$primary->poll_query_until('postgres', 'SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_replication');
	$standby->start;
	$primary->wait_for_catchup($standby, 'replay');
	set_primary(%settings);
	$primary->poll_query_until('postgres', "SELECT sync_state = '$sync_state' FROM pg_stat_replication")
		or die 'the standby does not stream';
	wait_until_commits_wait($primary) if $sync_state eq 'sync';
}

# Stops the process that sends WAL, so that nothing reaches the standby, which the primary still reports as connected.
sub stall
{
	my $sender = on_primary("SELECT pid FROM pg_stat_replication");
	kill 'STOP', $sender;
	return $sender;
}

sub promote
{
	my ($stalled) = @_;
	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	kill 'CONT', $stalled if $stalled;
}

# Asynchronous: a lock that the standby has not received is granted again, but with a greater token, so fencing stops
# the first holder. The same is true of work: it is forgotten with its row in the history.
my $effects = "SELECT 'work', to_timestamp(tick) FROM effects";
sub work_for
{
	my ($tick) = @_;
	return "CALL shedlock_run('work', 'INSERT INTO effects VALUES ($tick)', '1 h', tick => to_timestamp($tick))";
}
my %rows; # of the history of runs
my ($rounds, $twice) = (often(2, 100), 0);
for my $n (1 .. $rounds)
{
	start_standby('async');
	on_primary("SELECT shedlock_acquire_token('known $n', '1 h'), shedlock_acquire_token('used $n', '1 ms')");
	on_primary(work_for(2 * $n - 1));
	$primary->wait_for_catchup($standby, 'replay');
	my $stalled = stall();
	my %first = (
		used => on_primary("SELECT shedlock_acquire_token('used $n', '1 h')"),
		new => on_primary("SELECT shedlock_acquire_token('new $n', '1 h')"));
	on_primary(work_for(2 * $n));
	promote($stalled);
	is(on_standby("SELECT shedlock_acquire('known $n', '1 h')"), 'f',
		'asynchronous: a lock that the standby had received is still held');
	my %saw = is_recorded($standby, 'asynchronous, work forgotten', $effects);
	is($saw{done}, 2 * $n - 1, 'control: the last work was forgotten');
	on_standby(work_for(2 * $n));
	%rows = is_recorded($standby, 'asynchronous, done again', $effects);
	for my $kind (sort keys %first)
	{
		my $second = on_standby("SELECT shedlock_acquire_token('$kind $n', '1 h')");
		$twice++ if $second;
		cmp_ok($second, '>', $first{$kind},
			"I6 asynchronous: a $kind lock that was forgotten is granted with a greater token");
		my ($rc, $out, $err) = $standby->psql('postgres',
			"\\set VERBOSITY verbose\nBEGIN; SELECT shedlock_guard_token('$kind $n', $first{$kind}); COMMIT");
		like($err, qr/SL001/, '... and nothing guarded by the first token can be committed');
	}
}
is($twice, 2 * $rounds, 'control: locks that the stalled standby had not received were forgotten');
seen(9, $rounds, "promotions: $twice of " . 2 * $rounds . ' locks that it lacked were granted twice',
	'each time with a greater token');

# Synchronous: clients acquire one lock after the other until the primary is killed, or until nothing reaches the
# standby any more although the primary is still running. The locks that they were granted are held on the new primary,
# with the same tokens.
sub clients
{
	my ($n) = @_;
	return map {
		my $file = PostgreSQL::Test::Utils::tempdir() . "/acquires $n $_";
		append_to_file($file, join '', map { "SELECT '$_', shedlock_acquire_token('$_', '1 h');\n" }
			map { "sync $n $_" } ($_ * 10000 .. $_ * 10000 + 3000));
		my @psql = ('psql', '-XAtq', '-F', '=', '-f', $file, '-o', "$file.out", '-d', $primary->connstr('postgres'));
		{ run => IPC::Run::start(\@psql, '2>', \my $err), told => "$file.out" }
	} 1 .. 3;
}

my ($granted, $double) = (0, 0);
$rounds = often(2, 100);
for my $n (1 .. $rounds)
{
	my $level = $n % 2 ? 'on' : 'remote_apply';
	start_standby('sync', synchronous_standby_names => 'standby', synchronous_commit => $level);
	my @clients = clients($n);
	$primary->poll_query_until('postgres', "SELECT count(*) > 30 FROM shedlock WHERE name LIKE 'sync $n %'")
		or die 'nothing is granted';
	sleep(rand(0.3));
	my $killed = $n % 2;
	my $stalled = $n % 3 == 1 ? undef : stall();
	sleep(rand(0.05));
	$primary->stop('immediate') if $killed;
	promote();
	$_->{run}->kill_kill for @clients;
	# psql may have been killed in the middle of a line.
	my %told = map { /^(.+)=(\d{16})\n/ ? ($1, $2) : () }
		map { -e $_->{told} ? split /^/, slurp_file($_->{told}) : () } @clients;
	my %held = map { split /=/ } split /\n/,
		on_standby("SELECT name || '=' || token FROM shedlock_locks WHERE state = 'held'");
	is(scalar(grep { ($held{$_} // 0) != $told{$_} } keys %told), 0,
		"I7 synchronous, $level: each lock that was granted to a client is held on the new primary");
	my $names = join ',', map { "'$_'" } keys %told;
	$double += on_standby("SELECT count(*) FROM unnest(ARRAY[$names]::text[]) one WHERE shedlock_acquire(one, '1 h')");
	$granted += keys %told;
	kill 'CONT', $stalled if $stalled && !$killed;
	next unless $killed;
	$primary->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''\n");
	$primary->start;
}
is($double, 0, 'I1 synchronous: no lock is granted twice');
cmp_ok($granted, '>', 0, "control: $granted locks were granted");
seen(10, $rounds, "promotions, $granted grants", "$double locks were granted twice");

# Synchronous: schedulers continue on the new primary, where sessions of the old primary count as gone. The old primary
# is killed. In every other round its WAL sender is stopped first, so that commits of work are under way that never
# reach the standby.
my $ticks = often(12, 30);
my $either = sprintf 'host=%s,%s port=%s,%s dbname=postgres target_session_attrs=read-write',
	$primary->host, $standby->host, $primary->port, $standby->port;
$rounds = often(2, 100);
for my $n (1 .. $rounds)
{
	start_standby('sync', synchronous_standby_names => 'standby', synchronous_commit => 'on');
	on_primary('TRUNCATE effects, shedlock_history');
	my @dying = map { start_run($primary, "$_ $n", $_ eq 'kept' ? '1 hour' : '0') } qw(free kept);
	held($primary, "free $n", "kept $n") or die 'no run';
	# If a scheduler that waits for the standby were killed, others would see a change that is not on the standby.
	my $season = start_season($either, $ticks, 'calm');
	announced($season, $ticks / 2) or die 'no schedulers';
	sleep(rand(0.02));
	my $stalled = $n % 2 ? undef : stall();
	sleep(rand(0.05));
	$primary->stop('immediate') unless $stalled;
	promote($stalled);
	$primary->stop('immediate') if $stalled;
	is(on_standby("SELECT shedlock_acquire('free $n', '1 min')"), 't',
		'synchronous: the lock of a run on the old primary is free on the new one');
	is(on_standby("SELECT shedlock_acquire('kept $n', '1 min')"), 'f',
		'I5 ... and that of a run with at_least is still taken');
	$_->finish for @dying;
	my %saw = finish_season($season, $standby, 'a synchronous standby promoted');
	$rows{$_} += $saw{$_} // 0 for 'done', 'failed', 'ran out';
	$primary->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''\n");
	$primary->start;
}

# The tool continues on the new primary, and does not use the old one, which is a standby by then.
sub tool
{
	my (@arguments) = @_;
	my $one = launch({}, slow_tool, @arguments);
	return (ended($one), $one->{out}, $one->{err});
}
{
	start_standby('sync', synchronous_standby_names => 'standby', synchronous_commit => 'on');
	my $go = PostgreSQL::Test::Utils::tempdir() . '/go';
	my $clock = boot_clock();
	my $job = launch_by($clock, {}, $tool, 'run', 'job', '--dsn', $either =~ s/ target_session_attrs=\S+//r,
		'--at-most', '1h', '--', 'sh', '-c', "until [ -e $go ]; do sleep 0.1; done; echo done");
	$primary->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM shedlock_locks WHERE name = 'job' AND state = 'held'") or die 'no job';
	my ($token, $until) = split /\|/, on_primary("SELECT token, lock_until FROM shedlock_locks WHERE name = 'job'");
	$primary->stop('immediate');
	promote();
	$primary->set_standby_mode;
	$primary->start;
	advance($clock, when_an_extend_is_due);
	ok($standby->poll_query_until('postgres', "SELECT lock_until > '$until' FROM shedlock_locks WHERE name = 'job'"),
		'the tool: keep-alive extends the lease on the new primary');
	is(on_standby("SELECT token FROM shedlock_locks WHERE name = 'job'"), $token,
		'... and the acquisition is the same');
	is((tool('run', 'job', '--dsn', $either, '--at-most', '1h', '-E', '9', '--', 'false'))[0], 9,
		'... other callers are refused');
	append_to_file($go, '');
	is(ended($job) . $job->{out}, "0done\n", '... the command ends normally');
	is(on_standby("SELECT state FROM shedlock_locks WHERE name = 'job'"), 'free', '... and its lock is released');

	like((tool('list', '--dsn', $primary->connstr('postgres')))[1], qr/^job +held /m, 'list works on a standby');
	my ($status, undef, $why) = tool('acquire', 'job', '--dsn', $primary->connstr('postgres'), '--at-most', '1h');
	is($status, 125, '... acquire fails there');
	like($why, qr/read-only|takes no writes/, '... and says why');
	(undef, undef, $why) = tool('acquire', 'job', '--dsn', $primary->connstr('postgres') . ' target_session_attrs=any',
		'--at-most', '1h');
	like($why, qr/on a standby.*target_session_attrs=read-write/, '... even if it was told to use any server');
	$primary->stop;
	unlink $primary->data_dir . '/standby.signal' or die $!;
	$primary->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''\n");
	$primary->start;
}

# Random clients continue on the new primary: everything that was acknowledged is there, except perhaps releases.
for my $n (1 .. often(1, 20))
{
	start_standby('sync', synchronous_standby_names => 'standby', synchronous_commit => 'on');
	my $servers = connection($either);
	my $crowd = start_crowd($primary, crash_options($primary), connection => $servers, admin => $servers,
		operations => often(500, 1500));
	at_work($primary, $crowd) or die 'no clients';
	sleep(rand(1));
	$primary->stop('immediate');
	promote();
	$crowd->{run}->signal('TERM');
	my %saw = recorded({ finish_crowd($crowd, 'a synchronous standby promoted') });
	$rows{$_} += $saw{$_} for keys %saw;
	$primary->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''\n");
	$primary->start;
	# The crowd has rolled back only those of the new primary.
	on_primary("ROLLBACK PREPARED '$_'") for split /\n/, on_primary('SELECT gid FROM pg_prepared_xacts');
}
seen_history('on the promoted standbys', %rows);
seen(43, $rounds, 'promotions', "a synchronous standby, in the middle of $ticks ticks: each with exactly one effect");

# Synchronous, but the wait for the standby is ended early: the lock is committed on the primary, but is not on the
# standby. A client that ignores the warning believes that it has the lock.
sub start_acquire
{
	my ($kind, $name) = @_;
	my $dsn = $primary->connstr('postgres') . " application_name=''$name''" =~ s/''/'/gr;
	my @command = $kind eq 'control'
		? ('psql', '-XAtq', '-c', "SELECT shedlock_acquire_token('$name', '1 h')", '-d', $dsn)
		: ($tool, 'acquire', $name, '--at-most', '1h', '--dsn', $dsn);
	my $clock = boot_clock();
	return launch_by($clock, { kind => $kind, name => $name, clock => $clock }, @command);
}

my %ends_wait = (
	cancel => 'SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = $name',
	terminate => 'SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $name',
	control => 'SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = $name');

my ($reported, $doubts, $fooled) = (0, 0, 0);
my ($batches, $each) = (often(1, 10), 5);
for my $batch (1 .. $batches)
{
	start_standby('sync', synchronous_standby_names => 'standby', synchronous_commit => 'on');
	my $stalled = stall();
	my @clients = map { my $kind = $_; map { start_acquire($kind, "$kind $batch $_") } 1 .. $each }
		qw(cancel terminate death control);
	my $all = @clients;
	$primary->poll_query_until('postgres', "SELECT count(*) = $all FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		or die 'not all clients wait';
	for my $client (@clients)
	{
		$client->{run}->signal('KILL') if $client->{kind} eq 'death';
		on_primary($ends_wait{ $client->{kind} } =~ s/\$name/'$client->{name}'/r) if $ends_wait{ $client->{kind} };
	}
	promote();
	advance($_->{clock}, 10) for @clients; # the tool's time to ask again is over
	for my $client (@clients)
	{
		is(on_standby("SELECT shedlock_acquire('$client->{name}', '1 h')"), 't',
			"$client->{name}: the new primary grants it") if $client->{kind} ne 'death';
		my $status = ended($client);
		if ($client->{kind} eq 'control')
		{
			$fooled++ if $client->{out} =~ /^\d+$/;
			next;
		}
		$client->{out} eq '' ? $doubts++ : $reported++;
		next if $client->{kind} eq 'death';
		is($client->{out}, '', "the wait ended by $client->{kind}: the client does not report a grant");
		is($status, 125, '... but a failure');
		like($client->{err}, qr/not certain|not known/, '... and says why');
	}
	kill 'CONT', $stalled;
}
is($reported, 0, 'the tool reported no grant that the fail-over forgot');
is($fooled, $batches * $each,
	'control: each client that ignores the warning believed that it had a lock that was then granted to another');
seen(11, $doubts,
	"grants; a client ignoring the warning trusted $fooled of " . $batches * $each,
	"the tool, which was killed in a third of the cases, reported $reported of these grants");

$standby->stop('immediate');
$primary->stop('immediate');
done_testing();
