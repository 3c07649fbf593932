# A backend that reuses a process id is not the session that had it before. The lock of a run that died is free although
# there is a backend with its process id, and that backend does not own the locks of the former one (I4).
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
# If the session had acquired a lock without a run, its row would differ only in one character of locked_by.
sql("INSERT INTO shedlock SELECT 'own', lock_until, locked_at, replace(locked_by, '!', ':'), lock_at_least_until
	FROM shedlock WHERE name = 'run'");
kill 'TERM', $pid;
gone($node);
$run->finish;

# A single psql reconnects, because a new psql process would get the id itself.
my $heir = $node->background_psql('postgres');
sub heir { return scalar $heir->query($_[0]); }
for (my $tries = 0; $tries < 50 && heir('SELECT pg_backend_pid()') != $pid; $tries++)
{
	open my $file, '>', $last or die "$last: $!";
	print $file $pid - 1;
	close $file or die "$last: $!";
	heir('\c');
}
is(heir('SELECT pg_backend_pid()'), $pid, 'control: the new session has the process id');

is(heir("SELECT shedlock_release('run')"), 'f', 'I4 the new session cannot release the lock of the run');
is(heir("SELECT shedlock_release('own')"), 'f', 'I4 ... nor the lock of the former session');
is(heir("SELECT shedlock_extend('own', '1 min')"), 'f', 'I4 ... nor extend it');
is(heir("SELECT state FROM shedlock_locks WHERE name = 'run'"), 'free', 'the view shows that the run has died');
is(sql("SELECT shedlock_acquire('own', '1 min')"), 'f',
	'an ordinary lock of the former session lasts until its lease ends');
is(sql("SELECT shedlock_acquire('run', '1 min')"), 't',
	'the lock of a run is free after its session is gone, even if another session has its process id');
is(heir('SELECT pg_backend_pid()'), $pid, 'control: the new session still has the process id');

$heir->quit;
$node->stop;
done_testing();
