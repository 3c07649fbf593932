# The parts of the benchmark about what one server can and what lies beyond: a connection for each attempt, two databases, a standby.
package Beyond;

use strict;
use warnings;
use POSIX ();
use Sides;
use Table;
use Server;

my $ours = Sides::side('ours');

sub cycle
{
	my ($plan, $database, $clients) = @_;
	Server::sql($database, Table::fill($ours, $clients, 'free'));
	return Server::measure($ours, 'cycle', $database, $clients, $clients, '-T', $plan->{seconds});
}

# Refused attempts, each over a connection of its own: as crontabs ask.
sub connecting
{
	my ($plan) = @_;
	Server::create_database('connecting');
	Server::sql('connecting', Table::fill($ours, 8, 'held'));
	for my $repetition (1 .. $plan->{repeat})
	{
		my $speed = Server::measure($ours, 'refused', 'connecting', 8, 8, '-C', '-j', 8, '-T', $plan->{seconds}); # a thread connects one client at a time
		$plan->{results}->add('connecting_refused/8//ours', $speed);
		print '.';
	}
	Server::sql('postgres', 'DROP DATABASE connecting');
}

# 32 clients in one database; then half of them in each of two, at the same time.
sub two_databases
{
	my ($plan) = @_;
	Server::create_database('other');
	for my $repetition (1 .. $plan->{repeat})
	{
		$plan->{results}->add('databases_cycle/32/1/ours', cycle($plan, 'cycle', 32));
		my $child = open(my $from, '-|') // die "fork: $!";
		if (!$child)
		{
			syswrite STDOUT, cycle($plan, 'other', 16);
			POSIX::_exit(0);
		}
		my $speed = cycle($plan, 'cycle', 16);
		$speed += <$from>;
		close $from or die 'in the other database: failed';
		$plan->{results}->add('databases_cycle/32/2/ours', $speed);
		print '..';
	}
	Server::sql('postgres', 'DROP DATABASE other');
}

# A standby on the same machine and disk.
my $folder;

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
	my $options = "-c listen_addresses= -c port=$ENV{PGPORT} -c unix_socket_directories=$new -c max_prepared_transactions=10";
	$folder = $new;
	Server::output_of(Server::as_owner(), Server::program('pg_ctl'), '-D', $folder, '-l', "$folder/log", '-o', $options, '-w', 'start');
}

sub stop_standby
{
	Server::output_of(Server::as_owner(), Server::program('pg_ctl'), '-D', $folder, '-m', 'immediate', 'stop') if $folder && -e "$folder/postmaster.pid";
	undef $folder;
}

END
{
	my $status = $?;
	stop_standby();
	$? = $status;
}

# Cycles with the standby asynchronous and synchronous in turn.
sub standby
{
	my ($plan) = @_;
	start_standby();
	for my $repetition (1 .. $plan->{repeat})
	{
		for my $clients (1, 8, 32)
		{
			for my $kind ($repetition % 2 ? qw(async sync) : qw(sync async))
			{
				Server::set('synchronous_standby_names', $kind eq 'sync' ? q{'*'} : q{''});
				die "the standby is not $kind" if Server::sql('postgres', 'SELECT sync_state FROM pg_stat_replication') ne $kind;
				$plan->{results}->add("standby_cycle/$clients/$kind/ours", cycle($plan, 'cycle', $clients));
				print '.';
			}
		}
	}
	Server::set('synchronous_standby_names', q{''});
	stop_standby();
}

1;
