# The part of the benchmark about a standby: on the same machine and disk, and with a network between the two.
package Standby;

use strict;
use warnings;
use Time::HiRes 'sleep';
use Sides;
use Table;
use Server;
use Beyond;
use Waits;

my $ours = Sides::side('ours');
my $added = 1000; # microseconds that the network adds to a round trip
my ($folder, $relay);

# How commits are to be replicated: whether they wait for it; whether through the network.
my %kind = (
	async => { names => q{''}, state => 'async', near => 1 },
	sync => { names => q{'*'}, state => 'sync', near => 1 },
	far => { names => q{'*'}, state => 'sync', near => 0 },
);
my @kinds = qw(async sync far);

sub start_standby
{
	my $new = "$ENV{PGHOST}/standby";
	Server::output_of(Server::as_owner(), Server::program('pg_basebackup'), '-h', $ENV{PGHOST}, '-p', $ENV{PGPORT}, '-U', $ENV{PGUSER}, '-D', $new, '-R', '-c', 'fast');
	my %file = ('postgresql.conf' => '', 'pg_ident.conf' => '', 'pg_hba.conf' => "local all all trust\n");
	for (sort keys %file)
	{
		Server::write_file("$new/$_", $file{$_});
		chmod 0644, "$new/$_";
	}
	my $settings = join ' ', map { "-c $_=" . Server::sql('postgres', "SHOW $_") } qw(max_connections max_prepared_transactions);
	my $options = "-c listen_addresses= -c port=$ENV{PGPORT} -c unix_socket_directories=$new $settings";
	$folder = $new;
	Server::output_of(Server::as_owner(), Server::program('pg_ctl'), '-D', $folder, '-l', "$folder/log", '-o', $options, '-w', 'start');
}

sub start_relay
{
	my $far = "$ENV{PGHOST}/far";
	mkdir $far or die "$far: $!";
	my $socket = ".s.PGSQL.$ENV{PGPORT}";
	$relay = fork // die "fork: $!";
	return if $relay;
	{ exec "$ENV{BENCH_PROGRAMMES}/relay", "$far/$socket", "$ENV{PGHOST}/$socket", $added / 2 }
	POSIX::_exit(127);
}

sub stop
{
	Server::output_of(Server::as_owner(), Server::program('pg_ctl'), '-D', $folder, '-m', 'immediate', 'stop') if $folder && -e "$folder/postmaster.pid";
	kill('TERM', $relay), waitpid($relay, 0) if $relay;
	undef $_ for $folder, $relay;
}

END
{
	my $status = $?;
	stop();
	$? = $status;
}

# Returns when it is so.
sub replicate
{
	my ($key) = @_;
	my $kind = $kind{$key};
	my $host = $ENV{PGHOST} . ($kind->{near} ? '' : '/far');
	{
		local $ENV{PGHOST} = $folder;
		Server::set('primary_conninfo', "'host=$host port=$ENV{PGPORT} user=$ENV{PGUSER} application_name=$key'");
	}
	Server::set('synchronous_standby_names', $kind->{names});
	for my $tries (1 .. 100)
	{
		return if Server::sql('postgres', 'SELECT application_name, sync_state FROM pg_stat_replication') eq "$key|$kind->{state}";
		sleep 0.1;
	}
	die "the standby is not $key";
}

sub standby
{
	my ($plan) = @_;
	Server::create_database('waits');
	Server::sql('refused', Table::fill($ours, 8, 'held'));
	start_standby();
	start_relay();
	for my $repetition (1 .. $plan->{repeat})
	{
		for my $kind ($repetition % 2 ? @kinds : reverse @kinds)
		{
			replicate($kind);
			$plan->{results}->add("standby_cycle/$_/$kind/ours", Beyond::cycle($plan, 'cycle', $_)) for 1, 8, 32;
			$plan->{results}->add("standby_refused/8/$kind/ours", Server::measure($ours, 'refused', 'refused', 8, 8, '-T', $plan->{seconds}));
			Waits::hand_over($plan, "standby_handover/2/$kind", 'pairs', int($plan->{handovers} / $plan->{repeat} / 3) || 1, 'ours');
		}
	}
	my $fastest = 1e6 / $added; # of one client, each of whose acquires waits for the network
	die "the relay adds less than $added us" if $plan->{results}->load->value('standby_cycle/1/far/ours') > $fastest;
	Server::set('synchronous_standby_names', q{''});
	stop();
	Server::sql('postgres', 'DROP DATABASE waits');
}

1;
