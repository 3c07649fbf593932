# Servers of PostgreSQL's test framework with shedlock, our programs, and how often a fault is tried.
package ShedLock;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More ();
use Time::HiRes ();

our @EXPORT = qw(new_server new_standby wait_until_commits_wait configure is_portable comes_true crash_restart
	create_shedlock copies pgbench_script $tool program launch is_running ended often seconds
	seen seen_history met);

our $tool = "$ENV{SHEDLOCK_STAGE}/usr/bin/shedlock";

# The time limit of background_psql() applies to each statement and to the end of a session, because a session may last
# as long as its test.
{
	no warnings 'redefine';
	my $background_psql = PostgreSQL::Test::Cluster->can('background_psql');
	*PostgreSQL::Test::Cluster::background_psql =
		sub { my $session = $background_psql->(@_); $session->set_query_timer_restart; return $session; };
	my $quit = PostgreSQL::Test::BackgroundPsql->can('quit');
	*PostgreSQL::Test::BackgroundPsql::quit =
		sub { my ($session) = @_; $session->{timeout}->start; return $session->$quit; };

	# The superuser is called postgres, whoever runs the tests.
	my $init = PostgreSQL::Test::Cluster->can('init');
	*PostgreSQL::Test::Cluster::init =
		sub { my ($node, %how) = @_; return $node->$init(%how, extra => [ @{ $how{extra} // [] }, '--username=postgres' ]); };
	$ENV{PGUSER} = 'postgres';
}

# Returns the path of a program of test/reliability that CMake has built.
sub program { return "$ENV{SHEDLOCK_PROGRAMS}/$_[0]" }

sub configure
{
	my ($node, $settings) = @_;
	my $staged = $ENV{SHEDLOCK_SETTINGS} or die "run this with test/run/prove, which stages the extension";
	$node->append_conf('postgresql.conf', $staged . "\n" . ($settings // ''));
}

# With SHEDLOCK_EDITION=portable, tests that can run on either edition use the portable one.
sub is_portable { return ($ENV{SHEDLOCK_EDITION} // '') eq 'portable'; }

sub create_shedlock
{
	my ($node, $database) = @_;
	my $as_ordinary_role = "CREATE ROLE locksmith; GRANT CREATE ON SCHEMA public TO locksmith; SET ROLE locksmith;\n";
	$node->safe_psql($database,
		is_portable() ? $as_ordinary_role . slurp_file('portable/shedlock.sql') : 'CREATE EXTENSION shedlock');
	return;
}

# Returns a running server with the extension, or the portable edition, in the database postgres.
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

# Starts a command in the background, and returns the given hash with its process, { run }. When that has ended, { out }
# and { err } are its output.
sub launch
{
	my ($process, @command) = @_;
	@$process{qw(out err)} = ('', '');
	$process->{limit} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$process->{run} = IPC::Run::start(\@command, '<', \undef, '>', \$process->{out}, '2>', \$process->{err},
		$process->{limit});
	$process->{limit}->reset; # ended() starts it
	return $process;
}

# Reads what the process, or anything with a { run }, has printed. Returns false if it has ended. pump_nb() dies if the
# process has ended before the call.
sub is_running
{
	my ($process) = @_;
	eval { $process->{run}->pump_nb; 1 } or $@ =~ /process ended prematurely/ or die $@;
	return $process->{run}->pumpable;
}

# Waits until the process has ended, and returns its exit status. Only this wait has a limit: the test may have been
# slow until then.
sub ended
{
	my ($process) = @_;
	$process->{limit}->start;
	$process->{run}->finish;
	return $process->{run}->result(0);
}

# Makes copies of the database postgres, once no session is connected to it.
sub copies
{
	my ($node, @names) = @_;
	for (@names)
	{
		$node->poll_query_until('template1', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'postgres'")
			or die 'a session does not end';
		$node->safe_psql('template1', "CREATE DATABASE $_ TEMPLATE postgres");
	}
	return;
}

# Waits until the query yields true, on a server that may be restarting. (There poll_query_until() dies if psql ends
# before the query has been written to it.)
sub comes_true
{
	my ($node, $query) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $answer = '';
		IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $query ], '<', \undef, '>', \$answer,
			'2>', \my $err);
		return 1 if $answer eq "t\n";
		Time::HiRes::usleep(100_000);
	}
	die "this does not come true: $query";
}

# Kills a process of the server, by default its checkpointer, and waits until all the others have been replaced, because
# the server may still answer for a moment before it notices.
sub crash_restart
{
	my ($node, $pid) = @_;
	my $checkpointer = "FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
	my $before = $node->safe_psql('postgres', "SELECT pid $checkpointer");
	kill 'KILL', $pid // $before;
	comes_true($node, "SELECT pid <> $before $checkpointer");
	return;
}

# Returns a standby that streams from the primary once it is started. synchronous_standby_names knows it by this name.
sub new_standby
{
	my ($primary, $name) = @_;
	$primary->backup($name);
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	return $standby;
}

# Waits until commits wait for a synchronous standby. The configuration has been reloaded by then, but the checkpointer
# may not yet have read it, and until then no commit waits, whatever pg_stat_replication says. So a session commits
# until it is seen to wait.
sub wait_until_commits_wait
{
	my ($node) = @_;
	my $commit = "DO \$\$ BEGIN LOOP PERFORM pg_logical_emit_message(true, '', ''), pg_sleep(0.01); COMMIT; END LOOP;
		END \$\$";
	my $session = launch({}, 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=commits',
		'-c', 'SET synchronous_commit = on', '-c', $commit);
	my $is_it = "FROM pg_stat_activity WHERE application_name = 'commits'";
	$node->poll_query_until('postgres', "SELECT count(*) = 1 $is_it AND wait_event = 'SyncRep'")
		or die 'no commit waits for a standby';
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $is_it");
	ended($session);
	$node->poll_query_until('postgres', "SELECT count(*) = 0 $is_it") or die 'a session does not end';
	return;
}

# Runs a script with pgbench, in the database postgres unless a last argument names another. Returns whether it
# succeeded, the number of transactions that it completed, and its error output.
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

# Returns the short count in make check, the long one in make torture.
sub often
{
	my ($short, $long) = @_;
	return $ENV{TORTURE} ? $long : $short;
}

# The same for a duration. The long one is for TORTURE_MINUTES=20, and is scaled to the actual value.
sub seconds
{
	my ($short, $long) = @_;
	return often($short, int($long * ($ENV{TORTURE_MINUTES} // 20) / 20));
}

# Tests that a random event has happened. Only make torture requires that, because its runs are long.
sub met
{
	my ($count, $what) = @_;
	$count //= 0;
	$ENV{TORTURE} ? Test::More::cmp_ok($count, '>', 0, $what) : Test::More::note("$what: $count");
	return;
}

# Writes a line for docs/reliability.md: the number of a row there, how many, and of what, in a few words. Figures with
# the same words are added up. The details are for build/torture.md only. Writes nothing if a test has failed.
sub seen
{
	my ($fault, $times, $what, $details) = @_;
	$details //= '';
	Test::More::note("fault $fault: $times $what; $details");
	return unless $ENV{TORTURE_SEEN} && Test::More->builder->is_passing;
	open my $file, '>>', $ENV{TORTURE_SEEN} or die "$ENV{TORTURE_SEEN}: $!";
	print $file "$fault\t$times\t$what\t$details\n";
	close $file or die "$ENV{TORTURE_SEEN}: $!";
}

# Writes how many rows of each outcome the history of runs had.
sub seen_history
{
	my ($where, %rows) = @_;
	my $all = 0;
	$all += $_ for values %rows;
	seen(69, $all, 'runs in the history', "$where: " . join ', ', map { "$_ $rows{$_}" } sort keys %rows);
	return;
}

1;
