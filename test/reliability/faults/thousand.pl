# Row 50: one client keeps a thousand locks of 3 s by one connection, and all of them are held all the time: beside rows that somebody
# has locked by hand, through DDL and restarts of the server. What the client believes is compared with the table (thousand.cpp).
use strict;
use warnings;
use IPC::Run;
use Test::More;
use Time::HiRes qw(sleep time);
use Managed;
use ShedLock;

my ($locks, $at_most, $timeout) = (1000, 3000, 2000); # milliseconds

my $node = new_server('server', "shared_preload_libraries = 'pg_stat_statements'\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql($_) for 'CREATE EXTENSION pg_stat_statements', 'CREATE ROLE app LOGIN CONNECTION LIMIT 20', "SELECT shedlock_grant('app')";

# ---- The programme ----

sub start_client
{
	my @groups = @_;
	my $client = { in => '', out => '', err => '' };
	$client->{run} = IPC::Run::start([ program('thousand'), $node->connstr('postgres') . ' user=app', $node->connstr('postgres'), $timeout, @groups ],
		'<', \$client->{in}, '>', \$client->{out}, '2>', \$client->{err}, IPC::Run::timeout(900));
	$client->{run}->pump until $client->{out} =~ s/^acquired\n//m || !$client->{run}->pumpable;
	return $client;
}

sub let_pass
{
	my ($client, $seconds) = @_;
	for (my $end = time + $seconds; time < $end; sleep 0.02)
	{
		$client->{run}->pump_nb;
	}
	return;
}

# What it answers, by key.
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
	is($client->{run}->result(0), 0, 'the programme ended in order') or diag($client->{err});
	return;
}

# What it has told of one kind since this was asked last: the number that stands there, by lock.
sub told
{
	my ($client, $kind) = @_;
	my %of;
	$client->{out} =~ s/^$kind (\w+) ?(.*)\n/$of{$1} = $2; ''/gem;
	return %of;
}

# ---- Faults ----

# By hand, in a transaction that stays open for as long as the session.
sub lock_rows
{
	my $list = join ',', map { "'$_'" } @_;
	my $hand = $node->background_psql('postgres');
	$hand->query_safe("BEGIN; SELECT FROM shedlock WHERE name IN ($list) FOR UPDATE");
	return $hand;
}

# Whatever becomes of this programme, they go on.
my @frozen;
END { kill 'CONT', @frozen; }

# ---- What it costs ----

sub processor # the seconds of it that processes have had
{
	my $sum = 0;
	for my $pid (@_)
	{
		open my $file, '<', "/proc/$pid/schedstat" or next;
		$sum += (split ' ', <$file>)[0] / 1e9;
	}
	return $sum;
}

# A while without faults.
sub calm
{
	my ($client, $seconds) = @_;
	my @backends = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE usename = 'app'");
	ask($client, 'report'); # from here on
	sql('SELECT pg_stat_statements_reset()');
	my $before = processor(@backends);
	let_pass($client, $seconds);
	my $server = processor(@backends) - $before;
	my %saw = ask($client, 'report');
	my $statements = sql("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE userid = 'app'::regrole");
	$saw{cost} = sprintf '%.1f extends by %.2f statements a second; of a processor core the client had %.2f %%, its sessions %.2f %%',
	  $saw{extends} / $saw{seconds}, $statements / $saw{seconds}, 100 * $saw{processor} / $saw{seconds}, 100 * $server / $saw{seconds};
	return %saw;
}

# ---- What is promised ----

sub is_kept_well
{
	my ($title, $count, %saw) = @_;
	is($saw{held}, $count, "$title: $count locks are held");
	is($saw{wrong}, 0, "$title: ... by the table, too, and for longer than the client says");
	cmp_ok($saw{rows}, '>', $count, "$title: control: it was compared");
	cmp_ok($saw{connections}, '<=', 2, "$title: ... by a connection or two");
	cmp_ok($saw{threads}, '<=', 20, "$title: ... and few threads");
	return;
}

# These, and no others. The client's deadline is a tenth of the lease before the server's, after which others may have the lock.
sub are_lost
{
	my ($client, $title, @names) = @_;
	my %stopped = told($client, 'stopped');
	is(join(' ', sort keys %stopped), join(' ', sort @names), "$title: the stop is requested, of what could not be extended");
	my @sorted = sort { $a <=> $b } values %stopped;
	ok(!@sorted || ($sorted[0] >= 0 && $sorted[-1] < $at_most / 10), sprintf "$title: ... at the deadline and not later (%.1f to %.1f ms)", @sorted[ 0, -1 ]) if @sorted;
	my %lost = told($client, 'event lost');
	is(join(' ', sort keys %lost), join(' ', sort @names), "$title: ... and told");
	my %word; # the last one about its extends: a row is locked by hand again only a moment after a restart
	$client->{out} =~ s/^event extend_(failing|recovered) (\w+).*\n/$word{$2} = $1; ''/gem;
	is(join(' ', sort grep { $word{$_} eq 'failing' } keys %word), join(' ', sort @names), "$title: ... after a warning; all others' have their all-clear");
	return;
}

