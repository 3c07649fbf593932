# Row 70: a month in an hour. Twenty hosts run jobs by crontab expressions in four zones, on a server whose clock runs
# 720 times as fast. Three clock changes come, and hosts, sessions and servers die. Each tick is done once, or the
# history says why not, and each error is one that the documents name for its fault.
#
# The short version has the night of 28 March and ten hosts. There the clock waits until all ticks that have come are
# done, so none is given up, however slow the machine is.
use strict;
use warnings;
use JSON::PP;
use List::Util qw(max shuffle);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);
use BootClock;
use ShedLock;

# A month of the past, because the rules of the future may change. New York skips an hour on the 14th. On the 28th
# Berlin skips one at 1:00 UTC, and Asuncion shows one twice, from 2:00 to 4:00 UTC.
my ($rate, $quarter) = (720, 15 * 60);
my $begin = often(timegm(0, 0, 18, 27, 2, 2021), timegm(0, 0, 0, 13, 2, 2021));
my $real_seconds = seconds(0, 31 * 86_400 / $rate);
my $end = $begin + often(50, int($real_seconds * $rate / $quarter)) * $quarter + 400;
my $lease = often('5 min', '20 min'); # where the clock waits, it ends before the next tick
my ($berlin, $asuncion, $new_york, $kathmandu) = qw(Europe/Berlin America/Asuncion America/New_York Asia/Kathmandu);

# A job that catches up asks for its oldest tick that is not done, the others for the latest. is_wild: it has two ticks
# when a time is shown twice. when: a second opinion of the expression, by minute, hour, day, and day of the week.
my %jobs = (
	quarter => { cron => '*/15 * * * *', zone => $kathmandu, catches_up => 1, is_wild => 1,
		when => sub { $_[0] % 15 == 0 } },
	hour => { cron => '0 * * * *', zone => $asuncion, is_wild => 1, when => sub { $_[0] == 0 } },
	half => { cron => '*/30 * * * *', zone => $berlin, is_wild => 1, when => sub { $_[0] % 30 == 0 } },
	skipped => { cron => '30 2 * * *', zone => $berlin, when => sub { $_[1] == 2 && $_[0] == 30 } },
	steps => { cron => '*/15 2 * * *', zone => $berlin, catches_up => 1, is_wild => 1,
		when => sub { $_[1] == 2 && $_[0] % 15 == 0 } },
	twice => { cron => '30 23 * * *', zone => $asuncion, when => sub { $_[1] == 23 && $_[0] == 30 } },
	weekend => { cron => '30 2 * * sat,sun', zone => $new_york, catches_up => 1,
		when => sub { $_[3] % 6 == 0 && $_[1] == 2 && $_[0] == 30 } },
	office => { cron => '0,30 9-17 * * 1-5', zone => $new_york,
		when => sub { $_[3] % 6 != 0 && $_[1] >= 9 && $_[1] <= 17 && $_[0] % 30 == 0 } },
	midnight => { cron => '@midnight', zone => $berlin, catches_up => 1, when => sub { $_[1] == 0 && $_[0] == 0 } },
	monday => { cron => '45 8 * * mon#1', zone => $kathmandu, catches_up => 1,
		when => sub { $_[3] == 1 && $_[2] <= 7 && $_[1] == 8 && $_[0] == 45 } });
my @by_tool = qw(half skipped twice office); # only the tool runs the first, whose lock does not end with a session

# The ticks after $begin, by what the C library says of the zone. What is skipped is one tick, at the change.
sub expected_ticks
{
	my ($job) = @_;
	local $ENV{TZ} = $job->{zone};
	POSIX::tzset();
	my $is_due = sub { my (undef, @shown) = gmtime($_[0] * 60); $job->{when}->(@shown[ 0 .. 2, 5 ]) };
	my ($before, $latest, @ticks);
	for (my $at = $begin - 86_400; $at <= $end; $at += 60)
	{
		my $shown = timegm(localtime $at) / 60;
		$before //= $latest //= $shown;
		push @ticks, $at if $at > $begin && (scalar(grep { $is_due->($_) } $before + 1 .. $shown - 1)
				|| $is_due->($shown) && ($shown > $latest || $job->{is_wild}));
		($before, $latest) = ($shown, max($shown, $latest));
	}
	return \@ticks;
}
$_->{ticks} = expected_ticks($_) for values %jobs;
delete $ENV{TZ};
POSIX::tzset();

