# The part of the benchmark about waiting: how soon a waiter gets the lock, and what it costs to wait for a lock that
# stays held.
package Waits;

use strict;
use warnings;
use IPC::Open3;
use Time::HiRes qw(sleep time);
use Sides;
use Server;
use Parts;

my $waiters_in_vain = 200;
my $waiters_in_queue = 100;

# The program handover.cpp.
sub handover_command
{
	my (@arguments) = @_;
	return ("$ENV{BENCH_PROGRAMS}/handover", @arguments);
}

sub measure_handover
{
	my ($plan, $what, @arguments) = @_;
	local $ENV{PGDATABASE} = 'waits';
	$plan->{results}->add("$what//$$_[0]", $$_[1])
		for map { [ split /\t/ ] } split /\n/, Server::output_of(handover_command(@arguments));
	print '.';
}

# Returns the seconds of processor time that each process of the server has used. They are read from a file with
# nanoseconds, because most waiting processes use less in a minute than one tick of /proc/PID/stat.
sub processor
{
	my %used = map { ($_ => (split / /, Server::read_file("/proc/$_/schedstat"))[0] / 1e9) }
		split /\n/, Server::sql('postgres', 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
	return \%used;
}

# pg_stat_database would not count them: a session that uses no table in SQL does not report its transactions.
sub statements { return Server::sql('waits', 'SELECT sum(calls) FROM pg_stat_statements') }

sub attempts { return Server::sql('waits', 'SELECT sum(attempts) FROM shedlock_stats') }

sub sessions { return Server::sql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datname = 'waits'") }

# Waits until all sessions have connected, that is, until their number no longer grows.
sub all_wait
{
	my $before = -1;
	for (my $now = sessions(); $now != $before; $now = sessions())
	{
		$before = $now;
		sleep 1;
	}
}

# Returns what a second of waiting costs.
sub count
{
	my ($seconds) = @_;
	my ($attempts, $statements, $processor, $start) = (attempts(), statements(), processor(), time);
	sleep $seconds;
	my ($took, $then) = (time - $start, processor());
	my $used = 0;
	$used += $then->{$_} - ($processor->{$_} // 0) for keys %$then;
	return (cpu => 100 * $used / $took, statements => (statements() - $statements) / $took / $waiters_in_vain,
		attempts => (attempts() - $attempts) / $took / $waiters_in_vain);
}

sub in_vain
{
	my ($plan, $who) = @_;
	local $ENV{PGDATABASE} = 'waits';
	my $child = open3(my $to, my $from, undef, handover_command('vain', $waiters_in_vain, $who));
	my $said = <$from> // '';
	die "handover vain: $said" if $said ne "waiting\n";
	all_wait();
	my %cost = count($plan->{vain});
	close $to;
	waitpid $child, 0;
	# The waiters in SQL would not end by themselves. The others may just be ending, which would cause a warning here.
	Server::sql('postgres', 'SET client_min_messages = error',
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'waits'");
	Server::sql('waits', "SELECT shedlock_force_release('handover')");
	$plan->{results}->add("vain/$waiters_in_vain/$_/$who", $cost{$_}) for sort keys %cost;
	print '.';
}

sub waits
{
	my ($plan) = @_;
	Server::create_database($_) for qw(waits one_work);
	measure_handover($plan, 'handover/2', 'pairs', $plan->{handovers}, qw(ours library advisory));
	for my $repetition (1 .. $plan->{repeat})
	{
		measure_handover($plan, "queue/$waiters_in_queue", 'queue', $waiters_in_queue, $_)
			for $repetition % 2 ? qw(ours advisory) : qw(advisory ours);
		Parts::side_by_side($plan, $repetition, '', 'one_work', [32],
			map { Sides::side($_) } qw(ours_wait advisory_wait));
	}
	Server::set('shared_preload_libraries', 'shedlock,pg_stat_statements');
	Server::restart();
	Server::sql('waits', 'CREATE EXTENSION pg_stat_statements');
	in_vain($plan, $_) for qw(sessions clients threads);
	Server::sql('postgres', 'ALTER SYSTEM RESET shared_preload_libraries');
	Server::restart();
	Server::sql('postgres', map { "DROP DATABASE $_" } qw(waits one_work));
}

1;
