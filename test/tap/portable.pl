# The portable edition: how it is installed and leaves, what an open transaction of Java's does to it, leases that end with their session,
# completions, and how the extension takes over from it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = PostgreSQL::Test::Cluster->new('portable');
$node->init;
configure($node, "synchronous_commit = off\nmax_prepared_transactions = 5\n");
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE team; CREATE ROLE others; CREATE ROLE app; CREATE ROLE "On ""Call"');

# A database with a schema of the team's; what psql says of the file when the team runs it.
my $file = 'extension/portable/shedlock.sql';
sub run_file
{
	my ($database, $path, $role) = @_;
	my ($out, $error) = ('', '');
	my $ok = IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-c', 'SET ROLE ' . ($role // 'team'), '-f', $path ], '>', \$out, '2>', \$error);
	return ($ok, $error);
}
sub database
{
	my ($name, $before) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, "CREATE SCHEMA jobs AUTHORIZATION team; ALTER DATABASE $name SET search_path = jobs; GRANT USAGE ON SCHEMA jobs TO PUBLIC; " . ($before // ''));
}
sub sql { return $node->safe_psql(@_); }
sub refuses
{
	my ($database, $role, $message, $what) = @_;
	my ($done, $error) = run_file($database, $file, $role);
	ok(!$done && $error =~ $message, $what) or diag($error);
	is(sql($database, q[SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock']), $_[4] // 0, '... and nothing is left');
}

database('shop');
ok((run_file('shop', $file))[0], 'an ordinary role installs it');
my $held = sql('shop', q[SELECT shedlock_acquire_token('held', '1 h')]);
ok((run_file('shop', $file))[0], '... twice');
is(sql('shop', qq[SELECT shedlock_extend_token('held', $held, '1 h')]), 't', '... and a lock that was held is');
is(sql('shop', q[SELECT edition, version FROM shedlock_version()]), 'portable|' . (slurp_file('extension/shedlock.control') =~ /default_version = '(.*)'/)[0], 'it has the version of the control file');
is(sql('shop', q[SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc WHERE proname ~ '^shedlock' AND prosrc ~ '@extschema@']), '', 'every function knows its schema');
# Acquire asks for a flush, whatever the session's setting; who is refused has written nothing.
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('sync', '1 h'), current_setting('synchronous_commit')]), 't|on', 'I7: an acquire is durable');
my $release = q[BEGIN; SELECT shedlock_release('flushed', %s), current_setting('synchronous_commit'); COMMIT];
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-01Z'); ] . sprintf($release, 'true')), "t\nt|on", '... and so is a release as done of a run with a tick');
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-02Z'); ] . sprintf($release, 'false')), "t\nt|off", '... not one as failed');
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h'); ] . sprintf($release, 'true')), "t\nt|off", '... nor one without a tick');
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('held', '1 h'), pg_current_xact_id_if_assigned() IS NULL, current_setting('synchronous_commit')]), 'f|t|off', 'I3: a refusal writes nothing');

# What the extension refuses is refused with the same SQLSTATE. The library may be there, with its settings.
for ([ "BEGIN; CALL shedlock_run('inside', 'SELECT 1', '1 h')", '25001', 'shedlock_run cannot run inside a transaction block' ],
	[ "DO \$\$ DECLARE e boolean; BEGIN PERFORM jobs.in_a_function(); END \$\$", '25001', '... nor inside a function' ],
	[ "LOAD 'shedlock'; SELECT shedlock_acquire('unset')", '22004', 'default_at_most of the library is unset' ],
	[ "LOAD 'shedlock'; SET shedlock.default_at_most = '0'; SELECT shedlock_acquire('unset')", '22004', '... and may be 0' ])
{
	my ($statements, $code, $what) = @$_;
	sql('shop', q[CREATE OR REPLACE FUNCTION jobs.in_a_function() RETURNS void LANGUAGE plpgsql AS 'DECLARE e boolean; BEGIN CALL shedlock_run(''inside'', ''SELECT 1'', ''1 h'', executed => e); END']);
	my ($said, $input) = ('', $statements =~ s/; /;\n/gr . ';');
	IPC::Run::run([ 'psql', '-XqAt', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('shop') ], '<', \$input, '>', \my $out, '2>', \$said);
	like($said, qr/ERROR:  $code:/, $what) or diag($said);
}

