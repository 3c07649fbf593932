# Tests of waiting: that a wait ends, which sessions have a place in the queues, and what wakes which session. They
# assert what happened, never how long it took. A session that the test has stopped while it slept cannot look by
# itself. If another session wakes it, the signal stays pending, so the test can see it.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep);
use IPC::Run;
use PostgreSQL::Test::Utils;
use ShedLock;

# From PostgreSQL 17 on, the shared memory needs no preload. deadlock_timeout is long, because otherwise the deadlock
# check of an earlier wait for a heavyweight lock could wake a sleeping session.
my ($version) = `pg_config --version` =~ /(\d+)/;
my $preload = $version < 17 ? "shared_preload_libraries = 'shedlock'\n" : '';
my $node = new_server('server', "${preload}deadlock_timeout = 1h\nmax_prepared_transactions = 10\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }

# Starts a session that executes one statement in the background.
my $started = 0;
sub start
{
	my ($statement) = @_;
	my %session = (name => 'session ' . ++$started, out => '', err => '');
	my @psql = ('psql', '-XAtq', '-c', $statement,
		'-d', $node->connstr('postgres') . " application_name='$session{name}'");
	$session{run} = IPC::Run::start(\@psql, '<', \undef, '>', \$session{out}, '2>', \$session{err});
	return \%session;
}
sub finish { my ($session) = @_; $session->{run}->finish; chomp $session->{out}; return $session->{out}; }
sub is_active
{
	my ($session, $condition) = @_;
	return "EXISTS (SELECT FROM pg_stat_activity
		WHERE application_name = '$session->{name}' AND state = 'active' AND $condition)";
}
sub comes_true { my ($condition) = @_; return $node->poll_query_until('postgres', "SELECT $condition"); }
sub is_asleep { my ($session) = @_; return is_active($session, "wait_event_type = 'Extension'"); }
sub asleep
{
	my ($session) = @_;
	comes_true(is_asleep($session)) or die "does not wait: $session->{err}";
	return $session;
}
sub pid
{
	my ($session) = @_;
	return $session->{pid} //= sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$session->{name}'");
}
sub proc { my ($session, $file) = @_; return PostgreSQL::Test::Utils::slurp_file('/proc/' . pid($session) . "/$file"); }

# PostgreSQL wakes a sleeping session by SIGURG.
sub was_woken
{
	my ($session) = @_;
	my ($pending) = proc($session, 'status') =~ /^ShdPnd:\s*([0-9a-f]+)/m;
	return hex($pending) >> 22 & 1;
}
# Stops the session while it sleeps, because while it looks it might hold a lock that other sessions need.
sub stop
{
	my ($session) = @_;
	for (;; go_on($session))
	{
		asleep($session);
		kill 'STOP', pid($session);
		sleep(0.01) until proc($session, 'stat') =~ /\) T /;
		return $session if sql('SELECT ' . is_asleep($session)) eq 't' && !was_woken($session);
	}
}
sub go_on { my ($session) = @_; kill 'CONT', pid($session); return $session; }

sub is_woken_soon
{
	my ($session) = @_;
	my $patience = 300;
	sleep(0.01) until was_woken($session) || $patience-- == 0;
	return was_woken($session);
}

# Returns whether the action wakes a waiting session, directly or by way of another session. A session that was about to
# fall asleep needs no signal, so the test tries several times.
sub wakes
{
	my ($start_waiting, $action) = @_;
	for (1 .. 20)
	{
		my $session = stop($start_waiting->());
		$action->();
		my $was_woken = is_woken_soon($session);
		end(go_on($session));
		return 1 if $was_woken;
	}
	return 0;
}

sub hold { my ($name) = @_; sql("SELECT shedlock_acquire_token('$name', '1 h')"); return; }
sub release { my ($name) = @_; sql("SELECT shedlock_force_release('$name')"); return; }
sub wait_for
{
	my ($name) = @_;
	return asleep(start("SELECT shedlock_acquire_token('$name', '1 h', wait => '1 h') IS NOT NULL"));
}
# A session that pg_stat_activity no longer shows has left the queues.
sub end
{
	my ($session) = @_;
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$session->{name}'");
	comes_true("NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '$session->{name}')")
		or die 'does not end';
	return finish($session);
}

# A look may take longer than the sleep that follows it. This look first waits for a lock on the table.
sql("SELECT shedlock_acquire_token('held', '1 h')");
my $ddl = $node->background_psql('postgres');
$ddl->query_safe('BEGIN; LOCK TABLE shedlock IN ACCESS EXCLUSIVE MODE');
my $slow = start("SELECT shedlock_wait_any('{held}', '{1}', '1 s', 1)");
comes_true(is_active($slow, "wait_event_type = 'Lock'")) or die 'it does not wait for the table';
$ddl->query_safe('SELECT pg_sleep(0.1); COMMIT');
$ddl->quit;
ok(comes_true('NOT ' . is_active($slow, 'true')), 'a wait ends even if a look took longer than the sleep after it');
is(end($slow), '{}', '... and no caller is told to try');

