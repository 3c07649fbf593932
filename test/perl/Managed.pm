# Two servers under a fail-over manager. They use a temporary folder and free ports of this machine, and are stopped by
# process id.
package Managed;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Fleet;
use ShedLock;

our @EXPORT = qw(spawn kill_and_wait postmaster kill_server kill_ahead_of_standby children primary until_true settings
	run_rounds);

# For postgresql.conf, by name.
sub settings
{
	chomp(my $library = `pg_config --pkglibdir`);
	return (
		extension_destdir => $ENV{SHEDLOCK_STAGE},
		dynamic_library_path => "$ENV{SHEDLOCK_STAGE}$library:\$libdir",
		wal_log_hints => 'on',
		wal_keep_size => '256MB',
		fsync => 'off', # the machine does not fail in this test
	);
}

# Starts a process in the background, with its output in a file.
sub spawn
{
	my ($log, @command) = @_;
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	open STDIN, '<', '/dev/null';
	open STDOUT, '>>', $log or die "$log: $!";
	open STDERR, '>&', \*STDOUT;
	setpgrp;
	exec @command or die "$command[0]: $!";
}

sub kill_and_wait
{
	my ($signal, $pid) = @_;
	kill $signal, $pid;
	waitpid $pid, 0;
}

sub hosts
{
	my @nodes = @_;
	return sprintf 'host=%s port=%s dbname=postgres user=postgres connect_timeout=2 target_session_attrs=read-write',
	  join(',', map { '127.0.0.1' } @nodes), join(',', map { $_->{port} } @nodes);
}

# Returns the process id of the server, or undef if it is not running.
sub postmaster
{
	my $node = shift;
	open my $file, '<', "$node->{data}/postmaster.pid" or return;
	chomp(my $pid = <$file> // '');
	return $pid =~ /^\d+$/ && kill(0, $pid) ? $pid : undef;
}

sub children
{
	my $pid = shift // return;
	open my $file, '<', "/proc/$pid/task/$pid/children" or return;
	return map { split } <$file>;
}

# Kills all processes of the server at once, so that it cannot shut down cleanly.
sub kill_server
{
	my $pid = postmaster(shift) // return;
	kill 'KILL', $pid, children($pid);
}

# The standby receives nothing for a second, and then its primary is killed. So what was committed in this second
# without waiting for the standby is certainly lost.
sub kill_ahead_of_standby
{
	my ($primary, $standby) = @_;
	my @receiver = grep { `tr '\\0' ' ' </proc/$_/cmdline` =~ /walreceiver/ } children(postmaster($standby));
	kill 'STOP', @receiver;
	sleep 1;
	kill_server($primary);
	kill 'TERM', @receiver; # otherwise it would still read what is in its socket
	kill 'CONT', @receiver;
}

sub ask
{
	my ($target, $sql) = @_;
	my $answer = `timeout 3 psql -XAtq -d '$target' -c "$sql" 2>/dev/null` // '';
	chomp $answer;
	return $answer;
}

# Returns the server that accepts writes, or undef if none or both do.
sub primary
{
	my @found = grep {
		ask("host=127.0.0.1 port=$_->{port} dbname=postgres user=postgres connect_timeout=2",
			'SELECT pg_is_in_recovery()') eq 'f'
	} @_;
	return @found == 1 ? $found[0] : undef;
}

sub until_true
{
	my ($what, $condition) = @_;
	my $deadline = time + 600; # a busy machine may take minutes to bring a server back
	while (time < $deadline)
	{
		return 1 if $condition->();
		sleep 0.2;
	}
	diag("gave up waiting for: $what");
	return 0;
}

# Returns the seconds from $since until a client that keeps trying is granted a lock.
sub until_granted
{
	my ($hosts, $since) = @_;
	my $name = "probe at $since";
	until_true('a lock is granted', sub { ask($hosts, "SELECT shedlock_acquire_token('$name', '1 ms')") =~ /^\d+$/ })
		or return;
	return time - $since;
}

# Lets a fleet work while faults happen one after the other. Each fault is [what, code]; the code gets the primary and
# the other server, causes the fault, and returns the time from which the recovery is counted. The next fault follows
# when both servers work again.
sub run_rounds
{
	my ($row, $nodes, $folder, $is_well, @faults) = @_;
	my $hosts = hosts(@$nodes);
	system 'psql', '-Xqd', $hosts, '-c', 'CREATE EXTENSION shedlock';
	my $fleet = start_fleet(hosts => $hosts, tool => $tool, folder => $folder);
	my $tried = 0;
	my %recovery;
	for my $round (0 .. ($ENV{TORTURE_ROUNDS} // 20) - 1)
	{
		my ($what, $cause) = @{ $faults[ $round % @faults ] };
		my $primary;
		until_true('a primary', sub { $primary = primary(@$nodes) });
		my $since = $cause->($primary, grep { $_ != $primary } @$nodes);
		$tried++;
		my $seconds = until_granted($hosts, $since);
		my $well = defined $seconds && until_true("both servers work after: $what", $is_well);
		ok($well, sprintf 'round %d, %s: granted again after %.1f s', $round + 1, $what, $seconds // -1);
		last unless $well;
		push @{ $recovery{$what} }, $seconds;
		sleep 2; # the fleet acquires locks, so that it holds some at the next fault
	}
	my @grants = stop_fleet($fleet);
	my @double = double_grants(@grants);
	my @forgotten = forgotten($hosts, @grants);
	my @backward = backward_tokens(@grants);
	my %kinds = map { $_->{who} =~ /(\w+)\.\d+$/ ? ($1 => 1) : () } @grants;
	is(join(' ', sort keys %kinds), 'java keep run session tool', 'control: every kind of client was granted locks');
	is(join("\n", @double), '', 'I1 no lock was held by two clients at a time');
	is(join("\n", @forgotten), '', 'I7 no lock was forgotten');
	is(join("\n", @backward), '', 'I6 tokens grew');
	my $longest = 0;
	my $summary = join '; ', map {
		my @s = sort { $a <=> $b } @{ $recovery{$_} };
		$longest = $s[-1] if $s[-1] > $longest;
		sprintf '%s %.0f (at most %.0f)', $_, $s[ @s / 2 ], $s[-1]
	} sort keys %recovery;
	seen($row, $tried, sprintf('faults, %d grants, next within %.0f s', scalar @grants, $longest),
		sprintf '%d double, %d forgotten, %d tokens backward; seconds until the next grant, median: %s',
		scalar @double, scalar @forgotten, scalar @backward, $summary);
	return;
}

1;
