# A process id that comes back is not the session that had it: the lock of a run that died is free, though a backend with its process
# id lives, and that one owns nothing of what the other held (I4).
use strict;
use warnings;
use Namespace '--pid', '--fork', '--mount-proc';
use PostgreSQL::Test::Utils;
use Test::More;
use Effects;
use ShedLock;

my $last = '/proc/sys/kernel/ns_last_pid'; # the next process gets the one after this
plan skip_all => 'the kernel does not let us choose process ids' unless -w $last;

my $node = new_server('server', "autovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }

my $run = start_run($node, 'run', '0');
held($node, 'run') or die 'no run';
my $pid = sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'dying'");
# Of a session that held a lock by itself the row says the same, but for what makes it a run's.
sql("INSERT INTO shedlock SELECT 'own', lock_until, locked_at, replace(locked_by, '!', ':'), lock_at_least_until FROM shedlock WHERE name = 'run'");
kill 'TERM', $pid;
gone($node);
$run->finish;

# One psql, since each further process would have the id.
my $heir = $node->background_psql('postgres');
sub heir { return scalar $heir->query($_[0]); }
for (my $tries = 0; $tries < 50 && heir('SELECT pg_backend_pid()') != $pid; $tries++)
{
	open my $file, '>', $last or die "$last: $!";
	print $file $pid - 1;
	close $file or die "$last: $!";
	heir('\c');
}
is(heir('SELECT pg_backend_pid()'), $pid, 'the process id has come back');

is(heir("SELECT shedlock_release('run')"), 'f', 'I4 the heir releases no lock of a run');
is(heir("SELECT shedlock_release('own')"), 'f', 'I4 ... nor of the session');
is(heir("SELECT shedlock_extend('own', '1 min')"), 'f', 'I4 ... and extends none');
is(heir("SELECT state FROM shedlock_locks WHERE name = 'run'"), 'free', 'the run is dead to the view');
is(sql("SELECT shedlock_acquire('own', '1 min')"), 'f', 'what a session held by itself lasts as long as its lease');
is(sql("SELECT shedlock_acquire('run', '1 min')"), 't', 'a lock of a run is free when its session is gone, whoever has its process id');
is(heir('SELECT pg_backend_pid()'), $pid, 'control: the heir still had it');

$heir->quit;
$node->stop;
done_testing();
