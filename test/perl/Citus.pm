# A Citus cluster: a coordinator and two workers, databases with Citus, sessions, and a commit that is stopped on its
# way.
package Citus;

use strict;
use warnings;
use Exporter 'import';
use IO::Handle;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShedLock;

our @EXPORT = qw(start_cluster create_database session ask put answer start_commit prepared_sessions
	stop_workers let_commit
	resume_workers crash_coordinator);

# Starts and returns the coordinator and the workers. Citus is set not to recover in-doubt transactions, because a test
# does. The WAL writer rarely flushes, so a commit that does not wait for its flush is not flushed by chance before the
# test crashes the server.
sub start_cluster
{
	my @nodes = map { PostgreSQL::Test::Cluster->new($_) } qw(coordinator worker1 worker2);
	for my $node (@nodes)
	{
		$node->init;
		configure($node, "restart_after_crash = on\nshared_preload_libraries = 'citus, shedlock'\n"
			. "max_prepared_transactions = 50\nlisten_addresses = 'localhost'\n"
			. "citus.recover_2pc_interval = -1\nwal_writer_delay = 10s\n");
		$node->start;
	}
	return @nodes;
}

sub create_database
{
	my ($database, @nodes) = @_;
	$_->safe_psql('postgres', "CREATE DATABASE $database") for @nodes;
	$_->safe_psql($database, 'CREATE EXTENSION citus') for @nodes;
	my ($coordinator, @workers) = map { "'localhost', " . $_->port } @nodes;
	$nodes[0]->safe_psql($database, join ';', "SELECT citus_set_coordinator_host($coordinator)",
		map { "SELECT citus_add_node($_)" } @workers);
}

sub session
{
	my ($node, $database) = @_;
	my $session = { out => '', err => '' };
	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($database) ],
		'<pipe', \*IN, '>', \$session->{out}, '2>', \$session->{err},
		IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	open $session->{in}, '>&', \*IN or die $!;
	close IN;
	$session->{in}->autoflush(1);
	return $session;
}

sub put
{
	my ($session, @statements) = @_;
	$session->{out} = '';
	print { $session->{in} } join '', (map { "$_;\n" } @statements), "\\echo ready\n";
}

sub answer
{
	my ($session) = @_;
	$session->{run}->pump until $session->{out} =~ s/^ready\n\z//m;
	chomp(my $out = $session->{out});
	return $out;
}

sub ask
{
	put(@_);
	return answer($_[0]);
}

# Sends statements of which the last one commits. Waits until the work is prepared on the workers (committed, if it is
# on only one), but not yet committed on the coordinator. In between, PostgreSQL empties a temporary table, and waits
# for a lock on it that another session holds.
sub start_commit
{
	my ($nodes, $database, $before, @statements) = @_;
	my $commit = { nodes => $nodes, database => $database,
		worker => session($nodes->[0], $database), gate => session($nodes->[0], $database) };
	ask($commit->{worker}, 'CREATE TEMP TABLE gate (i int) ON COMMIT DELETE ROWS', @$before);
	my ($pid, $schema) = split /\|/,
		ask($commit->{worker}, 'SELECT pg_backend_pid(), pg_my_temp_schema()::regnamespace');
	$commit->{pid} = $pid;
	ask($commit->{gate}, 'BEGIN', "LOCK TABLE $schema.gate IN ACCESS SHARE MODE");
	put($commit->{worker}, @statements);
	$nodes->[0]->poll_query_until($database, "SELECT wait_event = 'relation' FROM pg_stat_activity WHERE pid = $pid")
		or die 'the commit does not reach the temporary table';
	return $commit;
}

# The workers' server processes that have prepared the transaction.
sub prepared_sessions
{
	my ($commit) = @_;
	my ($coordinator, @workers) = @{ $commit->{nodes} };
	return map { split /\n/, $_->safe_psql($commit->{database},
			"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
				AND query LIKE 'PREPARE TRANSACTION%' AND EXISTS (SELECT FROM pg_prepared_xacts)") } @workers;
}

# Stops them, and returns how many there are.
sub stop_workers
{
	my ($commit) = @_;
	$commit->{stopped} = [ prepared_sessions($commit) ];
	kill 'STOP', @{ $commit->{stopped} };
	return scalar @{ $commit->{stopped} };
}

# Lets the coordinator commit, and waits until the query $shown says that it has.
sub let_commit
{
	my ($commit, $shown) = @_;
	ask($commit->{gate}, 'COMMIT');
	$commit->{nodes}[0]->poll_query_until($commit->{database}, $shown) or die 'the coordinator does not commit';
}

# Kills the committing process, and waits until the server has restarted all others.
sub crash_coordinator
{
	my ($commit) = @_;
	my $coordinator = $commit->{nodes}[0];
	my $question = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
	my $before = $coordinator->safe_psql('postgres', $question);
	kill 'KILL', $commit->{pid};
	my $now = '';
	for my $second (1 .. $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $now =~ /^\d+$/ && $now != $before;
		sleep 1;
		IPC::Run::run([ 'psql', '-XAtq', '-d', $coordinator->connstr('postgres'), '-c', $question ], '<', \undef,
			'>', \$now, '2>', \my $err);
	}
	die 'the coordinator does not come back';
}

sub resume_workers
{
	my ($commit) = @_;
	kill 'CONT', @{ delete $commit->{stopped} // [] };
}

1;
