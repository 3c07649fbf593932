# Row 47: leases are extended concurrently with guarded commits, and no call reports that a lock is lost. Searches run
# concurrently with writes that move the row to another page (under an old snapshot) or add index entries (further
# index).
use strict;
use warnings;
use IPC::Run;
use Test::More;
use ShedLock;

my $node = new_server('server', "max_connections = 60\nautovacuum = off\nlog_min_messages = fatal\n");
my $clients = 24;
my %sum;
my $rounds = often(2, 120); # short rounds, because the versions that an old snapshot keeps make searches slow
for my $round (1 .. $rounds)
{
	my $index = $round % 2
		? 'DROP INDEX IF EXISTS shedlock_until' : 'CREATE INDEX shedlock_until ON shedlock (lock_until)';
	$node->safe_psql('postgres', "TRUNCATE shedlock; $index");
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ program('extends'), $node->connstr('postgres') . " options='-c client_min_messages=error'",
			often(2, 5), $clients ],
		'>', \$out, '2>', \$err);
	my %saw = $out =~ /(\w+) (\d+)/g;
	$sum{$_} += $saw{$_} for keys %saw;
	ok($ok && $saw{extends} && $saw{guarded},
		"round $round, " . ($round % 2 ? 'no further index' : 'an index on lock_until') . ": $out") or diag($err);
	is($saw{lost}, 0, 'no call reported that its lock was lost');
}
seen(47, $sum{extends} + $sum{guarded}, 'calls',
	"$sum{extends} extends and $sum{guarded} guarded commits, half of the time with an index on lock_until: "
	. "$sum{lost} false losses");

$node->stop;
done_testing();
