# Row 18: up to 50 clients share two sessions behind PgBouncer in transaction mode, which is restarted meanwhile.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Crowd;
use Pooler;
use ShedLock;

my $node = new_server('server', crowd_settings());
$node->safe_psql('postgres', 'ALTER DATABASE postgres SET client_min_messages = error');
my $pooler = new_pooler($node);
my $crowd = start_crowd($node, connection => "$pooler->{through} application_name=crowd",
	admin => connection($node->connstr('postgres')), pooler => 'yes', allow => '57P01',
	clients => 50, operations => often(4_000, 10_000), histories => often(1, 100), seconds => seconds(10, 1200));
# The settings that clients left behind in the session that this query gets. A restart of PgBouncer ends its sessions.
sub left_behind
{
	my ($out) = run_command([ 'psql', '-XqAt', '-d', $pooler->{through}, '-c', <<'SQL' ]);
SELECT count(*), coalesce(string_agg(name, ' '), '') FROM pg_settings
 WHERE source = 'session'
   AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')
SQL
	return $out;
}
my ($restarts, %left) = (0);
my $end = time() + seconds(10, 1200);
do
{
	Time::HiRes::usleep(500_000);
	$left{ left_behind() }++;
	restart_pooler($pooler);
	$restarts++;
} while (is_running($crowd) && $restarts < often(3, 500) && time() < $end);
my %saw = finish_crowd($crowd, "50 clients at most, 2 sessions, PgBouncer restarted $restarts times");
$left{ left_behind() }++;
is(join(', ', sort keys %left), '0|', 'no setting was left behind in the shared sessions');
my $counts = counts_as_text(\%saw, 'lost in mid-operation' => 'answers lost');
seen(18, $saw{operations}, "operations, $restarts restarts", "up to 50 clients over 2 sessions; $counts");

stop_pooler($pooler);
$node->stop;
done_testing();
