# The parts of the benchmark that measure speed: all sides in turn, in each repetition.
package Parts;

use strict;
use warnings;
use Sides;
use Table;
use Server;
use Redis;

# The number of names in refused attempts, unless a part says otherwise: all hosts ask for the same few names.
my $few = 8;

sub available
{
	return grep { !$_->{redis} || !Redis::missing() } @_;
}

# Makes one measurement, in the workload's own database.
sub measure
{
	my ($plan, $part, $side, $workload, $clients) = @_;
	my $names = { cycle => $clients, refused => $plan->{few} // $few, one => 1, one_work => 1, extend => $clients,
		run => $clients }->{$workload};
	my $speed;
	if ($side->{redis})
	{
		$speed = Redis::measure($side, $workload, $clients, $names, $plan->{seconds});
	}
	else
	{
		Server::sql($workload, Table::fill($side, $names, $workload eq 'refused' ? 'held' : 'free'))
			if Sides::has_table($side);
		$speed = Server::measure($side, $workload, $workload, $clients, $names, '-T', $plan->{seconds});
	}
	$plan->{results}->add("$part$workload/$clients//$side->{key}", $speed);
	print '.';
}

# Measures all sides of a workload one after the other, in alternating order.
sub side_by_side
{
	my ($plan, $repetition, $part, $workload, $clients, @sides) = @_;
	@sides = reverse @sides if $repetition % 2 == 0;
	for my $clients (@$clients)
	{
		measure($plan, $part, $_, $workload, $clients) for @sides;
	}
}

# Creates the workloads' databases, and WAL files that will be recycled, because the first use of a WAL file takes
# longer.
sub prepare
{
	my ($plan) = @_;
	Server::admit();
	Server::create_database($_) for qw(cycle refused one extend run);
	Server::sql('postgres', map { "SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()" } 1 .. 100);
	Server::sql('postgres', 'CHECKPOINT');
}

# Opens a session that holds the advisory locks of the refused attempts.
sub hold_advisory
{
	my $lock = Sides::side('advisory')->{acquire} =~ s/:name/n::text/r;
	return Server::open_session('refused', "$lock FROM generate_series(1, $few) n");
}

sub speed
{
	my ($plan) = @_;
	Redis::start(available(grep { $_->{redis} } @Sides::sides));
	my $holder = hold_advisory();
	for my $repetition (1 .. $plan->{repeat})
	{
		for my $workload (qw(cycle refused one extend run))
		{
			side_by_side($plan, $repetition, '', $workload, $workload eq 'one' ? [ 8, 32 ] : [ 1, 8, 32 ],
				available(Sides::sides_for($workload)));
		}
		Server::sql('postgres', 'CHECKPOINT');
	}
	Server::finish_session($holder);
	Redis::stop();
}

# Cycles and refused attempts with a slower flush: PostgreSQL (restarted) and Redis run with a library that delays it.
sub slow_flush
{
	my ($plan) = @_;
	my @sides = map { Sides::side($_) } qw(ours ours_sync java_first java_again redis_always);
	my %slow = (LD_PRELOAD => $ENV{BENCH_SLOW_FLUSH});
	Server::restart(%slow);
	{
		local %ENV = (%ENV, %slow);
		Redis::start(available(grep { $_->{redis} } @sides));
	}
	for my $repetition (1 .. $plan->{repeat})
	{
		for my $workload (qw(cycle refused))
		{
			my %can = map { ($_->{key} => 1) } Sides::sides_for($workload);
			side_by_side($plan, $repetition, 'slow_', $workload, [ 1, 32 ],
				available(grep { $can{ $_->{key} } } @sides));
		}
		side_by_side({ %$plan, few => 1 }, $repetition, 'slow_one_', 'refused', [32],
			map { Sides::side($_) } qw(ours java_first java_again));
	}
	Redis::stop();
	Server::restart();
}

