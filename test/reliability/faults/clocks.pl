# Clocks that step. Debian's libfaketime makes the server's clock step by a second to a day in both directions, while
# locks are free, held or kept by at_least. Then the clocks of clients step, and a client's machine is suspended.
use strict;
use warnings;
use File::Spec;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use BootClock;
use ShedLock;

my $tmp = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
my ($library) = glob '/usr/lib/*/faketime/libfaketime.so.1';
die 'package faketime is missing' unless $library;
my $for_threads = $library =~ s/faketime\.so/faketimeMT.so/r;

# Returns environment variables that set a process's wall clock, and nothing else, ahead by the seconds now in the file.
sub clock_by
{
	my ($file, $preload) = @_;
	return (LD_PRELOAD => $preload, FAKETIME_TIMESTAMP_FILE => $file, FAKETIME_NO_CACHE => 1,
		FAKETIME_DONT_FAKE_MONOTONIC => 1, NO_FAKE_STAT => 1);
}

sub set_clock
{
	my ($file, $ahead) = @_;
	open my $new, '>', "$file.new" or die "$file: $!";
	printf $new "%+d\n", $ahead;
	close $new;
	rename "$file.new", $file or die "$file: $!";
}

my $clock = "$tmp/server_clock";
set_clock($clock, 0);
my $server = PostgreSQL::Test::Cluster->new('server');
$server->init;
# Autovacuum is off, because after a step it would sleep for up to a day.
configure($server, "shared_preload_libraries = 'shedlock'\nautovacuum = off\n");
{
	local %ENV = (%ENV, clock_by($clock, $library));
	$server->start;
}
sub sql { return $server->safe_psql('postgres', $_[0]); }
sql(<<'SQL');
CREATE EXTENSION shedlock;
-- Acquires, and checks that the existing lease decided the outcome (I1):
-- granted once lock_until was reached, refused until then.
CREATE FUNCTION take(lock text, OUT token bigint, OUT answer text) LANGUAGE plpgsql AS $$
DECLARE
    ends timestamptz := (SELECT lock_until FROM shedlock_locks WHERE name = lock);
    before timestamptz := clock_timestamp();
BEGIN
    token := shedlock_acquire_token(lock, '10 min');
    answer := CASE WHEN token IS NULL AND ends > before THEN 'refused' WHEN token IS NULL THEN 'refused, although free'
        WHEN ends <= clock_timestamp() THEN 'granted' ELSE 'granted, although held' END;
END $$;
CREATE VIEW nonsense AS
SELECT to_jsonb(l) AS what FROM shedlock_locks l
 WHERE remaining <= '0' OR held_for < '0' OR last_duration < '0'
    OR state NOT IN ('held', 'kept', 'free') OR (state = 'free') <> (remaining IS NULL)
UNION ALL
SELECT to_jsonb(s) FROM shedlock_stats s
 WHERE wait_time < '0' OR longest_hold < '0' OR total_hold < '0' OR acquired + refused <> attempts;
SQL

my $started = sql('SELECT pg_postmaster_start_time()');

# Checks the views and the doctor, which must report a locked_at that is minutes ahead.
sub look_around
{
	my ($when) = @_;
	is(sql('SELECT * FROM nonsense'), '', "$when: the views are sane");
	is(sql("SELECT (SELECT count(*) FROM shedlock_doctor() WHERE finding LIKE '%acquired in the future%') = count(*)"
			. " FROM shedlock_locks WHERE locked_at > clock_timestamp() + interval '2 minutes'"),
		't', "$when: the doctor reports what was acquired in the future");
}

# Makes the clock step while one lock is free, one is held for half an hour, and one is released but kept for twenty
# minutes.
sub step
{
	my ($by) = @_;
	my $when = sprintf 'a step of %+d s', $by;
	set_clock($clock, 0);
	my @before = split /\n/, sql(<<'SQL');
DELETE FROM shedlock;
SELECT shedlock_acquire_token(name, '30 min', least)
  FROM (VALUES ('idle', interval '0'), ('held', '0'), ('kept', '20 min')) one(name, least);
SELECT shedlock_release_token(name, token) FROM shedlock_locks WHERE name IN ('idle', 'kept');
SQL
	my %token;
	@token{qw(idle held kept)} = @before;
	set_clock($clock, $by);
	look_around($when);

	my %ends = (idle => 0, held => 1800, kept => 1200);
	for my $phase (qw(idle held kept))
	{
		my ($new, $answer) = split /\|/, sql("SELECT * FROM take('$phase')");
		# After a small step back, a released lock may be free or not yet free; take() has checked the answer.
		my $expected = $by < 0 && $by >= -60 && $phase eq 'idle' ? qr/^(granted|refused)$/
			: $by >= $ends{$phase} ? qr/^granted$/ : qr/^refused$/;
		like($answer, $expected, "I1 $when: $phase");
		cmp_ok($new, '>', $token{$phase}, "I6 $when: the token grows") if $new;
		old_holder($when, $token{held}, $new) if $phase eq 'held';
	}
	grow($when);
	set_clock($clock, 0);
	grow("$when and back");
}

