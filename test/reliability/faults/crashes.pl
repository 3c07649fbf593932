# I7: the server crashes while clients are at work, and no acknowledged grant is forgotten, whatever the value of
# synchronous_commit.
use strict;
use warnings;
use Test::More;
use Crowd;
use ShedLock;

# So that the WAL writer does not flush what sessions have not flushed.
my $node = new_server('server', crowd_settings() . "wal_writer_delay = 10s\n");

sub crashes
{
	my ($title, $count, $seconds, $settings) = @_;
	my $end = time() + $seconds;
	my $crowd = start_crowd($node, crash_options($node, $settings), operations => often(500, 1500));
	my $done = 0;
	for (; $done < $count && ($done == 0 || time() < $end); $done++)
	{
		last unless crash($node, $crowd);
	}
	$crowd->{run}->signal('TERM');
	return ($done, finish_crowd($crowd, "$title, $done crashes"));
}

my ($done, %saw) = crashes('immediate restarts', often(2, 1_000), seconds(10, 1200));
my @saw = {%saw};
seen(6, $done, "restarts, $saw{granted} grants", counts_as_text(\%saw, 'lost in mid-operation' => 'answers lost'));

my %off = (
	session => [ 'SELECT 1', '-c synchronous_commit=off' ],
	role => [ 'ALTER ROLE CURRENT_USER SET synchronous_commit = off', '-c jit=off' ],
	database => [ 'ALTER DATABASE postgres SET synchronous_commit = off', '-c jit=off' ],
	server => [ 'ALTER SYSTEM SET synchronous_commit = off', '-c jit=off' ]);
my $all = 0;
for my $where (sort keys %off)
{
	$node->safe_psql('postgres', $off{$where}[0]);
	$node->reload;
	is((split /\n/, $node->safe_psql('postgres', "SHOW synchronous_commit",
				connstr => connection($node->connstr('postgres'), $off{$where}[1])))[-1],
		'off', "sessions do not wait for the disk: set by the $where");
	($done, %saw) = crashes("synchronous_commit = off by the $where", often(1, 50), seconds(10, 120), $off{$where}[1]);
	$all += $done;
	push @saw, {%saw};
	$node->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET ALL; ALTER DATABASE postgres RESET ALL');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	$node->reload;
}
seen(7, $all, 'restarts', 'set by session, role, database and server');
seen_history('after these crashes', recorded(@saw));

$node->stop;
done_testing();
