# I1-I12 in random histories: clients of all kinds use a few locks, and the checker verifies the answers that they got.
use strict;
use warnings;
use Test::More;
use Crowd;
use ShedLock;

my $node = new_server('server', crowd_settings());
# Several groups of clients run at once, because clients also sleep. Each group has its own table, not always with the
# same indexes.
copies($node, map { "crowd$_" } 1 .. 4);
my @crowds = map {
	start_crowd($node, connection => connection($node->connstr("crowd$_")), faults => 'force', pace => 200,
		histories => often(20, 2_500), seconds => seconds(is_portable() ? 10 : 15, 1200))
} 1 .. 4;
my %saw;
for my $crowd (@crowds)
{
	my %counts = finish_crowd($crowd, 'random histories');
	$saw{$_} += $counts{$_} for keys %counts;
}

cmp_ok($saw{granted} // 0, '>', 0, 'control: locks were granted');
met($saw{"$_ acquire no"}, "control: $_ clients were refused") for qw(session token java library);
met($saw{$_}, "seen: $_")
	for 'session prepare yes', 'token undo yes', 'library guard yes', 'library complete yes', 'java extend yes',
	'token extend no', 'state SL001', 'session run yes', 'session run no', 'state 22012',
	'session complete yes', 'session complete error', 'token complete yes', 'token complete error',
	is_portable() ? 'state 40001' : 'session commit error';
seen(1, $saw{histories}, "histories, $saw{granted} grants");
seen(43, $saw{'session run yes'}, 'runs in histories', "and $saw{'state 22012'} that failed");
my $refused = $saw{'session complete error'} + $saw{'token complete error'};
seen(64, $saw{'session complete yes'} + $saw{'token complete yes'},
	'completions', "and $refused that were refused");
seen_history('in the histories of row 1', recorded(\%saw));
met($saw{"recorded as $_"}, "seen: a run recorded as $_") for 'done', 'failed', 'ran out', 'freed';
seen(42, $saw{'by java'}, 'operations');
seen(25, $saw{'session undo yes'} + $saw{'token undo yes'}, 'calls',
	'acquires, extends, releases and completions that were rolled back to savepoints');

$node->stop;
done_testing();
