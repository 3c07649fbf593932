# Rows 43 and 60: a command of shedlock_run has one effect per tick, even if sessions or the server die meanwhile. The
# lock of a run whose session is gone is free, like any lock that ends with its session. Past ticks, which several
# workers catch up in ascending order, also have one effect each.
use strict;
use warnings;
use IPC::Run;
use Test::More;
use Time::HiRes qw(sleep);
use Crowd;
use Effects;
use ShedLock;

my $node = new_server('server', crowd_settings());
sub sql { return $node->safe_psql('postgres', $_[0]); }

# Starts a session that holds locks that end with it: one as a session, the others by token.
sub start_holder
{
	my ($how) = @_;
	my @acquired = ("shedlock_acquire('$how, session', '1 hour'",
		map { "shedlock_acquire_token('$how, $_', '1 hour'" } 'token', 'completed');
	my @commands = map { "SELECT $_, ends_with_session => true)" } @acquired,
		"shedlock_acquire_token('$how, token kept', '1 hour', at_least => '1 hour'";
	my @arguments = map { ('-c', $_) } @commands, 'SELECT pg_sleep(3600)';
	return IPC::Run::start([ 'psql', '-XAtq', @arguments,
			'-d', $node->connstr('postgres') . ' application_name=dying' ],
		'<', \undef, '>', \my $out, '2>', \my $err);
}

sub token { return sql("SELECT token FROM shedlock_locks WHERE name = '$_[0]'"); }

# When the session has ended, other callers can acquire its locks. The owner of a token can complete a lock that has not
# been taken since, but cannot extend it.
sub ends_with_its_session
{
	my ($how) = @_;
	my ($token, $completed, $kept) = map { token("$how, $_") } 'token', 'completed', 'token kept';
	is(sql("SELECT shedlock_acquire('$how, session', '1 min')"), 't',
		"$how: a lock that ends with its session is free");
	is(sql("SELECT shedlock_extend_token('$how, token', $token, '1 min')"), 'f',
		"$how: a token is not extended after the session that acquired it has gone");
	is(sql("SELECT shedlock_acquire('$how, token', '1 min')"), 't', "$how: ... and its lock is free");
	is(sql("SELECT shedlock_extend_token('$how, token kept', $kept, '1 min')"), 'f',
		"$how: a token is not extended either if its lock is kept by at_least");
	is(sql("SELECT shedlock_acquire('$how, token kept', '1 min')"), 'f',
		"I5 $how: ... which other callers cannot acquire");
	is(sql("SELECT state, last_outcome FROM shedlock_locks WHERE name = '$how, token kept'"), 'kept|ran out',
		"$how: ... and the view shows it");
	sql("SELECT shedlock_complete_token('$how, completed', $completed)");
	is(sql("SELECT state, last_outcome FROM shedlock_locks WHERE name = '$how, completed'"), 'free|done',
		"$how: a lock that has not been taken since can still be completed by its token");
}

# When the session of a run is gone, the next caller gets the lock, or gets it after at_least.
sub dies
{
	my ($how, $cause_fault) = @_;
	my %at_least = ("$how, free" => '0', "$how, kept" => '1 hour', "$how, kept for a while" => '2 s');
	my @runs = map { start_run($node, $_, $at_least{$_}) } sort keys %at_least;
	push @runs, start_holder($how);
	sql("SELECT shedlock_acquire('$how, no run', '1 hour')");
	held($node, keys %at_least, map { "$how, $_" } 'session', 'token', 'completed', 'token kept') or die 'no run';
	my $began = sql("SELECT token FROM shedlock_locks WHERE name = '$how, kept for a while'");
	is(sql("SELECT shedlock_acquire('$how, free', '1 min')"), 'f', "$how: the lock is held during the run");
	$cause_fault->();
	gone($node);
	is(sql("SELECT shedlock_acquire('$how, free', '1 min')"), 't',
		"$how: the next attempt gets the lock of a run whose session is gone");
	is(sql("SELECT state, last_outcome FROM shedlock_locks WHERE name = '$how, kept'"), 'kept|ran out',
		"$how: the view shows that a run with at_least has died");
	is(sql("SELECT shedlock_acquire('$how, kept', '1 min')"), 'f', "I5 $how: its at_least is honoured");
	cmp_ok(sql("SELECT shedlock_acquire_token('$how, kept for a while', '1 min', wait => '1 h')") - $began, '>=',
		2_000_000, "I5 $how: ... to its end");
	ends_with_its_session($how);
	is(sql("SELECT shedlock_acquire('$how, no run', '1 min')"), 'f',
		"$how: a session's ordinary lock lasts until its lease ends");
	$_->finish for @runs;
	return;
}

