# Row 40: 16 clients use 100 names for a long time. The table and one more session's memory stay small. Only in make
# torture.
use strict;
use warnings;
use Test::More;
use ShedLock;

plan skip_all => 'only in make torture' unless $ENV{TORTURE};

my $node = new_server('server', "autovacuum_naptime = 10s\n");
my $minutes = $ENV{TORTURE_MINUTES} // 20;

sub cycles
{
	my ($seconds) = @_;
	my ($ok, $done, $err) = pgbench_script($node, <<'SCRIPT', '-c', 16, '-j', 2, '-T', $seconds);
\set n random(1, 100)
SELECT coalesce(shedlock_acquire_token('soak ' || :n, '1 s'), 0) AS token \gset
\if :token
SELECT shedlock_release_token('soak ' || :n, :token);
\endif
SCRIPT
	ok($ok, "$done cycles") or diag($err);
	return $done;
}

sub size { return $node->safe_psql('postgres', "SELECT pg_relation_size('shedlock') + pg_indexes_size('shedlock')"); }

# Runs cycles in one session that stays connected, and returns its private memory.
sub memory
{
	my ($session, $loops) = @_;
	my $pid = $session->query_safe("DO \$\$ BEGIN FOR i IN 1 .. $loops LOOP"
		. " PERFORM shedlock_acquire('memory ' || i % 1000, '1 s');"
		. " PERFORM shedlock_release('memory ' || i % 1000); COMMIT; END LOOP; END \$\$; SELECT pg_backend_pid()");
	my ($kilobytes) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
	return $kilobytes;
}

my $session = $node->background_psql('postgres', timeout => 180 * $minutes);
my $first_memory = memory($session, 20_000);
my $done = cycles(15 * $minutes);
my $first_size = size();
$done += cycles(45 * $minutes);
my $last_memory = memory($session, 200_000);
$session->quit;

cmp_ok(size(), '<', 2 * $first_size,
	"the size has not doubled: $first_size bytes after a quarter of the time, " . size() . ' at the end');
my ($hot) = $node->safe_psql('postgres',
	"SELECT round(100.0 * n_tup_hot_upd / n_tup_upd, 1) FROM pg_stat_user_tables WHERE relname = 'shedlock'");
cmp_ok($hot, '>', 95, "$hot % of all updates were HOT");
cmp_ok($last_memory, '<', $first_memory + 1024,
	"a session's memory: $first_memory kB after 20,000 cycles, $last_memory after 200,000 more");
seen(40, $done, "cycles in $minutes minutes: $hot % HOT, table and index ${\ size()} bytes, "
	. "a session's own memory $first_memory and then $last_memory kB");

$node->stop;
done_testing();