# The servers, and their clock: see server_clock.cpp.
$ENV{SERVER_CLOCK} = PostgreSQL::Test::Utils::tempdir() . '/clock';
open my $clock, '+>', $ENV{SERVER_CLOCK} or die "$ENV{SERVER_CLOCK}: $!";
truncate $clock, 4_194_304 * 8;
chmod 0666, $ENV{SERVER_CLOCK};
my $now;

sub move_to
{
	($now) = @_;
	sysseek $clock, 0, 0;
	syswrite $clock, pack('q', ($now - time) * 1_000_000) or die "clock: $!";
	return;
}

sub by_clock(&)
{
	local $ENV{LD_PRELOAD} = program('server_clock.so');
	return $_[0]->();
}

move_to($begin);
my $node = by_clock { new_server('primary', <<'CONF', allows_streaming => 1) }; # by this clock time limits pass at once
shared_preload_libraries = 'shedlock'
max_connections = 100
log_statement = none
restart_after_crash = on
checkpoint_timeout = 1d
wal_sender_timeout = 0
wal_receiver_timeout = 0
wal_retrieve_retry_interval = 100ms
CONF
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql(<<"SQL");
SELECT shedlock_keep_history();
CREATE TABLE effects (job text, tick timestamptz);
CREATE TABLE doomed (job text);
CREATE SEQUENCE runs;
-- Before its first tick, a job is due at the beginning.
CREATE FUNCTION due(text, cron text, zone text, catches_up boolean) RETURNS timestamptz LANGUAGE sql AS \$\$
    SELECT GREATEST(to_timestamp($begin), COALESCE((SELECT min(tick) FROM shedlock_ticks(cron,
            COALESCE((SELECT last_done_tick FROM shedlock_locks(ARRAY[\$1])), to_timestamp($begin)), zone) tick
                WHERE catches_up), shedlock_tick(cron, zone))) \$\$;
-- A run does not end while its job is doomed, and every tenth fails.
CREATE FUNCTION work(name text, tick timestamptz) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
    INSERT INTO effects VALUES (name, tick);
    RAISE NOTICE 'run % % %', name, extract(epoch FROM tick)::bigint, (SELECT token FROM shedlock_locks(ARRAY[name]));
    WHILE EXISTS (SELECT FROM doomed WHERE job = name) LOOP
        PERFORM pg_sleep(0.02);
    END LOOP;
    IF nextval('runs') % 10 = 0 THEN
        RAISE EXCEPTION 'this run fails';
    END IF;
END \$\$;
SQL
my $standby = new_standby($node, 'standby');
by_clock { $standby->start };
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'\n");
$node->reload;
wait_until_commits_wait($node);

# A host runs psql or the tool again and again, and notes each error: when the program was started, when the error was
# read (so it happened in between), an SQLSTATE or the like, and the text.
my $folder = PostgreSQL::Test::Utils::tempdir();
my $dsn = sprintf 'host=%s,%s port=%s,%s dbname=postgres target_session_attrs=read-write',
	$node->host, $standby->host, $node->port, $standby->port;
my @psql = ('psql', '-XAtq', '-d', $dsn, (map { ('-v', $_) } qw(VERBOSITY=verbose SHOW_CONTEXT=never executed=)), '-f');
append_to_file("$folder/work.sql", <<'SQL');
\set ON_ERROR_STOP on
\getenv name SHEDLOCK_NAME
\getenv tick SHEDLOCK_TICK
\getenv token SHEDLOCK_TOKEN
BEGIN;
SELECT work(:'name', :'tick') \g /dev/null
SELECT shedlock_complete_token(:'name', :token) \g /dev/null
COMMIT;
\warn completed
SQL
append_to_file("$folder/run.sql", join '', map { <<"SQL" } map { shuffle grep { $_ ne $by_tool[0] } keys %jobs } 1, 2);
CALL shedlock_run('$_', \$\$SELECT work('$_', current_setting('shedlock.tick')::timestamptz)\$\$, '$lease',
  tick => due('$_', '$jobs{$_}{cron}', '$jobs{$_}{zone}', '@{[ $jobs{$_}{catches_up} // 0 ]}'), retry => true) \\gset
