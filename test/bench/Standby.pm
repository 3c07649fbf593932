# The part of the benchmark about a standby, on the same machine and disk.
package Standby;

use strict;
use warnings;
use Time::HiRes 'sleep';
use Sides;
use Table;
use Server;
use Waits;

my $ours = Sides::side('ours');
my $folder;

# synchronous_standby_names for each kind of replication.
my %kind = (async => q{''}, sync => q{'*'});
my @kinds = qw(async sync);

sub start_standby
{
	my $new = "$ENV{PGHOST}/standby";
	Server::output_of(Server::as_owner(), Server::program('pg_basebackup'), '-h', $ENV{PGHOST}, '-p', $ENV{PGPORT},
		'-U', $ENV{PGUSER}, '-D', $new, '-R', '-c', 'fast');
	my %file = ('postgresql.conf' => '', 'pg_ident.conf' => '', 'pg_hba.conf' => "local all all trust\n");
	for (sort keys %file)
	{
		Server::write_file("$new/$_", $file{$_});
		chmod 0644, "$new/$_";
	}
	my $settings = join ' ',
		map { "-c $_=" . Server::sql('postgres', "SHOW $_") } qw(max_connections max_prepared_transactions);
	my $options = "-c listen_addresses= -c port=$ENV{PGPORT} -c unix_socket_directories=$new $settings";
	$folder = $new;
	Server::output_of(Server::as_owner(), Server::program('pg_ctl'), '-D', $folder, '-l', "$folder/log", '-o', $options,
		'-w', 'start');
}

sub stop
{
	Server::output_of(Server::as_owner(), Server::program('pg_ctl'), '-D', $folder, '-m', 'immediate', 'stop')
		if $folder && -e "$folder/postmaster.pid";
	undef $folder;
}

END
{
	my $status = $?;
	stop();
	$? = $status;
}

# Switches to this kind of replication, and returns when it is in effect.
sub replicate
{
	my ($kind) = @_;
	Server::set('synchronous_standby_names', $kind{$kind});
	for my $tries (1 .. 100)
	{
		return if Server::sql('postgres', 'SELECT sync_state FROM pg_stat_replication') eq $kind;
		sleep 0.1;
	}
	die "the standby is not $kind";
}

sub cycle
{
	my ($plan, $clients) = @_;
	Server::sql('cycle', Table::fill($ours, $clients, 'free'));
	return Server::measure($ours, 'cycle', 'cycle', $clients, $clients, '-T', $plan->{seconds});
}

sub standby
{
	my ($plan) = @_;
	Server::create_database('waits');
	Server::sql('refused', Table::fill($ours, 8, 'held'));
	start_standby();
	for my $repetition (1 .. $plan->{repeat})
	{
		for my $kind ($repetition % 2 ? @kinds : reverse @kinds)
		{
			replicate($kind);
			$plan->{results}->add("standby_cycle/$_/$kind/ours", cycle($plan, $_)) for 1, 8, 32;
			$plan->{results}->add("standby_refused/8/$kind/ours",
				Server::measure($ours, 'refused', 'refused', 8, 8, '-T', $plan->{seconds}));
			Waits::measure_handover($plan, "standby_handover/2/$kind", 'pairs',
				int($plan->{handovers} / $plan->{repeat} / 3) || 1, 'ours');
		}
	}
	Server::set('synchronous_standby_names', q{''});
	stop();
	Server::sql('postgres', 'DROP DATABASE waits');
}

1;
