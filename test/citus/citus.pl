# Citus with a coordinator and two workers. A job's writes are visible on the workers before the next run starts,
# although Citus commits there only after the coordinator's commit is visible. Stale holders write nothing, and only the
# coordinator grants locks.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;
use Citus;

my @nodes = start_cluster();
my ($coordinator, @workers) = @nodes;
# This role cannot log in.
my $installer = "CREATE ROLE installer; GRANT CREATE ON SCHEMA public TO installer; SET ROLE installer;\n";
my $portable = slurp_file('portable/shedlock.sql');

sub ours_on_workers
{
	my ($database) = @_;
	my $ours = "SELECT count(*) FROM (SELECT proname FROM pg_proc UNION ALL SELECT relname FROM pg_class) o
		WHERE starts_with(proname, 'shedlock')";
	return join ' ', map { $_->safe_psql($database, $ours) } @workers;
}

# Installation, with default settings.
create_database('extension', @nodes);
$coordinator->safe_psql('extension', 'CREATE EXTENSION shedlock');
is($coordinator->safe_psql('extension', 'SHOW citus.enable_metadata_sync'), 'on',
	'CREATE EXTENSION works with default settings, and does not change them');
is(ours_on_workers('extension'), '0 0', '... and creates nothing on the workers');
create_database('portable', @nodes);
$coordinator->safe_psql('portable', "$installer$portable");
$coordinator->safe_psql('portable', "SET ROLE installer;\n$portable");
is(ours_on_workers('portable'), '0 0', 'nor does the portable edition, installed twice by a role that cannot log in');

# A run sees what the previous run has written into a distributed table.
my $distributed =
	'CREATE TABLE work (k int, seq int); SELECT create_distributed_table($$work$$, $$k$$, shard_count => 4)';