\\warn :executed
SELECT pg_sleep(0.1 + random() * 0.3) \\g /dev/null
SQL

sub run_tool
{
	my ($host) = @_;
	for my $name (shuffle @by_tool)
	{
		attend($host, slow_tool, 'run', $name, '--dsn', $dsn, '--at-most', $lease =~ s/ min/m/r, '--cron',
			$jobs{$name}{cron}, '--zone', $jobs{$name}{zone}, '--retry', '-E', 75, '--', @psql, "$folder/work.sql");
		sleep(0.2 + rand 0.5);
	}
	return;
}

# The names of its sessions have the program's process id.
sub attend
{
	my ($host, @command) = @_;
	$host->{since} = time;
	my $pid = open(my $output, '-|') // die "fork: $!";
	if (!$pid)
	{
		open STDERR, '>&', \*STDOUT;
		$ENV{PGAPPNAME} = "host $$";
		exec @command or POSIX::_exit(127);
	}
	my $has_completed;
	while (<$output>)
	{
		if ($_ eq "completed\n") { $has_completed = 1 }
		elsif (/^([tf]?)$/) { $host->{refused} += $1 eq 'f' }
		elsif (/NOTICE:  00000: (run .*)/) { note_down($host, run => $1) }
		elsif (/(?:ERROR|FATAL|PANIC|WARNING):  (\w{5}): (.*)/) { note_down($host, $1, $2) }
		# Until it is connected, psql shows no SQLSTATEs.
		elsif (/(to|Is) the server|to server|server (closed|terminated)|while processing|:  terminating connection/)
		{
			note_down($host, connection => $_);
		}
		elsif (!/LOCATION: |DETAIL: |HINT: |^shedlock: /) { note_down($host, unknown => $_) }
	}
	close $output;
	$host->{refused} += $? == 75 << 8;
	# After a command has completed the lock, another host may acquire it before the tool releases it: see CAVEATS in
	# shedlock.1.
	my $is_expected = !$? || $? == 75 << 8 || $? == 124 << 8 && $has_completed;
	note_down($host, $? & 127 ? 'signal ' . ($? & 127) : 'exit ' . ($? >> 8), "@command") if !$is_expected;
	return;
}

sub note_down
{
	my ($host, $code, $text) = @_;
	chomp $text;
	append_to_file($host->{log}, join("\t", $host->{since}, time, $code, $text) . "\n");
	return;
}

my ($driver, @hosts) = ($$);
append_to_file("$folder/go", "the hosts go on while this file exists\n");
slow_tool(); # compiles its clock
for my $number (1 .. often(10, 20))
{
	push @hosts, my $pid = fork // die "fork: $!";
	next if $pid;
	srand $number;
	my $host = { log => "$folder/host.$number", refused => 0 };
	while (-e "$folder/go" && getppid == $driver)
	{
		$number % 4 ? attend($host, @psql, "$folder/run.sql") : run_tool($host);
	}
	note_down($host, refused => $host->{refused});
	POSIX::_exit(0);
}

# Waits until every job has done its latest tick, or a later one; and has released its lock, unless the clock goes on
# meanwhile. This job is excepted: a dead host may hold its lock.
sub wait_until_done
{
	my $except = shift // '';
	local $" = ', ';
	my @latest = map { "('$_', to_timestamp(@{[ max grep { $_ <= $now } $begin, @{ $jobs{$_}{ticks} } ]}))" }
		grep { $_ ne $except } keys %jobs;
	comes_true($node, "SELECT NOT EXISTS (SELECT FROM (VALUES @latest) of(job, latest)
		WHERE NOT EXISTS (SELECT FROM effects WHERE effects.job = of.job AND tick >= latest))"
		. ($ENV{TORTURE} ? '' : " AND NOT EXISTS (SELECT FROM shedlock_locks WHERE state = 'held' AND name <> '$except')"));
	return;
}

