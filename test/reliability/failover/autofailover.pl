# Fault 13. pg_auto_failover with a monitor, a primary and a synchronous standby. While a fleet of clients works, the
# primary is killed, the monitor is killed, the primary's keeper is paused, and an administrator switches over. Only in
# make torture, because it takes minutes.
use strict;
use warnings;
use Cwd;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Managed;

plan skip_all => 'TORTURE is not set' unless $ENV{TORTURE};

my $folder = Cwd::abs_path(PostgreSQL::Test::Utils::tempdir());
chomp(my $bin = `pg_config --bindir`);
my @common = ('--pgctl', "$bin/pg_ctl", '--hostname', '127.0.0.1', '--auth', 'trust', '--no-ssl');

# pg_autoctl keeps its configuration and state in these folders.
$ENV{HOME} = $folder;
delete @ENV{ grep { /^(XDG_|PG(HOST|PORT)$)/ } keys %ENV };
$ENV{XDG_RUNTIME_DIR} = $folder;

my ($monitor, @nodes) = map { { name => $_, data => "$folder/$_", port => PostgreSQL::Test::Cluster::get_free_port() } }
	'monitor', 'a', 'b';
my $uri = "postgres://autoctl_node\@127.0.0.1:$monitor->{port}/pg_auto_failover?sslmode=prefer";

sub configure
{
	my ($node, %settings) = @_;
	append_to_file("$node->{data}/postgresql.conf", join '', map { "$_ = '$settings{$_}'\n" } sort keys %settings);
}

sub start_autoctl
{
	my $node = shift;
	$node->{autoctl} = spawn("$folder/$node->{name}.log", 'pg_autoctl', 'run', '--pgdata', $node->{data});
}

sub create_node
{
	my $node = shift;
	system_log('pg_autoctl', 'create', 'postgres', @common, '--pgdata', $node->{data}, '--pgport', $node->{port},
		'--listen', '127.0.0.1', '--name', $node->{name}, '--dbname', 'postgres', '--monitor', $uri);
}

sub states
{
	my $states = "string_agg(reportedstate || '=' || goalstate, ' ' ORDER BY reportedstate)";
	my $answer = `psql -XAtq '$uri' -c "SELECT $states FROM pgautofailover.node" 2>/dev/null` // '';
	chomp $answer;
	return $answer;
}

sub is_well { return states() eq 'primary=primary secondary=secondary' }

# Sends a signal to a pg_autoctl and all its descendants, except the PostgreSQL server that one of them has started.
sub signal_autoctl
{
	my ($signal, $node) = @_;
	my @family = ($node->{autoctl});
	my $server = postmaster($node) // 0;
	for (my $i = 0; $i < @family; $i++)
	{
		push @family, grep { $_ != $server } children($family[$i]);
	}
	kill $signal, @family;
}

system_log('pg_autoctl', 'create', 'monitor', @common, '--pgdata', $monitor->{data}, '--pgport', $monitor->{port});
# The times are shorter than the defaults, which are up to 30 seconds, because there are twenty rounds.
configure($monitor, 'pgautofailover.health_check_period' => 1000, 'pgautofailover.health_check_timeout' => 1000,
	'pgautofailover.health_check_retry_delay' => 500, 'pgautofailover.node_considered_unhealthy_timeout' => 4000,
	'pgautofailover.startup_grace_period' => 2000, 'pgautofailover.primary_demote_timeout' => 5000, fsync => 'off');
start_autoctl($monitor);
until_true('the monitor runs', sub { postmaster($monitor) && `psql -XAtq '$uri' -c 'SELECT 1' 2>/dev/null` });
create_node($nodes[0]);
configure($nodes[0], settings());
start_autoctl($nodes[0]);
until_true('the first server runs', sub { states() eq 'single=single' }) or die 'pg_autoctl does not start';
create_node($nodes[1]);
start_autoctl($nodes[1]);
ok(until_true('a synchronous standby', \&is_well), 'pg_auto_failover runs a primary and a synchronous standby');

run_rounds(13, \@nodes, $folder, \&is_well,
	[ 'the primary killed, and started again by its keeper',
		sub { kill_server($_[0]); return time } ],
	[ 'the keeper killed, then the primary while its standby is a second behind; '
		. 'keeper and primary started again once the standby had been promoted',
		sub {
			my ($primary, $other) = @_;
			signal_autoctl('KILL', $primary);
			waitpid $primary->{autoctl}, 0;
			kill_ahead_of_standby($primary, $other);
			my $since = time;
			until_true('the other is promoted', sub { primary($other) });
			start_autoctl($primary);
			return $since;
		} ],
	[ 'the monitor gone for 10 s, counted from its return',
		sub {
			signal_autoctl('KILL', $monitor);
			waitpid $monitor->{autoctl}, 0;
			kill_server($monitor);
			sleep 10;
			start_autoctl($monitor);
			return time;
		} ],
	[ "the primary's keeper paused for 10 s, counted from the end of the pause",
		sub { signal_autoctl('STOP', $_[0]); sleep 10; signal_autoctl('CONT', $_[0]); return time } ],
	[ 'switched over by hand',
		sub {
			my $since = time;
			system_log('pg_autoctl', 'perform', 'failover', '--pgdata', $monitor->{data});
			return $since;
		} ]);

kill_and_wait('INT', $_->{autoctl}) for @nodes, $monitor;
kill_server($_) for @nodes, $monitor; # a keeper may have left a server running
done_testing();