# The holder from before the step still has the lock, or its calls report that it is lost.
sub old_holder
{
	my ($when, $token, $overtaken) = @_;
	my ($rc, $out, $err) = $server->psql('postgres', "SELECT shedlock_extend_token('held', $token, '30 min')");
	is($out, $overtaken ? 'f' : 't',
		"I4 $when: the holder " . ($overtaken ? 'is told that the lock is lost' : 'extends'));
	($rc, $out, $err) = $server->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT shedlock_guard_token('held', $token)");
	$overtaken ? like($err, qr/SL001/, "I11 $when: its guard fails") : is($err, '', "I11 $when: its guard holds");
}

# Checks that the next token is greater, whatever the clock says.
sub grow
{
	my ($when) = @_;
	for my $name (qw(idle held kept))
	{
		my ($before, $freed, $after) = split /\n/, sql("SELECT token FROM shedlock_locks WHERE name = '$name';"
				. "SELECT shedlock_force_release('$name'); SELECT shedlock_acquire_token('$name', '10 min')");
		cmp_ok($after, '>', $before, "I6 $when: after a release by force the token of $name grows");
	}
	look_around($when);
}

my $rounds = often(1, 50);
for my $round (1 .. $rounds)
{
	step($_) for map { ($_, -$_) } 1, 60, 3600, 86400;
}
my $steps = 8 * $rounds;
seen(15, $steps, 'steps', 'by the stepped clock, exclusion held, tokens grew, the views were sane; '
	. 'only a lock that a jump forward had freed was given to another');

# I9: in a transaction that is an hour old, a lease begins at the current time.
my $hours = often(2, 20);
for my $n (1 .. $hours)
{
	set_clock($clock, 0);
	is(sql(<<"SQL"), 't', 'I9 an acquire in a transaction that is an hour old gets its whole lease');
BEGIN;
\\! echo +3600 > $clock.new && mv $clock.new $clock
SELECT shedlock_acquire('old $n', '10 min') AS granted \\gset
COMMIT;
SELECT remaining > interval '9 min' AND remaining <= interval '10 min' FROM shedlock_locks WHERE name = 'old $n';
SQL
	is(sql("SELECT shedlock_acquire('old $n', '10 min')"), 'f', '... and other callers are refused');
}
seen(15, $hours, 'transactions an hour old', 'the lease began at the acquire');

# The clock steps during a wait, whose length does not depend on the wall clock. seen_to_wait() returns false if the
# wait ended before the test saw it.
sub seen_to_wait
{
	my ($waiting, $name) = @_;
	for (;;)
	{
		return 1 if sql("SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Extension' AND query LIKE '%$name%'") == 1;
		return 0 unless is_running($waiting);
	}
}
for my $by (-86400, 86400)
{
	set_clock($clock, 0);
	my $name = "waited $by";
	sql("SELECT shedlock_acquire('$name', '1 h')");
	my $wait = $by < 0 ? '2 s' : '1 h';
	my $waiting;
	until ($waiting && seen_to_wait($waiting, $name))
	{
		note('the wait had ended before the test saw it; trying again') if $waiting;
		$waiting = launch({}, 'psql', '-XAtq', '-c', "SELECT shedlock_acquire('$name', '1 min', wait => '$wait')",
			'-d', $server->connstr('postgres'));
	}
	set_clock($clock, $by);
	ended($waiting);
	is($waiting->{out}, $by < 0 ? "f\n" : "t\n", sprintf 'a step of %+d s during a wait: %s', $by,
		$by < 0 ? 'the wait ends after its time' : 'the lease has ended, so the lock is granted');
}

# The tool on a server whose clock steps. A step back changes nothing. After a step forward beyond the lease, the tool
# notices that it has lost the lock.
sub start_tool
{
	my ($env, @arguments) = @_;
	local %ENV = (%ENV, %$env);
	return launch({}, $tool, @arguments);
}

