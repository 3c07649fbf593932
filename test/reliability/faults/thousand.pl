# Row 50: one client keeps a thousand locks of an hour alive on one connection: during DDL, across restarts of the
# server, and while rows are locked by hand. Only the locks of those rows are lost. The client's view is compared with
# the table (thousand.cpp). The test moves the client's clock, so it does not take an hour, but only as long as the
# machine needs.
use strict;
use warnings;
use IPC::Run;
use Test::More;
use Time::HiRes qw(sleep time);
use BootClock;
use Managed;
use ShedLock;

my ($locks, $at_most, $timeout) = (1000, 3_600_000, 2000); # milliseconds

my $node = new_server('server', "shared_preload_libraries = 'pg_stat_statements'\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql($_) for 'CREATE EXTENSION pg_stat_statements', 'CREATE ROLE app LOGIN CONNECTION LIMIT 20',
	"SELECT shedlock_grant('app')";

# ---- The program ----

sub start_client
{
	my @groups = @_;
	my $client = { in => '', out => '', err => '', clock => boot_clock(1), ahead => 0 };
	local %ENV = (%ENV, %{ $client->{clock}{env} });
	$client->{run} = IPC::Run::start([ program('thousand'), $node->connstr('postgres') . ' user=app',
			$node->connstr('postgres'), $timeout, @groups ],
		'<', \$client->{in}, '>', \$client->{out}, '2>', \$client->{err}, IPC::Run::timeout(3600));
	until ($client->{out} =~ s/^acquired\n//m)
	{
		die "the program has not acquired its locks: $client->{err}" unless $client->{run}->pumpable;
		$client->{run}->pump;
	}
	return $client;
}

sub this_moment { return sql("SELECT timezone('utc', clock_timestamp())"); }

# Waits until all leases except those of the stuck locks have been extended since $then, and the client knows that.
sub await_extends
{
	my ($client, $then, @stuck) = @_;
	my $list = join ',', map { "'$_'" } 'none', @stuck;
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM shedlock WHERE lock_until <= '$then'::timestamp + interval '1 hour'
			AND regexp_replace(name, '[bc]\$', '') NOT IN ($list)") or die 'leases are not extended';
	my $extended = sql("SELECT count(*) FROM shedlock
		WHERE lock_until > '$then'::timestamp + interval '1 hour' AND name ~ '^\\d+\$'");
	my %told;
	do { %told = ask($client, 'fresh') } until $told{locks} >= $extended;
	return;
}

sub move_clock
{
	my ($client, $by, @stuck) = @_;
	my $then = this_moment();
	advance($client->{clock}, $client->{ahead} += $by);
	await_extends($client, $then, @stuck) if $by >= when_an_extend_is_due;
	return;
}

# Moves the clock past the deadlines of leases that are not extended, which come a little before their ends.
sub let_lease_pass
{
	my ($client, @stuck) = @_;
	move_clock($client, $_, @stuck) for (when_an_extend_is_due) x 2, after_the_deadline - 2 * when_an_extend_is_due;
	return;
}

# Waits until the program has reported this many of that kind.
sub hear
{
	my ($client, $kind, $count) = @_;
	for (;;)
	{
		my $told = () = $client->{out} =~ /^$kind /gm;
		return if $told >= $count || !$client->{run}->pumpable;
		$client->{run}->pump;
	}
}

# Returns the program's answer, by key.
sub ask
{
	my ($client, $command) = @_;
	$client->{in} .= "$command\n";
	$client->{run}->pump until $client->{out} =~ /^$command .*\n/m || !$client->{run}->pumpable;
	$client->{out} =~ s/^($command .*)\n//m or die "no answer to $command: $client->{err}";
	note($1);
	my (undef, %answer) = split ' ', $1;
	return %answer;
}

sub end
{
	my ($client) = @_;
	$client->{in} .= "end\n";
	$client->{run}->finish;
	is($client->{run}->result(0), 0, 'the program ended normally') or diag($client->{err});
	return;
}

# What the program has reported of one kind since the last call: the number in the line, by lock.
sub told
{
	my ($client, $kind) = @_;
	my %of;
	$client->{out} =~ s/^$kind (\w+) ?(.*)\n/$of{$1} = $2; ''/gem;
	return %of;
}

# ---- Faults ----

# Locks rows by hand, in a transaction that stays open as long as the session.
sub lock_rows
{
	my $list = join ',', map { "'$_'" } @_;
	my $hand = $node->background_psql('postgres');
	$hand->query_safe("BEGIN; SELECT FROM shedlock WHERE name IN ($list) FOR UPDATE");
	return $hand;
}

# These processes are resumed, however this test ends.
my @frozen;
END { kill 'CONT', @frozen; }

# ---- What it costs ----

sub processor # seconds of processor time that these processes have used
{
	my $sum = 0;
	for my $pid (@_)
	{
		open my $file, '<', "/proc/$pid/schedstat" or next;
		$sum += (split ' ', <$file>)[0] / 1e9;
	}
	return $sum;
}

# Causes each lease to be extended this many times, and measures the cost.
sub calm
{
	my ($client, $times) = @_;
	my @backends = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE usename = 'app'");
	ask($client, 'report'); # the next report begins here
	sql('SELECT pg_stat_statements_reset()');
	my $before = processor(@backends);
	move_clock($client, when_an_extend_is_due) for 1 .. $times;
	my $server = processor(@backends) - $before;
	my %saw = ask($client, 'report');
	my $statements = sql("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
		WHERE userid = 'app'::regrole AND query ~ 'extend_token'");
	$saw{cost} = sprintf '%d extends by %d statements; its sessions used %.1f ms of a processor core per thousand',
		$saw{extends}, $statements, 1e6 * $server / ($saw{extends} || 1);
	return %saw;
}

# ---- What is promised ----

sub is_kept_well
{
	my ($title, $count, %saw) = @_;
	is($saw{held}, $count, "$title: $count locks are held");
	is($saw{wrong}, 0, "$title: ... in the table, too, and for longer than the client says");
	cmp_ok($saw{rows}, '>', $count, "$title: control: the client's view and the table were compared");
	cmp_ok($saw{connections}, '<=', 2, "$title: ... on one or two connections");
	cmp_ok($saw{threads}, '<=', 20, "$title: ... with few threads");
	return;
}

# Checks that only these locks are lost, and not before their deadlines.
sub are_lost
{
	my ($client, $title, @names) = @_;
	hear($client, $_, scalar @names) for 'stopped', 'event lost';
	my %stopped = told($client, 'stopped');
	is(join(' ', sort keys %stopped), join(' ', sort @names),
		"$title: a stop is requested for the locks that could not be extended");
	is(scalar(grep { $_ < 0 } values %stopped), 0, "$title: ... not before the deadline") if %stopped;
	my %lost = told($client, 'event lost');
	is(join(' ', sort keys %lost), join(' ', sort @names), "$title: ... and reported");
	# The last event about a lock's extends counts: after a restart a row is locked by hand again only a moment later,
	# so one extend may succeed before. An event may also arrive after the extend that it reports, so this waits.
	my ($failing, %word);
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		is_running($client);
		$client->{out} =~ s/^event extend_(failing|recovered) (\w+).*\n/$word{$2} = $1; ''/gem;
		$failing = join ' ', sort grep { $word{$_} eq 'failing' } keys %word;
		last if $failing eq join ' ', sort @names;
		sleep 0.1;
	}
	is($failing, join(' ', sort @names),
		"$title: ... after an event that extends fail; for all other locks the last event says that they work");
	return;
}

# ---- A thousand locks ----

my $client = start_client($locks, $at_most);
is_kept_well('at once', $locks, ask($client, 'report'));
my %calm = calm($client, often(2, 60));
is_kept_well('calm', $locks, %calm);
cmp_ok($calm{left}, '>', $at_most / 2, "... each is extended in good time: at least $calm{left} ms were left");

my @stuck = ('29', map { 97 * $_ } 1 .. 9);
my $hand = lock_rows('29b', @stuck[ 1 .. 9 ]); # 29b is one of three names of a lock
let_lease_pass($client, @stuck);
are_lost($client, 'rows locked by hand', @stuck);
is_kept_well('rows locked by hand', $locks - @stuck, ask($client, 'report'));
$hand->quit;

my $then = this_moment();
my $ddl = $node->background_psql('postgres');
$ddl->query_safe('BEGIN; ALTER TABLE shedlock ADD remark text');
advance($client->{clock}, $client->{ahead} += when_an_extend_is_due);
$node->poll_query_until('postgres',
	"SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'app' AND wait_event_type = 'Lock'")
	or die 'no session waits for the table';
$ddl->query_safe('COMMIT');
$ddl->quit;
await_extends($client, $then, @stuck);
is_kept_well('DDL', $locks - @stuck, ask($client, 'report'));
are_lost($client, 'DDL');

# Restarts of the server. One row is locked by hand whenever the server runs. The extends are due while it does not run.
my %stuck = (fast => '8', immediate => '18');
my $left = $locks - @stuck;
for my $how (qw(fast immediate))
{
	$then = this_moment();
	$hand = lock_rows($stuck{$how});
	$node->stop($how);
	advance($client->{clock}, $client->{ahead} += when_an_extend_is_due);
	$node->start;
	$hand->quit;
	$hand = lock_rows($stuck{$how});
	push @stuck, $stuck{$how};
	await_extends($client, $then, @stuck);
	let_lease_pass($client, @stuck); # the stuck lock may have been extended before its row was locked again
	are_lost($client, "$how restart", $stuck{$how});
	$hand->quit;
	is_kept_well("$how restart", --$left, ask($client, 'report'));
}

my %released = ask($client, 'release');
is(sql("SELECT count(*) FROM shedlock_locks WHERE state <> 'free'"), 0, "all locks are released, in $released{ms} ms");
end($client);

# ---- Half of a hundred locks locked by hand ----

# Fifty more have leases twice as long. Their rows are locked, too, so keep-alive is busy with them when the others are
# lost.
my @odd = grep { $_ % 2 } 0 .. 99;
$client = start_client(100, $at_most, 50, 2 * $at_most);
$hand = lock_rows(@odd, 100 .. 149);
let_lease_pass($client, @odd, 100 .. 149, 150 .. $locks);
hear($client, 'event lost', scalar @odd);
my %half = ask($client, 'report');
is_kept_well('half locked by hand', 100, %half);
$hand->quit;
hear($client, 'event extend_recovered', 50);
is_kept_well('half locked by hand, then unlocked', 100, ask($client, 'report'));
are_lost($client, 'half locked by hand', @odd);
end($client);

# ---- A server that does not answer ----

$client = start_client($locks, $at_most);
@frozen = ($node->{_pid}, split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE usename = 'app'"));
kill 'STOP', @frozen;
my %destroyed = ask($client, 'destroy');
end($client);
kill 'CONT', @frozen;
my %not_released = told($client, 'event not_released');
is(scalar keys %not_released, $locks, 'stopped server: an event reports each lock that could not be released');
note("stopped server: $locks locks are destroyed in $destroyed{ms} ms");

seen(50, $locks, "locks of an hour kept by one connection, $calm{threads} threads: $calm{cost}. Rows locked by hand, "
	. "DDL, restarts: only the locks of those rows were lost. Server stopped: all destroyed in $destroyed{ms} ms");

if ($ENV{TORTURE})
{
	sql('DELETE FROM shedlock'); # the last client could not release them
	$client = start_client(5000, $at_most);
	my %many = calm($client, 10);
	is_kept_well('five thousand locks', 5000, %many);
	end($client);
	seen(50, 5000, "locks of an hour: $many{cost}");

	# By the machine's clock, with half of the rows locked by hand. If this process wakes up late, the client may have
	# done so, too, and its leases may have ended. Then the test is repeated.
	my $stalls = 0;
	for my $lease (3, 10)
	{
		my @odd = grep { $_ % 2 } 0 .. $locks - 1;
		$client = start_client($locks, 1000 * $lease);
		$hand = lock_rows(@odd);
		hear($client, 'event lost', scalar @odd);
		my $end = time + 3 * $lease;
		sleep 3 * $lease;
		my $late = time - $end;
		ask($client, 'report');
		my %lost = told($client, 'event lost');
		my @healthy = grep { $_ % 2 == 0 } keys %lost;
		$hand->quit;
		end($client);
		if (@healthy && $late > $lease / 6 && $stalls++ < 3)
		{
			note("the machine stood still for $late s; once more");
			redo;
		}
		is(scalar(@healthy), 0, "leases of $lease s: no lock is lost because of others");
		seen(50, $locks / 2,
			"locks of $lease s next to " . @odd . ' whose rows are locked by hand: ' . @healthy . ' lost');
	}

	$client = start_client(1, $at_most);
	$hand = lock_rows('0');
	my %callers = ask($client, 'callers');
	is($callers{failed}, 0, 'no acquire of ten threads fails while an extend finds its row locked');
	cmp_ok($callers{most}, '<', $timeout, '... and 99 % of them take less time than the extend waits');
	$hand->quit;
	end($client);
	seen(50, $callers{count}, "acquires of ten threads, while another extends a lock whose row is locked by hand: "
		. "median $callers{median} ms, 99 % $callers{most} ms, greatest $callers{greatest} ms");

	$client = start_client(1, $at_most);
	my $statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' \\watch 0.3\n";
	my $ending = IPC::Run::start([ 'psql', '-XqAt', '-o', '/dev/null', $node->connstr('postgres') ], '<', \$statement);
	$ending->pump while length $statement; # until psql has been given the statement
	my %cycles = ask($client, 'cycles');
	$ending->kill_kill;
	ok($node->poll_query_until('postgres', q[SELECT sessions_killed > 0 FROM pg_stat_database
			WHERE datname = 'postgres']),
		'control: sessions are ended');
	cmp_ok($cycles{descriptors}, '<', 10,
		'100,000 cycles, whose sessions are ended every 0.3 s: no descriptor is left open');
	cmp_ok($cycles{megabytes}, '<', 10, '... and no memory is left behind');
	end($client);
	seen(50, 100_000,
		"cycles whose sessions are ended every 0.3 s: $cycles{descriptors} descriptors and $cycles{megabytes} MB more");
}

$node->stop;
done_testing();
