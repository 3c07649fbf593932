# Uses the throw-away PostgreSQL server that the PG* variables name: SQL, pgbench, and the server's counters.
package Server;

use strict;
use warnings;
use File::Temp 'tempdir';
use IPC::Open3;
use POSIX ();
use Sides;
use Script;
use Table;

my $folder = tempdir('shedlock-bench.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $cores = `nproc` + 0;

# Returns the output of a command, which must succeed without warnings. The command is a list of arguments, not a shell
# command line.
sub output_of
{
	my (@command) = @_;
	my $said = "$folder/$$.said";
	my $child = open(my $from, '-|') // die "fork: $!";
	if (!$child)
	{
		open STDERR, '>', $said;
		{ exec @command }
		print STDERR "$command[0]: $!";
		POSIX::_exit(127);
	}
	my $output = do { local $/; <$from> } // '';
	close $from;
	my $status = $?;
	my $error = read_file($said);
	die "@command[0..2] …: exit status ${\($status >> 8)}\n$output$error"
		if $status != 0 || $error =~ /^(WARNING|.*aborted)/m;
	return $output;
}

# Returns the option of psql that runs the command. A long command is put into a file, because the kernel accepts no
# argument of 128 KiB or more, and the portable edition is longer.
sub as_argument
{
	my ($command) = @_;
	return ('-c', $command) if length $command < 100_000;
	my $file = "$folder/$$.sql";
	write_file($file, $command);
	return ('-f', $file);
}

# Runs the commands one by one; returns their output as one string.
sub sql
{
	my ($database, @commands) = @_;
	local $ENV{PGOPTIONS} = '-c client_min_messages=warning';
	my $output = output_of('psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $database,
		map { as_argument($_) } @commands);
	return $output =~ s/\n\z//r;
}

# Opens a session that runs the commands and stays open until finish_session.
sub open_session
{
	my ($database, @commands) = @_;
	my $child = open3(my $to, my $from, undef, 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $database);
	print $to "$_;\n" for @commands;
	print $to "\\echo ready\n";
	$to->flush;
	while (defined(my $line = <$from>))
	{
		return { to => $to, from => $from, child => $child } if $line =~ /^ready/;
	}
	die "@commands: psql ended";
}

sub finish_session
{
	my ($session) = @_;
	close $session->{to};
	waitpid $session->{child}, 0;
}

# Waits until the sessions of pgbench have ended, because then everything that they did has been counted.
sub settle
{
	my ($database) = @_;
	my $left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench' AND datname = '$database'";
	while (sql('postgres', $left)) { select undef, undef, undef, 0.02 }
}

# Runs a script with pgbench, given settings for its sessions and options for pgbench. Returns the number of runs and
# the runs per second.
sub pgbench_script
{
	my ($database, $script, $settings, @options) = @_;
	my $file = "$folder/$$.sql";
	write_file($file, $script);
	local $ENV{PGOPTIONS} = $settings;
	my $output = output_of('pgbench', '-n', @options, '-f', $file, $database);
	my ($runs) = $output =~ /transactions actually processed: (\d+)/ or die $output;
	my ($failed) = $output =~ /failed transactions: (\d+)/;
	my ($rate) = $output =~ /^tps = ([\d.]+) \((?:without|including)/m or die $output;
	die "$failed failed:\n$script" if $failed;
	settle($database);
	return ($runs, $rate);
}

# Runs a workload of a side, for as many seconds, or runs per client, as the limit says.
sub pgbench
{
	my ($side, $workload, $database, $clients, $names, @limit) = @_;
	my $settings = join ' ', '-c search_path=' . Sides::schema($side), $side->{options} // ();
	return pgbench_script($database, Script::script($side, $workload), $settings, '-M', 'prepared', '-c', $clients,
		'-j', $clients < $cores ? $clients : $cores, @limit, Script::variables($clients, $names));
}

# Returns how many rows of the side's tables have been inserted or updated so far. A side without a table counts its
# completed cycles instead, but only those on one name (`done` in Sides.pm); each counts as two changes.
sub changes
{
	my ($side, $database) = @_;
	return sql($database,
		"SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables WHERE schemaname = '${\Sides::schema($side)}'")
		if Sides::has_table($side);
	return 2 * sql($database,
		"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ${\Sides::schema($side)}.completed");
}

# Runs a workload, and checks that the side did what the workload says. Returns operations per second. On one name these
# are completed cycles, with two changes each.
sub measure
{
	my ($side, $workload, $database, $clients, $names, @limit) = @_;
	my $before = changes($side, $database);
	my ($runs, $rate) = pgbench($side, $workload, $database, $clients, $names, @limit);
	my $changes = changes($side, $database) - $before;
	my $wanted = { cycle => 2 * $runs, refused => 0, one => $changes - $changes % 2,
		one_work => $changes - $changes % 2, extend => $runs + $clients, run => 3 * $runs }->{$workload};
	die "$side->{key}, $workload, $clients clients: $changes changes in $runs runs, not $wanted"
		if $changes != $wanted && (Sides::has_table($side) || $workload =~ /^one/);
	return $workload =~ /^one/ ? $rate * $changes / 2 / $runs : $rate;
}

sub create_database
{
	my ($name) = @_;
	sql('postgres', "DROP DATABASE IF EXISTS $name", "CREATE DATABASE $name");
	sql($name, Table::setup());
}

sub read_file
{
	my ($name) = @_;
	open my $file, '<', $name or die "$name: $!";
	local $/;
	return <$file> // '';
}

sub write_file
{
	my ($name, $text) = @_;
	open my $file, '>', $name or die "$name: $!";
	print $file $text;
	close $file or die "$name: $!";
}

# Makes the server accept all connections through its socket, which is in a private folder, and uses that socket from
# now on.
sub admit
{
	write_file(sql('postgres', 'SHOW hba_file'), "local all all trust\nlocal replication all trust\n");
	my $sockets = sql('postgres', 'SELECT pg_reload_conf()', 'SHOW unix_socket_directories') =~ s/.*\n//sr;
	$ENV{PGHOST} = $sockets;
	select undef, undef, undef, 0.5;
}

# Returns what to put before a command so that it runs as the owner of servers, because a server refuses to run as root.
sub as_owner
{
	return $> == 0 ? ('runuser', '-u', 'postgres', '--') : ();
}

sub program
{
	my ($name) = @_;
	return `pg_config --bindir` =~ s/\n/\/$name/r;
}

# Restarts the server with these variables in its environment.
sub restart
{
	local %ENV = (%ENV, @_);
	my $data = sql('postgres', 'SHOW data_directory');
	output_of(as_owner(), program('pg_ctl'), '-D', $data, '-l', "$data/restart.log", '-m', 'fast', '-w', 'restart');
}

sub set
{
	my ($setting, $value) = @_;
	sql('postgres', "ALTER SYSTEM SET $setting = $value", 'SELECT pg_reload_conf()', 'SELECT pg_sleep(0.2)');
}

1;
