# I4: shedlock_protect in more than one session: which messages a stopped statement causes, which transactions the call
# waits for, whether a dump keeps the protection, and what the protection does not stop.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = new_server('server', '', allows_streaming => 'logical');
sub sql { return $node->safe_psql(@_); }
my $table = 'CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
	locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)';
my $unlock = "UPDATE shedlock SET lock_until = timezone('utc', clock_timestamp()) WHERE name = 'job'";
sub stopped
{
	my ($database) = @_;
	return sql($database, "WITH u AS ($unlock RETURNING 1) SELECT count(*) = 0 FROM u");
}

# The client gets a notice, and so does the server's log if log_min_messages allows it.
sql('postgres', 'CREATE ROLE java LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON shedlock TO java;
	ALTER ROLE java SET log_min_messages = notice; SELECT shedlock_protect()');
my $token = sql('postgres', "SELECT shedlock_acquire_token('job', '1 h', holder => 'web-1')");
my $offset = -s $node->logfile;
my (undef, undef, $told) = $node->psql('postgres', "SET application_name = 'billing'; $unlock",
	extra_params => [ '-U', 'java' ]);
my $detail = 'It is taken until \d{4}\S* \S+ \(UTC\)\. '
	. 'The statement came from "billing@\[local\]", role "java"\.';
my $what = qr/NOTICE:  lock "job" of "web-1" was protected from this UPDATE\s.*DETAIL:  $detail/s;
like($told, $what, 'a client whose statement was stopped gets a notice');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset), $what,
	'... and so does the server\'s log, if that role\'s notices go there');
is(sql('postgres', "SELECT shedlock_release_token('job', $token)"), 't', '... and the lock is still held');

# A fleet whose at_most is too short would fill the server's log.
(undef, undef, $told) = $node->psql('postgres', "SELECT shedlock_release_token('job', $token)");
like($told, qr/WARNING:  lock "job" was not released/, 'a late release warns its client');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset), qr/was not released/,
	"... and does not write into the server's log");

# The call waits for transactions that have written to the table, but no longer than lock_timeout.
my $writer = $node->background_psql('postgres');
$writer->query_safe("BEGIN; INSERT INTO shedlock VALUES ('open', now(), now(), 'host')");
(undef, undef, $told) = $node->psql('postgres', "SET lock_timeout = '100 ms'; SELECT shedlock_protect(false)");
like($told, qr/canceling statement due to lock timeout/,
	'shedlock_protect waits for open transactions, up to lock_timeout');
$writer->query_safe('COMMIT');
$writer->quit;

# A dump keeps the protection.
my $file = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
sql('postgres', "SELECT shedlock_acquire('job', '1 h')");
$node->command_ok([ 'pg_dump', '-f', $file, '-d', $node->connstr('postgres') ], 'pg_dump');
sql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $node->connstr('copy') ], 'restore');
is(stopped('copy'), 't', 'the restored table is protected');
is(sql('copy', "SELECT shedlock_acquire('job', '1 h'), shedlock_acquire('another', '1 h')"), 'f|t', '... and works');
sql('copy', 'DROP EXTENSION shedlock');
is(stopped('copy'), 'f', '... and is not protected after DROP EXTENSION');

# The protection does not stop TRUNCATE, a role that disables triggers, or a subscription (whose changes another server
# decided).
is(sql('postgres', "SET session_replication_role = replica; WITH u AS ($unlock RETURNING 1) SELECT count(*) FROM u"), 1,
	'a superuser that disables triggers is not stopped');
sql('postgres', "SELECT shedlock_acquire('job', '1 h'); TRUNCATE shedlock");
is(sql('postgres', 'SELECT count(*) FROM shedlock'), 0, 'TRUNCATE is not stopped');
sql('postgres', 'CREATE DATABASE publisher; CREATE DATABASE subscriber');
sql('publisher', "$table; INSERT INTO shedlock VALUES ('job', now(), now(), 'host'); "
	. "CREATE PUBLICATION p FOR TABLE shedlock; SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
sql('subscriber', "$table; CREATE EXTENSION shedlock; SELECT shedlock_protect(), shedlock_acquire('job', '1 h')");
sql('subscriber', "CREATE SUBSCRIPTION s CONNECTION '" . $node->connstr('publisher') =~ s/'/''/gr
	. "' PUBLICATION p WITH (create_slot = false, slot_name = 's', copy_data = false)");
sql('publisher', "UPDATE shedlock SET locked_by = 'replicated'");
ok($node->poll_query_until('subscriber', "SELECT locked_by = 'replicated' FROM shedlock WHERE name = 'job'"),
	'nor is a subscription');

$node->stop;
done_testing();