my $dying = "FROM pg_stat_activity WHERE application_name = 'dying'";
dies('terminated', sub { sql("SELECT pg_terminate_backend(pid) $dying") });
dies('killed', sub { crash_restart($node, (split /\n/, sql("SELECT pid $dying"))[0]) });
dies('restarted', sub { $node->stop('immediate'); $node->start });

# A caller that already waits, and has seen the session alive, gets the lock as well.
my $run = start_run($node, 'waited for', '0');
held($node, 'waited for') or die 'no run';
my $waiter = launch({}, 'psql', '-XAtq', '-c', "SELECT shedlock_acquire('waited for', '1 min', wait => '1 h')",
	'-d', $node->connstr('postgres') . ' application_name=waiter');
$node->poll_query_until('postgres', "SELECT true FROM pg_stat_activity WHERE application_name = 'waiter'
	AND wait_event_type = '" . (is_portable() ? 'Timeout' : 'Extension') . "'") or die 'it does not wait';
sql("SELECT pg_terminate_backend(pid) $dying");
ended($waiter);
is($waiter->{out}, "t\n", 'a caller that waits for the lock of a run gets it when the session of the run is terminated')
	or diag($waiter->{err});
$run->finish;

my %rows; # of the history of runs

# The program terminates and kills sessions, and this function restarts the server. Returns how often, and what the
# program counted.
sub dying_season
{
	my ($title, $ticks, $how) = @_;
	my $every = 100;
	my $season = start_season($node->connstr('postgres'), $ticks, $how);
	my $restarts = 0;
	for (my $tick = $every / 2; $tick < $ticks && announced($season, $tick); $tick += $every)
	{
		sleep(rand(0.01));
		$node->stop('immediate');
		$node->start;
		$restarts++;
	}
	my %saw = finish_season($season, $node, $title);
	met($saw{$_}, "control, $title: sessions were $_") for 'terminated', 'killed';
	$rows{$_} += $saw{$_} // 0 for 'done', 'failed', 'ran out';
	return sprintf('the slowest after %.1f s: sessions terminated %d, killed with all others %d, immediate restarts %d',
		($saw{longest} // 0) / 1e6, $saw{terminated} // 0, $saw{killed} // 0, $restarts);
}

sql('CREATE TABLE effects (tick bigint, place serial)');
sql('SELECT shedlock_keep_history()');
my $ticks = often(100, 10_000);
my $said = dying_season('dying sessions', $ticks, 'kills');
seen(43, $ticks, 'ticks', $said);

sql("DELETE FROM shedlock WHERE name = 'job'; TRUNCATE effects, shedlock_history");
my $past = often(60, 5_000);
$said = dying_season('a backlog', $past, 'backlog');
is(sql('SELECT count(*) FROM (SELECT tick < lag(tick) OVER (ORDER BY place) AS falls FROM effects) one WHERE falls'), 0,
	'a backlog: ... in ascending order');
seen(60, $past, 'ticks', $said);
seen_history('of the ticks of rows 43 and 60', %rows);

$node->stop;
done_testing();