# The faults, and the errors that the documents name for each.
my @broken = (qw(57P01 57P02 57P03 connection), map { "exit $_" } 2, 123 .. 125);
my %documented = (
	'runs failed' => [ 'P0001', 'exit 3' ],
	'hosts killed' => ['signal 9'],
	'sessions terminated' => [ '57P01', 'connection', 'exit 2' ],
	'backends killed' => \@broken,
	'servers restarted' => \@broken,
	'standbys promoted' => [ @broken, '25006' ],
	'leases ended' => [ 'SL001', '01000', 'exit 124' ], # because the clock moved during the work
	'tables changed' => ['exit 125'], # the tool waits five seconds for a lock on the table
	'dumps made' => []);
my @struck = map { [ $_, 0, 1e12 ] } 'runs failed', $ENV{TORTURE} ? 'leases ended' : ();

# They strike a session at work for a doomed job, or the program of its host...
my %strikes = (
	'hosts killed' => sub { kill 'KILL', $_[1] },
	'sessions terminated' => sub { sql("SELECT pg_terminate_backend($_[0])") },
	'backends killed' => sub { crash_restart($node, $_[0]) },
	'servers restarted' => sub { $node->stop('immediate'); by_clock { $node->start } },
	'standbys promoted' => sub {
		$node->stop('immediate');
		$standby->promote;
		$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
		$node = $standby;
	});
# ... or nobody in particular.
my %nuisances = (
	'tables changed' => sub {
		sql($_) for 'ALTER TABLE shedlock ADD note text', 'VACUUM FULL shedlock', 'REINDEX TABLE shedlock',
			'ALTER TABLE shedlock_history ADD note text', 'CREATE INDEX ON shedlock_history (note)',
			'ALTER TABLE shedlock_history DROP note', 'ALTER TABLE shedlock DROP note';
	},
	'dumps made' => sub { system_or_bail('pg_dump', '-f', '/dev/null', '-d', $node->connstr('postgres')) });

