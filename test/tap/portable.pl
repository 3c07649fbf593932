# The portable edition: installation and removal, open transactions of Java clients, leases that end with their session,
# completions, and how the extension takes over from it.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $node = PostgreSQL::Test::Cluster->new('portable');
$node->init;
configure($node, "synchronous_commit = off\nmax_prepared_transactions = 5\n");
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE team; CREATE ROLE others; CREATE ROLE app; CREATE ROLE "On ""Call"');

# database() creates a database in which the team has a schema; run_file() runs a file there, and returns whether it
# succeeded and its error output.
my $file = 'portable/shedlock.sql';
sub run_file
{
	my ($database, $path, $role) = @_;
	my ($out, $error) = ('', '');
	my $ok = IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database),
			'-c', 'SET ROLE ' . ($role // 'team'), '-f', $path ],
		'>', \$out, '2>', \$error);
	return ($ok, $error);
}
sub database
{
	my ($name, $before) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, "CREATE SCHEMA jobs AUTHORIZATION team; ALTER DATABASE $name SET search_path = jobs;
		GRANT USAGE ON SCHEMA jobs TO PUBLIC; " . ($before // ''));
}
sub sql { return $node->safe_psql(@_); }
sub refuses
{
	my ($database, $role, $message, $what) = @_;
	my ($done, $error) = run_file($database, $file, $role);
	ok(!$done && $error =~ $message, $what) or diag($error);
	is(sql($database, q[SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock']), $_[4] // 0,
		'... and leaves nothing behind');
}

database('shop');
ok((run_file('shop', $file))[0], 'an ordinary role can install it');
my $held = sql('shop', q[SELECT shedlock_acquire_token('held', '1 h')]);
ok((run_file('shop', $file))[0], '... twice');
is(sql('shop', qq[SELECT shedlock_extend_token('held', $held, '1 h')]), 't',
	'... and a lock that was held is still held');
is(sql('shop', q[SELECT edition, version FROM shedlock_version()]),
	'portable|' . (slurp_file('extension/shedlock.control') =~ /default_version = '(.*)'/)[0],
	'it has the version of the control file');
is(sql('shop', q[SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc
		WHERE proname ~ '^shedlock' AND prosrc ~ '@extschema@']),
	'', 'the script has put the name of the schema into every function');
# An acquire requests a flush whatever the session's setting is. A refused acquire has written nothing.
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('sync', '1 h'), current_setting('synchronous_commit')]), 't|on',
	'I7: an acquire is durable');
for my $call (q[shedlock_acquire('again', '1 h')], q[shedlock_acquire_token('again', '1 h') > 0])
{
	is(sql('shop', qq[SELECT shedlock_acquire('again', '1 h'), shedlock_release('again');
			BEGIN; SELECT $call, current_setting('synchronous_commit')]),
		"t|t\nt|on", "... also by the fast path: $call");
}
is(sql('shop', q[SELECT shedlock_acquire('again', '1 h');
		BEGIN; SELECT shedlock_extend('again', '1 h'), current_setting('synchronous_commit')]),
	"t\nt|on", '... and so is an extend');
is(sql('shop', q[SELECT shedlock_acquire_token('token', '1 h', tick => '2026-01-01Z') AS t \gset
BEGIN; SELECT shedlock_release_token('token', :t), current_setting('synchronous_commit')]),
	't|on', '... and so is a release by token, as done, of a lock with a tick');
my $release = q[BEGIN; SELECT shedlock_release('flushed', %s), current_setting('synchronous_commit'); COMMIT];
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-01Z'); ] . sprintf($release, 'true')),
	"t\nt|on", '... and so is a release as done of a lock with a tick');
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-02Z'); ] . sprintf($release, 'false')),
	"t\nt|off", '... but not a release as failed');
is(sql('shop', q[SELECT shedlock_acquire('flushed', '1 h'); ] . sprintf($release, 'true')), "t\nt|on",
	'... and so is one of a run without a tick in a row that has one');
is(sql('shop', q[SELECT shedlock_acquire('tickless', '1 h'); ] . sprintf($release, 'true') =~ s/flushed/tickless/r),
	"t\nt|off", '... but not in a row that never had a tick');
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('held', '1 h'), pg_current_xact_id_if_assigned() IS NULL,
		current_setting('synchronous_commit')]),
	'f|t|off', 'I3: a refusal writes nothing');
is(sql('shop', q[BEGIN; SELECT shedlock_acquire('new', '1 h', tick => now() - interval '2 h', start_within => '1 h'),
		pg_current_xact_id_if_assigned() IS NULL]), 'f|t', '... nor does one of a new name whose tick is too long ago');
# That also holds if the acquire has to find out whether the lease has ended with its session, even where locked_by only
# looks as if it named a session.
{
	my $holder = $node->background_psql('shop');
	$holder->query_safe(q[SELECT shedlock_acquire('session', '1 h', ends_with_session => true),
		shedlock_acquire_token('token of a session', '1 h', ends_with_session => true),
		shedlock_acquire_token('R&D', '1 h', holder => 'R&D!'), shedlock_pause('under repair', 'stop!')]);
	for my $name ('session', 'token of a session', 'R&D', 'under repair')
	{
		for my $call ("shedlock_acquire('$name', '1 h')", "shedlock_acquire_token('$name', '1 h')")
		{
			is(sql('shop', "BEGIN; SELECT COALESCE(${call}::text, 'false'), pg_current_xact_id_if_assigned() IS NULL"),
				'false|t', "... by $call");
		}
	}
	$holder->quit;
}

# A day of a wait has 24 hours, although in this zone, from two seconds from now on, the clock is ahead by all but four
# seconds of them. (PostgreSQL does not accept such a zone if that goes on into another year.)
is(sql('shop', q[SELECT CASE WHEN n < 360 THEN format('AAA0BBB-23:59:56,%s/%s,%s', n, t::time(0), n + 3) ELSE 'UTC' END
			AS zone FROM timezone('UTC', now() + interval '2 s') t, LATERAL (SELECT extract(doy FROM t) - 1 AS n) d \gset
		SET timezone = :'zone'; SELECT shedlock_acquire_token('day', '6 s') > 0;
		SELECT shedlock_acquire('day', '1 min', wait => '24 h')]),
	"t\nt", 'a wait of 24 hours is not cut short by a change of the clock');

# Before PostgreSQL 16, shedlock_run finds itself by a text. What somebody else has made before does not have that text.
database('decoyed', q[CREATE SCHEMA decoy;
	CREATE FUNCTION decoy.shedlock_run() RETURNS int LANGUAGE sql AS 'SELECT 1 /* jobs.shedlock_run_begin( */']);
{
	# PostgreSQL 19 has no such strings any more.
	local $ENV{PGOPTIONS} = '-c standard_conforming_strings=off' if sql('shop', 'SHOW server_version_num') < 190000;
	ok((run_file('decoyed', $file))[0], 'standard_conforming_strings = off: it can be installed');
	is(sql('decoyed', q[CALL shedlock_run('decoyed', 'SELECT 1', '1 h');
			SELECT shedlock_acquire(ARRAY['a', 'b'], '1 h')]),
		"t\nt", '... and its functions work, although there is another shedlock_run');
	sql('decoyed', q[ALTER ROUTINE shedlock_run OWNER TO pg_monitor]);
	is(sql('decoyed', q[CALL shedlock_run('decoyed', 'SELECT 1', '1 h')]), 't', '... even after REASSIGN OWNED');
	sql('decoyed', q[ALTER ROUTINE shedlock_run OWNER TO team; SET check_function_bodies = off;
		SELECT format('CREATE OR REPLACE FUNCTION decoy.shedlock_run() RETURNS int LANGUAGE sql AS %L', prosrc)
		  FROM pg_proc WHERE oid = 'shedlock_run'::regproc \gexec]);
	is(sql('decoyed', q[CALL shedlock_run('decoyed', 'SELECT 1', '1 h')]), 't',
		'... and even if the other one is given that text later');
	my $said = ($node->psql('decoyed', q[CALL shedlock_run('decoyed', 'SELECT 1/0', '1 h')]))[2];
	unlike($said, qr/WARNING/, '... without a warning after a failure');
}
is(sql('decoyed', q[TRUNCATE shedlock; ALTER TABLE shedlock ADD wanted int NOT NULL;
		SELECT finding FROM shedlock_doctor() WHERE finding ~ 'new name']),
	'no lock with a new name can be acquired: column "wanted" is NOT NULL and has no default',
	'the doctor says that no new name can be acquired');

# What the extension refuses, the portable edition refuses with the same SQLSTATE. The library may be loaded, which
# defines its settings.
for ([ "BEGIN; CALL shedlock_run('inside', 'SELECT 1', '1 h')", '25001',
		'shedlock_run cannot run inside a transaction block' ],
	[ "DO \$\$ DECLARE e boolean; BEGIN PERFORM jobs.in_a_function(); END \$\$", '25001', '... nor inside a function' ],
	[ "LOAD 'shedlock'; SELECT shedlock_acquire('unset')", '22004',
		'at_most is missing, and shedlock.default_at_most is not set' ],
	[ "LOAD 'shedlock'; SET shedlock.default_at_most = '0'; SELECT shedlock_acquire('unset')", '22004', '... or is 0' ])
{
	my ($statements, $code, $what) = @$_;
	sql('shop', q[CREATE OR REPLACE FUNCTION jobs.in_a_function() RETURNS void LANGUAGE plpgsql
		AS 'DECLARE e boolean; BEGIN CALL shedlock_run(''inside'', ''SELECT 1'', ''1 h'', executed => e); END']);
	my ($said, $input) = ('', $statements =~ s/; /;\n/gr . ';');
	IPC::Run::run([ 'psql', '-XqAt', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('shop') ], '<', \$input,
		'>', \my $out, '2>', \$said);
	like($said, qr/ERROR:  $code:/, $what) or diag($said);
}

