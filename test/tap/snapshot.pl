# An old snapshot that is held open: a dump, a long report. Nothing can be pruned, versions pile up on every row that is used; a look
# goes past none of them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $server = new_server('server', "autovacuum = off\n");

# What one session's $count calls of $statement ask for: "blocks of the table, blocks of its index" a call. It knows the row's place
# before; then $meanwhile happens, in a shell. The session's own counts: in everybody's (pg_statio_user_tables), those of a session
# that has just ended may come late.
sub visits
{
	my ($count, $statement, $meanwhile) = @_;
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
    PERFORM set_config('visits.seen', concat_ws('|', (pg_stat_get_xact_blocks_fetched('shedlock'::regclass) - heap) / $count,
        (pg_stat_get_xact_blocks_fetched('shedlock_pkey'::regclass) - index) / $count), false);
END
\$\$;
SELECT current_setting('visits.seen');
SQL
}

$server->safe_psql('postgres', "SELECT shedlock_acquire('held', '1 day'), shedlock_acquire_token('kept', '1 day')");
my $token = $server->safe_psql('postgres', "SELECT token FROM shedlock_locks WHERE name = 'kept'");
my $extend = "shedlock_extend_token('kept', $token, '1 day')";
my $pages = "SELECT pg_relation_size('shedlock') / 8192";
visits(1000, $extend);
is($server->safe_psql('postgres', $pages), 1, 'without one, writers prune: 1,000 versions of a row, one page');
my $old = IPC::Run::start([ 'psql', '-XqAt', '-d', $server->connstr('postgres'), '-c', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
	'-c', 'SELECT count(*) FROM pg_class', '-c', 'SELECT pg_sleep(3600)' ], '>', \my $nothing, '2>', \my $error);
$server->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)%' AND pid <> pg_backend_pid()");

visits(3000, $extend);
cmp_ok($server->safe_psql('postgres', $pages), '>', 20, '3,000 versions of a row, and none can be pruned');

is(visits(100, "shedlock_acquire('kept', '1 day')"), '0|0',
	'a refused acquire asks neither the index nor for any page of the table but the one it knows');
like(visits(1000, $extend), qr/^[0-9]\|[01]$/, 'an extend asks for few');

# Written by others meanwhile: forward from where it was last seen.
$server->safe_psql('postgres', 'TRUNCATE shedlock');
$token = $server->safe_psql('postgres', "SELECT shedlock_acquire_token('kept', '1 day')");
my $psql = "psql -XqAt -o /dev/null -d '" . $server->connstr('postgres') . "'";
is(visits(1, "shedlock_acquire('kept', '1 day')",
	join('; ', ("$psql -c \"SELECT shedlock_extend_token('kept', $token, '2 days')\"") x 20)), '0|0', '... also after 20 extends by others');

$old->kill_kill;
$server->stop;
done_testing();
