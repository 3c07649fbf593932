# Waiting, by what happened and not by how long it took.
use strict;
use warnings;
use Test::More;
use IPC::Run;
use PostgreSQL::Test::Utils;
use ShedLock;

# From PostgreSQL 17 on the shared memory needs no preload. The server's alarm for deadlocks would wake a session that has
# waited for a lock before.
my ($version) = `pg_config --version` =~ /(\d+)/;
my $preload = $version < 17 ? "shared_preload_libraries = 'shedlock'\n" : '';
my $node = new_server('server', "${preload}deadlock_timeout = 1h\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }

# A session that executes one statement in the background.
my $started = 0;
sub start
{
	my ($statement) = @_;
	my %session = (name => 'session ' . ++$started, out => '', err => '');
	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-c', $statement, '-d', $node->connstr('postgres') . " application_name='$session{name}'" ],
		'<', \undef, '>', \$session{out}, '2>', \$session{err});
	return \%session;
}
sub finish { my ($session) = @_; $session->{run}->finish; chomp $session->{out}; return $session->{out}; }
sub is_active { my ($session, $condition) = @_; return "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '$session->{name}' AND state = 'active' AND $condition)"; }
sub comes_true { my ($condition) = @_; return $node->poll_query_until('postgres', "SELECT $condition"); }
sub end { my ($session) = @_; sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$session->{name}'"); return finish($session); }

# A look may take longer than the nap that follows it. This one first waits for the table.
sql("SELECT shedlock_acquire_token('held', '1 h')");
my $ddl = $node->background_psql('postgres');
$ddl->query_safe('BEGIN; LOCK TABLE shedlock IN ACCESS EXCLUSIVE MODE');
my $slow = start("SELECT shedlock_wait_any('{held}', '{1}', '1 s', 1)");
comes_true(is_active($slow, "wait_event_type = 'Lock'")) or die 'it does not wait for the table';
$ddl->query_safe('SELECT pg_sleep(0.1); COMMIT');
$ddl->quit;
ok(comes_true('NOT ' . is_active($slow, 'true')), 'a wait ends even if a look took longer than the nap after it');
is(end($slow), '{}', '... and nobody is told to try');

# As many names as an array may have.
my $limit = 1000;
sub refuses { my ($arguments, $which) = @_; (undef, undef, my $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT shedlock_wait_any($arguments, '0', 1) FROM generate_series(1, 1 + $limit) n");
	like($err, qr/ERROR:  54000: $which must not have more than $limit elements/, "not more than $limit elements in $which"); }
refuses("array_agg('n' || n), array_agg(n)", 'names');
refuses("'{one}', array_agg(n)", 'which');

$node->stop;
done_testing();