# A Java client has inserted a name, and its transaction is still open.
my $client = $node->background_psql('shop');
$client->query_safe(q[BEGIN; INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
	VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host')]);
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	is(sql('shop', qq[SET statement_timeout = '60s'; BEGIN ISOLATION LEVEL $level;
			SELECT shedlock_acquire('java', '1 h'), clock_timestamp() - statement_timestamp() >= '100 ms';
			SELECT shedlock_acquire('another', '1 s'), current_setting('lock_timeout'); ROLLBACK]),
		"f|t\nt|0",
		"I2: an acquire waits for a Java client's uncommitted insert for a tenth of a second and is refused, $level");
}
$client->query_safe('COMMIT');
is(sql('shop', q[SELECT shedlock_acquire('java', '1 h')]), 'f', '... and does not overwrite it');
# An acquire does not wait for the end of a transaction in which our functions inserted the name, even if that lease
# ends earlier.
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	for my $inserted ("shedlock_acquire('new', '1 h')", "shedlock_acquire('new', '1 ms') FROM pg_sleep(0)",
		"shedlock_acquire(ARRAY['another', 'new'], '1 h')")
	{
		my $asked = qq[BEGIN ISOLATION LEVEL $level; SELECT FROM shedlock; SELECT shedlock_acquire('new', '1 h')];
		for my $end ('ROLLBACK TO before; COMMIT', 'ROLLBACK', 'COMMIT')
		{
			$client->query_safe(qq[BEGIN; SAVEPOINT before; SELECT $inserted; SELECT pg_sleep(0.002)]);
			is(sql('shop', "SET lock_timeout = '60s'; $asked; SELECT shedlock_acquire(ARRAY['third', 'new'], '1 h'),
					shedlock_acquire('third', '1 h'); ROLLBACK"),
				"f\nf|t", "I2: an acquire does not wait for our own uncommitted insert, $level, $inserted");
			$client->query_safe($end);
			is(sql('shop', "$asked; ROLLBACK"), $end eq 'COMMIT' && $inserted !~ /ms/ ? 'f' : 't',
				"... and sees its outcome after $end");
		}
		$client->query_safe(q[DELETE FROM shedlock WHERE name IN ('new', 'another')]);
	}
}
# A wait for something else says nothing about the name. The acquire waits twice, which the test sees by two start
# times.
$client->query_safe('BEGIN; LOCK TABLE shedlock IN SHARE MODE');
my ($answer, %waits) = ('');
my $acquiring = IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('shop'),
		'-c', q[SELECT shedlock_acquire('room', '1 h')] ],
	'>', \$answer);
while (keys %waits < 2 && $acquiring->pumpable)
{
	$acquiring->pump_nb;
	$waits{$_}++ for split /\n/, sql('shop', q[SELECT waitstart FROM pg_locks
		WHERE relation = 'shedlock'::regclass AND NOT granted AND waitstart IS NOT NULL]);
}
$client->query_safe('COMMIT');
ok($acquiring->finish, 'an acquire waits for a table that takes no rows for a while');
is($answer, "t\n", '... and is not refused, because the lock is free');
# Nor does a lease count from before such a wait.
my $extended = sql('shop', q[SELECT shedlock_acquire_token('extended', '1 h')]);
sql('shop', q[SELECT shedlock_acquire(n, '1 min'), shedlock_release(n) FROM unnest('{one,due,several,others}'::text[]) n]);
$client->query_safe('BEGIN; LOCK TABLE shedlock IN SHARE MODE');
my @waiting = map { IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('shop'), '-c', "SELECT $_" ], '>', \my $out) }
	q[shedlock_acquire('one', '1 h')], q[shedlock_acquire('due', '1 h', tick => now())],
	q[shedlock_acquire('{several,others}'::text[], '1 h')],
	"shedlock_extend_token('extended', $extended, '1 h', at_least => '1 s')";
$node->poll_query_until('shop', q[SELECT count(*) = 4 FROM pg_locks WHERE relation = 'shedlock'::regclass AND NOT granted
	AND clock_timestamp() > waitstart + interval '1.5 s']) or die;
my $end = sql('shop', q[SELECT clock_timestamp() AT TIME ZONE 'UTC']);
$client->query_safe('COMMIT');
$_->finish for @waiting;
is(sql('shop', qq[SELECT string_agg(name, ' ' ORDER BY name) FROM shedlock
	WHERE name = ANY ('{due,extended,one,others,several}')
	AND lock_until > timestamp '$end' + interval '1 h' - interval '1 s']), 'due extended one others several',
	'I9: a lease begins after a wait for DDL');
# A prepared transaction blocks the name as long as it exists.
$client->query_safe(q[BEGIN; SELECT shedlock_acquire('prepared', '1 h'); PREPARE TRANSACTION 'undecided']);
is(sql('shop', q[SELECT shedlock_acquire('prepared', '1 h')]), 'f',
	"I2: an acquire does not wait for the new row of a prepared transaction");
$client->query_safe(q[ROLLBACK PREPARED 'undecided']);
# Our acquires mark an insert with an advisory lock, which any role can take. That does not keep a name from being
# acquired.
$client->query_safe(q[SET ROLE others; BEGIN;
	SELECT pg_advisory_xact_lock(hashtextextended('withheld', 'jobs.shedlock'::regclass::oid::bigint))]);
is(sql('shop', q[SELECT shedlock_acquire('withheld', '1 h')]), 't',
	'a new name can be acquired while another role holds its advisory lock');
$client->query_safe('ROLLBACK; RESET ROLE');

# The types of columns change while a session is connected.
$client->query_safe(q[SELECT shedlock_acquire('typed', '1 h'), shedlock_extend('typed', '1 h'),
	shedlock_acquire('typed', '1 h'), shedlock_force_release('no such')]);
sql('shop', q[ALTER TABLE shedlock ALTER name TYPE text COLLATE "C", ALTER locked_by TYPE text]);
is($client->query_safe(q[SELECT shedlock_extend('typed', '1 h'), shedlock_acquire('typed', '1 h'),
		shedlock_guard('typed'), shedlock_release('typed'), shedlock_acquire('typed', '1 h'),
		shedlock_force_release('typed'), shedlock_acquire(ARRAY['typed', 'other type'], '1 h'),
		(SELECT count(*) FROM shedlock_locks WHERE name = 'typed')]),
	't|f||t|t|t|t|1', 'the functions still work in a session after varchar columns have become text');
$client->quit;

# answer() returns what a session answers to some SQL: the rows, and the SQLSTATE and the detail of each warning and
# error.
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
	return join ' | ', grep { $_ ne '' } $rows =~ s/\n/ /gr,
		map { s/^(\w{5}): .*\n(?:DETAIL:  (.*)\n)?/$1 . (defined $2 ? " $2" : '')/er } @said;
}
sub gone
{
	my ($session, $database) = @_;
	my $pid = $session->query('SELECT pg_backend_pid()');
	$session->quit;
	$node->poll_query_until($database, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid")
		or die 'a session does not end';
}

# The error of a run's command reaches the caller even if the lock cannot be released afterwards. Here another session
# is waiting for the table, and gets it when the run is rolled back.
{
	my ($gate, $locker) = (session('shop'), session('shop'));
	$gate->query_safe('SELECT pg_advisory_lock(1)');
	my $until_told = q[DO 'BEGIN WHILE NOT pg_try_advisory_lock(1) LOOP PERFORM pg_sleep(0.01); END LOOP; END'];
	my $run = IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('shop'), '-v', 'VERBOSITY=verbose',
			'-c', q[SET lock_timeout = '1ms'],
			'-c', "CALL shedlock_run('stuck', \$\$$until_told; SELECT 1/0\$\$, '1 h')" ],
		'<', \undef, '>', \my $said, '2>', \my $error);
	$node->poll_query_until('shop', q[SELECT count(*) = 1 FROM pg_stat_activity
		WHERE query LIKE 'CALL shedlock_run(''stuck''%' AND wait_event = 'PgSleep'])
		or die 'the command does not begin';
	$locker->query_until(qr/begun/, "\\echo begun\nBEGIN; LOCK TABLE shedlock;\n");
	$node->poll_query_until('shop',
		q[SELECT count(*) = 1 FROM pg_locks WHERE relation = 'jobs.shedlock'::regclass AND NOT granted])
		or die 'the other session does not wait';
	$gate->query_safe('SELECT pg_advisory_unlock(1)');
	$run->finish;
	my $warning = qq[55P03: lock "stuck" was not released\nDETAIL:  canceling statement due to lock timeout\n];
	like($error, qr/WARNING:  $warning.*ERROR:  22012:/s,
		'the error of the command reaches the caller, and a WARNING says that the lock was not released');
	$locker->query_safe('COMMIT');
	$_->quit for $gate, $locker;
}

# A release whose row is locked until the lease has ended comes too late, although the fast path has read the clock
# before.
{
	my ($holder, $locker) = (session('shop'), session('shop'));
	for (map { my $lease = $_; map { [ $_, $lease ] } '', '_token' } '800 ms', '1500 ms')
	{
		my ($kind, $lease) = @$_;
		answer($holder, "SELECT shedlock_acquire$kind('waits', '$lease') AS token \\gset");
		my $token = $kind ? ', :token' : '';
		$locker->query_safe(q[BEGIN; SELECT FROM shedlock WHERE name = 'waits' FOR UPDATE]);
		$holder->query_until(qr/begun/, "\\echo begun\nSELECT shedlock_release$kind('waits'$token);\n");
		sql('shop', q[SELECT pg_sleep_until(lock_until AT TIME ZONE 'UTC') FROM shedlock WHERE name = 'waits']);
		$locker->query_safe('COMMIT');
		like(answer($holder, ''), qr/^f \| SL001 Its lease ended at /,
			"a release$kind whose row is locked until the lease of $lease has ended comes too late");
	}
	# If an extend waits for its row for longer than the new lease, that lease begins when the extend has the row.
	my $token = answer($holder, q[SELECT shedlock_acquire_token('short', '1 h')]);
	$locker->query_safe(q[BEGIN; SELECT FROM shedlock WHERE name = 'short' FOR UPDATE]);
	$holder->query_until(qr/begun/, "\\echo begun\nSELECT shedlock_extend_token('short', $token, '100 ms');\n");
	my $until = $locker->query_safe(q[SELECT pg_sleep(0.3); SELECT timezone('UTC', clock_timestamp())]) =~ s/^\n//r;
	$locker->query_safe('COMMIT');
	is(answer($holder, ''), 't', 'an extend succeeds even if its row was locked for longer than the new lease');
	is(sql('shop', "SELECT lock_until >= '$until'::timestamp + interval '100 ms' FROM shedlock WHERE name = 'short'"),
		't', '... which begins when the extend has the row');
	$_->quit for $holder, $locker;
}

