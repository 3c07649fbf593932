# The load for the Redis server that test/bench/run has started. Refused attempts are one command, and come from
# redis-benchmark. A cycle is two, so each client is a redis-cli that reads from a pipe and waits for each reply.
package Redis;

use strict;
use warnings;
use Time::HiRes qw(sleep time);

my $socket = "$ENV{BENCH_REDIS}/socket";
my $compare_and_delete =
	"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

sub cli { return Server::output_of('redis-cli', '-s', $socket, @_) =~ s/\r?\n\z//r }

# Returns how often SET and DEL were called so far, the latter by the script.
sub counters
{
	my $info = cli('INFO', 'commandstats');
	return map { $info =~ /^cmdstat_$_:calls=(\d+)/m ? $1 : 0 } qw(set del);
}

# Returns operations per second, from the server's counters at two times. Checks that all was granted, or nothing.
sub measure
{
	my ($side, $workload, $clients, $names, $seconds) = @_;
	cli('FLUSHALL');
	cli(qw(CONFIG SET appendfsync), $side->{redis});
	my $load = '';
	if ($workload eq 'refused')
	{
		cli('SET', sprintf('lock:%012d', $_), 'somebody') for 0 .. $names - 1;
		$load = "redis-benchmark -s $socket -c $clients -n 100000000 -r $names SET lock:__rand_int__ us NX PX 60000";
	}
	else
	{
		my $sha = cli('SCRIPT', 'LOAD', $compare_and_delete);
		$load .= "yes 'SET lock:$_ us NX PX 60000\nEVALSHA $sha 1 lock:$_ us' | redis-cli -s $socket &\n"
			for 1 .. $clients;
	}
	open my $ended, '-|', 'timeout', $seconds + 1, 'sh', '-c', "{ $load\nwait; } >/dev/null 2>&1" or die "timeout: $!";
	sleep 0.3;
	my ($start, @before) = (time, counters());
	sleep $seconds;
	my ($took, @after) = (time - $start, counters());
	close $ended;
	my ($set, $del) = map { $after[$_] - $before[$_] } 0, 1;
	die "$side->{key}, $workload: $set SET, $del DEL"
		if !$set || abs($del - ($workload eq 'cycle' ? $set : 0)) > 2 * $clients;
	return $set / $took;
}

1;