# Several shards, so that Citus commits in two phases.
my $work = 'INSERT INTO work VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1)';
my $next_work = 'INSERT INTO work SELECT k, (SELECT coalesce(max(seq), 0) + 1 FROM work) FROM generate_series(1, 8) k';
my %commits = (
	shedlock_run => [ [], "CALL shedlock_run('j', 'INSERT INTO gate VALUES (1); $work', at_most => '1 h')" ],
	shedlock_complete => [ [ "SELECT shedlock_acquire('j', '1 h')", 'BEGIN', 'INSERT INTO gate VALUES (1)', $work,
			"SELECT shedlock_complete('j')" ], 'COMMIT' ],
	shedlock_release => [ [ "SELECT shedlock_acquire('j', '1 h')", 'BEGIN', 'INSERT INTO gate VALUES (1)', $work,
			"SELECT shedlock_release('j')" ], 'COMMIT' ],
	shedlock_force_release => [ [ "SELECT shedlock_acquire('j', '1 h')", 'BEGIN', 'INSERT INTO gate VALUES (1)', $work,
			"SELECT shedlock_force_release('j')" ], 'COMMIT' ],
	shedlock_resume => [ [ "SELECT shedlock_pause('j')", 'BEGIN', 'INSERT INTO gate VALUES (1)', $work,
			"SELECT shedlock_resume('j')" ], 'COMMIT' ],
);
my $is_free = "SELECT state = 'free' FROM shedlock_locks WHERE name = 'j'";
for my $database ('extension', 'portable')
{
	$coordinator->safe_psql($database, $distributed);
	for my $how (sort keys %commits)
	{
		my $title = "$database, $how";
		$coordinator->safe_psql($database, "TRUNCATE work; DELETE FROM shedlock");
		my $commit = start_commit([@nodes], $database, @{ $commits{$how} });
		cmp_ok(stop_workers($commit), '>=', 2, "$title: sessions on the workers have prepared");
		let_commit($commit, $is_free);
		is($coordinator->safe_psql($database, 'SELECT count(*) FROM work'), '0',
			'... the coordinator has committed, but the work is not visible yet');
		is($coordinator->safe_psql($database, "SELECT shedlock_acquire_token('j', '1 h') IS NULL"), 't',
			'... so an acquire of the lock is refused')
			or $coordinator->safe_psql($database, "SELECT shedlock_force_release('j')");
		is($coordinator->safe_psql($database, "SELECT shedlock_acquire_token('other', '1 h') IS NULL"), 'f',
			'... but an acquire of another lock is not');
		my $next = session($coordinator, $database);
		put($next, "SELECT shedlock_acquire('j', '1 h', wait => '1 h')", 'SELECT count(*) FROM work');
		resume_workers($commit);
		is(answer($next), "t\n8", '... a caller that waits gets the lock, and sees the work');
		answer($commit->{worker});
		is($commit->{worker}{err}, '', '... and the commit reports no error');
		$coordinator->safe_psql($database, "SELECT shedlock_force_release('other')");
	}

	# A guarded transaction whose lease ends during its commit.
	$coordinator->safe_psql($database, "TRUNCATE work; DELETE FROM shedlock");
	my $commit = start_commit([@nodes], $database,
		[ "SELECT shedlock_acquire('j', '1 h')", 'BEGIN', 'INSERT INTO gate VALUES (1)', $work,
			"SELECT shedlock_guard('j')" ],
		'COMMIT');
	stop_workers($commit);
	let_commit($commit,
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $commit->{pid} AND backend_xid IS NOT NULL");
	$coordinator->safe_psql($database, "UPDATE shedlock SET lock_until = locked_at + interval '1 microsecond'");
	is($coordinator->safe_psql($database, "SELECT shedlock_acquire('j', '1 h')"), 'f',
		"$database, shedlock_guard: other callers are refused even when the lease has ended");
	resume_workers($commit);
	answer($commit->{worker});
	is($coordinator->safe_psql($database, "SELECT shedlock_acquire('j', '1 h')"), 't',
		'... until the workers have committed');

	# With six clients, each run sees what all runs before it have written.
	my $wait = "'j', at_most => '1 h', wait => '1 h'";
	my $one_row = 'INSERT INTO work SELECT 1, coalesce(max(seq), 0) + 1 FROM work';
	my ($session, $token) = ("SELECT shedlock_acquire($wait)", "SELECT shedlock_acquire_token($wait) AS token \\gset");
	my %scripts = (
		shedlock_run => ["CALL shedlock_run($wait, command => '$next_work')"],
		'shedlock_run, one row' => ["CALL shedlock_run($wait, command => '$one_row')"],
		shedlock_complete => [ $session, 'BEGIN', $next_work, "SELECT shedlock_complete('j')", 'COMMIT' ],
		shedlock_complete_token => [ $token, 'BEGIN', $next_work, "SELECT shedlock_complete_token('j', :token)",
			'COMMIT' ],
		'shedlock_complete in REPEATABLE READ' => [ $session, 'BEGIN ISOLATION LEVEL REPEATABLE READ', $next_work,
			"SELECT shedlock_complete('j')", 'COMMIT' ],
		shedlock_release => [ $session, 'BEGIN', $next_work, "SELECT shedlock_release('j')", 'COMMIT' ],
		'shedlock_release of an array' => [ $session =~ s/'j'/'{j,k}'::text[]/r, 'BEGIN', $next_work,
			"SELECT shedlock_release('{k,j}'::text[])", 'COMMIT' ],
		'shedlock_release_token in a savepoint' => [ $token, 'BEGIN', $next_work, 'SAVEPOINT s',
			"SELECT shedlock_release_token('j', :token)", 'RELEASE s', 'COMMIT' ],
		shedlock_force_release => [ $session, 'BEGIN', $next_work, "SELECT shedlock_force_release('j')", 'COMMIT' ],
		'shedlock_guard, then shedlock_release' => [ $session, 'BEGIN', "SELECT shedlock_guard('j')", $next_work,
			'COMMIT', "SELECT shedlock_release('j')" ],
	);
	for my $how (sort keys %scripts)
	{
		$coordinator->safe_psql($database, "TRUNCATE work; DELETE FROM shedlock");
		my $script = join '', map { /gset$/ ? "$_\n" : "$_;\n" } @{ $scripts{$how} };
		my ($ok, $done, $err) = pgbench_script($coordinator, $script, '-c', 6, '-t', often(10, 50), $database);
		ok($ok, "$database, $how: six clients do not fail") or diag($err);
		is($coordinator->safe_psql($database, 'SELECT count(DISTINCT seq), max(seq) FROM work'), "$done|$done",
			"$database, $how: each of $done runs sees the work of the previous one") or diag($err);
	}
}

# I11: a stale holder's writes to several shards are rolled back on all of them.
for my $database ('extension', 'portable')
{
	$coordinator->safe_psql($database, "TRUNCATE work; DELETE FROM shedlock");
	my $stale = session($coordinator, $database);
	ask($stale, "SELECT shedlock_acquire_token('j', '1 h') AS token \\gset\nBEGIN", $work);
	$coordinator->safe_psql($database, "SELECT shedlock_force_release('j'), shedlock_acquire('j', '1 h')");
	ask($stale, "SELECT shedlock_complete_token('j', :token)", 'COMMIT');
	like($stale->{err}, qr/lock "j" is lost/, "$database: I11 a stale holder's commit fails");
	is($coordinator->safe_psql($database, 'SELECT count(*) FROM work'), '0', '... its work is not on any shard');
	is(join(' ', map { $_->safe_psql($database, 'SELECT count(*) FROM pg_prepared_xacts') } @workers), '0 0',
		'... and no transaction is left prepared');
}

# If a job writes to only one worker, Citus commits there first.
$coordinator->safe_psql('extension', "TRUNCATE work; DELETE FROM shedlock");
my $single = start_commit([@nodes], 'extension', [],
	"CALL shedlock_run('j', 'INSERT INTO gate VALUES (1); INSERT INTO work VALUES (1, 1)', at_most => '1 h')");
is($coordinator->safe_psql('extension', 'SELECT count(*) FROM work'), '1',
	'work on one worker is visible before the coordinator commits');
is($coordinator->safe_psql('extension', "SELECT shedlock_acquire('j', '1 h')"), 'f', '... and the lock is held');
crash_coordinator($single);
is($coordinator->safe_psql('extension', "SELECT (SELECT count(*) FROM work), state, last_done_at IS NULL
		FROM shedlock_locks"),
	'1|free|t', '... and if the coordinator then crashes, the work is there but not recorded as done, '
		. 'and the lease has ended with the session');

# Somebody is killed, or a statement cancelled, while Citus commits: when the work is prepared on the workers and the
# coordinator has not committed yet, or when it has, and no worker has. Then work and release both happen, or neither.
# If no connection to a worker is lost, whoever waits for the lock gets it only afterwards, and sees what was written.
my %kills = (
	client => sub { $_[0]{worker}{run}->signal('KILL') },
	statement => sub { $coordinator->safe_psql('postgres', "SELECT pg_cancel_backend($_[0]{pid})") },
	session => sub { $coordinator->safe_psql('postgres', "SELECT pg_terminate_backend($_[0]{pid})") },
	"worker's session" => sub { kill 'TERM', (prepared_sessions($_[0]))[0] },
	worker => sub { $workers[1]->stop('immediate') },
	coordinator => sub { crash_coordinator($_[0]) },
	'coordinator and worker' => sub { crash_coordinator($_[0]); $workers[1]->stop('immediate') },
);
for my $database ('extension', 'portable')
{
	for my $victim (sort keys %kills)
	{
		for my $when ('before', 'after')
		{
			my $is_undone = $when eq 'before' && $victim =~ /^(?:statement|session|coordinator.*)$/;
			$coordinator->safe_psql($database, "TRUNCATE work; DELETE FROM shedlock");
			my $commit = start_commit([@nodes], $database, @{ $commits{shedlock_run} });
			if ($when eq 'after')
			{
				stop_workers($commit);
				let_commit($commit, $is_free);
			}
			my $next = session($coordinator, $database);
			put($next, "SELECT shedlock_acquire('j', '1 h', wait => '1 h')", 'SELECT count(*) FROM work');
			$coordinator->poll_query_until($database,
				"SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'SELECT shedlock_acquire(%'");
			$kills{$victim}->($commit);
			ask($commit->{gate}, 'COMMIT') if $when eq 'before' && $victim !~ /^coordinator/;
			resume_workers($commit);
			close $commit->{worker}{in}; # if its commit failed, the portable edition's lock ends with its session
			my $title = "$database, $victim killed $when the coordinator commits";
			my $seen = $victim =~ /coordinator/ ? '' : answer($next);
			is($seen, $is_undone ? "t\n0" : "t\n8", "$title: the next run sees what the last one has written")
				if $victim !~ /worker|coordinator/;
			$workers[1]->start if $victim =~ /worker$/;
			$coordinator->poll_query_until($database, 'SELECT recover_prepared_transactions() IS NOT NULL');
			is($coordinator->safe_psql($database, "SELECT (SELECT count(*) FROM work), l.last_done_at IS NOT NULL
					FROM (SELECT) o LEFT JOIN shedlock_locks l ON l.name = 'j'"),
				$is_undone ? '0|f' : '8|t', "$title: " . ($is_undone ? 'neither' : 'both') . ' happened');
		}
	}
}

# Only the coordinator grants locks. A worker can call it.
$_->safe_psql('extension', 'CREATE EXTENSION shedlock') for $workers[0];
my (undef, undef, $refusal) = $workers[0]->psql('extension', "SELECT shedlock_acquire('j', '1 h')");
like($refusal, qr/cannot acquire a lock on a Citus worker/,
	'a worker on which the extension was created grants no lock');
is($workers[0]->safe_psql('extension', "SELECT count(*) FROM shedlock_doctor()
		WHERE finding LIKE 'this server is a Citus worker%'"),
	'1', '... and its doctor says so');
$workers[0]->safe_psql('extension', 'DROP EXTENSION shedlock; DROP TABLE shedlock');
my $token = $workers[0]->safe_psql('extension',
	q[SELECT result FROM run_command_on_coordinator($$SELECT shedlock_acquire_token('asked', '1 h')$$)]);
is($coordinator->safe_psql('extension', "SELECT token = $token FROM shedlock_locks WHERE name = 'asked'"), 't',
	'a worker gets a lock through run_command_on_coordinator');
is($workers[1]->safe_psql('extension', q[SELECT result = ''
		FROM run_command_on_coordinator($$SELECT shedlock_acquire_token('asked', '1 h')$$)]),
	't', '... and another worker is refused');
is($workers[0]->safe_psql('extension', qq[SELECT result
		FROM run_command_on_coordinator(\$\$SELECT shedlock_release_token('asked', $token)\$\$)]),
	't', '... until the lock is released in the same way');

# Moving and updating the extension, which Citus refuses by default.
my $off = 'SET citus.enable_metadata_sync = off; ';
$coordinator->safe_psql('extension', 'CREATE SCHEMA elsewhere');
for my $statement ('ALTER EXTENSION shedlock SET SCHEMA elsewhere', 'ALTER EXTENSION shedlock UPDATE',
	'CREATE EXTENSION IF NOT EXISTS shedlock')
{
	isnt($coordinator->psql('extension', $statement, on_error_stop => 1), 0, "$statement: Citus refuses it");
	is($coordinator->psql('extension', "$off$statement"), 0, '... unless citus.enable_metadata_sync is off');
}
is($coordinator->safe_psql('extension', "SELECT elsewhere.shedlock_acquire('moved', '1 h')"), 't',
	'... and the moved extension works');
$coordinator->safe_psql('extension', "${off}ALTER EXTENSION shedlock SET SCHEMA public");

# A distributed lock table.
for my $case ([ 'extension', "create_distributed_table('shedlock', 'name')" ],
	[ 'extension', "create_reference_table('shedlock')" ],
	[ 'portable', "create_distributed_table('shedlock', 'name')" ])
{
	my ($database, $how) = @$case;
	my $kept = "SELECT relacl, reloptions, (SELECT string_agg(s::text, ' ' ORDER BY name) FROM shedlock s) FROM pg_class
		WHERE oid = 'shedlock'::regclass";
	my $before = $coordinator->safe_psql($database, "SELECT FROM shedlock_grant('installer', java => true);
		SELECT FROM shedlock_acquire('kept', '1 h'); $kept");
	$coordinator->safe_psql($database, "SELECT $how");
	# The finding about the trigger has the hint of the error of a call.
	my ($steps, @others) = map { join "\n", /DROP EXTENSION IF EXISTS shedlock|SELECT undistribute_table\(.*?\)/g }
		split /\n/, $coordinator->safe_psql($database, q[SELECT replace(hint, 'public.', '') FROM shedlock_doctor()
			WHERE finding ~ ' is distributed by Citus| has triggers or foreign keys']);
	is_deeply(\@others, [$steps], "$database, $how: two findings have the same remedy");
	is($coordinator->psql($database, "SET client_min_messages = error; $_", on_error_stop => 1), 0, "... $_")
		for split /\n/, $steps;
	$coordinator->safe_psql($database, 'SET client_min_messages = error; '
			. ($database eq 'extension' ? 'CREATE EXTENSION shedlock' : "SET ROLE installer;\n$portable"));
	is($coordinator->safe_psql($database, "SELECT count(*) FROM shedlock_doctor()
			WHERE finding LIKE '%Citus%' AND severity = 'error'"),
		'0', '... and following it solves the problem');
	is($coordinator->safe_psql($database, $kept), $before, '... the table has kept its rows, rights and settings');
	is($coordinator->safe_psql($database, "SELECT shedlock_acquire('kept', '1 h')"), 'f', '... no lock is lost');
	$coordinator->safe_psql($database, 'DELETE FROM shedlock');
}

# A dump and restore, and the takeover from the portable edition.
create_database('jobs', @nodes);
$coordinator->safe_psql('jobs', "CREATE EXTENSION shedlock; SELECT shedlock_acquire('dumped', '1 h')");
create_database('restored', @nodes);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
run_log([ 'pg_dump', '-d', $coordinator->connstr('jobs'), '-f', $dump ]);
my ($restored, undef, $why) = $coordinator->psql('restored', slurp_file($dump), on_error_stop => 1);
is($restored, 0, 'a dump can be restored') or diag($why);
is($coordinator->safe_psql('restored', "SELECT shedlock_acquire('dumped', '1 h')"), 'f', '... with its locks');
create_database('taken', @nodes);
my $rights = 'GRANT CREATE ON DATABASE taken TO installer; GRANT CREATE ON SCHEMA public TO installer;
	SET client_min_messages = error; SET ROLE installer';
$coordinator->safe_psql('taken', "$rights;\n$portable");
$coordinator->safe_psql('taken', "SELECT shedlock_acquire('kept', '1 h')");
$coordinator->safe_psql('taken', 'SET client_min_messages = error; SET ROLE installer; CREATE EXTENSION shedlock');
is($coordinator->safe_psql('taken', "SELECT edition, shedlock_acquire('kept', '1 h') FROM shedlock_version()"),
	'extension|f', 'the extension takes over from the portable edition, with its locks');
is(ours_on_workers('taken'), '0 0', '... and nothing of either is on the workers');

done_testing();