# Java's first insert, undecided. While it is open, or with a conflict that its end would settle.
my $client = $node->background_psql('shop');
$client->query_safe(q[BEGIN; INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host')]);
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	is(sql('shop', qq[SET statement_timeout = '60s'; BEGIN ISOLATION LEVEL $level; SELECT shedlock_acquire('java', '1 h'), clock_timestamp() - statement_timestamp() >= '100 ms'; SELECT shedlock_acquire('another', '1 s'), current_setting('lock_timeout'); ROLLBACK]),
		"f|t\nt|0", "I2: Java's uncommitted insert is waited for no longer than it takes to see whose it is, $level");
}
$client->query_safe('COMMIT');
is(sql('shop', q[SELECT shedlock_acquire('java', '1 h')]), 'f', '... nor is it overwritten');
# Ours neither, however its transaction ends, and also when its lease is over before it is committed.
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	for my $inserted ("shedlock_acquire('new', '1 h')", "shedlock_acquire('new', '1 ms') FROM pg_sleep(0)", "shedlock_acquire(ARRAY['another', 'new'], '1 h')")
	{
		my $asked = qq[BEGIN ISOLATION LEVEL $level; SELECT FROM shedlock; SELECT shedlock_acquire('new', '1 h')];
		for my $end ('ROLLBACK TO before; COMMIT', 'ROLLBACK', 'COMMIT')
		{
			$client->query_safe(qq[BEGIN; SAVEPOINT before; SELECT $inserted; SELECT pg_sleep(0.002)]);
			is(sql('shop', "SET lock_timeout = '60s'; $asked; SELECT shedlock_acquire(ARRAY['third', 'new'], '1 h'), shedlock_acquire('third', '1 h'); ROLLBACK"), "f\nf|t", "I2: ours is not waited for either, $level, $inserted");
			$client->query_safe($end);
			is(sql('shop', "$asked; ROLLBACK"), $end eq 'COMMIT' && $inserted !~ /ms/ ? 'f' : 't', "... and is seen after $end");
		}
		$client->query_safe(q[DELETE FROM shedlock WHERE name IN ('new', 'another')]);
	}
}
# A wait that has another reason says nothing about the name. Each of the two waits has its own start.
$client->query_safe('BEGIN; LOCK TABLE shedlock IN SHARE MODE');
my ($answer, %waits) = ('');
my $acquiring = IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('shop'), '-c', q[SELECT shedlock_acquire('room', '1 h')] ], '>', \$answer);
while (keys %waits < 2 && $acquiring->pumpable)
{
	$acquiring->pump_nb;
	$waits{$_}++ for split /\n/, sql('shop', q[SELECT waitstart FROM pg_locks WHERE relation = 'shedlock'::regclass AND NOT granted AND waitstart IS NOT NULL]);
}
$client->query_safe('COMMIT');
ok($acquiring->finish, 'a table that takes no rows for a while is waited for');
is($answer, "t\n", '... and the lock, which is free, is not refused');
# A prepared transaction writes as long as it is there.
$client->query_safe(q[BEGIN; SELECT shedlock_acquire('prepared', '1 h'); PREPARE TRANSACTION 'undecided']);
is(sql('shop', q[SELECT shedlock_acquire('prepared', '1 h')]), 'f', "I2: a prepared transaction's new row is not waited for");
$client->query_safe(q[ROLLBACK PREPARED 'undecided']);
# Any role can take the advisory lock with which ours tell each other. It keeps no name from being acquired.
$client->query_safe(q[SET ROLE others; BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('withheld', 'jobs.shedlock'::regclass::oid::bigint))]);
is(sql('shop', q[SELECT shedlock_acquire('withheld', '1 h')]), 't', 'a new name is acquired though somebody else has its advisory lock');
$client->query_safe('ROLLBACK; RESET ROLE');

# A session goes on when columns have changed their types under it.
$client->query_safe(q[SELECT shedlock_acquire('typed', '1 h'), shedlock_extend('typed', '1 h'), shedlock_acquire('typed', '1 h'), shedlock_force_release('no such')]);
sql('shop', q[ALTER TABLE shedlock ALTER name TYPE text COLLATE "C", ALTER locked_by TYPE text]);
is($client->query_safe(q[SELECT shedlock_extend('typed', '1 h'), shedlock_acquire('typed', '1 h'), shedlock_guard('typed'), shedlock_release('typed'), shedlock_acquire('typed', '1 h'), shedlock_force_release('typed'), shedlock_acquire(ARRAY['typed', 'other type'], '1 h'), (SELECT count(*) FROM shedlock_locks WHERE name = 'typed')]),
	't|f||t|t|t|t|1', 'a session goes on when varchar has become text');
$client->quit;

