# Row 18: 50 clients share two sessions behind PgBouncer in transaction mode, which is restarted under them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Crowd;
use ShedLock;
use Torture;

my $node = new_server('server', crowd_settings());
$node->safe_psql('postgres', 'ALTER DATABASE postgres SET client_min_messages = error');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $port = PostgreSQL::Test::Cluster::get_free_port();
append_to_file("$folder/pgbouncer.ini", <<"INI");
[databases]
* = host=${\ $node->host} port=${\ $node->port} user=${\ scalar getpwuid($<)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 300
ignore_startup_parameters = options
logfile = $folder/log
INI
my $through = "host=127.0.0.1 port=$port dbname=postgres";

sub start_pooler
{
	my $pooler = IPC::Run::start([ '/usr/sbin/pgbouncer', '-q', "$folder/pgbouncer.ini" ], '>', '/dev/null', '2>', '/dev/null');
	for (1 .. 600)
	{
		last if IPC::Run::run([ 'psql', '-XqAt', '-d', $through, '-c', 'SELECT 1' ], '>', '/dev/null', '2>', '/dev/null');
		Time::HiRes::usleep(50_000);
	}
	return $pooler;
}

my $pooler = start_pooler();
my $crowd = start_crowd($node, connection => "$through application_name=crowd", admin => connection($node->connstr('postgres')), pooler => 'yes',
	clients => 50, operations => often(4_000, 10_000), histories => often(1, 100), seconds => seconds(10, 1200), allow => '57P01');
my $restarts = 0;
my $end = time() + seconds(10, 1200);
while ($crowd->{run}->pumpable && $restarts < often(3, 500) && time() < $end)
{
	Time::HiRes::usleep(500_000);
	$crowd->{run}->pump_nb;
	last unless $crowd->{run}->pumpable;
	$pooler->kill_kill;
	$pooler = start_pooler();
	$restarts++;
}
my %saw = finish_crowd($crowd, "50 clients at most, 2 sessions, PgBouncer restarted $restarts times");
cmp_ok($restarts, '>', 0, 'PgBouncer was restarted');
my ($out) = run_command([ 'psql', '-XqAt', '-d', $through, '-c', "SELECT count(*), coalesce(string_agg(name, ' '), '') FROM pg_settings WHERE source = 'session'"
	  . " AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')" ]);
is($out, '0|', 'no setting was left behind in the shared sessions');
seen(18, $saw{operations}, "operations of up to 50 clients over 2 sessions, $restarts restarts of PgBouncer, " . struck(\%saw, 'lost in mid-operation' => 'answers lost')
	  . '; 0 violations, no setting left behind');

$pooler->kill_kill;
$node->stop;
done_testing();
