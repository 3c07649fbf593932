# Rows 53 and 54: incidents of other projects, tried on our locks. Several candidates for leadership (leader.cpp) use
# the same holder name. The checker verifies that no two act as the leader at the same time, and that a late one changes
# and commits nothing.
use strict;
use warnings;
use IPC::Run;
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

my %leaders = (leaders => 'yes', clients => 6, shortest => 30, longest => 150, operations => often(400, 2000),
	histories => often(2, 1000), seconds => seconds(6, 600),
	admin => connection($node->connstr('postgres')));

# Calls $cause_fault repeatedly while the clients are at work. Returns how often.
sub meanwhile
{
	my ($crowd, $cause_fault) = @_;
	my $times = 0;
	while (at_work($node, $crowd))
	{
		$cause_fault->();
		$times++;
		sleep(0.2 + rand(0.8));
	}
	return $times;
}

# Counts what candidates tried after they had lost the lock: to commit guarded work, and to release the lock.
sub late
{
	my ($saw) = @_;
	my $of = sub { my $sum = 0; $sum += $saw->{$_} // 0 for @_; return $sum };
	# A release after a completion answers no as well.
	my $releases = $of->('token release no', 'library release no')
		- $of->('token complete yes', 'library complete yes');
	my $commits = $of->('token guard error', 'library guard no');
	met($releases, 'control: locks were released too late, which changed nothing');
	met($commits, 'control: work was done too late, and not committed');
	return "$saw->{granted} terms, never two at a time; $releases late releases changed nothing, "
		. "$commits late commits were refused";
}

# https://github.com/rails/solid_queue/pull/761: the heartbeats of a worker failed, but the worker continued. Other
# workers took over, and when the first one ended, it released their lock. In the end a job with a limit of one ran
# eleven times at once.
my $extending = sql("SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc
	WHERE proname = 'shedlock_extend_token'");
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
	my %saw = finish_crowd($crowd, 'extends fail, but their holders are alive');
	met($saw{'state 42501'}, 'control: extends failed');
	seen(53, $times, 'times no client could extend: ' . late(\%saw));
}

# The same with a command that the tool runs. The command must end before the lease does.
my $commands = often(1, 10);
for (1 .. $commands)
{
	my $clock = boot_clock();
	my $run = launch_by($clock, {}, $tool, 'run', 'command', '--dsn', $worker, '--at-most', '1h',
		'--', 'sleep', '3600');
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM shedlock_locks WHERE name = 'command' AND state = 'held'") or die 'no run';
	my $token = sql("SELECT token FROM shedlock_locks WHERE name = 'command'");
	shut_out();
	advance($clock, $_) for when_an_extend_is_due, after_the_deadline;
	is(ended($run), 124, 'the command was stopped') or diag($run->{err});
	is(sql("SELECT token, last_outcome FROM shedlock_locks WHERE name = 'command'"), "$token|failed",
		'I1 ... and the lock was released before another caller could get it');
	let_in();
}
seen(53, $commands, 'commands of shedlock run: stopped before others got the lock');

# https://github.com/oban-bg/oban/issues/1488: behind a pooler, a leader whose renewal had failed still considered
# itself the leader. Its next renewals used only the name of the lock, so they extended another leader's lock: there
# were two leaders for nineteen days. https://github.com/oban-bg/oban-py/issues/32: the same if renewals use the name of
# the host, and several hosts have that name.
{
	my $pooler = new_pooler($node);
	my $crowd = start_crowd($node, %leaders, connection => "$pooler->{through} application_name=crowd", pooler => 'yes',
		faults => 'terminate', pace => 50, allow => '57P01');
	my $times = meanwhile($crowd, sub { restart_pooler($pooler) });
	my %saw = finish_crowd($crowd, 'leaders of one name behind a pooler');
	met($saw{'lost in mid-operation'}, 'control: connections failed');
	seen(54, $saw{'lost in mid-operation'},
		"answers lost by candidates of one name over two sessions, PgBouncer restarted $times times: " . late(\%saw));

	# Therefore the library uses a token, and so must any client behind a pooler. After the restart the pooler has one
	# session.
	restart_pooler($pooler);
	my $through = sub {
		IPC::Run::run([ 'psql', '-XAtq', '-d', $pooler->{through}, '-c', $_[0] ], '>', \my $out, '2>', \my $err);
		return $out;
	};
	is($through->("SELECT shedlock_acquire('session', '1 hour')"), "t\n",
		'counter-example: one process acquires a lock for its session');
	is($through->("SELECT shedlock_release('session')"), "t\n",
		'... and another process, to which the pooler gives the same session, releases it');
	stop_pooler($pooler);
}

$node->stop;
done_testing();