# Arrays have a maximum length.
my $limit = 1000;
sub refuses
{
	my ($arguments, $which) = @_;
	(undef, undef, my $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT shedlock_wait_any($arguments, '0', 1) FROM generate_series(1, 1 + $limit) n");
	like($err, qr/ERROR:  54000: $which must not have more than $limit elements/,
		"not more than $limit elements in $which");
}
refuses("array_agg('n' || n), array_agg(n)", 'names');
refuses("'{one}', array_agg(n)", 'which');

# What wakes a waiting session. Each of these subs lets somebody else have a lock of a new name, and starts a session
# that waits for it.
my $holder = $node->background_psql('postgres');
my ($number, $name, $token, $run) = (0);
sub new_name { return $name = 'woken ' . ++$number; }
sub wait_for_session
{
	my ($begin) = @_;
	$holder->query_safe("${begin}SELECT shedlock_acquire('" . new_name() . "', '1 h')");
	return wait_for($name);
}
sub wait_for_token
{
	$token = sql("SELECT shedlock_acquire_token('" . new_name() . "', '1 h')");
	return wait_for($name);
}
sub wait_for_pause
{
	sql("SELECT shedlock_pause('" . new_name() . "')");
	return wait_for($name);
}
sub wait_for_run
{
	my ($command) = @_;
	$run = start("CALL shedlock_run('" . new_name() . "', '$command', '1 h')");
	comes_true("EXISTS (SELECT FROM shedlock_locks WHERE name = '$name' AND state = 'held')")
		or die "no run: $run->{err}";
	return wait_for($name);
}
sub wait_for_run_that_waits
{
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	return wait_for_run('SELECT pg_advisory_xact_lock_shared(1)');
}
sub end_that_run
{
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	finish($run);
	return;
}
for ([ 'a release by its session', sub { wait_for_session('') },
		sub { $holder->query_safe("SELECT shedlock_release('$name')") } ],
	[ 'a release by its token', \&wait_for_token, sub { sql("SELECT shedlock_release_token('$name', $token)") } ],
	[ 'a release by force', sub { hold(new_name()); return wait_for($name) }, sub { release($name) } ],
	[ 'the end of a pause', \&wait_for_pause, sub { sql("SELECT shedlock_resume('$name')") } ],
	[ 'the commit of a completion', \&wait_for_token,
		sub { sql("SELECT shedlock_complete_token('$name', $token)") } ],
	[ 'the rollback of an acquisition', sub { wait_for_session('BEGIN; ') },
		sub { $holder->query_safe('ROLLBACK') } ],
	[ 'the end of a run', \&wait_for_run_that_waits, \&end_that_run ],
	[ 'the end of the session of a run', sub { wait_for_run('SELECT pg_sleep(3600)') }, sub { end($run) } ])
{
	my ($what, $start_waiting, $action) = @$_;
	ok(wakes($start_waiting, $action), "$what wakes a session that waits");
}
# No session wakes the waiter if the row is edited by hand, or if the lock is released by a prepared transaction, which
# any session may commit.
my $waiting;
hold('edited');
$waiting = wait_for('edited');
sql("UPDATE shedlock SET lock_until = timezone('UTC', clock_timestamp()) WHERE name = 'edited'");
is(finish($waiting), 't', 'a session that is not woken looks by itself after an UPDATE');
$holder->query_safe("SELECT shedlock_acquire('prepared', '1 h')");
$waiting = wait_for('prepared');
$holder->query_safe("BEGIN; SELECT shedlock_release('prepared'); PREPARE TRANSACTION 'p'");
sql("COMMIT PREPARED 'p'");
is(finish($waiting), 't', '... and after a prepared release');
$holder->quit;

# Which session is woken.
my ($first, $second);
hold('woken');
ok(wakes(sub { $first = wait_for('woken'); return wait_for('woken') }, sub { end($first) }),
	'a session that gives up wakes the one behind it');
undef $first;
my $both = "SELECT shedlock_acquire_token('{one, other}'::text[], '1 h', wait => '1 h') IS NOT NULL";
ok(wakes(
		sub {
			end($first) if $first;
			hold($_) for 'one', 'other';
			$first = asleep(start($both));
			return wait_for('one');
		},
		sub { release('one') }),
	'... and so does one that cannot use the lock, because another lock that it needs is held');
ok(wakes(
		sub {
			end($first);
			end(go_on($second)) if $second;
			hold('one');
			$first = asleep(start($both));
			$second = stop(wait_for('one'));
			return wait_for('one');
		},
		sub {
			release('one');
			is_woken_soon($second) or return;
			kill 'TERM', pid($second);
			go_on($second);
		}),
	'... and one that ends after it was woken, behind another one');
end($_) for $first, $second;
# The first session leaves the queue, so the second has to know when the lease ends.
# (If the first gets the lock before it is terminated, it holds it for a millisecond.)
$token = sql("SELECT shedlock_acquire_token('runs out', '1 h')");
$first = asleep(start("SELECT shedlock_acquire_token('runs out', '1 ms', wait => '1 h')"));
$second = wait_for('runs out');
# One transaction, because the lease might end before the next one.
my ($ends) = sql("BEGIN; SELECT shedlock_extend_token('runs out', $token, '1 s');
	SELECT (extract(epoch FROM lock_until) * 1000000)::bigint FROM shedlock WHERE name = 'runs out'; COMMIT")
	=~ /^t\n(\d+)$/ or die 'not extended';
end($first);
is(finish($second), 't', 'the session behind one that gives up gets the lock when the lease ends');
cmp_ok(sql("SELECT token FROM shedlock_locks WHERE name = 'runs out'"), '>=', $ends, '... not before');
for my $start_first (sub { wait_for('woken') },
	sub { asleep(start("SELECT shedlock_wait_any('{woken}', '{1}', '1 h', 1) = '{1}'")) })
{
	hold('woken');
	($first, $second) = map { stop($_->()) } $start_first, sub { wait_for('woken') };
	release('woken');
	ok(!was_woken($second), 'a release wakes only the first of two');
	is(finish(go_on($first)), 't', '... which gets the lock');
	ok(!was_woken($second), '... and does not wake the second, which would find the lock taken');
	end(go_on($second));
}

# The rollback of an extend wakes one of many waiting sessions. While the first five are stopped, another one gets the
# lock.
hold('herd');
my @herd = map { wait_for('herd') } 1 .. 10;
my ($tries, $woken) = (0, 0);
until ($woken || ++$tries > 100)
{
	stop($_) for @herd;
	sql("BEGIN; SELECT shedlock_extend_token('herd', token, '1 h') FROM shedlock_locks WHERE name = 'herd'; ROLLBACK");
	$woken = grep { was_woken($_) } @herd;
	go_on($_) for @herd;
}
is($woken, 1, 'the rollback of an extend wakes one of ten waiting sessions');
stop($_) for @herd[ 0 .. 4 ];
release('herd');
ok(comes_true("state = 'held' FROM shedlock_locks WHERE name = 'herd'"),
	'... and while the first five are stopped, another one gets the lock');
end(go_on($_)) for @herd;

# Sessions that wait for several locks share 8192 places in the queues. Each needs one place per name, and in
# shedlock_wait_any one for its wait_id. Here several sessions take all of them.
my $names = "FROM generate_series(1, $limit) n";
sql("SELECT shedlock_acquire_token(array_agg('n' || n), '1 h') $names");
sub wait_for_any
{
	my ($wait, $count) = @_;
	return "SELECT shedlock_wait_any(array_agg('n' || n), array_agg(n), '$wait', 1) FROM generate_series(1, $count) n";
}
my @crowd = map { asleep(start(wait_for_any('1 h', $limit))) } 1 .. 8;
my $left = 8192 - 8 * ($limit + 1);
is(sql(wait_for_any('0', $left)), '', 'shedlock_wait_any returns NULL if the names leave no place for the wait_id');
is(sql(wait_for_any('0', $left - 1)), '{}', '... but waits if they leave one');
push @crowd, asleep(start(wait_for_any('1 h', $left - 3)));
is(sql(wait_for_any('0', 1)), '{}', 'with two places left, a session can wait for one name');
is(sql("SELECT shedlock_wait_any(array_agg('n1'::text), array_agg(n), '0', 1) $names"), '{}',
	'... even if that name is given many times');
push @crowd, asleep(start(wait_for_any('1 h', 1)));
is(sql(wait_for_any('0', 1)), '', 'with no place left, it cannot');
ok(wakes(sub { hold('single'); return wait_for('single') }, sub { release('single') }),
	'... but shedlock_acquire_token with one name always finds a place: the waiting session is woken');
$second = start("SELECT shedlock_acquire_token('{n1, n2}'::text[], '1 h', wait => '1 h') IS NOT NULL");
asleep($second);
release('n1');
release('n2');
is(finish($second), 't', 'a session that waits for two names without a place looks by itself');
end($_) for @crowd;
is(sql(wait_for_any('0', $limit)), '{}', 'places are free again when a session ends') for 1 .. 9;

$node->stop;
done_testing();
