# Tests that random histories catch the bug in this build. Run by test/reliability/planted/check, which plants the
# bug. $PLANTED names the kind of histories in which the bug must show. Without $PLANTED this file does nothing.
use strict;
use warnings;
use Test::More;
use Crowd;
use ShedLock;

plan skip_all => 'run by test/reliability/planted/check' unless $ENV{PLANTED};

my $node = new_server('broken', crowd_settings() . "wal_writer_delay = 10s\n", allows_streaming => 1);
my %histories = (histories => 200, until => 'violation');

# The server crashes while sessions do not wait for the disk.
sub crashing
{
	my $crowd = start_crowd($node, %histories, crash_options($node, '-c synchronous_commit=off'));
	1 while crash($node, $crowd);
	return $crowd;
}

my %crowds = (
	histories => sub { start_crowd($node, %histories, faults => 'delete') },
	crash => \&crashing,
	standby => sub { start_crowd($node, %histories, standby_options($node)) });
my $crowd = $crowds{ $ENV{PLANTED} }->();
my %saw = finish_crowd($crowd);
cmp_ok($saw{violations} // 0, '>', 0, 'caught') or diag($crowd->{out}, $crowd->{err});
my ($first) = $crowd->{out} =~ /^(\S+: .*)$/m;
note("caught after $saw{histories} histories: $first") if $saw{violations};

$node->stop('immediate');
done_testing();