# ---- A thousand locks ----

my $client = start_client($locks, $at_most);
let_pass($client, 0.3);
is_kept_well('at once', $locks, ask($client, 'report'));
my %calm = calm($client, often(2, 60));
is_kept_well('calm', $locks, %calm);
cmp_ok($calm{left}, '>', $at_most / 2, "... each is extended in good time: at least $calm{left} ms were left");

my @stuck = ('29', map { 97 * $_ } 1 .. 9);
my $hand = lock_rows('29b', @stuck[ 1 .. 9 ]); # that is one of three names of a lock
let_pass($client, 3.1);
is_kept_well('rows locked by hand', $locks - @stuck, ask($client, 'report'));
are_lost($client, 'rows locked by hand', @stuck);
$hand->quit;

sql('BEGIN; ALTER TABLE shedlock ADD remark text; SELECT pg_sleep(0.3); COMMIT');
let_pass($client, 0.5);
is_kept_well('DDL', $locks - @stuck, ask($client, 'report'));
are_lost($client, 'DDL');

# Beside a row that is locked by hand whenever there is a server. A server that was away for longer than was left of the leases says
# nothing about the client: try again.
my %stuck = (fast => '8', immediate => '18');
my ($left, @away) = $locks - @stuck;
for my $how (qw(fast immediate))
{
	my %saw;
	for my $try (1 .. 3)
	{
		$hand = lock_rows($stuck{$how});
		$node->stop($how);
		$node->start;
		$hand->quit;
		$hand = lock_rows($stuck{$how});
		let_pass($client, 3.1);
		$hand->quit;
		%saw = ask($client, 'report');
		last if $saw{away} + 500 < $calm{left} || $try == 3;
		note("away for $saw{away} ms");
		end($client);
		($client, $left) = (start_client($locks, $at_most), $locks);
	}
	push @away, sprintf '%.0f ms', $saw{away};
	is_kept_well("$how restart, away for $away[-1]", --$left, %saw);
	are_lost($client, "$how restart", $stuck{$how});
}

my %released = ask($client, 'release');
is(sql("SELECT count(*) FROM shedlock_locks WHERE state <> 'free'"), 0, "all are released, in $released{ms} ms");
end($client);

# ---- Half of the locks locked by hand ----

# Beside them some whose leases are twice as long, so that keep-alive is occupied with them when the others are lost. A machine that lets even
# the observer, who looks every 50 ms, wait for long says nothing: try again.
my @odd = grep { $_ % 2 } 0 .. 99;
my %half;
for my $try (1 .. 3)
{
	$client = start_client(100, 8_000, 50, 16_000);
	$hand = lock_rows(@odd, 100 .. 149);
	let_pass($client, 7.6);
	%half = ask($client, 'report');
	last if $half{away} < 200 || $try == 3;
	note("away for $half{away} ms");
	$hand->quit;
	end($client);
}
is_kept_well('half locked by hand', 100, %half);
$hand->quit;
let_pass($client, 1);
is_kept_well('half locked by hand, and let go', 100, ask($client, 'report'));
are_lost($client, 'half locked by hand', @odd);
end($client);

# ---- A server that does not answer ----

$client = start_client($locks, $at_most);
@frozen = ($node->{_pid}, children($node->{_pid}));
kill 'STOP', @frozen;
my $began = time;
my %destroyed = ask($client, 'destroy');
end($client);
my $ended = 1000 * (time - $began);
kill 'CONT', @frozen;
my %not_released = told($client, 'event not_released');
is(scalar keys %not_released, $locks, 'stopped server: it is told that no lock could be released');
cmp_ok($destroyed{ms}, '<', $timeout + 700, sprintf 'stopped server: %d locks are destroyed in %.0f ms', $locks, $destroyed{ms});
cmp_ok($ended, '<', 2 * $timeout + 700, sprintf 'stopped server: ... and the client in %.0f ms', $ended);

seen(50, $locks, "locks of $at_most ms kept by one connection, $calm{threads} threads: $calm{cost}. Rows locked by hand, DDL, restarts (the server was away "
	  . "for @{[ join ' and ', @away ]}): lost were the locks of those rows, no other. Server stopped: all destroyed in $destroyed{ms} ms");

# ---- Twenty locks of a minute, and five thousand of ten seconds ----

if ($ENV{TORTURE})
{
	$client = start_client(20, 60_000);
	my %few = calm($client, 120);
	is_kept_well('locks of a minute', 20, %few);
	end($client);
	seen(50, 20, "locks of a minute: $few{cost}");

	$client = start_client(5000, 10_000);
	my %many = calm($client, 60);
	is_kept_well('five thousand locks', 5000, %many);
	end($client);
	seen(50, 5000, "locks of 10 s: $many{cost}");
}

$node->stop;
done_testing();