# Ten to a million names, 8 clients. Refused attempts come first, on names that are all held, and then cycles on free
# names. They are compared with how much plain SQL slows down with so many rows. The refused attempts are measured for
# longer, because each session first has to find the rows.
sub names
{
	my ($plan) = @_;
	my @sizes = (10, 10_000, 1_000_000);
	Server::create_database("names_$_") for @sizes;
	Server::sql('postgres', 'CHECKPOINT');
	for my $workload (qw(refused cycle))
	{
		my @sides = map { Sides::side($_) } @{ $Sides::with_many_names{$workload} };
		for my $side (@sides)
		{
			Server::sql("names_$_", Table::fill($side, $_, $workload eq 'refused' ? 'held' : 'free')) for @sizes;
		}
		system 'sync'; # otherwise the flushes measured next would also write out the filled tables
		for my $repetition (1 .. $plan->{repeat})
		{
			for my $names (@sizes)
			{
				for my $side ($repetition % 2 ? @sides : reverse @sides)
				{
					my $seconds = $plan->{seconds} * ($workload eq 'refused' ? 2 : 1);
					my $speed = Server::measure($side, $workload, "names_$names", 8, $names, '-T', $seconds);
					$plan->{results}->add("names_$workload/8/$names/$side->{key}", $speed);
					print '.';
				}
			}
		}
	}
	Server::sql('postgres', map { "DROP DATABASE names_$_" } @sizes);
}

# Eight names, whose row versions accumulate because another session holds an old snapshot.
sub old_snapshot
{
	my ($plan) = @_;
	my @sides = map { Sides::side($_) } qw(ours java_first java_again);
	Server::create_database('old');
	Server::sql('old', map { Table::pile($_) } @sides);
	Server::sql('postgres', 'CHECKPOINT');
	for my $repetition (1 .. $plan->{repeat})
	{
		under_snapshot($plan, $_) for $repetition % 2 ? @sides : reverse @sides;
	}
	Server::sql('postgres', 'DROP DATABASE old');
}

# Makes as many row versions as that many cycles of 8 clients on 8 names leave: two per cycle.
sub pile
{
	my ($side, $cycles) = @_;
	my $script = "\\set name 1 + :client_id\nCALL pile(:name, ${\int($cycles * 2 / 8)});\n";
	Server::pgbench_script('old', $script, "-c synchronous_commit=off -c search_path=${\Sides::schema($side)}",
		qw(-M prepared -c 8 -t 1));
	# Does what autovacuum would do meanwhile, so that the planner knows how long the table has become.
	Server::sql('old', 'VACUUM ANALYZE ' . Table::table($side));
}

sub under_snapshot
{
	my ($plan, $side) = @_;
	my @time = ('-T', $plan->{seconds});
	Server::sql('old', Table::fill($side, 8, 'free'));
	both($plan, $side, 0, @time);
	Server::sql('old', Table::fill($side, 8, 'free'));
	my $snapshot = Server::open_session('old', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
		'SELECT count(*) FROM ' . Table::table($side));
	my $done = 0;
	for my $cycles (1_000, 10_000, 100_000)
	{
		pile($side, $cycles - $done);
		$done = $cycles + both($plan, $side, $cycles, $cycles < 100_000 ? ('-t', 60 + $cycles / 100) : @time);
	}
	Server::finish_session($snapshot);
}

# Measures cycles and then refused attempts. Returns the number of cycles.
sub both
{
	my ($plan, $side, $variant, @limit) = @_;
	my $before = Server::changes($side, 'old');
	my $speed = Server::measure($side, 'cycle', 'old', 8, 8, @limit);
	$plan->{results}->add("old_cycle/8/$variant/$side->{key}", $speed);
	my $cycles = (Server::changes($side, 'old') - $before) / 2;
	Server::sql('old', Table::turn($side, 'held'));
	$speed = Server::measure($side, 'refused', 'old', 8, 8, '-T', $plan->{seconds});
	$plan->{results}->add("old_refused/8/$variant/$side->{key}", $speed);
	Server::sql('old', Table::turn($side, 'free'));
	print '.';
	return $cycles;
}

# Refused attempts, each on a new connection, as crontabs make them.
sub connecting
{
	my ($plan) = @_;
	my $ours = Sides::side('ours');
	Server::create_database('connecting');
	Server::sql('connecting', Table::fill($ours, 8, 'held'));
	for my $repetition (1 .. $plan->{repeat})
	{
		# A thread connects one client at a time.
		my $speed = Server::measure($ours, 'refused', 'connecting', 8, 8, '-C', '-j', 8, '-T', $plan->{seconds});
		$plan->{results}->add('connecting_refused/8//ours', $speed);
		print '.';
	}
	Server::sql('postgres', 'DROP DATABASE connecting');
}

1;
