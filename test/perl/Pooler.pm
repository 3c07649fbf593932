# PgBouncer in transaction mode: its clients share two sessions.
package Pooler;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use ShedLock;
use Time::HiRes;

our @EXPORT = qw(new_pooler restart_pooler stop_pooler);

my @running;    # stopped even if a test dies
END { local $?; stop_pooler($_) for @running }

# Starts a pooler in front of a server. { through } is its connection string.
sub new_pooler
{
	my ($node) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	append_to_file("$folder/pgbouncer.ini", <<"INI");
[databases]
* = host=${\ $node->host} port=${\ $node->port} user=postgres
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
	push @running, { settings => "$folder/pgbouncer.ini", through => "host=127.0.0.1 port=$port dbname=postgres" };
	return start_pooler($running[-1]);
}

# While PgBouncer was down, another process's connection may have got its port. Then PgBouncer ends at once, and is
# started again.
sub start_pooler
{
	my ($pooler) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$pooler->{run} = IPC::Run::start([ '/usr/sbin/pgbouncer', '-q', $pooler->{settings} ],
			'>', '/dev/null', '2>', '/dev/null') unless $pooler->{run} && is_running($pooler);
		return $pooler if IPC::Run::run([ 'psql', '-XqAt', '-d', $pooler->{through}, '-c', 'SELECT 1' ],
			'>', '/dev/null', '2>', '/dev/null');
		Time::HiRes::usleep(100_000);
	}
	die 'PgBouncer does not start';
}

sub stop_pooler
{
	my $run = delete $_[0]{run};
	$run->kill_kill if $run;
	return;
}

sub restart_pooler
{
	my ($pooler) = @_;
	stop_pooler($pooler);
	return start_pooler($pooler);
}

1;
