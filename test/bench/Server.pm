# The throw-away PostgreSQL server that the PG* variables name: SQL, and pgbench, whose effects are checked.
package Server;

use strict;
use warnings;
use File::Temp 'tempdir';
use IPC::Open2;
use Sides;

my $folder = tempdir('shedlock-bench.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $cores = `nproc` + 0;

# Returns the output of a command, which must succeed without warnings.
sub output_of
{
	my (@command) = @_;
	open my $from, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @command or die "$command[0]: $!";
	my $output = do { local $/; <$from> } // '';
	close $from;
	die "@command: exit status ${\($? >> 8)}\n$output" if $? || $output =~ /WARNING|aborted|failed transactions: [1-9]/;
	return $output;
}

sub file
{
	my ($text) = @_;
	open my $out, '>', "$folder/sql" or die "$folder/sql: $!";
	print $out $text;
	return "$folder/sql";
}

# Runs the commands one by one; returns their output as one string.
sub sql
{
	my (@commands) = @_;
	local $ENV{PGOPTIONS} = '-c client_min_messages=warning';
	return output_of(qw(psql -XqAt -v ON_ERROR_STOP=1 -f), file(join ";\n", @commands)) =~ s/\n\z//r;
}

# Opens a session that runs the commands and stays open until finish_session.
sub open_session
{
	my (@commands) = @_;
	my $child = open2(my $from, my $to, qw(psql -XqAt -v ON_ERROR_STOP=1));
	print $to map({ "$_;\n" } @commands), "\\echo ready\n";
	my $line = '';
	$line = <$from> // die "@commands: psql ended" until $line =~ /^ready/;
	return { to => $to, from => $from, child => $child };
}

sub finish_session
{
	my ($session) = @_;
	close $session->{to};
	waitpid $session->{child}, 0;
}

sub create_database
{
	my ($name) = @_;
	output_of('createdb', $name);
	local $ENV{PGDATABASE} = $name;
	sql(Sides::setup());
}

# Returns how many rows of the side's tables have been inserted or updated so far. A side without a table has counted
# its completed cycles instead, but only those on one name; each counts as two changes.
sub changes
{
	my ($side) = @_;
	my $schema = Sides::schema($side);
	# Only when the sessions of pgbench have ended, everything that they did has been counted.
	select undef, undef, undef, 0.02
		while sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'");
	return sql($side->{completed} ? "SELECT 2 * last_value FROM $schema.completed"
		: "SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables WHERE schemaname = '$schema'");
}

# Runs a workload for as long as the options of pgbench say, and checks that the side did what the workload says.
# Returns operations per second. On one name these are completed cycles, with two changes each. If the only option is a
# time (-T), it begins after a second in which each session makes its first calls: these load and compile code.
sub measure
{
	my ($side, $workload, $clients, $names, @options) = @_;
	my $warms_up = $options[0] eq '-T';
	push @options, pop(@options) + 1, qw(-P 1) if $warms_up;
	my $before = changes($side);
	my %value = (at_most => '1 min', seconds => 60, zero => 0, first => 1, names => $names,
		slice => int($names / $clients) || 1);
	local $ENV{PGOPTIONS} = join ' ', '-c search_path=' . Sides::schema($side), $side->{options} // ();
	my $output = output_of(qw(pgbench -n -M prepared -c), $clients, '-j', $clients < $cores ? $clients : $cores,
		map({ ('-D', "$_=$value{$_}") } sort keys %value), @options, '-f', file(Sides::script($side, $workload)));
	my ($runs) = $output =~ /transactions actually processed: (\d+)/ or die $output;
	my ($rate) = $output =~ /^tps = ([\d.]+)/m or die $output;
	if ($warms_up)
	{
		# What is reported of the first second includes the time in which the sessions connected; tps does not.
		my ($warm, $rate_before) = $output =~ /^progress: ([\d.]+) s, ([\d.]+) tps/m or die $output;
		my ($connecting) = $output =~ /^initial connection time = ([\d.]+) ms/m or die $output;
		$rate = ($runs - $warm * $rate_before) / ($connecting / 1000 + $runs / $rate - $warm);
	}
	my $changes = changes($side) - $before;
	return $rate * $changes / 2 / $runs if $workload eq 'one' && $changes;
	my $wanted = { cycle => 2 * $runs, refused => 0, extend => $runs + $clients, run => 3 * $runs }->{$workload} // 1;
	die "$side->{key}, $workload: $changes changes\n$output" if $changes != $wanted && !$side->{completed};
	return $rate;
}

1;