# What a release by force waits for may make the columns coarser.
database('coarser');
run_file('coarser', $file);
{
	my ($caller, $owner) = (session('coarser'), session('coarser'));
	is(answer($caller, q[SELECT shedlock_acquire('coarse', '1 h')]), 't', 'a lock is held');
	$owner->query_safe('BEGIN; ALTER TABLE shedlock ALTER lock_until TYPE timestamp(0), ALTER locked_at TYPE timestamp(0)');
	$caller->query_until(qr/begun/, "\\echo begun\nSELECT shedlock_force_release('coarse');\n");
	$node->poll_query_until('coarser', q[SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'relation' AND NOT granted])
		or die 'the release by force does not wait';
	$owner->query_safe('COMMIT');
	is(answer($caller, ''), 't', '... and is released by force, after the columns have become coarser');
	like(sql('coarser', 'SELECT holder FROM shedlock_locks'), qr/^released by force: \w+$/, '... which the row still tells');
	$_->quit for $caller, $owner;
}

# If its fast path, or shedlock__take_one, cannot decide, an acquire keeps the row locked until the slower way has
# decided. Two functions that are called in between wait here for an advisory lock of the test: number 1 is requested
# after the fast path, number 2 after shedlock__take_one.
database('deciding');
run_file('deciding', $file);
sql('deciding', q[
	CREATE OR REPLACE FUNCTION jobs.shedlock__at_most(at_most interval) RETURNS interval LANGUAGE plpgsql
		AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN at_most; END';
	CREATE OR REPLACE FUNCTION jobs.shedlock__require_one_truth() RETURNS void LANGUAGE plpgsql
		AS 'BEGIN PERFORM pg_advisory_xact_lock(2); END']);
my $failed = q[SELECT shedlock_acquire('row', '1 h'), shedlock_release('row', false)];
my $ahead = q[UPDATE shedlock SET locked_at = timezone('UTC', now()) + interval '1 h', lock_until = '-infinity'];
for ([ 1, $failed, q[shedlock_acquire('row', '1 h')] ], [ 1, $failed, q[shedlock_acquire_token('row', '1 h') > 0] ],
	[ 2, $ahead, q[shedlock_acquire('row', '1 h', '1 ms')] ])
{
	my ($number, $before, $call) = @$_;
	my ($gate, $caller) = (session('deciding'), session('deciding'));
	sql('deciding', $before);
	$gate->query_safe("SELECT pg_advisory_lock($number)");
	$caller->query_until(qr/begun/, "\\echo begun\nSELECT $call;\n");
	$node->poll_query_until('deciding',
		q[SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted])
		or die 'the acquire does not wait';
	is(sql('deciding', q[SELECT name FROM shedlock FOR UPDATE SKIP LOCKED]), '',
		"an acquire keeps the row locked until it has decided: $call");
	is(sql('deciding', 'SELECT count(*) FROM shedlock'), 1, '... and the row exists');
	$gate->query_safe("SELECT pg_advisory_unlock($number)");
	is(answer($caller, ''), 't', '... and gets the lock');
	sql('deciding', q[UPDATE shedlock SET lock_until = '-infinity']);
	$_->quit for $gate, $caller;
}

# A call that does nothing leaves the row to its holder.
database('apart');
run_file('apart', $file);
my ($holder_of_token, $apart) = (session('apart'), session('apart'));
my $of_job = answer($holder_of_token, q[SELECT shedlock_acquire_token('job', '1 h')]);
is(answer($apart, q[BEGIN; SELECT shedlock_resume('job')]), 'f | 01000 It is not paused.',
	'a lock that is not paused cannot be resumed');
is(answer($holder_of_token, "SELECT shedlock_extend_token('job', $of_job, '1 h', nowait => true)"), 't',
	'... and its row does not stay locked');
answer($apart, 'ROLLBACK');
# A row that was inserted after the transaction's snapshot is not taken for one that does not exist.
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	answer($apart, "BEGIN ISOLATION LEVEL $level; SELECT FROM shedlock");
	my $new = answer($holder_of_token, q[SELECT shedlock_acquire_token('new', '1 h')]);
	for my $call ("extend_token('new', $new, '1 h')", "release_token('new', $new)", "guard_token('new', $new)",
		"complete_token('new', $new)", q[force_release('new')], q[resume('new')])
	{
		is(answer($apart, "SAVEPOINT s; SELECT shedlock_$call"), '40001',
			"$level, a row that the snapshot does not show: shedlock_$call");
		answer($apart, 'ROLLBACK TO s');
	}
	like(answer($apart, q[SELECT shedlock_release_token('nobody', 1)]), qr/^f \| SL001 Nobody ever acquired it/,
		'... and a name that has no row');
	is(answer($apart, q[COMMIT; SELECT count(*) FROM shedlock WHERE name = 'nobody']), '0', '... which gets none');
	sql('apart', q[DELETE FROM shedlock WHERE name = 'new']);
}
# An acquire is refused where it would be the victim of a deadlock.
answer($holder_of_token, q[SET deadlock_timeout = '1h'; BEGIN;
	INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('one', now(), now(), 'java')]);
is(answer($apart, q[SET deadlock_timeout = '10ms'; BEGIN; SELECT shedlock_acquire('two', '1 h')]), 't',
	'one of two transactions acquires a lock');
$holder_of_token->query_until(qr/begun/, "\\echo begun\n"
	. "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('two', now(), now(), 'java');\n");
$node->poll_query_until('apart', q[SELECT count(*) = 1 FROM pg_locks WHERE NOT granted])
	or die 'the insert does not wait';
is(answer($apart, q[SELECT shedlock_acquire('one', '1 h')]), 'f',
	'... and is refused the other, which belongs to a client that waits for the first');
answer($apart, 'ROLLBACK');
answer($holder_of_token, 'ROLLBACK');
# An acquire that could not write the row is refused. (If the clock steps back, shedlock_protect_row may suppress its
# UPDATE.)
sql('apart', q[SELECT shedlock_acquire('kept out', '1 h'), shedlock_release('kept out');
	CREATE FUNCTION jobs.suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER suppress BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION jobs.suppress()]);
for my $call (q[shedlock_acquire('kept out', '1 h')], q[shedlock_acquire('{kept out}'::text[], '1 h')],
	q[shedlock_acquire_token('kept out', '1 h') IS NOT NULL])
{
	is(sql('apart', "SELECT $call"), 'f', "an acquire is refused if the row is not written: $call");
}
sql('apart', 'DROP TRIGGER suppress ON shedlock');
# If somebody edits a row by hand, its lease may have ended long before the lock is completed.
sql('apart', q[UPDATE shedlock SET locked_at = '2026-01-01', lock_until = '2026-01-02',
	locked_by = 'x#1767225600000000' WHERE name = 'job']);
like(($node->psql('apart', q[SELECT shedlock_complete_token('job', 1767225600000000)]))[2],
	qr/WARNING:  the run of lock "job" overran its lease by \d{3,}:\d\d:\d\d\.\d+\n/,
	'an overrun is given in hours, as by the extension');
$_->quit for $holder_of_token, $apart;

# Leases that end with their session. The team cannot see when the sessions of other roles started. If the start of a
# session is not visible to the team, its mark has a comma instead of a dot.
database('ends');
run_file('ends', $file);
sql('ends', 'ALTER ROLE team LOGIN');
my $server = sql('ends', q[SELECT lpad(to_hex(hashint8(system_identifier)), 8, '0') FROM pg_control_system()]);
my $others = session('ends');
my $began = q[SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity
	WHERE pid = pg_backend_pid()];
