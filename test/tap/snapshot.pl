# An old snapshot, such as that of a dump or of a long report, keeps row versions from being pruned, so they accumulate.
# Our functions do not have to read past them. Without such a snapshot, neither the table nor a session's memory grows.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $server = new_server('server', "autovacuum = off\n");

sub run_often
{
	my ($count, $statement) = @_;
	$server->safe_psql('postgres',
		"DO \$\$ BEGIN FOR i IN 1 .. $count LOOP PERFORM $statement; COMMIT; END LOOP; END \$\$");
	return;
}

# Runs $statement $count times in one session. Returns 'T|I', the blocks of the table and of its index that it read; the
# block that the session remembers does not count.
sub visits
{
	my ($count, $statement, $meanwhile) = @_;
	# Before that, the session finds the row once, and $meanwhile runs in a shell. The counts are the session's own,
	# because in pg_statio_user_tables those of a session that has just ended may come late.
	$meanwhile = $meanwhile ? "\\! $meanwhile" : '';
	return $server->safe_psql('postgres', <<"SQL");
DO \$\$ BEGIN PERFORM $statement; END \$\$;
$meanwhile
DO \$\$
DECLARE
    heap bigint := pg_stat_get_xact_blocks_fetched('shedlock'::regclass);
    index bigint := pg_stat_get_xact_blocks_fetched('shedlock_pkey'::regclass);
BEGIN
    FOR i IN 1 .. $count LOOP PERFORM $statement; COMMIT; END LOOP;
    PERFORM set_config('visits.seen', concat_ws('|', pg_stat_get_xact_blocks_fetched('shedlock'::regclass) - heap,
        pg_stat_get_xact_blocks_fetched('shedlock_pkey'::regclass) - index), false);
END
\$\$;
SELECT current_setting('visits.seen');
SQL
}

$server->safe_psql('postgres', "SELECT shedlock_acquire('held', '1 day'), shedlock_acquire_token('kept', '1 day')");
my $token = $server->safe_psql('postgres', "SELECT token FROM shedlock_locks WHERE name = 'kept'");
my $extend = "shedlock_extend_token('kept', $token, '1 day')";
my $pages = "SELECT pg_relation_size('shedlock') / 8192";
run_often(1000, $extend);
is($server->safe_psql('postgres', $pages), 1,
	'without an old snapshot, writers prune: 1,000 versions of a row leave one page');

# Nor does a session's memory grow. The first calls fill its caches.
my $calls = "DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM shedlock_acquire('memory ' || i % 100, '1 s');
	PERFORM shedlock_release('memory ' || i % 100); COMMIT; END LOOP; END \$\$";
my $used = 'SELECT sum(used_bytes) FROM pg_backend_memory_contexts';
my ($before, $after) = split /\n/, $server->safe_psql('postgres', "$calls; $used; $calls; $used");
cmp_ok($after, '<', $before + 3000 * 8,
	"3,000 acquires and releases leave no memory behind: $before bytes, then $after");
$server->safe_psql('postgres', 'DELETE FROM shedlock WHERE name LIKE \'memory %\'');

my @transaction = ('BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM pg_class', 'SELECT pg_sleep(3600)');
my $old = IPC::Run::start([ 'psql', '-XqAt', '-d', $server->connstr('postgres'), map { ('-c', $_) } @transaction ],
	'>', \my $nothing, '2>', \my $error);
$server->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
	or die 'no snapshot';

run_often(3000, $extend);
cmp_ok($server->safe_psql('postgres', $pages), '>', 20,
	'with an old snapshot, none of 3,000 versions of a row can be pruned');

is(visits(100, "shedlock_acquire('kept', '1 day')"), '0|0',
	'a refused acquire reads no block of the index, and no block of the table except the one that it remembers');
my ($blocks, $index_blocks) = split /\|/, visits(1000, $extend);
ok($blocks > 0 && $blocks < 10_000 && $index_blocks < 2_000, '... and an extend reads few blocks')
	or diag("1,000 extends: $blocks, $index_blocks of the index");

# After other sessions have written the row, the session follows the versions from the one that it saw last.
$server->safe_psql('postgres', 'TRUNCATE shedlock');
$token = $server->safe_psql('postgres', "SELECT shedlock_acquire_token('kept', '1 day')");
my $psql = "psql -XqAt -o /dev/null -d '" . $server->connstr('postgres') . "'";
my $extends_by_others = join '; ', ("$psql -c \"SELECT shedlock_extend_token('kept', $token, '2 days')\"") x 20;
is(visits(1, "shedlock_acquire('kept', '1 day')", $extends_by_others), '0|0',
	'... also after 20 extends by other sessions');

$old->kill_kill;
$server->stop;
done_testing();
