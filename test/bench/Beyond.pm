# The parts of the benchmark about what one server can and what lies beyond: a connection for each attempt, two databases.
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

1;
