# Redis servers for the run, with sockets in a temporary folder, and their load. If an operation is one command, the
# load comes from redis-benchmark. If it is two, it comes from one redis-cli per client, which reads commands from a
# pipe and waits for each reply.
package Redis;

use strict;
use warnings;
use File::Temp 'tempdir';
use POSIX ();
use Time::HiRes qw(sleep time);

my ($folder, %script, @servers, @clients);

my %lua = (
	compare_delete => q{if redis.call('get', KEYS[1]) == ARGV[1] }
		. q{then return redis.call('del', KEYS[1]) else return 0 end},
);

sub missing
{
	return !grep { -x "$_/redis-server" } split /:/, $ENV{PATH};
}

sub cli
{
	my ($side, @command) = @_;
	open(my $from, '-|', 'redis-cli', '-s', "$folder/$side->{key}.sock", @command) or die "redis-cli: $!";
	my $output = do { local $/; <$from> };
	close $from;
	$output =~ s/\r?\n\z//;
	return $output;
}

# Starts a process in its own process group, with its output in a log file.
sub spawn
{
	my (@command) = @_;
	my $child = fork // die "fork: $!";
	return $child if $child;
	setpgrp;
	open STDIN, '<', '/dev/null';
	open STDOUT, '>', "$folder/log";
	open STDERR, '>&', \*STDOUT;
	{ exec @command }
	POSIX::_exit(127);
}

sub start
{
	my (@sides) = @_;
	return if !@sides;
	$folder = tempdir('shedlock-redis.XXXXXX', TMPDIR => 1, CLEANUP => 1);
	my @as;
	if ($> == 0)
	{
		@as = ('runuser', '-u', 'redis', '--');
		chown((getpwnam 'redis')[ 2, 3 ], $folder) or die "chown $folder: $!";
	}
	for my $side (@sides)
	{
		push @servers, $side;
		mkdir "$folder/$side->{key}";
		chown((getpwnam 'redis')[ 2, 3 ], "$folder/$side->{key}") if @as;
		spawn(@as, 'redis-server', '--port', 0,
			'--unixsocket', "$folder/$side->{key}.sock", '--dir', "$folder/$side->{key}",
			'--save', '', '--appendonly', 'yes', '--appendfsync', $side->{redis}, '--auto-aof-rewrite-percentage', 0);
		my $tries = 0;
		until (-S "$folder/$side->{key}.sock" && cli($side, 'PING') eq 'PONG')
		{
			$tries++ < 100 ? sleep 0.1 : die 'redis-server does not answer'
		}
		$script{$_} = cli($side, 'SCRIPT', 'LOAD', $lua{$_}) for keys %lua;
	}
}

sub stop
{
	cli($_, 'SHUTDOWN', 'NOSAVE') for splice @servers;
	1 while wait != -1;
}

sub stop_clients
{
	for my $client (splice @clients) { kill 'TERM', -$client; waitpid $client, 0 }
}

END
{
	my $status = $?;
	stop_clients();
	stop() if @servers;
	$? = $status;
}

# Returns a side's command for a name and a value, as arguments.
sub command
{
	my ($command, $name, $value) = @_;
	my %word = (name => $name, value => $value, %script);
	return split / /, $command =~ s/%(\w+)/$word{$1}/gr;
}

# Returns how often each command was called so far, including calls by scripts, and the number of changes.
sub counters
{
	my ($side) = @_;
	my $info = cli($side, 'INFO', 'everything');
	my %count = $info =~ /^cmdstat_(\w+):calls=(\d+)/mg;
	($count{changes}) = $info =~ /^rdb_changes_since_last_save:(\d+)/m;
	return map { ($_ => $count{$_} // 0) } qw(set evalsha del changes);
}

sub start_clients
{
	my ($side, $workload, $clients, $names) = @_;
	if ($workload eq 'refused')
	{
		cli($side, command('SET lock:%name %value', sprintf('%012d', $_), 'somebody')) for 0 .. $names - 1;
		push @clients, spawn('redis-benchmark', '-s', "$folder/$side->{key}.sock", '-l', '-q', '-c', $clients,
			'-n', 100_000_000, '-r', $names, command($side->{acquire}, '__rand_int__', 'we'));
		return;
	}
	for my $client (1 .. $clients)
	{
		my $name = $workload eq 'one' ? 'one' : $client;
		my @lines = map { join ' ', command($side->{$_}, $name, "host-$client") } qw(acquire release);
		push @clients, spawn('sh', '-c', 'yes "$1" | redis-cli -s "$2" >/dev/null', 'sh', join("\n", @lines),
			"$folder/$side->{key}.sock");
	}
}

# Returns operations per second, from the server's counters at two times. Checks that the side did what the workload
# says.
sub measure
{
	my ($side, $workload, $clients, $names, $seconds) = @_;
	cli($side, 'FLUSHALL');
	start_clients($side, $workload, $clients, $names);
	sleep 0.3;
	my %before = counters($side);
	my $start = time;
	sleep $seconds;
	my %after = counters($side);
	my $took = time - $start;
	stop_clients();
	my %done = map { ($_ => $after{$_} - $before{$_}) } keys %after;
	my ($operations, $wanted) = @{
		{
			cycle => [ $done{del}, 2 * $done{del} ],
			one => [ $done{del}, 2 * $done{del} ],
			refused => [ $done{set}, 0 ]
		}->{$workload}
	};
	my $refused = $workload eq 'cycle' ? $done{set} - $done{del} : 0;
	die "$side->{key}, $workload: $done{changes} changes, not $wanted; $refused refused"
		if abs($done{changes} - $wanted) > 2 * $clients || abs($refused) > 2 * $clients || $operations == 0;
	return $operations / $took;
}

1;
