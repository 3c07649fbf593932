# Faults of one server and its clients, while clients are at work. Every promise holds in every history. The effects of
# the faults are counted as the clients saw them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Crowd;
use ShedLock;

# REPACK (CONCURRENTLY) decodes the WAL; by default the test framework's servers have wal_level = minimal.
my $node = new_server('server', crowd_settings() . "wal_writer_delay = 10s\nwal_level = replica\n");
$node->safe_psql('postgres', 'CREATE SCHEMA elsewhere');
my $broken_connection = '57P01,57P02,57P03';

# Row 4: statements are cancelled and sessions terminated, at random points. A cancelled statement has had no effect.
# After a session was terminated, the outcome is unknown until the client asks.
my %saw = crowd($node, 'sessions terminated, statements cancelled', faults => 'cancel,cancel,terminate', pace => 2,
	strikes => often(150, 10_000), seconds => seconds(8, 600), allow => "57014,$broken_connection");
met($saw{'state 57014'}, 'statements were cancelled in mid-operation');
met($saw{'lost in mid-operation'}, 'sessions were terminated in mid-operation');
met($saw{'session gone yes'}, '... and in the middle of runs, whose locks were free then');
my @saw = {%saw};
my $counts = counts_as_text(\%saw,
	'state 57014' => 'cancelled in mid-operation', 'lost in mid-operation' => 'answers lost');
seen(4, $saw{'fault.cancel'} + $saw{'fault.terminate'}, 'signals', $counts);

# Row 26: clients set their statement_timeout and lock_timeout to between 1 and 50 ms. (The only lock that an acquire
# waits for is one on the whole table, and autovacuum would take it to truncate the table.)
$node->safe_psql('postgres', 'ALTER TABLE shedlock SET (vacuum_truncate = off)');
%saw = crowd($node, 'statement_timeout and lock_timeout', timeouts => 'yes', histories => often(3, 300),
	seconds => seconds(6, 300), allow => '57014,55P03');
my $timed_out = ($saw{'state 57014'} // 0) + ($saw{'state 55P03'} // 0);
met($timed_out, 'timeouts struck');
$counts = counts_as_text(\%saw,
	'state 57014' => 'statement_timeout', 'state 55P03' => 'lock_timeout, never in one of our acquires');
seen(26, $timed_out, 'timeouts', $counts);

# Row 2: clients are killed at any point. Their locks are granted again when their leases have ended, not earlier.
%saw = crowd($node, 'clients killed', faults => 'kill', pace => often(5, 10), strikes => often(70, 5_000),
	seconds => seconds(8, 600), longest => 300);
met($saw{'killed in mid-operation'}, 'clients were killed in mid-operation');
push @saw, {%saw};
$counts = counts_as_text(\%saw, 'killed in mid-operation' => 'killed in mid-operation',
	'prepared transaction left over' => 'prepared transactions left open');
seen(2, $saw{'fault.kill'}, 'kills', $counts . lateness(\%saw));

# Row 3: clients sleep beyond their leases, wake up and continue.
%saw = crowd($node, 'clients stopped beyond their leases', faults => 'stop', pace => 20, shortest => 20, longest => 300,
	strikes => often(20, 1_000), seconds => seconds(6, 600));
met($saw{'fault.stop'}, 'clients were stopped');
seen(3, $saw{'fault.stop'}, 'pauses');

# Row 34: DDL under load, and deleted rows.
%saw = crowd($node, 'DDL, deleted rows, the extension dropped', faults => 'ddl,delete', pace => 30,
	strikes => often(40, 1_600), seconds => seconds(8, 900),
	connection => connection($node->connstr('postgres'), '-c search_path=public,elsewhere'),
	admin => connection($node->connstr('postgres'), '-c search_path=public,elsewhere'),
	allow => '42883,42P01,3F000,usage');
my %ddl = map { ("fault.$_" => $_) }
	'VACUUM', 'VACUUM FULL', 'CLUSTER', 'REINDEX CONCURRENTLY', 'SET SCHEMA', 'ALTER TYPE', 'TRUNCATE',
	'DROP and CREATE EXTENSION', 'delete of a held row', 'delete of a free row',
	$ENV{SHEDLOCK_SERVER} < 19 ? () : ('REPACK', 'REPACK CONCURRENTLY');
seen(34, eval { my $n = 0; $n += $saw{$_} // 0 for keys %ddl; $n },
	'statements', counts_as_text(\%saw, %ddl));

# Row 5: a backend is killed, so the server resets all sessions and recovers by itself.
%saw = crowd($node, 'backends killed', crash_options($node), faults => 'backend', pace => 200, operations => 5000,
	strikes => often(3, 500), seconds => seconds(10, 1200));
met($saw{'fault.backend'}, 'backends were killed');
$counts = counts_as_text(\%saw, 'lost in mid-operation' => 'answers lost');
seen(5, $saw{'fault.backend'}, "kills, $saw{granted} grants", $counts);
seen_history('while statements were cancelled, and sessions, clients and backends killed', recorded(@saw, \%saw));

# How late a lock was granted to a client that waited for the lease to end.
sub lateness
{
	my ($counts) = @_;
	return '' if !defined $counts->{'late p99'};
	return sprintf '; a client that waited got the lock %.0f ms later (99th percentile)', $counts->{'late p99'} / 1000;
}

$node->stop;
done_testing();
