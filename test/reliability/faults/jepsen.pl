# Row 48: what Jepsen did to etcd's locks in 2020, tried on our locks. There are five clients, leases of 2 s that are
# kept alive, and pauses of 5 s. Each client reads, sleeps, and writes (jepsen.cpp). With etcd about 18 % of the
# acknowledged updates were lost.
use strict;
use warnings;
use IPC::Run;
use Test::More;
use Crowd;
use ShedLock;

my $node = new_server('server', "max_connections = 600\nlog_min_messages = fatal\n");
$node->safe_psql('postgres', 'CREATE TABLE added (name text PRIMARY KEY, elements int[])');

# The short version keeps the proportions with a tenth of the times: leases of 200 ms, pauses of 500 ms.
my ($second, $seconds) = (often(100, 1000), often(120, seconds(0, 1200)));

# Only one client at a time works under a lock, so several locks are tried at once.
my %sets = ('unguarded clients' => often(3, 8), 'guarded clients' => often(3, 24),
	'unguarded sessions' => often(1, 4), 'guarded sessions' => often(1, 4));
my @all;
for my $kind (sort keys %sets)
{
	for my $number (1 .. $sets{$kind})
	{
		my $set = { kind => $kind, out => '', err => '' };
		my $name = "$kind $number" =~ tr/ /_/r;
		$node->safe_psql('postgres', "INSERT INTO added VALUES ('$name', '{}')");
		my @command = (program('jepsen'), $node->connstr('postgres'), $name, split(/ /, $kind), $second, $seconds);
		$set->{run} = IPC::Run::start(\@command, '>', \$set->{out}, '2>', \$set->{err});
		push @all, $set;
	}
}
my %sum;
for my $set (@all)
{
	$set->{run}->finish;
	is($set->{run}->result(0), 0, "$set->{kind}: $set->{out}") or diag($set->{err});
	my %saw = $set->{out} =~ /(\w+) (\d+)/g;
	$sum{ $set->{kind} }{$_} += $saw{$_} for keys %saw;
}

met($sum{'unguarded clients'}{lost}, 'control: updates were lost where only the lock protects them');
for my $kind ('guarded clients', 'guarded sessions')
{
	met($sum{$kind}{added}, "$kind: updates were acknowledged");
	is($sum{$kind}{lost}, 0, "I11 $kind: none of $sum{$kind}{added} acknowledged updates was lost");
}
met($sum{'guarded clients'}{refused}, 'control: clients slept beyond their leases, and their updates were refused');

sub lost
{
	my ($kind) = @_;
	my ($lost, $added) = @{ $sum{$kind} }{qw(lost added)};
	return sprintf '%d of %d (%.1f %%)', $lost, $added, 100 * $lost / ($added || 1);
}
my $guarded = $sum{'guarded clients'}{added} + $sum{'guarded sessions'}{added};
my $pauses = 0;
$pauses += $_->{pauses} for values %sum;
seen(48, $pauses, sprintf('pauses of %g s. Clients stopped: unguarded %s acknowledged updates lost, guarded %s, '
			. 'and %d refused. The sessions that serve the locks stopped, as in the original: '
			. 'unguarded %s, guarded %s. Guarded, the rate is below 3/N = %.1g (95 %%)',
		5 * $second / 1000, lost('unguarded clients'), lost('guarded clients'), $sum{'guarded clients'}{refused},
		lost('unguarded sessions'), lost('guarded sessions'), 3 / ($guarded || 1)));

$node->stop;
done_testing();
