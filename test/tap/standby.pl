# On a standby the functions fail with 25006 and a hint, and the view works. An acquire waits for a synchronous standby
# even if the session's synchronous_commit says not to (I7).
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $primary = new_server('primary', "max_prepared_transactions = 10\n", allows_streaming => 1);
my $standby = new_standby($primary, 'standby');
$standby->start;

$primary->safe_psql('postgres',
	"SELECT shedlock_acquire('j', '1 h'); SELECT shedlock_acquire('e', '1 h', ends_with_session => true)");
$primary->poll_query_until('postgres', "SELECT NOT holder_alive FROM shedlock_locks WHERE name = 'e'");
is($primary->safe_psql('postgres', "SELECT state FROM shedlock_locks WHERE name = 'e'"), 'free',
	'on the primary a lease has ended with its session');
$primary->wait_for_catchup($standby);

for my $call ("shedlock_acquire('j', '1 min')", "shedlock_acquire_token('j', '1 min')", "shedlock_extend('j', '1 min')",
	"shedlock_release('j')", "shedlock_guard('j')", "shedlock_complete('j')", "shedlock_complete_token('j', 1)",
	"shedlock_forget('j')", "shedlock_acquire(NULL::text)")
{
	my ($rc, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	like($err, qr/ERROR:  25006: cannot execute shedlock_\w+ on a standby.*HINT: .*target_session_attrs=read-write/s,
		$call);
}
is($standby->safe_psql('postgres', "SELECT name, state, holder_pid IS NOT NULL, holder_alive IS NULL, ends_with_session
		FROM shedlock_locks ORDER BY name"),
	"e|held|t|t|t\nj|held|t|t|f",
	'shedlock_locks works on a standby, but cannot tell whether holders on the primary are alive');

# Synchronous replication, and sessions with synchronous_commit = local or off.
sub start_session
{
	my ($setting, @statements) = @_;
	return launch({}, 'psql', '-XAtq', (map { ('-c', $_) } "SET synchronous_commit = $setting", @statements),
		'-d', $primary->connstr('postgres'));
}
sub is_waiting
{
	my ($statement) = @_;
	return $primary->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '$statement%'");
}
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'\n");
$primary->reload;
$primary->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication");
wait_until_commits_wait($primary);
$standby->stop;
my $waiting = start_session('local', "SELECT shedlock_acquire('k', '1 h')");
ok(is_waiting('SELECT'), 'I7 an acquire waits for the synchronous standby, although synchronous_commit = local');
my $preparing = start_session('off', 'BEGIN', "SELECT shedlock_acquire('p', '1 h')", "PREPARE TRANSACTION 'p'");
ok(is_waiting('PREPARE'), '... and so does PREPARE TRANSACTION after an acquire, although synchronous_commit = off');
is($primary->safe_psql('postgres', "SELECT shedlock_acquire('k', '1 h')"), 'f',
	'I2 meanwhile other callers are refused at once');
$standby->start;
ended($_) for $waiting, $preparing;
is($waiting->{out}, "t\n", 'the acquire is granted once the standby has received it');
is("$preparing->{out}$preparing->{err}", "t\n", '... and the other transaction is prepared');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT state FROM shedlock_locks WHERE name = 'k'"), 'held',
	'... and the lock is held on the standby');

# After a promotion, locks that were held or prepared are still held, and tokens keep growing.
my $token = $primary->safe_psql('postgres', "SELECT shedlock_acquire_token('t', '1 ms')");
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', "SELECT shedlock_acquire('$_', '1 h')"), 'f',
	"a lock held before the fail-over is held after it: $_") for 'k', 'p';
is($standby->safe_psql('postgres', "SELECT shedlock_acquire('e', '1 h')"), 't',
	'... but a lock that ends with its session is free at once');
cmp_ok($standby->safe_psql('postgres', "SELECT shedlock_acquire_token('t', '1 min')"), '>', $token,
	'I6 tokens grow across a fail-over');

$standby->stop;
done_testing();