for ([ team => '.' ], [ postgres => ',' ])
{
	my ($role, $comma) = @$_;
	my $holder = session('ends', '-U', $role);
	is(answer($holder, q[SELECT shedlock_acquire('run', '1 h', ends_with_session => true),
			shedlock_acquire_token('token', '1 h', ends_with_session => true) > 0, shedlock_acquire('session', '1 h')]),
		't|t|t', "$role acquires");
	my $start = answer($holder,
		$comma eq '.' ? $began : q[SELECT split_part(current_setting('shedlock_portable.session'), ',', 1)]);
	my $pid = answer($holder, 'SELECT pg_backend_pid()');
	is(sql('ends', qq[SELECT bool_and(substring(locked_by, '/.*[^0-9]') = '/$pid.$start$comma$server' || kind)
			FROM jobs.shedlock JOIN (VALUES ('run', '!'), ('token', '&'), ('session', ':')) k (of, kind) ON of = name]),
		't', '... and the row names its session') or diag(sql('ends', 'SELECT locked_by FROM jobs.shedlock'));
	my $look = q[SELECT shedlock_acquire('run', '1 h'), shedlock_acquire('token', '1 h'),
		shedlock_acquire('session', '1 h'),
		string_agg(concat_ws('/', state, holder_alive, ends_with_session), ' ' ORDER BY name) FROM shedlock_locks];
	# With pg_read_all_stats the functions see as much as if a superuser had installed them.
	for my $grant ('GRANT pg_read_all_stats TO team', 'REVOKE pg_read_all_stats FROM team')
	{
		sql('ends', $grant);
		is(sql('ends', $look), 'f|f|f|held/t/t held/t/f held/t/t',
			"... which counts as alive while it is connected, after $grant");
	}
	is(answer($holder, q[SELECT shedlock_extend('run', '1 h'), shedlock_guard('run'), shedlock_extend('session', '1 h'),
			shedlock_release('run'), shedlock_acquire('run', '1 h', ends_with_session => true)]),
		't||t|t|t', '... and owns what it acquired');
	like(answer($holder, q[SELECT shedlock_extend('token', '1 h')]),
		qr/^f \| SL001 It is held, but not by this session/, '... but cannot extend a lock with a token as a session');
	my $token = sql('ends', q[SELECT token FROM shedlock_locks WHERE name = 'token']);
	is(sql('ends', "SELECT shedlock_extend_token('token', $token, '1 h')"), 't',
		'... which any session can extend with the token');
	# A process id may be used again. With another start it is another session, if the start is known.
	sql('ends', q[INSERT INTO jobs.shedlock SELECT 'heir', lock_until, locked_at,
		regexp_replace(locked_by, '[.][0-9]+([.,])', '.1\1'), lock_at_least_until
		FROM jobs.shedlock WHERE name = 'run']);
	is(sql('ends', q[SET ROLE team; SELECT shedlock_acquire('heir', '1 h');
			DELETE FROM jobs.shedlock WHERE name = 'heir']),
		$comma eq '.' ? 't' : 'f', '... and its mark with another start counts as '
			. ($comma eq '.' ? 'gone' : 'alive, because only the process id is compared'));
	sql('ends', 'SELECT shedlock_protect()');
	is(sql('ends', "UPDATE jobs.shedlock SET lock_until = timezone('utc', now())
			WHERE name IN ('run', 'token') RETURNING name"),
		'', '... and its locks are protected');
	sql('ends', 'SELECT shedlock_protect(false)');
	gone($holder, 'ends');
	like(answer($others, q[SELECT shedlock_release('run')]), qr/^f \| SL001 It is free\. It was last acquired by/,
		'a lock whose session has ended is said to be free');
	is(answer($others, "SELECT shedlock_extend_token('token', $token, '1 h'), shedlock_release_token('token', $token)"),
		join(' | ', 'f|f', ('SL001 Its lease ended with the session that acquired it.') x 2),
		'when the session has ended, the lease of its token has ended, too');
	is(sql('ends', $look), 't|t|f|free/f/t held/f/f free/f/t',
		'... and all locks are free except the one without ends_with_session');
	sql('ends', 'DELETE FROM jobs.shedlock');
}
# A lock that was released before its session ended stays released. After the end of the session, at_least still keeps
# other callers out.
my $holder = session('ends');
answer($holder, q[SELECT shedlock_acquire('done', '1 h', ends_with_session => true), shedlock_release('done'),
	shedlock_acquire_token('kept', '2 h', '1 h', ends_with_session => true),
	shedlock_acquire_token('completed', '1 h', ends_with_session => true)]);
gone($holder, 'ends');
my ($kept, $completed) = map { sql('ends', "SELECT token FROM shedlock_locks WHERE name = '$_'") } 'kept', 'completed';
is(sql('ends', q[SELECT shedlock_acquire('kept', '1 h'),
		string_agg(concat_ws('/', name, state, last_outcome, remaining <= '1 h'), ' ' ORDER BY name)
		FROM shedlock_locks]),
	'f|completed/free/ran out done/free/done kept/kept/ran out/t',
	'at_least keeps other callers out after the session has ended');
is(answer($others, "SELECT shedlock_extend_token('kept', $kept, '1 h')"),
	'f | SL001 Its lease ended with the session that acquired it.', '... but its owner cannot extend the lock');
is(answer($others, "SELECT shedlock_complete_token('completed', $completed), shedlock_complete_token('kept', $kept)"),
	'|', '... though it may complete a lock that has not been taken since');
is(sql('ends', q[SELECT shedlock_acquire('kept', '1 h'),
		string_agg(concat_ws('/', name, state, last_outcome), ' ' ORDER BY name) FROM shedlock_locks]),
	'f|completed/free/done done/free/done kept/kept/done', '... and at_least still holds');
# A session that forges its setting owns no lock of a session with another process id, not even one whose process id
# begins like its own. With the mark of an earlier session that had its process id it owns the locks of that one.
my $thief = session('ends');
my $pid = answer($thief, 'SELECT pg_backend_pid()');
answer($thief, q[SELECT shedlock_acquire('owned', '1 h'), shedlock_release('owned')]);
for my $owner ($pid + 1, "${pid}4", $pid)
{
	sql('ends', qq[UPDATE jobs.shedlock SET lock_until = timezone('utc', now()) + '1 h',
		lock_at_least_until = locked_at,
		locked_by = format('a/$pid.y/$owner.1.$server:%s', (extract(epoch FROM locked_at) * 1000000)::bigint)
		WHERE name = 'owned']);
	for my $rest ($owner eq $pid ? () : "1.$server", ".1.$server", "4.1.$server", '%', '_%', "%/$owner.1.$server",
		"x/$owner.1.$server", "y/$owner.1.$server", '%\\', '\\', '')
	{
		like(answer($thief, qq[SET shedlock_portable.session = '$rest';
				SELECT shedlock_release('owned'), shedlock_extend('owned', '1 h')]),
			qr/^f\|f \| SL001 /, "a session whose setting is '$rest' does not own a lock of process $owner");
	}
}
# Nor does it acquire a lock of which nobody can tell whose it is.
for my $rest ('%', 'x', "1.$server/1.$server")
{
	is(answer($thief, qq[SET shedlock_portable.session = '$rest'; SELECT shedlock_acquire('own', '1 h'),
			shedlock_release('own'), shedlock_acquire('own', '1 h'), shedlock_release('own')]),
		't|t|t|t', "a session whose setting is '$rest' owns its own locks");
	is(sql('ends', qq[SELECT locked_by ~ '^[^/]*/${pid}[.][0-9]+[.,]$server:[0-9]+\$' FROM jobs.shedlock
			WHERE name = 'own']), 't', '... and the row names its session');
}
$thief->quit;
sql('ends', "DELETE FROM jobs.shedlock WHERE name LIKE 'own%'");
# Whether a session of another server, or of an unknown one, is alive cannot be known. A setting that claims to be that
# server changes nothing.
$holder = session('ends');
answer($holder, q[SELECT shedlock_acquire('moved', '1 h', ends_with_session => true),
	shedlock_acquire_token('moved token', '1 h', ends_with_session => true)]);
gone($holder, 'ends');
my $moved = q[SELECT shedlock_acquire('moved', '1 h'), shedlock_acquire('moved token', '1 h'),
	string_agg(concat_ws('/', state, holder_alive IS NULL, ends_with_session), ' ')
	FROM shedlock_locks WHERE name ~ 'moved'];
for my $elsewhere ($server eq 'deadbeef' ? 'deadbee0' : 'deadbeef', '00000000')
{
	sql('ends', "UPDATE jobs.shedlock SET locked_by = regexp_replace(locked_by, '[0-9a-f]{8}([!&])', '$elsewhere\\1')
		WHERE name ~ 'moved'");
	is(sql('ends', $moved), 'f|f|held/t/t held/t/t', "a session of server $elsewhere counts as alive");
	is(sql('ends', "SET shedlock_portable.server = '$elsewhere'; $moved"), 'f|f|held/t/t held/t/t',
		'... even if a setting claims to be that server');
}
sql('ends', "UPDATE jobs.shedlock SET locked_by = regexp_replace(locked_by, '[0-9a-f]{8}([!&])', '$server\\1')
	WHERE name ~ 'moved'");
is(sql('ends', $moved), 't|t|free/f/t free/f/t', '... and a session of this server does not');
# If the role must not read the control file, the mark names no server.
sql('ends', 'REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC; DELETE FROM jobs.shedlock');
$holder = session('ends');
is(answer($holder, q[SELECT shedlock_acquire('unknown', '1 h', ends_with_session => true),
		shedlock_extend('unknown', '1 h'), shedlock_acquire_token('token', '1 h', ends_with_session => true) > 0;
		SELECT shedlock_acquire('unknown', '1 h')]),
	't|t|t f', 'without pg_control_system(), ends_with_session works');
gone($holder, 'ends');
is(sql('ends', q[SELECT shedlock_acquire('unknown', '1 h'),
		string_agg(concat_ws('/', state, holder_alive IS NULL, ends_with_session, locked_by ~ ',00000000[!&][0-9]+$'),
		' ') FROM jobs.shedlock JOIN shedlock_locks USING (name)]),
	'f|held/t/t/t held/t/t/t', '... and a session always counts as alive');
sql('ends', 'GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC');
# A lock with a token needs no session, so the functions do not read the control file.
is(answer($others, q[DISCARD ALL; SELECT shedlock_acquire_token('plain', '1 h') AS t \gset
SELECT shedlock_extend_token('plain', :t, '1 h'), shedlock_guard_token('plain', :t),
	shedlock_complete_token('plain', :t), shedlock_acquire('plain', '1 h', ends_with_session => NULL)]),
	'22004', 'ends_with_session must not be NULL');
is(answer($others, q[SELECT shedlock_acquire_token('plain', '1 h', ends_with_session => NULL)]), '22004',
	'... not with a token either');
is(answer($others, q[SELECT shedlock_extend_token('plain', :t, '1 h'), shedlock_release_token('plain', :t),
		COALESCE(current_setting('shedlock_portable.session', true), '')]),
	't|t|', '... and with a token the session is not looked up');
# The extension reads the same marks.
my $of_postgres = session('ends');
answer($of_postgres, q[SELECT shedlock_acquire('comma', '1 h', ends_with_session => true)]);
sql('ends', 'DELETE FROM jobs.shedlock WHERE name <> \'comma\'; GRANT CREATE ON DATABASE ends TO team;
	SET ROLE team; CREATE EXTENSION shedlock');
is(sql('ends', q[SELECT edition, shedlock_acquire('comma', '1 h'), state, holder_alive, ends_with_session
		FROM shedlock_locks, shedlock_version()]),
	'extension|f|held|t|t', 'the extension counts a session whose mark has a comma as alive');
gone($of_postgres, 'ends');
is(sql('ends', q[SELECT shedlock_acquire('comma', '1 h'), state, holder_alive, ends_with_session FROM shedlock_locks]),
	't|free|f|t', '... as long as its process exists');
$others->quit;

# Completions.
database('completing', 'CREATE TABLE jobs.work (what text)');
run_file('completing', $file);
my ($worker, $other) = map { session('completing') } 1 .. 2;
answer($worker, q[SET application_name = 'worker']);
answer($other, q[SET application_name = 'other']);
my $lock_state = q[SELECT string_agg(concat_ws('/', name, state, last_outcome), ', ' ORDER BY name)
	FROM shedlock_locks WHERE name IN ('a', 'b', 't')];
# The worker has acquired a and b by its session, and t by a token. Each row has a title, at_most, what the other session
# does meanwhile, the worker's transaction (C completes a and t), its answer, and the state of the locks afterwards,
# unless it fails. A lease of 1 ms has ended by then. (sql/complete.sql has the other answers.)
for (
	[ 'completes', '1 h', '', 'C', '|', 'a/free/done, b/held, t/free/done' ],
	[ 'completes what has been extended', '1 h', q[SELECT shedlock_extend_token('t', :t, '2 h')], 'C', '|',
		'a/free/done, b/held, t/free/done' ],
	[ 'completes after ROLLBACK TO', '1 h', '', 'SAVEPOINT s; C; ROLLBACK TO s; C', '| |',
		'a/free/done, b/held, t/free/done' ],
	[ 'has not completed after ROLLBACK TO', '1 h', '',
		q[SAVEPOINT s; C; ROLLBACK TO s; SELECT shedlock_extend('a', '1 h'), shedlock_extend_token('t', :t, '1 h')],
		'| t|t', 'a/held, b/held, t/held' ],
	[ 'completes in a savepoint, and again', '1 h', '', 'SAVEPOINT s; SAVEPOINT r; C; RELEASE r; C; RELEASE s; C',
		'| | |', 'a/free/done, b/held, t/free/done' ],
	[ 'does not complete what another session released by its token', '1 h',
		q[SELECT shedlock_release_token('t', :t)], q[SELECT shedlock_complete_token('t', :t)],
		'SL001 It has been released before.' ],
	[ 'does not complete what another session has acquired', '1 ms', q[SELECT shedlock_acquire('a', '1 h')], 'C',
		'SL001 Its latest acquisition is by "other@[local]".' ])
{
	my ($what, $at_most, $meanwhile, $transaction, $answer, $locks) = @$_;
	for my $level ('READ COMMITTED', 'SERIALIZABLE')
	{
		for my $end ('ROLLBACK', 'COMMIT')
		{
			answer($other, 'DELETE FROM work; DELETE FROM shedlock');
			answer($worker, qq[SELECT shedlock_acquire(ARRAY['a', 'b'], '$at_most');
				SELECT shedlock_acquire_token('t', '$at_most') AS t \\gset\nSELECT pg_sleep(0.002)]);
			answer($other, qq[SELECT token AS t FROM shedlock_locks WHERE name = 't' \\gset\n$meanwhile]);
			my $was = answer($other, $lock_state);
			my $work = $transaction =~ s/\bC\b/SELECT shedlock_complete('a'), shedlock_complete_token('t', :t)/gr;
			my $said = answer($worker, "BEGIN ISOLATION LEVEL $level; INSERT INTO work VALUES ('done'); $work");
			is($said, $answer, "$what, $level");
			answer($worker, $end);
			is(answer($other, "$lock_state; SELECT count(*) FROM work WHERE what = 'done'"),
				$end eq 'COMMIT' && defined $locks ? "$locks 1" : "$was 0", "... and $end");
		}
	}
}
# Until the transaction ends, only the owner waits for a lock that the transaction has completed.
for my $end ('COMMIT', 'ROLLBACK', q[PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'],
	q[PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'])
{
	answer($worker,
		q[DELETE FROM shedlock; SELECT shedlock_acquire_token('t', '1 h', tick => '2026-01-01Z') AS t \gset]);
	my $token = answer($worker, 'SELECT :t');
	answer($worker, q[BEGIN; SELECT shedlock_complete_token('t', :t)]);
	my ($first, $last) = split /; /, $end;
	answer($worker, $first) if $last;
	is(sql('completing', q[SET statement_timeout = '60s';
			SELECT shedlock_acquire('t', '1 h', tick => '2026-01-01Z', retry => true), shedlock_acquire('t', '1 h')]),
		'f|f', "other callers are refused at once before $end");
	# A client that does not know whether its commit succeeded releases the lock as failed on another connection.
	my $release = launch({}, 'psql', '-XqAt', '-d', $node->connstr('completing'), '-v', 'VERBOSITY=sqlstate',
		'-c', "SELECT shedlock_release_token('t', $token, false)");
	$node->poll_query_until('completing', q[SELECT count(*) = 1 FROM pg_stat_activity
		WHERE query LIKE '%shedlock_release_token%' AND wait_event_type = 'Lock']) or die 'it does not wait';
	answer($worker, $last // $first);
	ended($release);
	my $is_done = $end !~ /ROLLBACK/;
	is($release->{out} . $release->{err}, $is_done ? "f\nWARNING:  SL002\n" : "t\n",
		'... while a release by its token waits, and '
			. ($is_done ? 'reports that the lock was released as done' : 'releases it'));
	is(sql('completing', q[SELECT last_outcome, shedlock_acquire('t', '1 h', tick => '2026-01-01Z', retry => true)
			FROM shedlock_locks]),
		$is_done ? 'done|f' : 'failed|t', '... after which the tick is ' . ($is_done ? 'not due' : 'due'));
}
# An uncommitted acquisition decides whether the former owner can complete.
for my $end ('COMMIT', 'ROLLBACK')
{
	answer($worker, q[DELETE FROM shedlock; SELECT shedlock_acquire_token('t', '1 ms') AS t, pg_sleep(0.002) \gset]);
	my $token = answer($worker, 'SELECT :t');
	is(answer($other, q[BEGIN; SELECT shedlock_acquire('t', '1 h')]), 't',
		'another transaction acquires a lock whose lease has ended');
	my $complete = launch({}, 'psql', '-XqAt', '-d', $node->connstr('completing'), '-v', 'VERBOSITY=sqlstate',
		'-c', "SELECT shedlock_complete_token('t', $token)");
	$node->poll_query_until('completing', q[SELECT count(*) = 1 FROM pg_stat_activity
		WHERE query LIKE '%shedlock_complete_token%' AND wait_event_type = 'Lock']) or die 'it does not wait';
	answer($other, $end);
	ended($complete);
	is($complete->{err}, $end eq 'COMMIT' ? "ERROR:  SL001\n" : "WARNING:  01000\n",
		"... and $end decides whether the former owner completes it");
}
sql('completing', q[ALTER DEFAULT PRIVILEGES FOR ROLE team REVOKE INSERT ON TABLES FROM team;
	SELECT shedlock_keep_history(); SELECT shedlock_keep_history(false)]);
is(answer($worker, q[SELECT shedlock_acquire('flushed', '1 h', tick => '2026-01-01Z'),
		shedlock_acquire('not flushed', '1 h');
		BEGIN; SELECT shedlock_complete('not flushed'), current_setting('synchronous_commit');
		SELECT shedlock_complete('flushed'), current_setting('synchronous_commit'); ROLLBACK]),
	't|t |off |on', 'I7: a completion of a run with a tick is durable');
$_->quit for $worker, $other;

# Which role may install it, and where.
database('adopted', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
	locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
	INSERT INTO jobs.shedlock VALUES ('java', timezone('utc', now()) + interval '1 h', timezone('utc', now()), 'host');
	ALTER TABLE jobs.shedlock OWNER TO team]);
refuses('adopted', 'others', qr/it belongs to role team, not to others/, 'a table of another role is not adopted');
ok((run_file('adopted', $file))[0], '... but its owner can adopt it');
is(sql('adopted', q[SELECT shedlock_acquire('java', '1 h'), shedlock_acquire('sql', '1 h')]), 'f|t',
	"... with the locks of Java clients");
is(sql('adopted', q[SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = 'jobs.shedlock'::regclass AND attnum > 0]),
	'name lock_until locked_at locked_by lock_at_least_until last_tick last_done_tick last_done_at '
		. 'run_tick',
	'... and with our columns');
database('odd', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamptz NOT NULL,
	locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL); ALTER TABLE jobs.shedlock OWNER TO team]);
refuses('odd', 'team', qr/column "lock_until" is timestamp with time zone/,
	'a table with a column of the wrong type is refused');
my $java_columns = 'name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, '
	. 'locked_by varchar(255) NOT NULL';
for ([ 'last_tick timestamp(0)',
		qr/column "last_tick" is timestamp\(0\) without time zone\nHINT:  It needs microsecond precision/ ],
	[ 'last_done_at timestamptz', qr/column "last_done_at" is timestamp with time zone/ ],
	[ 'last_done_tick timestamp NOT NULL', qr/column "last_done_tick" is NOT NULL/ ],
	[ 'last_done_at timestamp DEFAULT now()', qr/column "last_done_at" has a default/ ],
	[ 'last_tick timestamp GENERATED ALWAYS AS (locked_at) STORED', qr/column "last_tick" is generated/ ])
{
	my ($column, $message) = @$_;
	sql('odd', "DROP TABLE jobs.shedlock; CREATE TABLE jobs.shedlock ($java_columns, $column);
		ALTER TABLE jobs.shedlock OWNER TO team");
	refuses('odd', 'team', $message, "... and so is one with $column");
}
# A table is also refused if code of another role would run on it, or if PostgreSQL would not let us write it.
sql('odd', q[CREATE DOMAIN public.tenant AS text; CREATE TYPE public.colour AS ENUM ('red');
	CREATE COLLATION public.own FROM "POSIX"]);
my $refused_index =
	qr/index "jobs.shedlock_locked_by_idx" has an operator class that is not the default, or a collation/;
for ([ 'ALTER TABLE jobs.shedlock ADD tenant public.tenant',
		qr/the additional column "tenant" is of type public.tenant, which is a domain or not built in/ ],
	[ 'ALTER TABLE jobs.shedlock ADD colours public.colour[]',
		qr/the additional column "colours" is of type public.colour\[\], which is a domain or not built in/ ],
	[ 'ALTER TABLE jobs.shedlock ADD catalog information_schema.sql_identifier',
		qr/the additional column "catalog" is of type information_schema.sql_identifier, which/ ],
	[ 'CREATE INDEX ON jobs.shedlock USING hash (locked_by)', qr/index "jobs.shedlock_locked_by_idx" is not a btree/ ],
	[ 'CREATE INDEX ON jobs.shedlock (locked_by text_pattern_ops)', $refused_index ],
	[ 'CREATE INDEX ON jobs.shedlock (locked_by COLLATE public.own)', $refused_index ],
	[ 'CREATE STATISTICS jobs.s ON (lower(name)), locked_by FROM jobs.shedlock',
		qr/the statistics object "s" has expressions/ ],
	[ 'ALTER TABLE jobs.shedlock REPLICA IDENTITY NOTHING; CREATE PUBLICATION changes FOR TABLE jobs.shedlock',
		qr/it is published, but has no replica identity/ ],
	[ q[CREATE PUBLICATION filtered FOR TABLE jobs.shedlock WHERE (locked_by <> '')],
		qr/a publication filters it by columns outside its replica identity/ ])
{
	my ($change, $message) = @$_;
	sql('odd', "DROP TABLE jobs.shedlock; CREATE TABLE jobs.shedlock ($java_columns); $change;
		ALTER TABLE jobs.shedlock OWNER TO team");
	refuses('odd', 'team', $message, "... and so is one with $change");
}
# What an auditor or an ORM adds to the table later. Where it touches no column of ours it does no harm, and at most
# keeps new names out. It is refused where code could run with the rights of the functions' owner. The acquires are of a
# name that has a row and of one that has not.
database('living');
run_file('living', $file);
sql('living', q[SELECT shedlock_acquire('old', '1 h'), shedlock_release('old'); GRANT CREATE ON SCHEMA jobs TO others;
	CREATE TABLE jobs.audited (name text); ALTER TABLE jobs.audited OWNER TO team;
	CREATE FUNCTION jobs.audit() RETURNS trigger LANGUAGE plpgsql SET search_path = jobs, pg_temp
		AS 'BEGIN INSERT INTO audited VALUES (NEW.name); RETURN NEW; END'; ALTER FUNCTION jobs.audit() OWNER TO team;
	CREATE FUNCTION jobs.spy() RETURNS trigger LANGUAGE plpgsql SET search_path = jobs, pg_temp
		AS 'BEGIN RETURN NEW; END'; ALTER FUNCTION jobs.spy() OWNER TO others;
	CREATE FUNCTION jobs.is_good(text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
	ALTER FUNCTION jobs.is_good(text) OWNER TO others; REVOKE CREATE ON SCHEMA jobs FROM others]);
my $new_fails = qr/^t\n55000$/;
my $attached = 'it has triggers or foreign keys';
my $not_of_owner = 'it uses'
	. ' function jobs.is_good(text) of role others, which would run';
for ([ 'SELECT', qr/^t\nt$/ ],
	[ 'CREATE TRIGGER t AFTER INSERT OR UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION audit()', qr/^t\nt$/ ],
	[ 'CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON shedlock NOT DEFERRABLE FOR EACH ROW EXECUTE FUNCTION audit()',
		qr/^t\nt$/ ],
	# It runs as the caller.
	[ 'CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON shedlock DEFERRABLE FOR EACH ROW EXECUTE FUNCTION audit()',
		$attached ],
	[ 'ALTER FUNCTION audit() RESET search_path; '
		. 'CREATE TRIGGER t AFTER UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION audit()', $attached ],
	[ 'ALTER FUNCTION audit() SET search_path = jobs; '
		. 'CREATE TRIGGER t AFTER UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION audit()', $attached ],
	[ 'CREATE TRIGGER t BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION audit()', $attached ],
	[ 'CREATE TRIGGER t AFTER UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION spy()', $attached ],
	[ 'CREATE TRIGGER t AFTER UPDATE ON shedlock EXECUTE FUNCTION suppress_redundant_updates_trigger()', $attached ],
	[ 'ALTER TABLE shedlock ADD created_at timestamptz NOT NULL DEFAULT now()', qr/^t\nt$/ ],
	[ 'ALTER TABLE shedlock ADD id int GENERATED ALWAYS AS IDENTITY, ADD UNIQUE (id)', qr/^t\nt$/ ],
	[ q[ALTER TABLE shedlock ADD note text NOT NULL DEFAULT ''; ALTER TABLE shedlock ALTER note DROP DEFAULT],
		$new_fails ],
	[ q[ALTER TABLE shedlock ADD note text CHECK (note <> '')], qr/^t\nt$/ ],
	[ q[ALTER TABLE shedlock ADD note text CHECK (jobs.is_good(note))], $not_of_owner ],
	[ q[ALTER TABLE shedlock ADD note boolean DEFAULT jobs.is_good('')], $not_of_owner ],
	[ q[ALTER TABLE shedlock ADD note text, ADD CONSTRAINT noted CHECK (note IS NOT NULL) NOT VALID],
		'constraint "noted" is not valid, so it may refuse rows that exist' ],
	[ 'ALTER TABLE shedlock ADD note text, ADD CONSTRAINT noted NOT NULL note NOT VALID',
		'constraint "noted" is not valid, so it may refuse rows that exist' ],
	[ q[ALTER TABLE shedlock ADD note text CHECK (note <> '') NOT ENFORCED], qr/^t\nt$/ ],
	[ q[ALTER TABLE shedlock ADD note text DEFAULT 'x'; UPDATE shedlock SET note = 'y'; ]
		. q[ALTER TABLE shedlock ADD CHECK (note <> 'x')], $new_fails ],
	[ q[ALTER TABLE shedlock ADD CHECK (locked_by <> '' OR lock_until < 'infinity')],
		'constraint "shedlock_check" is on a column of the locks' ],
	[ 'ALTER TABLE shedlock ADD CHECK (shedlock IS NOT NULL) NOT VALID',
		'constraint "shedlock_check" is on a column of the locks' ],
	[ 'ALTER TABLE shedlock ADD a int, ADD b int GENERATED ALWAYS AS (a + 1) STORED', qr/^t\nt$/ ],
	[ 'ALTER TABLE shedlock ADD b int GENERATED ALWAYS AS (length(name)) STORED',
		'the additional column "b" is generated from a column of the locks' ],
	[ 'ALTER TABLE shedlock ADD a int; CREATE UNIQUE INDEX ON shedlock (a)', qr/^t\nt$/ ],
	[ 'ALTER TABLE shedlock ADD a int; CREATE UNIQUE INDEX ON shedlock (a) NULLS NOT DISTINCT', $new_fails ],
	[ 'ALTER TABLE shedlock ADD a int; CREATE UNIQUE INDEX i ON shedlock (a, locked_by)',
		'index "jobs.i" is unique, but not on (name) alone' ],
	[ 'CREATE TABLE hosts (h text PRIMARY KEY); ALTER TABLE shedlock ADD host text REFERENCES hosts', qr/^t\nt$/ ],
	[ 'CREATE TABLE hosts (h text PRIMARY KEY); '
		. 'ALTER TABLE shedlock ADD FOREIGN KEY (locked_by) REFERENCES hosts NOT VALID', $attached ],
	[ q[CREATE TABLE runs (job varchar(255) REFERENCES shedlock); INSERT INTO runs VALUES ('old')], qr/^t\nt$/ ],
	[ 'ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY', qr/^t\nt$/ ],
	[ 'ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
		'it has row security that is forced on its owner' ],
	[ 'CREATE RULE r AS ON DELETE TO shedlock DO ALSO NOTHING', 'it has rules' ],
	[ 'CREATE TABLE child () INHERITS (shedlock)', 'it is a partition or a typed table, or takes part in inheritance' ])
{
	my ($change, $expected) = @$_;
	next if $change =~ / NOT (NULL note|ENFORCED)/ && sql('living', 'SHOW server_version_num') < 180000;
	my $session = session('living');
	answer($session, "BEGIN; SET LOCAL client_min_messages = error; SET ROLE team; $change; RESET ROLE; SAVEPOINT s");
	my $shape = answer($session, 'SELECT id FROM shedlock_table');
	if (ref $expected)
	{
		is($shape, 'shedlock', "the table is accepted after $change");
		my $of_old = answer($session, q[SELECT shedlock_acquire('old', '1 h')]);
		my $of_new = (split / \| /, answer($session, q[SELECT shedlock_acquire('new', '1 h')]))[-1];
		like("$of_old\n$of_new", $expected, '... and locks are acquired, or the reason is given');
	}
	else
	{
		$session->{stderr} = '';
		$session->query('ROLLBACK TO s; SELECT id FROM shedlock_table');
		like($session->{stderr},
			qr/ERROR:  55000: table "jobs\.shedlock" cannot serve as the lock table: \Q$expected\E/,
			"the table is refused after $change");
	}
	$session->query('ROLLBACK');
	$session->quit;
}
# The triggers run, and what they write is committed with the lock.
sql('living', 'CREATE TRIGGER t AFTER INSERT OR UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION audit()');
is(sql('living', q[SELECT shedlock_acquire('old', '1 h'), shedlock_release('old'); SELECT DISTINCT name FROM audited]),
	"t|t\nold", 'a trigger of the owner of the table fires');
(undef, undef, my $uninserted) = $node->psql('living', q[BEGIN; ALTER TABLE shedlock ADD note text NOT NULL DEFAULT '';
	ALTER TABLE shedlock ALTER note DROP DEFAULT; SELECT shedlock_acquire('it''s', '1 h')]);
my $no_row = q[lock "it's" has no row, and shedlock cannot insert one];
my $hint = quotemeta 'Insert it as the owner of the table, with values for its other columns where needed: '
	. q[INSERT INTO jobs.shedlock (name, lock_until, locked_at, locked_by) VALUES ('it''s', '-infinity', '-infinity', '').];
like($uninserted,
	qr/ERROR:  $no_row: null value in column "note" .* violates not-null constraint\nHINT:  $hint/,
	'an error names the column and says how the row can be inserted');
is(sql('living', q[BEGIN; ALTER TABLE shedlock ADD note text NOT NULL DEFAULT '';
		ALTER TABLE shedlock ALTER note DROP DEFAULT; COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ;
		SET LOCAL client_min_messages = error; SELECT shedlock_release('nope'), shedlock_force_release('nope'); COMMIT;
		ALTER TABLE shedlock DROP note]), 'f|f', 'where no row can be inserted, none is released in REPEATABLE READ');
sql('living', 'TRUNCATE audited; CREATE TRIGGER s AFTER UPDATE OR DELETE ON shedlock EXECUTE FUNCTION audit()');
is(sql('living', q[BEGIN; SELECT count(*) > 0 FROM shedlock_doctor(); SELECT count(*) FROM audited;
		SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'shedlock'::regclass; COMMIT;
		DROP TRIGGER s ON shedlock]),
	"t\n0\nAccessShareLock", 'the doctor fires no trigger, and keeps nobody from writing');
# A row to which others refer is not forgotten.
my (undef, undef, $unforgotten) = $node->psql('living',
	q[CREATE TABLE runs (job varchar(255) REFERENCES shedlock); SELECT shedlock_forget('old')]);
like($unforgotten,
	qr/ERROR:  cannot forget lock "old": foreign keys of other tables refer to the lock table\nHINT:  DELETE the row/,
	'a lock table to which others refer forgets nothing');
if (sql('living', 'SHOW server_version_num') >= 180000)
{
	is(sql('living', q[DROP TABLE runs; CREATE TABLE runs (job varchar(255) REFERENCES shedlock NOT ENFORCED);
		SELECT shedlock_forget('old')]), 't', '... unless it does not matter');
}

# A cloud may switch on row security for every new table. That is no obstacle. Where it is forced on owners, too, the
# hint can be followed.
for my $force ('', ', FORCE ROW LEVEL SECURITY')
{
	my $database = $force ? 'forced' : 'secured';
	database($database, "
		CREATE FUNCTION public.secure() RETURNS event_trigger LANGUAGE plpgsql AS \$\$ DECLARE c record; BEGIN
			FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' LOOP
				EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY$force', c.object_identity);
			END LOOP; END \$\$;
		CREATE EVENT TRIGGER secure ON ddl_command_end WHEN tag IN ('CREATE TABLE') EXECUTE FUNCTION public.secure()");
	my ($done, $said) = run_file($database, $file);
	if ($force)
	{
		ok(!$done, 'where row security is forced on every new table, the file makes none');
		my ($hint) = $said =~ /HINT:  (.*); and run the file again\./ or diag($said);
		sql($database, "SET ROLE team; $hint");
		($done, $said) = run_file($database, $file);
	}
	ok($done, '... and after its hint was followed, it is installed') or diag($said);
	is(sql($database, q[SELECT shedlock_acquire('a', '1 h'), relrowsecurity, relforcerowsecurity
			FROM pg_class WHERE oid = 'shedlock'::regclass]),
		't|t|f', '... and works with row security');
}

# Missing columns are added, whatever the order of the others is.
my $columns = q[SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute
	WHERE attrelid = 'jobs.shedlock'::regclass AND attnum > 0];
sql('odd', "DROP TABLE jobs.shedlock;
	CREATE TABLE jobs.shedlock (last_done_tick timestamp(6), note text, $java_columns,
		lock_at_least_until timestamp(0));
	ALTER TABLE jobs.shedlock OWNER TO team;
	CREATE INDEX ON jobs.shedlock (lock_until DESC, name COLLATE \"C\") INCLUDE (note);
	CREATE INDEX ON jobs.shedlock (locked_by varchar_ops);
	CREATE PUBLICATION all_changes FOR TABLE jobs.shedlock");
ok((run_file('odd', $file))[0], 'a table that has some of our columns is adopted');
is(sql('odd', $columns),
	'last_done_tick note name lock_until locked_at locked_by lock_at_least_until last_tick last_done_at '
		. 'run_tick',
	'... gets the others');
is(sql('odd', q[SELECT shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123456Z'), shedlock_release('a'),
		shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123456Z', retry => true),
		shedlock_acquire('a', '1 h', tick => '2026-01-01 00:00:00.123457Z')]),
	't|t|f|t', '... and works');
sql('odd', q[ALTER PUBLICATION filtered ADD TABLE jobs.shedlock WHERE (locked_by <> '')]);
is(sql('odd', q[SELECT severity, finding, hint FROM shedlock_doctor() WHERE finding ~ 'cannot serve']),
	'error|table "jobs.shedlock" cannot serve as the lock table: '
		. 'a publication filters it by columns outside its replica identity, '
		. 'or leaves out columns of the replica identity|'
		. 'ALTER PUBLICATION ... SET TABLE without WHERE and without a list of columns. '
		. 'With generated columns also ALTER TABLE ... REPLICA IDENTITY DEFAULT.',
	'... and the doctor reports a publication that keeps us from writing');
sql('odd', 'DROP PUBLICATION filtered');
# Columns that hold less than ours: ten locks of a session and ten with a token, each acquired and released three times.
# No lease is shorter than asked, and a released lock is free at once.
for my $column ('lock_until TYPE timestamp(2)', 'locked_at TYPE timestamp(2)', 'locked_by TYPE varchar(67)',
	'note TYPE text, ADD lock_at_least_until timestamp(2)')
{
	sql('odd', "DROP TABLE jobs.shedlock CASCADE; CREATE TABLE jobs.shedlock ($java_columns, note text);
		ALTER TABLE jobs.shedlock OWNER TO team, ALTER $column");
	ok((run_file('odd', $file))[0], "a table with $column is adopted");
	sql('odd', q[
		CREATE OR REPLACE FUNCTION public.is_long_enough(lock text, begun timestamptz) RETURNS boolean
			LANGUAGE sql VOLATILE AS
			$$ SELECT lock_until >= timezone('UTC', begun) + interval '1 h' FROM jobs.shedlock WHERE name = lock $$;
		CREATE OR REPLACE FUNCTION public.is_free(lock text) RETURNS boolean LANGUAGE sql VOLATILE AS
			$$ SELECT lock_until <= timezone('UTC', clock_timestamp()) FROM jobs.shedlock WHERE name = lock $$]);
	my (undef, $count, $error) = $node->psql('odd',
		q[SET application_name = 'the name of an application, of which only the beginning fits';
		DO $$
		DECLARE begun timestamptz; token bigint;
		BEGIN
			FOR i IN 0 .. 29 LOOP
				begun := clock_timestamp();
				ASSERT shedlock_acquire('a' || i % 10, '1 h') AND public.is_long_enough('a' || i % 10, begun)
					AND shedlock_release('a' || i % 10) AND public.is_free('a' || i % 10), i || ' of 30';
				begun := clock_timestamp();
				token := shedlock_acquire_token('t' || i % 10, '1 h');
				ASSERT public.is_long_enough('t' || i % 10, begun) AND shedlock_release_token('t' || i % 10, token)
					AND public.is_free('t' || i % 10), i || ' of 30, by token';
				PERFORM pg_sleep(0.01);
			END LOOP;
		END $$; SELECT count(*) FROM shedlock_locks WHERE state = 'free' AND last_outcome = 'done']);
	is($count, 20, '... and its locks can be acquired and released') or diag($error);
}
# A NULL that somebody wrote by hand is an error.
sql('odd', q[ALTER TABLE jobs.shedlock ALTER locked_at DROP NOT NULL, ALTER locked_by DROP NOT NULL]);
for my $column ('locked_at', 'locked_by')
{
	sql('odd', "UPDATE jobs.shedlock
		SET lock_until = t, locked_at = t, locked_by = 'host', last_tick = t, last_done_tick = t
		FROM timezone('UTC', now() - interval '1 min') t;
		UPDATE jobs.shedlock SET $column = NULL WHERE name = 'a1'");
	for my $lasts ('free', 'held')
	{
		sql('odd', q[UPDATE jobs.shedlock SET lock_until = lock_until + interval '1 day' WHERE name = 'a1'])
			if $lasts eq 'held';
		for my $call (q[shedlock_acquire('a1', '1 h')], q[shedlock_acquire_token('a1', '1 h')])
		{
			my $said = ($node->psql('odd', "SET application_name = 'short';
				SELECT shedlock_acquire('first', '1 h'), shedlock_release('first'); SELECT $call"))[2];
			like($said, qr/ERROR:  column "$column" of the lock table is NULL in a row/,
				"$call: $column is NULL, the lock is $lasts");
		}
	}
}
database('adopting', q[CREATE TABLE jobs.shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
	locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL); ALTER TABLE jobs.shedlock OWNER TO team]);
my $java_client = $node->background_psql('adopting');
$java_client->query_safe('BEGIN; SELECT FROM jobs.shedlock');
refuses('adopting', 'team',
	qr/ERROR:  cannot adopt table jobs.shedlock: another transaction has it locked\nHINT:  Run the file again when/,
	'adopting a table waits for an open transaction only for a limited time');
(my $status, undef, my $said) = $node->psql('adopting', 'CREATE EXTENSION shedlock SCHEMA jobs');
like($said, qr/ERROR:  cannot adopt table shedlock: another transaction has it locked\nHINT:  Try again when/,
	'... and so does CREATE EXTENSION');
$java_client->query_safe('COMMIT');
$java_client->quit;
$node->safe_psql('postgres', 'CREATE DATABASE quoted');
for my $name ('a $f$ b', 'a $function$ b', q[a'b], 'a"b', 'a@b', 'a\\b', 'a;b')
{
	my $quoted = '"' . $name =~ s/"/""/gr . '"';
	sql('quoted', "CREATE SCHEMA $quoted AUTHORIZATION team; ALTER DATABASE quoted SET search_path = $quoted");
	like((run_file('quoted', $file))[1], qr/ERROR:  the name of schema .* has characters other than/,
		"a schema named $name is refused");
}
sql('quoted',
	'CREATE SCHEMA "On Call_2.b-Ä" AUTHORIZATION team; ALTER DATABASE quoted SET search_path = "On Call_2.b-Ä"');
is((run_file('quoted', $file))[1], '',
	'a schema whose name has blanks, letters, digits and some other characters is accepted');
is(sql('quoted', q[SELECT shedlock_acquire('a', '1 h'), shedlock_grant('team'), count(*) FROM shedlock_locks]), 't||0',
	'... and the functions work there');
database('nowhere', 'ALTER DATABASE nowhere SET search_path = none');
refuses('nowhere', 'team', qr/there is no current schema/, 'installation without a current schema is refused');
database('other', 'CREATE EXTENSION shedlock SCHEMA jobs');
refuses('other', 'postgres', qr/the extension shedlock is installed in this schema/,
	'installation into the schema of the extension is refused',
	sql('other', q[SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock']));

# Both editions have the same functions, except for those that the query leaves out, each of which belongs to one
# edition only.
my $signatures = q[SELECT proname, prokind, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
	FROM pg_proc p
	WHERE proname ~ '^shedlock_[^_]' AND proname !~ '^shedlock_(raise|run_.*|after_pg_upgrade)$' ORDER BY 1, 3];
my $views = q[SELECT relname,
		(SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
			FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)
	FROM pg_class c WHERE relname IN ('shedlock_locks', 'shedlock_stats') ORDER BY 1];
is(sql('adopted', $_), sql('other', $_), 'both editions have the same functions and views') for $signatures, $views;

# The functions also work if another role owns them or has restored them from a dump, because shedlock_routines finds
# them by the table.
sql('shop', q[CREATE ROLE heirs; REASSIGN OWNED BY team TO heirs; SELECT shedlock_grant('app')]);
is(sql('shop', q[SET ROLE app; SELECT shedlock_acquire('inherited', '1 h')]), 't',
	'REASSIGN OWNED: shedlock_grant grants');
# A type in the caller's search_path is not used for the variables of shedlock_run, which runs with the caller's rights.
sql('shop', q[CREATE SCHEMA planted; GRANT USAGE ON SCHEMA planted TO app;
	CREATE FUNCTION planted.check(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted'; END $$;
	CREATE DOMAIN planted.text AS pg_catalog.text CHECK (planted.check(VALUE));
	CREATE DOMAIN planted.oid AS pg_catalog.oid CHECK (planted.check(VALUE::pg_catalog.text))]);
for my $command ('SELECT 1', 'SELECT 1/0')
{
	my $error = ($node->psql('shop', qq[SET ROLE app; SET search_path = planted, pg_catalog, jobs;
			CALL shedlock_run('variables'::pg_catalog.text, '$command'::pg_catalog.text, '1 min'::interval)]))[2];
	unlike($error, qr/planted/, "CALL shedlock_run with planted types: $command");
}
is(sql('shop', q[SELECT last_outcome FROM jobs.shedlock_locks WHERE name = 'variables']), 'failed',
	'... and both commands ran');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-O', '-x', '-f', $dump, '-n', 'jobs', $node->connstr('shop') ], 'a dump');
sql('postgres', 'CREATE DATABASE copy; CREATE ROLE restorer');
sql('copy', 'GRANT CREATE ON DATABASE copy TO restorer; ALTER DATABASE copy SET search_path = jobs');
ok((run_file('copy', $dump, 'restorer'))[0], '... restored by another role');
# Without its privileges a function belongs to everybody.
my $is_open = q[SELECT has_function_privilege('app', 'shedlock_force_release(text)', 'EXECUTE'),
	count(*) FROM shedlock_doctor() WHERE finding ~ '^everybody may call'];
is(sql('copy', $is_open), 't|1', '... without privileges, as the doctor reports');
sql('copy', q[SET ROLE restorer; SELECT shedlock_revoke('public', admin => true)]);
is(sql('copy', $is_open), 'f|0', '... which shedlock_revoke can mend');
sql('copy', q[UPDATE pg_proc SET proacl = NULL WHERE proname ~ '^shedlock_']);
run_file('copy', $file, 'restorer');
is(sql('copy', $is_open), 'f|0', '... and so can the file');
sql('copy', q[GRANT USAGE ON SCHEMA jobs TO app, team; SET ROLE restorer; SELECT shedlock_grant('app')]);
is(sql('copy', q[SET ROLE app; SELECT shedlock_acquire('inherited', '1 h'), shedlock_acquire('restored', '1 h')]),
	'f|t', '... where shedlock_grant and the locks work');
like((run_file('copy', 'portable/uninstall.sql', 'team'))[1], qr/belongs to role restorer, not to team/,
	'... only its owner can uninstall it');
ok((run_file('copy', 'portable/uninstall.sql', 'restorer'))[0], '... which is now the role that restored it');
is(sql('copy', q[SELECT (SELECT count(*) FROM pg_proc WHERE proname ~ '^shedlock'),
		string_agg(relname, ' ' ORDER BY 1) FROM pg_class WHERE relname ~ '^shedlock']),
	'0|shedlock shedlock_pkey', '... and uninstall.sql leaves only the table');
sql('shop', q[REASSIGN OWNED BY heirs TO team]);

# The extension takes over grants, held tokens, locks of sessions whose start the owner could see, and what was done.
sql('shop', q[SELECT shedlock_acquire('ticked', '1 h', tick => '2026-01-01Z'), shedlock_release('ticked')]);
my $ticked = q[SELECT shedlock_acquire('ticked', '1 h', tick => '2026-01-01Z', retry => true),
	last_done_at IS NOT NULL, last_tick = '2026-01-01Z', last_done_tick = last_tick
	FROM shedlock_locks WHERE name = 'ticked'];
sql('shop',
	q[SELECT shedlock_grant('app'), shedlock_grant('On "Call', admin => true); GRANT pg_read_all_stats TO team]);
sql('shop', q[SELECT shedlock_protect(); SET ROLE team;
	CREATE FUNCTION shedlock_report() RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE VIEW shedlock_mine AS SELECT 1 AS mine]);
ok((run_file('shop', $file))[0], 'the file runs again where the team has functions with similar names');
my $refusal = (split /\n/, ($node->psql('shop', 'CREATE EXTENSION shedlock'))[2])[0];
my $belongs_to_team = 'cannot take over the portable edition of shedlock in schema jobs: it belongs to role team';
like($refusal, qr/ERROR:  $belongs_to_team, not to postgres/,
	'a superuser does not take over objects that another role may have planted');
sql('shop', 'GRANT CREATE ON DATABASE shop TO team');
# This grant is not kept.
sql('shop', 'CREATE ROLE by_hand; GRANT EXECUTE ON FUNCTION shedlock_version() TO by_hand, PUBLIC');
my $take_over = q[
SELECT shedlock_acquire('of the session', '1 h'), shedlock_acquire('protected', '1 h');
SET ROLE team;
CREATE EXTENSION shedlock;
RESET ROLE;
SELECT edition FROM shedlock_version();
SELECT string_agg(name || ' ' || state, ', ' ORDER BY name) FROM shedlock_locks
	WHERE name IN ('held', 'of the session', 'java');
SELECT shedlock_release('of the session');];
($status, my $told, my $notices) = $node->psql('shop', $take_over);
is($told, "t|t\nextension\nheld held, java held, of the session held\nt", 'CREATE EXTENSION takes over');
my $taking_over = 'taking over from the portable edition of shedlock in schema jobs, owned by role team';
my $adopting = 'adopting the existing table jobs.shedlock';
like($notices, qr/NOTICE:  $taking_over\nDETAIL:  .* these roles: "On ""Call", app\..*NOTICE:  $adopting/s,
	'... and reports it');
is(sql('shop', qq[SELECT shedlock_release_token('held', $held)]), 't', '... tokens stay valid');
is(sql('shop', $ticked), 'f|t|t|t', '... a tick that was done is not due again');
is(sql('shop', q[UPDATE shedlock SET lock_until = now() WHERE name = 'protected' RETURNING name]), '',
	'... protection stays on');
is(sql('shop', q[SELECT count(*) FROM pg_proc WHERE proname ~ 'shedlock' AND proname <> 'shedlock_report'
		AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')]),
	'0', '... none of the old functions is left');
is(sql('shop', q[SET ROLE app; SELECT shedlock_acquire('app', '1 h'); RESET ROLE;
		SET ROLE "On ""Call"; SELECT shedlock_pause('paused')]),
	"t\nt", '... roles keep the rights that they were granted');
($status, undef, my $error) = $node->psql('shop', q[SET ROLE app; SELECT shedlock_pause('paused too')]);
like($error, qr/permission denied for function shedlock_pause/, '... and no more');
is(sql('shop', q[SELECT shedlock_report(), mine, has_function_privilege('app', 'shedlock_report()', 'EXECUTE')
		FROM shedlock_mine]),
	'1|1|t', '... other objects of the team are unchanged');
sql('shop', 'DROP EXTENSION shedlock');
ok((run_file('shop', $file))[0], 'the portable edition takes over again');
is(sql('shop', q[SELECT shedlock_acquire('app', '1 h'), shedlock_resume('paused')]), 'f|t', '... with the locks');
is(sql('shop', $ticked), 'f|t|t|t', '... and with what was done');

# A Citus worker is recognised by its catalog, which only a superuser can create.
sql('adopted', q[CREATE SCHEMA citus;
	CREATE TABLE citus.pg_dist_local_group (groupid int PRIMARY KEY);
	INSERT INTO citus.pg_dist_local_group VALUES (0);
	ALTER TABLE citus.pg_dist_local_group SET SCHEMA pg_catalog; GRANT SELECT ON pg_dist_local_group TO PUBLIC]);
is(sql('adopted', q[SELECT shedlock_acquire('coordinator', '1 h')]), 't',
	'the coordinator of a Citus cluster grants locks');
sql('adopted', 'UPDATE pg_dist_local_group SET groupid = 2');
($status, undef, $error) = $node->psql('adopted',
	q[SELECT shedlock_release('coordinator'); SELECT shedlock_acquire('worker', '1 h')]);
like($error, qr/ERROR:  cannot acquire a lock on a Citus worker/, '... but a worker does not');
sql('adopted', 'DROP TABLE pg_dist_local_group; DELETE FROM shedlock WHERE name = \'coordinator\'');

# CREATE EXTENSION does not take over for a role that does not own the old functions, nor where other objects depend on
# them.
sql('adopted', 'CREATE ROLE "A Dba"; GRANT CREATE ON DATABASE adopted TO "A Dba"; GRANT ALL ON SCHEMA jobs TO "A Dba"');
($status, undef, $error) = $node->psql('adopted', 'SET ROLE "A Dba"; CREATE EXTENSION shedlock');
like($error, qr/ERROR:  $belongs_to_team, not to "A Dba"/, 'another role cannot take over');
sql('adopted', 'CREATE VIEW public.mine AS SELECT * FROM shedlock_locks');
sql('adopted', 'GRANT CREATE ON DATABASE adopted TO team');
($status, undef, $error) = $node->psql('adopted', 'SET ROLE team; CREATE EXTENSION shedlock');
my $dependent = 'cannot take over the portable edition of shedlock: other objects depend on it';
like($error,
	qr/ERROR:  $dependent\nDETAIL:  view public.mine depends on view shedlock_locks\nHINT:  Drop them, create/,
	'a takeover is refused if other objects depend on the old ones');
is(sql('adopted', q[SELECT edition, (SELECT count(*) FROM public.mine) > 0 FROM shedlock_version()]), 'portable|t',
	'... and changes nothing');
sql('adopted', q[DROP VIEW public.mine; CREATE VIEW public.mine AS SELECT shedlock_session_alive('')]);
($status, undef, $error) = $node->psql('adopted', 'SET ROLE team; CREATE EXTENSION shedlock');
like($error, qr/DETAIL:  view public.mine depends on function shedlock_session_alive\(text\)\n/,
	'... and the error gives the name that the function had before the takeover');

# Removal.
sql('adopted', 'DROP VIEW public.mine; SELECT shedlock_protect()');
ok((run_file('adopted', 'portable/uninstall.sql'))[0], 'uninstall.sql runs');
is(sql('adopted', q[SELECT count(*) FILTER (WHERE proname ~ 'shedlock'), (SELECT count(*) FROM jobs.shedlock),
		(SELECT count(*) FROM pg_trigger WHERE tgname = 'shedlock_protect') FROM pg_proc]),
	'0|2|0', '... and leaves the table, without a trigger');
$node->stop;
done_testing();
