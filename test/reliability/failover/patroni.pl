# Fault 12. Patroni with etcd, a primary and a synchronous standby, and synchronous_mode_strict. While a fleet of
# clients works, the primary is killed, etcd is killed, and Patroni is suspended by SIGSTOP. Only in make torture,
# because it takes minutes.
use strict;
use warnings;
use Cwd;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use HTTP::Tiny;
use JSON::PP;
use Managed;

plan skip_all => 'TORTURE is not set' unless $ENV{TORTURE};

my $ttl = 8; # seconds for which an unreachable leader stays leader; short, so that twenty fail-overs take only minutes
my $folder = Cwd::abs_path(PostgreSQL::Test::Utils::tempdir());
chomp(my $bin = `pg_config --bindir`);

my ($client, $peer) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 2;
my $etcd;
sub start_etcd
{
	my ($for_clients, $for_peers) = ("http://127.0.0.1:$client", "http://127.0.0.1:$peer");
	$etcd = spawn("$folder/etcd.log", 'etcd', '--data-dir', "$folder/etcd",
		'--listen-client-urls', $for_clients, '--advertise-client-urls', $for_clients,
		'--listen-peer-urls', $for_peers, '--initial-advertise-peer-urls', $for_peers,
		'--initial-cluster', "default=$for_peers");
}

my %parameters = settings();
my @nodes = map { {
	name => $_, data => "$folder/$_", port => PostgreSQL::Test::Cluster::get_free_port(),
	rest => PostgreSQL::Test::Cluster::get_free_port() } } 'a', 'b';

# Writes the configuration as JSON, which is valid YAML.
sub configure
{
	my $node = shift;
	my $configuration = {
		scope => 'shedlock', name => $node->{name},
		restapi => { listen => "127.0.0.1:$node->{rest}", connect_address => "127.0.0.1:$node->{rest}" },
		etcd3 => { hosts => "127.0.0.1:$client" },
		bootstrap => {
			dcs => {
				ttl => $ttl, loop_wait => 1, retry_timeout => 3, maximum_lag_on_failover => 1048576,
				primary_start_timeout => 0,
				synchronous_mode => JSON::PP::true, synchronous_mode_strict => JSON::PP::true,
				postgresql => { use_pg_rewind => JSON::PP::true, parameters => \%parameters } },
			initdb => [ { encoding => 'UTF8' }, { auth => 'trust' } ],
			pg_hba => [ 'local all all trust', 'host all all 127.0.0.1/32 trust',
				'host replication all 127.0.0.1/32 trust' ] },
		postgresql => {
			listen => "127.0.0.1:$node->{port}", connect_address => "127.0.0.1:$node->{port}",
			data_dir => $node->{data}, bin_dir => $bin,
			pgpass => "$folder/$node->{name}.pgpass", parameters => { unix_socket_directories => $folder },
			authentication => { map { $_ => { username => 'postgres', password => 'none' } }
				'superuser', 'replication', 'rewind' } } };
	append_to_file("$folder/$node->{name}.yml", JSON::PP->new->canonical->encode($configuration));
}

sub start_patroni
{
	my $node = shift;
	$node->{patroni} = spawn("$folder/$node->{name}.log", 'patroni', "$folder/$node->{name}.yml");
}

# Asks Patroni. It is not enough that the server reports a synchronous standby: until Patroni has recorded which standby
# that is, synchronous_standby_names is *, and no server may be promoted.
sub is_well
{
	my $answer = HTTP::Tiny->new(timeout => 2)->get("http://127.0.0.1:$nodes[0]{rest}/cluster");
	return 0 unless $answer->{success};
	my @roles = sort
		map { $_->{state} =~ /running|streaming/ ? $_->{role} : () } @{ decode_json($answer->{content})->{members} };
	return "@roles" eq 'leader sync_standby';
}

start_etcd();
configure($_) for @nodes;
start_patroni($nodes[0]);
until_true('the first server runs', sub { primary($nodes[0]) }) or die 'Patroni does not start';
start_patroni($nodes[1]);
ok(until_true('a synchronous standby', \&is_well), 'Patroni runs a primary and a synchronous standby');

run_rounds(12, \@nodes, $folder, \&is_well,
	[ 'the primary killed while its standby is a second behind',
		sub { kill_ahead_of_standby(@_); return time } ],
	[ 'the primary and its Patroni killed, and started after the other had been promoted',
		sub {
			my ($primary, $other) = @_;
			kill_and_wait('KILL', $primary->{patroni});
			kill_server($primary);
			my $since = time;
			until_true('the other is promoted', sub { primary($other) });
			start_patroni($primary);
			return $since;
		} ],
	[ "etcd gone for twice Patroni's ttl, counted from its return",
		sub { kill_and_wait('KILL', $etcd); sleep 2 * $ttl; start_etcd(); return time } ],
	[ "the primary's Patroni suspended by SIGSTOP for twice its ttl, counted from when it went on",
		sub { kill 'STOP', $_[0]{patroni}; sleep 2 * $ttl; kill 'CONT', $_[0]{patroni}; return time } ]);

kill_and_wait('TERM', $_->{patroni}) for @nodes;
kill_and_wait('TERM', $etcd);
kill_server($_) for @nodes; # Patroni may have left a server running
done_testing();
