# Servers of PostgreSQL's own test framework on which CREATE EXTENSION shedlock works, our programmes, and how often a fault is tried.
package ShedLock;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More ();

our @EXPORT = qw(new_server new_standby configure is_portable crash_restart create_shedlock pgbench_script $tool program launch ended often seconds seen met);

our $tool = "$ENV{SHEDLOCK_STAGE}/usr/bin/shedlock";

# Of test/reliability, built by CMake.
sub program { return "$ENV{SHEDLOCK_PROGRAMS}/$_[0]" }

sub configure
{
	my ($node, $settings) = @_;
	my $staged = $ENV{SHEDLOCK_SETTINGS} or die "run by test/check, which stages the extension";
	$node->append_conf('postgresql.conf', $staged . "\n" . ($settings // ''));
}

# SHEDLOCK_EDITION=portable: what runs on either edition runs on that one.
sub is_portable { return ($ENV{SHEDLOCK_EDITION} // '') eq 'portable'; }

sub create_shedlock
{
	my ($node, $database) = @_;
	my $as_ordinary_role = "CREATE ROLE locksmith; GRANT CREATE ON SCHEMA public TO locksmith; SET ROLE locksmith;\n";
	$node->safe_psql($database, is_portable() ? $as_ordinary_role . slurp_file('extension/portable/shedlock.sql') : 'CREATE EXTENSION shedlock');
	return;
}

# Initialised, with the extension created.
sub new_server
{
	my ($name, $settings, @init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(@init);
	configure($node, $settings);
	$node->start;
	create_shedlock($node, 'postgres');
	return $node;
}

# A process in the background, as { run }. When it has ended, { out } and { err } are what it said.
sub launch
{
	my ($process, @command) = @_;
	@$process{qw(out err)} = ('', '');
	$process->{run} = IPC::Run::start(\@command, '<', \undef, '>', \$process->{out}, '2>', \$process->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $process;
}

# Waits for its end: the exit status.
sub ended
{
	my ($process) = @_;
	$process->{run}->finish;
	return $process->{run}->result(0);
}

# Kills a process of the server, its checkpointer unless another is named, and waits until all the others have been replaced: it may
# answer for a while before it knows.
sub crash_restart
{
	my ($node, $pid) = @_;
	my $checkpointer = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
	kill 'KILL', $pid // $checkpointer;
	$node->poll_query_until('postgres', "SELECT pid <> $checkpointer FROM pg_stat_activity WHERE backend_type = 'checkpointer'") or die 'the server does not come back';
}

# Streams from a server that allows it, once it is started. Has the name that synchronous_standby_names wants.
sub new_standby
{
	my ($primary, $name) = @_;
	$primary->backup($name);
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	return $standby;
}

# Runs a script with pgbench, in the database postgres unless a last argument names another; gives its exit status, what it said, and how many transactions it completed.
sub pgbench_script
{
	my ($node, $script, @options) = @_;
	my $database = @options % 2 ? pop @options : 'postgres';
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	PostgreSQL::Test::Utils::append_to_file($file, $script);
	my ($out, $err) = ('', '');
	local $ENV{PGOPTIONS} = '-c client_min_messages=error';
	my $ok = IPC::Run::run([ 'pgbench', '-n', '-f', $file, @options, '-h', $node->host, '-p', $node->port, $database ],
		'>', \$out, '2>', \$err);
	my ($done) = $out =~ /transactions actually processed: (\d+)/;
	return ($ok, $done // 0, $err);
}

# The short count in make check, the long one in make torture.
sub often
{
	my ($short, $long) = @_;
	return $ENV{TORTURE} ? $long : $short;
}

# A limit of time: the long one is that of a run with TORTURE_MINUTES=20.
sub seconds
{
	my ($short, $long) = @_;
	return often($short, int($long * ($ENV{TORTURE_MINUTES} // 20) / 20));
}

# What a random run may or may not meet is required in make torture only, where the run is long.
sub met
{
	my ($count, $what) = @_;
	$count //= 0;
	$ENV{TORTURE} ? Test::More::cmp_ok($count, '>', 0, $what) : Test::More::note("$what: $count");
	return;
}

# One line for docs/reliability.md: the number of a row there, how many times it was tried, and what came of it. None if a test has failed.
sub seen
{
	my ($fault, $times, $outcome) = @_;
	Test::More::note("fault $fault, $times times: $outcome");
	return unless $ENV{TORTURE_SEEN} && Test::More->builder->is_passing;
	open my $file, '>>', $ENV{TORTURE_SEEN} or die "$ENV{TORTURE_SEEN}: $!";
	print $file "$fault\t$times\t$outcome\n";
	close $file or die "$ENV{TORTURE_SEEN}: $!";
}

1;