sub strike
{
	my ($fault, $name, $at) = @_;
	sql("INSERT INTO doomed VALUES ('$name')") if $strikes{$fault};
	move_to($at) if $at;
	my $victims = "FROM pg_stat_activity
		WHERE application_name LIKE 'host %' AND wait_event = 'PgSleep' AND query LIKE '%work(%'";
	my @victim;
	while ($strikes{$fault} && !@victim) # a run may end in between, with its lease
	{
		comes_true($node, "SELECT count(*) > 0 $victims");
		@victim = split /\|/, sql("SELECT pid, substr(application_name, 6) $victims LIMIT 1");
	}
	my $since = time;
	($strikes{$fault} // $nuisances{$fault})->(@victim);
	sql('DELETE FROM doomed');
	push @struck, [ $fault, $since, time ];
	return;
}

wait_until_done();
if ($ENV{TORTURE})
{
	my $since = time;
	my $mover = fork // die "fork: $!";
	while (!$mover)
	{
		POSIX::_exit(0) if getppid != $driver;
		move_to($begin + (time - $since) * $rate);
		sleep(0.01);
	}
	my @random = grep { $_ ne 'standbys promoted' } keys %strikes, keys %nuisances;
	my $is_promoted;
	while ((my $left = $since + $real_seconds - time) > 0)
	{
		my $fault = $is_promoted || $left > $real_seconds / 2 ? $random[ rand @random ] : 'standbys promoted';
		$is_promoted ||= $fault eq 'standbys promoted';
		strike($fault, (qw(quarter hour half))[ rand 3 ]);
		sleep(rand 4);
	}
	$now = $end;
	wait_until_done(); # while the clock goes on, because dead hosts hold locks
	kill 'KILL', $mover;
	waitpid $mover, 0;
}
my @plan = $ENV{TORTURE} ? () : (
	[ 'hosts killed', 'half' ], [ 'sessions terminated', 'hour' ], [ 'tables changed', 'quarter' ],
	[ 'backends killed', 'hour' ], [ 'hosts killed', 'half' ], [ 'dumps made', 'quarter' ],
	[ 'servers restarted', 'half' ], [ 'sessions terminated', 'half' ], [ 'standbys promoted', 'hour' ],
	[ 'hosts killed', 'half' ]);
for (my $at = $begin + $quarter; !$ENV{TORTURE} && $at <= $end; $at += $quarter)
{
	my ($fault, $name) = @plan && grep({ $_ == $at } @{ $jobs{ $plan[0][1] }{ticks} }) ? @{ shift @plan } : ();
	$fault ? strike($fault, $name, $at + 1) : move_to($at + 1);
	my $is_deadly = $fault && $strikes{$fault};
	wait_until_done($is_deadly && $name);
	next if !$is_deadly;
	my $since = time;
	move_to($at + 400); # beyond the lease of a dead host; but another host may have begun the job
	wait_until_done();
	push @struck, [ 'leases ended', $since, time ];
}
is(@plan, 0, 'control: every fault has struck');
unlink "$folder/go";
waitpid $_, 0 for @hosts;

# What the hosts saw.
my ($refused, @undocumented, %begun, %errors) = (0);
for (map { split /\n/, slurp_file($_) } glob "$folder/host.*")
{
	my ($from, $to, $code, $text) = split /\t/;
	if ($code eq 'refused') { $refused += $text }
	elsif ($text =~ /^run (\w+) (\d+) (\d+)$/) { $begun{"$1 $3"} = $2 }
	elsif (grep { my ($fault, $since, $until) = @$_; $from <= $until && $since <= $to
			&& grep { $_ eq $code } @{ $documented{$fault} } } @struck)
	{
		$errors{$code}++;
	}
	else { push @undocumented, $_ }
}
is(join("\n", splice @undocumented, 0, 10), '', 'the documents name each error, for a fault of that time');
cmp_ok($refused, '>', 0, 'control: calls were refused');
is(sql('SELECT job, tick FROM effects GROUP BY 1, 2 HAVING count(*) > 1'), '', 'no tick was done twice');

# What the history says.
my ($all, $tries, %states, %recorded) = (0, 0);
for my $name (sort keys %jobs)
{
	my $job = $jobs{$name};
	my $since = POSIX::strftime('%FT%TZ', gmtime $begin + 1);
	my ($json) = run_command([ slow_tool, 'history', $name, '--dsn', $dsn, '--cron', $job->{cron},
			'--zone', $job->{zone}, '--since', $since, '--json' ]);
	my %effect = map { $_ => 1 } split /\n/,
		sql("SELECT extract(epoch FROM tick)::bigint FROM effects WHERE job = '$name'");
	my (@ticks, @wrong);
	for my $line (@{ decode_json($json) })
	{
		my ($year, $month, @rest) = $line->{tick} =~ /\d+/g;
		my $tick = timegm(@rest[ 3, 2, 1, 0 ], $month - 1, $year);
		next if $tick > $end;
		push @ticks, $tick;
		my $state = $line->{state};
		my $true = $effect{$tick} ? 'done' : $ENV{TORTURE} && !$job->{catches_up} ? 'failed|ran out|not run' : 'never';
		push @wrong, "$line->{tick} $state" if $state !~ /^($true)$/;
		for my $run (@{ $line->{runs} })
		{
			push @{ $recorded{"$name $run->{token}"} }, $tick;
			push @wrong, "$run->{token} $run->{outcome}" if $run->{outcome} eq 'failed' && !$run->{detail};
			$tries++;
		}
		$states{$state}++;
	}
	is("@ticks", "@{ $job->{ticks} }", @ticks . " times $job->{cron} in $job->{zone}: the history has each tick");
	is("@wrong", '', '... and says truly that it was done, or why not');
	$all += @ticks;
}
my @missed = grep { $begun{$_} > $begin && $begun{$_} <= $end && "@{ $recorded{$_} // [] }" ne $begun{$_} } keys %begun;
is("@missed", '', 'each run that began is in the history, once, with its tick');
cmp_ok($tries, '>', $all, 'control: ticks were tried again');

my %faults;
$faults{ $_->[0] }++ for grep { $_->[1] } @struck;
my $count = sub { my %of = @_; join ', ', map { "$of{$_} $_" } sort keys %of };
seen(70, $all, 'ticks', $count->(%states, tries => $tries, refusals => $refused));
seen(70, scalar(grep { $_->[1] } @struck), 'faults', $count->(%faults) . '; errors: ' . $count->(%errors));
seen_history('of a month',
	split /[|\n]/, sql("SELECT outcome, count(*) FROM shedlock_history WHERE name <> '' GROUP BY 1"));

$node->stop;
done_testing();