set_clock($clock, 0);
my $dsn = $server->connstr('postgres');
my $clock_of_job = boot_clock();
my $run = launch_by($clock_of_job, {}, $tool, 'run', 'job', '--dsn', $dsn, '--at-most', '1h', '--', 'sleep', '3600');
$server->poll_query_until('postgres', "SELECT count(*) = 1 FROM shedlock_locks WHERE name = 'job' AND state = 'held'");
set_clock($clock, -3600);
my $extended = sql("SELECT extended FROM shedlock_stats WHERE name = 'job'");
advance($clock_of_job, when_an_extend_is_due);
ok($server->poll_query_until('postgres', "SELECT extended > $extended FROM shedlock_stats WHERE name = 'job'"),
	'an hour back: keep-alive continues');
set_clock($clock, 3600);
advance($clock_of_job, 2 * when_an_extend_is_due);
is(ended($run), 124, 'two hours forward: the lease has ended, and the command is stopped');

is(sql('SELECT pg_postmaster_start_time()'), $started, 'the server has not restarted');
unlike(slurp_file($server->logfile), qr/PANIC|terminated by signal|TRAP/, '... nor crashed');

# Clients. The server's clock no longer steps, but the clocks of the tools do. The tools run at the same time, each with
# its own clocks. Steps of the wall clock must not matter: a command without keep-alive is stopped when most of its
# lease has passed by CLOCK_BOOTTIME, and a command with keep-alive continues until it is told to end.
my @by = map { ($_, -$_) } 1, 60, 3600, 86400;
my $times = often(1, 25);
for my $round (1 .. $times)
{
	my @tools;
	for my $by (@by)
	{
		my $file = "$tmp/client_clock $by";
		set_clock($file, 0);
		for my $kind ('once', 'kept')
		{
			my $name = "client $by $kind $round";
			my @how = $kind eq 'once' ? ('--no-keep-alive', '--', 'sleep', '3600')
				: ('--', 'sh', '-c', 'until [ -e "$0" ]; do sleep 0.1; done; exit 7', "$tmp/$name");
			my $clock = boot_clock();
			my %env = (%{ $clock->{env} }, clock_by($file, "$clock->{env}{LD_PRELOAD} $for_threads"));
			my $running = start_tool(\%env, 'run', $name, '--dsn', $dsn, '--at-most', '1h', @how);
			push @tools, { %$running, name => $name, kind => $kind, by => $by, clock => $clock };
		}
	}
	my $all = @tools;
	$server->poll_query_until('postgres',
		"SELECT count(*) = $all FROM shedlock_locks WHERE name LIKE 'client % $round' AND state = 'held'")
		or die 'not all tools have started';
	set_clock("$tmp/client_clock $_", $_) for @by;
	my $stepped = sql('SELECT clock_timestamp()');

	advance($_->{clock}, $_->{kind} eq 'once' ? after_the_deadline : when_an_extend_is_due) for @tools;
	for my $one (grep { $_->{kind} eq 'once' } @tools)
	{
		is(ended($one), 124, "a client's clock steps by $one->{by} s: without keep-alive its command is stopped");
		is(sql("SELECT last_outcome FROM shedlock_locks WHERE name = '$one->{name}'"), 'failed',
			'... before the lease ends: it has released the lock');
	}
	ok($server->poll_query_until('postgres', "SELECT count(*) = 8 FROM shedlock_locks
			WHERE name LIKE 'client % kept $round' AND lock_until > '$stepped'::timestamptz + interval '1 h'"),
		"clients' clocks step: keep-alive extends all leases");
	for my $one (grep { $_->{kind} eq 'kept' } @tools)
	{
		append_to_file("$tmp/$one->{name}", '');
		is(ended($one), 7, "a client's clock steps by $one->{by} s: with keep-alive its command continues");
	}
}
seen(16, @by * $times, 'steps', 'the deadline was kept, keep-alive went on');

# As when a machine is suspended, the tool does not run, but CLOCK_BOOTTIME advances by the length of its lease.
my $sleeps = often(1, 25);
for my $round (1 .. $sleeps)
{
	my @jobs = map {
		my $clock = boot_clock();
		my @command = ('run', "asleep $round $_", '--dsn', $dsn, '--at-most', '1h', '--', 'sleep', '3600');
		+{ clock => $clock, %{ launch_by($clock, {}, $tool, @command) } }
	} 1 .. 4;
	$server->poll_query_until('postgres',
		"SELECT count(*) = 4 FROM shedlock_locks WHERE name LIKE 'asleep $round %' AND state = 'held'");
	$_->{run}->signal('STOP') for @jobs;
	advance($_->{clock}, 3_600) for @jobs;
	$_->{run}->signal('CONT') for @jobs;
	is(ended($_), 124, 'a machine that was suspended for as long as the lease: the command is stopped when it resumes')
		for @jobs;
}
seen(16, 4 * $sleeps, 'suspensions', 'for the length of the lease');

$server->stop;
done_testing();
