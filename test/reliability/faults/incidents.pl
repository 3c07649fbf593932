# Rows 53 and 54: what befell others, done to ours. Candidates for one leadership (leader.cpp) who all bear one name; the checker sees to it
# that no two count on it at the same time, and that who is late changes and commits nothing.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use BootClock;
use Crowd;
use Pooler;
use ShedLock;

my $node = new_server('server', crowd_settings());
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql('CREATE ROLE worker LOGIN');
sql("SELECT shedlock_grant('worker')");
sql($_) for 'GRANT SELECT ON shedlock TO worker', 'ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO worker';

my %leaders = (leaders => 'yes', clients => 6, shortest => 30, longest => 150, operations => often(1000, 2000), histories => often(3, 1000), seconds => seconds(6, 600),
	admin => connection($node->connstr('postgres')));

# While the crowd is at work, as it said it would.
sub meanwhile
{
	my ($crowd, $strike) = @_;
	my $times = 0;
	while (at_work($node, $crowd))
	{
		$strike->();
		$times++;
		sleep(0.2 + rand(0.8));
	}
	return $times;
}

# Late are those who released what was not theirs any more, and those who then wanted to commit.
sub late
{
	my ($saw) = @_;
	my $of = sub { my $sum = 0; $sum += $saw->{$_} // 0 for @_; return $sum };
	my $releases = $of->('token release no', 'library release no');
	my $commits = $of->('token guard error', 'library guard no');
	met($releases, 'control: locks were released too late, which changed nothing');
	met($commits, 'control: work was done too late, and not committed');
	return "$saw->{granted} terms, never two at a time; $releases late releases changed nothing, $commits late commits were refused";
}

# https://github.com/rails/solid_queue/pull/761: the heartbeats of a worker failed, not the worker. Others took over, and when it came to its
# end it released what was theirs: in the end a job with a limit of one ran eleven times at once.
my $extending = sql("SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc WHERE proname = 'shedlock_extend_token'");
sub shut_out { return sql("REVOKE EXECUTE ON FUNCTION $extending FROM worker"); }
sub let_in { return sql("GRANT EXECUTE ON FUNCTION $extending TO worker"); }
my $worker = $node->connstr('postgres') . ' user=worker';
{
	my $crowd = start_crowd($node, %leaders, connection => connection($worker), allow => '42501');
	my $times = meanwhile($crowd, sub {
		shut_out();
		sleep(rand(0.4));
		let_in();
	});
	my %saw = finish_crowd($crowd, 'extends fail, their holders live');
	met($saw{'state 42501'}, 'control: extends failed');
	seen(53, $times, 'times nobody could extend: ' . late(\%saw));
}

# The same with a command that the tool runs: it has ended while the lock is still its own.
my $commands = often(1, 10);
for (1 .. $commands)
{
	my $clock = boot_clock();
	my $run = launch_by($clock, {}, $tool, 'run', 'command', '--dsn', $worker, '--at-most', '1h', '--', 'sleep', '3600');
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM shedlock_locks WHERE name = 'command' AND state = 'held'") or die 'no run';
	my $token = sql("SELECT token FROM shedlock_locks WHERE name = 'command'");
	shut_out();
	advance($clock, $_) for when_an_extend_is_due, after_the_deadline;
	is(ended($run), 124, 'the command was stopped') or diag($run->{err});
	is(sql("SELECT token, last_outcome FROM shedlock_locks WHERE name = 'command'"), "$token|failed", 'I1 ... before others could get its lock, which it has released');
	let_in();
}
seen(53, $commands, 'commands of shedlock run: stopped before others got the lock');

# https://github.com/oban-bg/oban/issues/1488: behind a pooler, a leader whose renewal had failed took itself for one still, and its next
# renewals, which went by the name of the job alone, extended what was another's by then: two leaders for nineteen days.
# https://github.com/oban-bg/oban-py/issues/32: the same where renewals go by the host's name, and several bear it.
{
	my $pooler = new_pooler($node);
	my $crowd = start_crowd($node, %leaders, connection => "$pooler->{through} application_name=crowd", pooler => 'yes', faults => 'terminate', pace => 50,
		allow => '57P01');
	my $times = meanwhile($crowd, sub { restart_pooler($pooler) });
	my %saw = finish_crowd($crowd, 'leaders of one name behind a pooler');
	met($saw{'lost in mid-operation'}, 'control: connections failed');
	seen(54, $saw{'lost in mid-operation'}, "answers lost by candidates of one name over two sessions, PgBouncer restarted $times times: " . late(\%saw));

	# Why the library and whoever is behind a pooler takes a token.
	my $through = sub { IPC::Run::run([ 'psql', '-XAtq', '-d', $pooler->{through}, '-c', $_[0] ], '>', \my $out, '2>', \my $err); return $out };
	is($through->("SELECT shedlock_acquire('session', '1 hour')"), "t\n", 'counter-example: a process has a lock by session');
	is($through->("SELECT shedlock_release('session')"), "t\n", '... and another, which has the same session by now, releases it');
	stop_pooler($pooler);
}

$node->stop;
done_testing();
