# Waiting, by what happened and not by how long it took: that a wait ends, which session has a place in the queues, and which one is woken. A session
# that is stopped in its sleep cannot look by itself. If another one wakes it, the signal stays pending.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep);
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
sub is_asleep { my ($session) = @_; return is_active($session, "wait_event_type = 'Extension'"); }
sub asleep { my ($session) = @_; comes_true(is_asleep($session)) or die "does not wait: $session->{err}"; return $session; }
sub pid { my ($session) = @_; return $session->{pid} //= sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$session->{name}'"); }
sub proc { my ($session, $file) = @_; return PostgreSQL::Test::Utils::slurp_file('/proc/' . pid($session) . "/$file"); }

# SIGURG, by which PostgreSQL wakes a session that sleeps.
sub was_woken { my ($session) = @_; my ($pending) = proc($session, 'status') =~ /^ShdPnd:\s*([0-9a-f]+)/m; return hex($pending) >> 22 & 1; }
# Not while it looks: it might have a lock that the others need.
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

# Whether the action wakes a session that waits. Not just before it falls asleep, when a signal is not needed: then once more.
sub wakes
{
	my ($start_waiting, $action) = @_;
	for (1 .. 100)
	{
		my $session = stop($start_waiting->());
		$action->();
		my $was_woken = was_woken($session);
		end(go_on($session));
		return 1 if $was_woken;
	}
	return 0;
}

sub hold { my ($name) = @_; sql("SELECT shedlock_acquire_token('$name', '1 h')"); return; }
sub release { my ($name) = @_; sql("SELECT shedlock_force_release('$name')"); return; }
sub wait_for { my ($name) = @_; return asleep(start("SELECT shedlock_acquire_token('$name', '1 h', wait => '1 h') IS NOT NULL")); }
# When it is not to be seen any more it has left the queues.
sub end
{
	my ($session) = @_;
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$session->{name}'");
	comes_true("NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '$session->{name}')") or die 'does not end';
	return finish($session);
}

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

# Which session is woken.
hold('woken');
my ($first, $second);
ok(wakes(sub { hold('woken'); return wait_for('woken') }, sub { release('woken') }), 'a release wakes the session that waits');
my $token;
ok(wakes(sub { $token = sql("SELECT shedlock_acquire_token('completed', '1 h')"); return wait_for('completed') }, sub { sql("SELECT shedlock_complete_token('completed', $token)") }),
	'... and so does the commit of a completion');
hold('woken');
ok(wakes(sub { $first = wait_for('woken'); return wait_for('woken') }, sub { end($first) }), '... and one that gives up the session behind it');
for my $start_first (sub { wait_for('woken') }, sub { asleep(start("SELECT shedlock_wait_any('{woken}', '{1}', '1 h', 1) = '{1}'")) })
{
	hold('woken');
	($first, $second) = map { stop($_->()) } $start_first, sub { wait_for('woken') };
	release('woken');
	ok(!was_woken($second), 'a release wakes only the first of two');
	is(finish(go_on($first)), 't', '... which has use for the lock');
	ok(!was_woken($second), '... and wakes nobody: the second would find the lock taken');
	end(go_on($second));
}

# Sessions that wait for several locks have 8192 places, of which each needs one for its room. A crowd takes all of them.
my $names = "FROM generate_series(1, $limit) n";
sql("SELECT shedlock_acquire_token(array_agg('n' || n), '1 h') $names");
sub wait_for_any { my ($wait, $count) = @_; return "SELECT shedlock_wait_any(array_agg('n' || n), array_agg(n), '$wait', 1) FROM generate_series(1, $count) n"; }
my @crowd = map { asleep(start(wait_for_any('1 h', $limit))) } 1 .. 8;
my $left = 8192 - 8 * ($limit + 1);
is(sql(wait_for_any('0', $left)), '', 'one name more than there are places left: it is no use to wait');
is(sql(wait_for_any('0', $left - 1)), '{}', '... as many as are left');
push @crowd, asleep(start(wait_for_any('1 h', $left - 3)));
is(sql(wait_for_any('0', 1)), '{}', 'two places are left');
is(sql("SELECT shedlock_wait_any(array_agg('n1'::text), array_agg(n), '0', 1) $names"), '{}', '... which is enough to wait for one name, however often it is given');
push @crowd, asleep(start(wait_for_any('1 h', 1)));
is(sql(wait_for_any('0', 1)), '', 'no place is left');
ok(wakes(sub { hold('single'); return wait_for('single') }, sub { release('single') }), '... but for a session that waits for one name');
$second = start("SELECT shedlock_acquire_token('{n1, n2}'::text[], '1 h', wait => '1 h') IS NOT NULL");
asleep($second);
release('n1');
release('n2');
is(finish($second), 't', 'a session that waits for two names without a place looks by itself');
end($_) for @crowd;
is(sql(wait_for_any('0', $limit)), '{}', 'places are vacant again when a session ends') for 1 .. 9;

$node->stop;
done_testing();