# What a session answers to some SQL: its rows, and the SQLSTATE and the detail of each warning and error.
sub session
{
	my ($database, @params) = @_;
	my $session = $node->background_psql($database, on_error_stop => 0, extra_params => \@params);
	$session->query('\set VERBOSITY verbose');
	return $session;
}
sub answer
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	my $rows = $session->query($sql);
	my @said = $session->{stderr} =~ /(?:WARNING|ERROR):  (\w{5}: .*\n(?:DETAIL:  .*\n)?)/g;
	return join ' | ', grep { $_ ne '' } $rows =~ s/\n/ /gr, map { s/^(\w{5}): .*\n(?:DETAIL:  (.*)\n)?/$1 . (defined $2 ? " $2" : '')/er } @said;
}
sub gone
{
	my ($session, $database) = @_;
	my $pid = $session->query('SELECT pg_backend_pid()');
	$session->quit;
	$node->poll_query_until($database, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid") or die 'a session does not end';
}

# Leases that end with their session. The team cannot see when the sessions of other roles began; marks say so by a comma.
database('ends');
run_file('ends', $file);
sql('ends', 'ALTER ROLE team LOGIN');
my $server = sql('ends', q[SELECT lpad(to_hex(hashint8(system_identifier)), 8, '0') FROM pg_control_system()]);
my $others = session('ends');
my $began = q[SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity WHERE pid = pg_backend_pid()];
for ([ team => '.' ], [ postgres => ',' ])
{
	my ($role, $comma) = @$_;
	my $holder = session('ends', '-U', $role);
	is(answer($holder, q[SELECT shedlock_acquire('run', '1 h', ends_with_session => true), shedlock_acquire_token('token', '1 h', ends_with_session => true) > 0, shedlock_acquire('session', '1 h')]), 't|t|t', "$role acquires");
	my $start = answer($holder, $comma eq '.' ? $began : q[SELECT substring(current_setting('shedlock_portable.session'), '[.](.*),')]);
	my $pid = answer($holder, 'SELECT pg_backend_pid()');
	is(sql('ends', qq[SELECT bool_and(substring(locked_by, '/.*[^0-9]') = '/$pid.$start$comma$server' || kind) FROM jobs.shedlock JOIN (VALUES ('run', '!'), ('token', '&'), ('session', ':')) k (of, kind) ON of = name]),
		't', '... with its session in the row') or diag(sql('ends', 'SELECT locked_by FROM jobs.shedlock'));
	my $look = q[SELECT shedlock_acquire('run', '1 h'), shedlock_acquire('token', '1 h'), shedlock_acquire('session', '1 h'), string_agg(concat_ws('/', state, holder_alive, ends_with_session), ' ' ORDER BY name) FROM shedlock_locks];
	# As an edition sees it that a superuser installed, too.
	for my $grant ('GRANT pg_read_all_stats TO team', 'REVOKE pg_read_all_stats FROM team')
	{
		sql('ends', $grant);
		is(sql('ends', $look), 'f|f|f|held/t/t held/t/f held/t/t', "... which counts as alive while it is, after $grant");
	}
	is(answer($holder, q[SELECT shedlock_extend('run', '1 h'), shedlock_guard('run'), shedlock_extend('session', '1 h'), shedlock_release('run'), shedlock_acquire('run', '1 h', ends_with_session => true)]), 't||t|t|t', '... and owns what it acquired');
	like(answer($holder, q[SELECT shedlock_extend('token', '1 h')]), qr/^f \| SL001 It is held by another session/, '... but not as a session what has a token');
	my $token = sql('ends', q[SELECT token FROM shedlock_locks WHERE name = 'token']);
	is(sql('ends', "SELECT shedlock_extend_token('token', $token, '1 h')"), 't', '... which is extended by it, from any session');
	# A process id comes back: with another start it is another session, if the start is known.
	sql('ends', q[INSERT INTO jobs.shedlock SELECT 'heir', lock_until, locked_at, regexp_replace(locked_by, '[.][0-9]+([.,])', '.1\1'), lock_at_least_until FROM jobs.shedlock WHERE name = 'run']);
	is(sql('ends', q[SET ROLE team; SELECT shedlock_acquire('heir', '1 h'); DELETE FROM jobs.shedlock WHERE name = 'heir']), $comma eq '.' ? 't' : 'f', '... and with its start, or else by its process id alone');
	sql('ends', 'SELECT shedlock_protect()');
	is(sql('ends', "UPDATE jobs.shedlock SET lock_until = timezone('utc', now()) WHERE name IN ('run', 'token') RETURNING name"), '', '... and is protected');
	sql('ends', 'SELECT shedlock_protect(false)');
	gone($holder, 'ends');
	is(answer($others, "SELECT shedlock_extend_token('token', $token, '1 h'), shedlock_release_token('token', $token)"),
		join(' | ', 'f|f', ('SL001 Its lease ended with the session that acquired it.') x 2), 'when the session is gone, the token has lost its lease');
	is(sql('ends', $look), 't|t|f|free/f/t held/f/f free/f/t', '... and both are free, but not what was not to end');
	sql('ends', 'DELETE FROM jobs.shedlock');
}
# Released before the session ends, it is released. at_least is honoured, but by the others only.
my $holder = session('ends');
answer($holder, q[SELECT shedlock_acquire('done', '1 h', ends_with_session => true), shedlock_release('done'), shedlock_acquire_token('kept', '2 h', '1 h', ends_with_session => true), shedlock_acquire_token('completed', '1 h', ends_with_session => true)]);
gone($holder, 'ends');
my ($kept, $completed) = split /\|/, sql('ends', q[SELECT (SELECT token FROM shedlock_locks WHERE name = 'kept'), (SELECT token FROM shedlock_locks WHERE name = 'completed')]);
is(sql('ends', q[SELECT shedlock_acquire('kept', '1 h'), string_agg(concat_ws('/', name, state, last_outcome, remaining <= '1 h'), ' ' ORDER BY name) FROM shedlock_locks]), 'f|completed/free/ran out done/free/done kept/kept/ran out/t', 'at_least is honoured');
is(answer($others, "SELECT shedlock_extend_token('kept', $kept, '1 h')"), 'f | SL001 Its lease ended with the session that acquired it.', '... but gives the owner nothing');
is(answer($others, "SELECT shedlock_complete_token('completed', $completed), shedlock_complete_token('kept', $kept)"), '|', '... who may complete what nobody has taken');
is(sql('ends', q[SELECT shedlock_acquire('kept', '1 h'), string_agg(concat_ws('/', name, state, last_outcome), ' ' ORDER BY name) FROM shedlock_locks]), 'f|completed/free/done done/free/done kept/kept/done', '... at_least honoured');
# Of another server, or of one that is not known, nobody can tell; nor does it help to say that one is that server.
$holder = session('ends');
answer($holder, q[SELECT shedlock_acquire('moved', '1 h', ends_with_session => true), shedlock_acquire_token('moved token', '1 h', ends_with_session => true)]);
gone($holder, 'ends');
my $moved = q[SELECT shedlock_acquire('moved', '1 h'), shedlock_acquire('moved token', '1 h'), string_agg(concat_ws('/', state, holder_alive IS NULL, ends_with_session), ' ') FROM shedlock_locks WHERE name ~ 'moved'];
for my $elsewhere ($server eq 'deadbeef' ? 'deadbee0' : 'deadbeef', '00000000')
{
	sql('ends', "UPDATE jobs.shedlock SET locked_by = regexp_replace(locked_by, '[0-9a-f]{8}([!&])', '$elsewhere\\1') WHERE name ~ 'moved'");
	is(sql('ends', $moved), 'f|f|held/t/t held/t/t', "a session of server $elsewhere counts as alive");
	is(sql('ends', "SET shedlock_portable.server = '$elsewhere'; $moved"), 'f|f|held/t/t held/t/t', '... whatever a setting says');
}
sql('ends', "UPDATE jobs.shedlock SET locked_by = regexp_replace(locked_by, '[0-9a-f]{8}([!&])', '$server\\1') WHERE name ~ 'moved'");
is(sql('ends', $moved), 't|t|free/f/t free/f/t', '... and one of this server does not');
# Where the control file must not be read, the mark has no server.
sql('ends', 'REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC; DELETE FROM jobs.shedlock');
$holder = session('ends');
is(answer($holder, q[SELECT shedlock_acquire('unknown', '1 h', ends_with_session => true), shedlock_extend('unknown', '1 h'), shedlock_acquire_token('token', '1 h', ends_with_session => true) > 0; SELECT shedlock_acquire('unknown', '1 h')]), 't|t|t f', 'without pg_control_system()');
gone($holder, 'ends');
is(sql('ends', q[SELECT shedlock_acquire('unknown', '1 h'), string_agg(concat_ws('/', state, holder_alive IS NULL, ends_with_session, locked_by ~ ',00000000[!&][0-9]+$'), ' ') FROM jobs.shedlock JOIN shedlock_locks USING (name)]), 'f|held/t/t/t held/t/t/t', '... a session counts as alive');
sql('ends', 'GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC');
# A token needs no session, and so no look at the control file.
is(answer($others, q[DISCARD ALL; SELECT shedlock_acquire_token('plain', '1 h') AS t \gset
SELECT shedlock_extend_token('plain', :t, '1 h'), shedlock_guard_token('plain', :t), shedlock_complete_token('plain', :t), shedlock_acquire('plain', '1 h', ends_with_session => NULL)]), '22004', 'ends_with_session is not NULL');
is(answer($others, q[SELECT shedlock_acquire_token('plain', '1 h', ends_with_session => NULL)]), '22004', '... with a token, either');
is(answer($others, q[SELECT shedlock_extend_token('plain', :t, '1 h'), shedlock_release_token('plain', :t), COALESCE(current_setting('shedlock_portable.session', true), '')]), 't|t|', '... and a token looks for no session');
# The extension judges the same marks.
my $of_postgres = session('ends');
answer($of_postgres, q[SELECT shedlock_acquire('comma', '1 h', ends_with_session => true)]);
sql('ends', 'DELETE FROM jobs.shedlock WHERE name <> \'comma\'; GRANT CREATE ON DATABASE ends TO team; SET ROLE team; CREATE EXTENSION shedlock');
is(sql('ends', q[SELECT edition, shedlock_acquire('comma', '1 h'), state, holder_alive, ends_with_session FROM shedlock_locks, shedlock_version()]), 'extension|f|held|t|t', 'the extension takes a session with a comma for alive');
gone($of_postgres, 'ends');
is(sql('ends', q[SELECT shedlock_acquire('comma', '1 h'), state, holder_alive, ends_with_session FROM shedlock_locks]), 't|free|f|t', '... while its process is there');
$others->quit;

# Complete.
database('completing', 'CREATE TABLE jobs.work (what text)');
run_file('completing', $file);
my ($worker, $other) = map { session('completing') } 1 .. 2;
answer($worker, q[SET application_name = 'worker']);
answer($other, q[SET application_name = 'other']);
my $lock_state = q[SELECT string_agg(concat_ws('/', name, state, last_outcome), ', ' ORDER BY name) FROM shedlock_locks WHERE name IN ('a', 'b', 't')];
my $pause = q[SELECT shedlock_pause('a'), shedlock_pause('t')];
my $java = q[UPDATE shedlock SET lock_until = timezone('utc', now()) + interval '1 h', locked_at = timezone('utc', now()), locked_by = 'host'];
my $over_twice = join ' | ', '|', ('01000 Nobody had taken the lock, so the transaction may commit.') x 2;
# The worker has acquired a and b by its session and t by a token. What it does then, and meanwhile the other one; the worker's transaction,
# where C completes a and t; what that is answered; and, unless it fails, what becomes of the locks. A lease of 1 ms is over by then.
for (
	[ 'completes', '1 h', '', '', 'C', '|', 'a/free/done, b/held, t/free/done' ],
	[ 'completes twice', '1 h', '', '', 'C; C', '| |', 'a/free/done, b/held, t/free/done' ],
	[ 'completes several', '1 h', '', '', q[SELECT shedlock_complete(ARRAY['b', 'a'])], '', 'a/free/done, b/free/done, t/held' ],
	[ 'completes several, one of them twice', '1 h', '', '', q[C; SELECT shedlock_complete(ARRAY['b', 'a'])], '| ', 'a/free/done, b/free/done, t/free/done' ],
	[ 'completes what it guards', '1 h', '', '', q[SELECT shedlock_guard('a'), shedlock_guard_token('t', :t); C], '| |', 'a/free/done, b/held, t/free/done' ],
	[ 'completes what has been extended', '1 h', '', q[SELECT shedlock_extend_token('t', :t, '2 h')], 'C', '|', 'a/free/done, b/held, t/free/done' ],
	[ 'completes what it released as done', '1 h', '', '', q[SELECT shedlock_release('a'), shedlock_release_token('t', :t); C], 't|t |', 'a/free/done, b/held, t/free/done' ],
	[ 'completes after ROLLBACK TO', '1 h', '', '', 'SAVEPOINT s; C; ROLLBACK TO s; C', '| |', 'a/free/done, b/held, t/free/done' ],
	[ 'has not completed after ROLLBACK TO', '1 h', '', '', q[SAVEPOINT s; C; ROLLBACK TO s; SELECT shedlock_extend('a', '1 h'), shedlock_extend_token('t', :t, '1 h')], '| t|t', 'a/held, b/held, t/held' ],
	[ 'completes in a savepoint, and again', '1 h', '', '', 'SAVEPOINT s; SAVEPOINT r; C; RELEASE r; C; RELEASE s; C', '| | |', 'a/free/done, b/held, t/free/done' ],
	[ 'completes a lease that is over', '1 ms', '', '', 'C', $over_twice, 'a/free/done, b/free/ran out, t/free/done' ],
	[ 'completes a lease that never was', '1 h', '', q[UPDATE shedlock SET lock_until = '-infinity'], 'C', $over_twice, 'a/free/done, b/free/ran out, t/free/done' ],
	[ 'does not complete what it released as failed', '1 h', '', '', q[SELECT shedlock_release('a', false); C], 't | SL001 It has been released before.' ],
	[ 'does not complete what was released as done', '1 h', q[SELECT shedlock_release('a')], '', 'C', 'SL001 It has been released before.' ],
	[ 'does not complete what was released as failed', '1 h', q[SELECT shedlock_release('a', false)], '', 'C', 'SL001 It has been released before.' ],
	[ 'does not complete what was completed', '1 h', q[SELECT shedlock_complete('a')], '', q[SAVEPOINT s; UPDATE work SET what = what; C], 'SL001 It has been released before.' ],
	[ 'does not complete what another released by its token', '1 h', '', q[SELECT shedlock_release_token('t', :t)], q[SELECT shedlock_complete_token('t', :t)], 'SL001 It has been released before.' ],
	[ 'does not complete what another has acquired', '1 ms', '', q[SELECT shedlock_acquire('a', '1 h')], 'C', 'SL001 Its latest acquisition is by "other@[local]".' ],
	[ 'does not complete a token that another has replaced', '1 ms', '', q[SELECT shedlock_acquire_token('t', '1 h')], q[SELECT shedlock_complete_token('t', :t)], 'SL001 Its latest acquisition is by "other@[local]".' ],
	[ 'does not complete several if one is lost', '1 ms', '', q[SELECT shedlock_acquire('a', '1 h')], q[SELECT shedlock_complete(ARRAY['b', 'a'])], 'SL001 Its latest acquisition is by "other@[local]".' ],
	[ 'does not complete what Java has', '1 ms', '', $java, 'C', 'SL001 Its latest acquisition is by "host".' ],
	[ 'does not complete what is paused', '1 ms', '', $pause, 'C', 'SL001 An administrator intervened: "paused: postgres".' ],
	[ 'does not complete what was released by force', '1 h', '', q[SELECT shedlock_force_release('a')], 'C', 'SL001 An administrator intervened: "released by force: postgres".' ],
	[ 'does not complete what has no row', '1 h', '', q[DELETE FROM shedlock], 'C', 'SL001 Nobody ever acquired it, or its row has been deleted.' ],
	[ 'does not complete what nobody acquired', '1 h', '', '', q[SELECT shedlock_complete('none')], 'SL001 Nobody ever acquired it, or its row has been deleted.' ],
	[ 'does not complete a token of nobody', '1 h', '', '', q[SELECT shedlock_complete_token('t', :t + 1)], 'SL001 No acquisition has had this token.' ],
	[ 'does not complete a lock of a session by its token', '1 h', '', '', q[SELECT shedlock_complete_token('a', (SELECT token FROM shedlock_locks WHERE name = 'a'))], 'SL001 That acquisition belongs to a session: "worker@[local]".' ],
	[ 'does not complete a lock of a token by its session', '1 h', '', '', q[SELECT shedlock_complete('t')], 'SL001 Its latest acquisition is by "worker@[local]".' ],
	[ 'does not complete without a name', '1 h', '', '', q[SELECT shedlock_complete(NULL::text)], '22004' ],
	[ '... or with one twice', '1 h', '', '', q[SELECT shedlock_complete('{a,a}'::text[])], '22023' ],
	[ '... or without a token', '1 h', '', '', q[SELECT shedlock_complete_token('t', NULL)], '22004' ],
	[ '... or in a read-only transaction', '1 h', '', '', q[SET TRANSACTION READ ONLY; C], '25006' ])
{
	my ($what, $at_most, $before, $meanwhile, $transaction, $answer, $locks) = @$_;
	for my $level ('READ COMMITTED', 'SERIALIZABLE')
	{
		for my $end ('ROLLBACK', 'COMMIT')
		{
			answer($other, 'DELETE FROM work; DELETE FROM shedlock');
			answer($worker, qq[SELECT shedlock_acquire(ARRAY['a', 'b'], '$at_most'); SELECT shedlock_acquire_token('t', '$at_most') AS t \\gset\nSELECT pg_sleep(0.002); $before]);
			answer($other, qq[SELECT token AS t FROM shedlock_locks WHERE name = 't' \\gset\n$meanwhile]);
			my $was = answer($other, $lock_state);
			my $said = answer($worker, "BEGIN ISOLATION LEVEL $level; INSERT INTO work VALUES ('done'); " . $transaction =~ s/\bC\b/SELECT shedlock_complete('a'), shedlock_complete_token('t', :t)/gr);
			is($said, $answer, "$what, $level");
			answer($worker, $end);
			is(answer($other, "$lock_state; SELECT count(*) FROM work WHERE what = 'done'"), $end eq 'COMMIT' && defined $locks ? "$locks 1" : "$was 0", "... and $end");
		}
	}
}
# Until the transaction ends, nobody waits for a lock that it has completed, except its own owner.
for my $end ('COMMIT', 'ROLLBACK', q[PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'], q[PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'])
{
	answer($worker, q[DELETE FROM shedlock; SELECT shedlock_acquire_token('t', '1 h', tick => '2026-01-01Z') AS t \gset]);
	my $token = answer($worker, 'SELECT :t');
	answer($worker, q[BEGIN; SELECT shedlock_complete_token('t', :t)]);
	my ($first, $last) = split /; /, $end;
	answer($worker, $first) if $last;
	is(sql('completing', q[SET statement_timeout = '60s'; SELECT shedlock_acquire('t', '1 h', tick => '2026-01-01Z', retry => true), shedlock_acquire('t', '1 h')]), 'f|f', "others are refused at once before $end");
	# A client that does not know how its commit ends gives up on another connection.
	my $release = launch({}, 'psql', '-XqAt', '-d', $node->connstr('completing'), '-v', 'VERBOSITY=sqlstate', '-c', "SELECT shedlock_release_token('t', $token, false)");
	$node->poll_query_until('completing', q[SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%shedlock_release_token%' AND wait_event_type = 'Lock']) or die 'it does not wait';
	answer($worker, $last // $first);
	ended($release);
	my $is_done = $end !~ /ROLLBACK/;
	is($release->{out} . $release->{err}, $is_done ? "f\nWARNING:  SL002\n" : "t\n", '... while a release by its token waits, and ' . ($is_done ? 'is told that it is done' : 'releases it'));
	is(sql('completing', q[SELECT last_outcome, shedlock_acquire('t', '1 h', tick => '2026-01-01Z', retry => true) FROM shedlock_locks]), $is_done ? 'done|f' : 'failed|t', '... after which the tick is ' . ($is_done ? 'not due' : 'due'));
}
# An acquisition that is pending decides.
for my $end ('COMMIT', 'ROLLBACK')
{
	answer($worker, q[DELETE FROM shedlock; SELECT shedlock_acquire_token('t', '1 ms') AS t, pg_sleep(0.002) \gset]);
	my $token = answer($worker, 'SELECT :t');
	is(answer($other, q[BEGIN; SELECT shedlock_acquire('t', '1 h')]), 't', 'another transaction acquires a lock whose lease is over');
	my $complete = launch({}, 'psql', '-XqAt', '-d', $node->connstr('completing'), '-v', 'VERBOSITY=sqlstate', '-c', "SELECT shedlock_complete_token('t', $token)");
	$node->poll_query_until('completing', q[SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%shedlock_complete_token%' AND wait_event_type = 'Lock']) or die 'it does not wait';
	answer($other, $end);
	ended($complete);
	is($complete->{err}, $end eq 'COMMIT' ? "ERROR:  SL001\n" : "WARNING:  01000\n", "... and $end decides whether the former owner completes it");
}
is(answer($worker, q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-01Z'), shedlock_acquire('not flushed', '1 h'); BEGIN; SELECT shedlock_complete('not flushed'), current_setting('synchronous_commit'); SELECT shedlock_complete('flushed'), current_setting('synchronous_commit'); ROLLBACK]), 't|t |off |on', 'I7: a completion of a run with a tick is durable');

# What was done is not lost: SL002.
my $done = q[SL002 It has been released before, as done.];
my $again = q[SL002 It has been released as done, and was acquired again since.];
my $extend_and_release = q[SELECT shedlock_extend_token('t', :t, '1 h'), shedlock_release_token('t', :t)];
for my $release (q[shedlock_complete_token('t', :t)], q[shedlock_release_token('t', :t)])
{
	for ([ '', $done ], [ q[SELECT shedlock_acquire('t', '1 h')], $again ], [ q[SELECT shedlock_acquire('t', '1 h'), shedlock_release('t'), shedlock_acquire('t', '1 h')], 'SL001 It was taken over by "other@[local]" at 20' ],
		[ q[SELECT shedlock_acquire('t', '1 h'), shedlock_release('t', false)], $again ], [ q[SELECT shedlock_pause('t')], $again ], [ q[SELECT shedlock_force_release('t')], $again ], [ $java, $again ])
	{
		my ($since, $says) = @$_;
		answer($worker, qq[DELETE FROM shedlock; SELECT shedlock_acquire_token('t', '1 h') AS t \\gset\nSELECT $release]);
		answer($other, $since);
		like(answer($worker, $extend_and_release), qr/^f\|f \| \Q$says\E.* \| \Q$says\E[^|]*$/, 'what was done by ' . substr($release, 0, -8) . ' is not lost' . ($since && " after $since"));
	}
}
answer($worker, q[DELETE FROM shedlock; SELECT shedlock_acquire_token('t', '1 h') AS t \gset
SELECT shedlock_release_token('t', :t, false)]);
is(answer($worker, $extend_and_release), join(' | ', 'f|f', ('SL001 It has been released before.') x 2), 'what was released as failed is');
answer($worker, q[DELETE FROM shedlock; SELECT shedlock_acquire_token('{a,b,c}'::text[], '1 h') AS t \gset
SELECT shedlock_release_token('b', :t), shedlock_release_token('c', :t)]);
is(answer($worker, q[SELECT shedlock_extend_token('{a,b,c}'::text[], :t, '1 h'), shedlock_extend_token('{b,c,d}'::text[], :t, '1 h'), state FROM shedlock_locks WHERE name = 'a']),
	"f|f|held | $done | SL001 Nobody ever acquired it, or its row has been deleted.", 'of several, one that is lost is told before one that was done');
is(answer($worker, q[SELECT shedlock_acquire('s', '1 h'), shedlock_release('s'), shedlock_extend('s', '1 h'), shedlock_release('s')]), "t|t|f|f | $done | $done", 'a session is told the same');
answer($other, q[SELECT shedlock_acquire('s', '1 h')]);
like(answer($worker, q[SELECT shedlock_release('s')]), qr/^f \| SL001 It is held by another session/, '... as long as nobody has acquired it since');

# shedlock_run ends by the same path.
is(answer($worker, q[CALL shedlock_run('run', $$SELECT shedlock_complete('run')$$, '1 h'); CALL shedlock_run('run', $$SELECT shedlock_release('run')$$, '1 h')]), 't t', 'a command may complete the lock of its run');
is(answer($worker, q[CALL shedlock_run('run', $$INSERT INTO work VALUES ('run'); SELECT shedlock_release('run', false)$$, '1 h')]), 'SL001 It has been released before.', '... but not release it as failed');
is(sql('completing', q[SELECT last_outcome, (SELECT count(*) FROM work WHERE what = 'run') FROM shedlock_locks WHERE name = 'run']), 'failed|0', '... which rolls its work back');
is(answer($worker, q[CALL shedlock_run('run', 'SELECT pg_sleep(0.002)', '1 ms')]), 't | 01000 Nobody had taken the lock, so the transaction may commit.', '... and a lease that is over is no obstacle');
$_->quit for $worker, $other;

# Who may install it, and where.
database('adopted', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
	INSERT INTO jobs.shedlock VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host'); ALTER TABLE jobs.shedlock OWNER TO team]);
refuses('adopted', 'others', qr/it belongs to role team, not to others/, "a table of somebody else's is not adopted");
ok((run_file('adopted', $file))[0], '... but by its owner');
is(sql('adopted', q[SELECT shedlock_acquire('java', '1 h'), shedlock_acquire('sql', '1 h')]), 'f|t', "... with Java's locks");
is(sql('adopted', q[SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobs.shedlock'::regclass AND attnum > 0]),
	'name lock_until locked_at locked_by lock_at_least_until last_tick last_done_tick last_done_at', '... and with our columns');
database('odd', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamptz NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL); ALTER TABLE jobs.shedlock OWNER TO team]);
refuses('odd', 'team', qr/column "lock_until" is timestamp with time zone/, 'a table that will not do');
my $java_columns = 'name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL';
for ([ 'last_tick timestamp(0)', qr/column "last_tick" is timestamp\(0\) without time zone\nHINT:  It must have microseconds/ ], [ 'last_done_at timestamptz', qr/column "last_done_at" is timestamp with time zone/ ],
	[ 'last_done_tick timestamp NOT NULL', qr/column "last_done_tick" is NOT NULL/ ], [ 'last_done_at timestamp DEFAULT now()', qr/column "last_done_at" has a default/ ],
	[ 'last_tick timestamp GENERATED ALWAYS AS (locked_at) STORED', qr/column "last_tick" is generated/ ])
{
	my ($column, $message) = @$_;
	sql('odd', "DROP TABLE jobs.shedlock; CREATE TABLE jobs.shedlock ($java_columns, $column); ALTER TABLE jobs.shedlock OWNER TO team");
	refuses('odd', 'team', $message, "nor one with $column");
}
# What is missing is added, in whatever order the rest is.
my $columns = q[SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobs.shedlock'::regclass AND attnum > 0];
sql('odd', "DROP TABLE jobs.shedlock; CREATE TABLE jobs.shedlock (last_done_tick timestamp(6), note text, $java_columns, lock_at_least_until timestamp(0)); ALTER TABLE jobs.shedlock OWNER TO team");
ok((run_file('odd', $file))[0], 'a table that has some of our columns');
is(sql('odd', $columns), 'last_done_tick note name lock_until locked_at locked_by lock_at_least_until last_tick last_done_at', '... gets the others');
is(sql('odd', q[SELECT shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123456Z'), shedlock_release('a'), shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123456Z', retry => true), shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123457Z')]), 't|t|f|t', '... and serves');
database('adopting', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL); ALTER TABLE jobs.shedlock OWNER TO team]);
my $java = $node->background_psql('adopting');
$java->query_safe('BEGIN; SELECT FROM jobs.shedlock');
refuses('adopting', 'team', qr/ERROR:  cannot adopt table jobs.shedlock: another transaction has it locked\nHINT:  Run the file again when/, 'adopting does not wait for ever for an open transaction');
(my $status, undef, my $said) = $node->psql('adopting', 'CREATE EXTENSION shedlock SCHEMA jobs');
like($said, qr/ERROR:  cannot adopt table shedlock: another transaction has it locked\nHINT:  Try again when/, "... nor does the extension's");
$java->query_safe('COMMIT');
$java->quit;
$node->safe_psql('postgres', 'CREATE DATABASE quoted');
for my $name ('a $f$ b', 'a $function$ b', q[a'b], 'a"b', 'a@b', 'a\\b', 'a;b')
{
	my $quoted = '"' . $name =~ s/"/""/gr . '"';
	sql('quoted', "CREATE SCHEMA $quoted AUTHORIZATION team; ALTER DATABASE quoted SET search_path = $quoted");
	like((run_file('quoted', $file))[1], qr/ERROR:  the name of schema .* has characters other than/, "not in schema $name");
}
sql('quoted', 'CREATE SCHEMA "On Call_2.b-Ä" AUTHORIZATION team; ALTER DATABASE quoted SET search_path = "On Call_2.b-Ä"');
is((run_file('quoted', $file))[1], '', 'but in one with blanks and letters');
is(sql('quoted', q[SELECT shedlock_acquire('a', '1 h'), shedlock_grant('team'), count(*) FROM shedlock_locks]), 't||0', '... where it works');
database('nowhere', 'ALTER DATABASE nowhere SET search_path = none');
refuses('nowhere', 'team', qr/there is no current schema/, 'without a schema');
database('other', 'CREATE EXTENSION shedlock SCHEMA jobs');
refuses('other', 'postgres', qr/the extension shedlock is installed in this schema/, 'where the extension is', sql('other', q[SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock']));

# The same functions, for whoever calls them. What else there is serves one of the two.
my $signatures = q[SELECT proname, prokind, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid) FROM pg_proc p
	WHERE proname ~ '^shedlock_[^_]' AND proname !~ '^shedlock_(raise|run_.*|after_pg_upgrade)$' ORDER BY 1, 3];
my $views = q[SELECT relname, (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)
	FROM pg_class c WHERE relname IN ('shedlock_locks', 'shedlock_stats') ORDER BY 1];
is(sql('adopted', $_), sql('other', $_), 'both editions look alike') for $signatures, $views;

# Owned by another role, or restored from a dump by another role, it is the same: its functions know each other by the table.
sql('shop', q[CREATE ROLE heirs; REASSIGN OWNED BY team TO heirs; SELECT shedlock_grant('app')]);
is(sql('shop', q[SET ROLE app; SELECT shedlock_acquire('inherited', '1 h')]), 't', 'REASSIGN OWNED: shedlock_grant grants');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-O', '-x', '-f', $dump, '-n', 'jobs', $node->connstr('shop') ], 'a dump');
sql('postgres', 'CREATE DATABASE copy; CREATE ROLE restorer');
sql('copy', 'GRANT CREATE ON DATABASE copy TO restorer; ALTER DATABASE copy SET search_path = jobs');
ok((run_file('copy', $dump, 'restorer'))[0], '... restored by another role');
sql('copy', q[GRANT USAGE ON SCHEMA jobs TO app, team; SET ROLE restorer; SELECT shedlock_grant('app')]);
is(sql('copy', q[SET ROLE app; SELECT shedlock_acquire('inherited', '1 h'), shedlock_acquire('restored', '1 h')]), 'f|t', '... grants, and has the locks');
like((run_file('copy', 'extension/portable/uninstall.sql', 'team'))[1], qr/belongs to role restorer, not to team/, '... is dropped by its owner only');
ok((run_file('copy', 'extension/portable/uninstall.sql', 'restorer'))[0], '... that is the new one');
is(sql('copy', q[SELECT (SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock'), string_agg(relname, ' ' ORDER BY 1) FROM pg_class WHERE relname ~ '^shedlock']), '0|shedlock shedlock_pkey', '... and whole');
sql('shop', q[REASSIGN OWNED BY heirs TO team]);

# The extension takes over: with the roles' grants, a token that is held, the lock of a session whose start the owner could see, and what was done.
sql('shop', q[SELECT shedlock_acquire('ticked', '1 h', tick => '2026-01-01Z'), shedlock_release('ticked')]);
my $done = q[SELECT shedlock_acquire('ticked', '1 h', tick => '2026-01-01Z', retry => true), last_done_at IS NOT NULL, last_tick = '2026-01-01Z', last_done_tick = last_tick FROM shedlock_locks WHERE name = 'ticked'];
sql('shop', q[SELECT shedlock_grant('app'), shedlock_grant('On "Call', admin => true); GRANT pg_read_all_stats TO team]);
sql('shop', q[SELECT shedlock_protect(); SET ROLE team; CREATE FUNCTION shedlock_report() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE VIEW shedlock_mine AS SELECT 1 AS mine]);
ok((run_file('shop', $file))[0], 'once more, with functions of the team\'s own that are called alike');
my $refusal = (split /\n/, ($node->psql('shop', 'CREATE EXTENSION shedlock'))[2])[0];
like($refusal, qr/ERROR:  cannot take over the portable edition of shedlock in schema jobs: it belongs to role team, not to postgres/, 'a superuser does not take over what another role may have planted');
sql('shop', 'GRANT CREATE ON DATABASE shop TO team');
my $take_over = q[
SELECT shedlock_acquire('of the session', '1 h'), shedlock_acquire('protected', '1 h');
SET ROLE team;
CREATE EXTENSION shedlock;
RESET ROLE;
SELECT edition FROM shedlock_version();
SELECT string_agg(name || ' ' || state, ', ' ORDER BY name) FROM shedlock_locks WHERE name IN ('held', 'of the session', 'java');
SELECT shedlock_release('of the session');];
($status, my $told, my $notices) = $node->psql('shop', $take_over);
is($told, "t|t\nextension\nheld held, java held, of the session held\nt", 'CREATE EXTENSION takes over');
like($notices, qr/NOTICE:  taking over from the portable edition of shedlock in schema jobs, owned by role team\nDETAIL:  .* these roles: "On ""Call", app\..*NOTICE:  adopting the existing table jobs.shedlock/s, '... and says so');
is(sql('shop', qq[SELECT shedlock_release_token('held', $held)]), 't', '... a token stays the holder\'s');
is(sql('shop', $done), 'f|t|t|t', '... what was done is not due again');
is(sql('shop', q[UPDATE shedlock SET lock_until = now() WHERE name = 'protected' RETURNING name]), '', '... protection stays on');
is(sql('shop', q[SELECT count(*) FROM pg_proc WHERE proname ~ 'shedlock' AND proname <> 'shedlock_report' AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')]), '0', '... nothing of the old functions is left');
is(sql('shop', q[SET ROLE app; SELECT shedlock_acquire('app', '1 h'); RESET ROLE; SET ROLE "On ""Call"; SELECT shedlock_pause('paused')]), "t\nt", '... who was granted something has it');
($status, undef, my $error) = $node->psql('shop', q[SET ROLE app; SELECT shedlock_pause('paused too')]);
like($error, qr/permission denied for function shedlock_pause/, '... and no more');
is(sql('shop', q[SELECT shedlock_report(), mine, has_function_privilege('app', 'shedlock_report()', 'EXECUTE') FROM shedlock_mine]), '1|1|t', '... what the team has made besides is as it was');
sql('shop', 'DROP EXTENSION shedlock');
ok((run_file('shop', $file))[0], 'and back');
is(sql('shop', q[SELECT shedlock_acquire('app', '1 h'), shedlock_resume('paused')]), 'f|t', '... with the locks');
is(sql('shop', $done), 'f|t|t|t', '... and with what was done');

# A Citus worker, by its catalog, which only a superuser can make.
sql('adopted', q[CREATE SCHEMA citus; CREATE TABLE citus.pg_dist_local_group (groupid int PRIMARY KEY); INSERT INTO citus.pg_dist_local_group VALUES (0);
	ALTER TABLE citus.pg_dist_local_group SET SCHEMA pg_catalog; GRANT SELECT ON pg_dist_local_group TO PUBLIC]);
is(sql('adopted', q[SELECT shedlock_acquire('coordinator', '1 h')]), 't', 'the coordinator of a Citus cluster grants locks');
sql('adopted', 'UPDATE pg_dist_local_group SET groupid = 2');
($status, undef, $error) = $node->psql('adopted', q[SELECT shedlock_release('coordinator'); SELECT shedlock_acquire('worker', '1 h')]);
like($error, qr/ERROR:  this server is a Citus worker/, '... a worker does not');
sql('adopted', 'DROP TABLE pg_dist_local_group; DELETE FROM shedlock WHERE name = \'coordinator\'');

# Not for whoever does not have its owner's rights; and not where something depends on the old functions.
sql('adopted', 'CREATE ROLE "A Dba"; GRANT CREATE ON DATABASE adopted TO "A Dba"; GRANT ALL ON SCHEMA jobs TO "A Dba"');
($status, undef, $error) = $node->psql('adopted', 'SET ROLE "A Dba"; CREATE EXTENSION shedlock');
like($error, qr/ERROR:  cannot take over the portable edition of shedlock in schema jobs: it belongs to role team, not to "A Dba"/, 'nor does any other role');
sql('adopted', 'CREATE VIEW public.mine AS SELECT * FROM shedlock_locks');
sql('adopted', 'GRANT CREATE ON DATABASE adopted TO team');
($status, undef, $error) = $node->psql('adopted', 'SET ROLE team; CREATE EXTENSION shedlock');
like($error, qr/ERROR:  cannot take over the portable edition of shedlock: other objects depend on it\nDETAIL:  view public.mine depends on view shedlock_locks\nHINT:  Drop them, create/, 'nor is anything dropped that others use');
is(sql('adopted', q[SELECT edition, (SELECT count(*) FROM public.mine) > 0 FROM shedlock_version()]), 'portable|t', '... all stays as it was');

# It leaves.
sql('adopted', 'DROP VIEW public.mine; SELECT shedlock_protect()');
ok((run_file('adopted', 'extension/portable/uninstall.sql'))[0], 'uninstall.sql');
is(sql('adopted', q[SELECT count(*) FILTER (WHERE proname ~ 'shedlock'), (SELECT count(*) FROM jobs.shedlock), (SELECT count(*) FROM pg_trigger WHERE tgname = 'shedlock_protect') FROM pg_proc]),
	'0|2|0', '... leaves the table, and no trigger');
$node->stop;
done_testing();
