# The client over a fail-over: it holds on to its lock while the first of two hosts dies and comes back as a standby.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $first = new_server('first', "wal_log_hints = on\n", allows_streaming => 1);
my $second = new_standby($first, 'second');
$second->start;
$first->append_conf('postgresql.conf', "synchronous_standby_names = 'second'\n");
$first->reload;
$first->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication");

my $both = sprintf "host=%s,%s port=%s,%s dbname=postgres", $first->host, $second->host, $first->port, $second->port;

my $go = PostgreSQL::Test::Utils::tempdir() . '/go';
my $job = launch({}, $tool, 'run', 'job', '--dsn', $both, '--at-most', '12s', '--', 'sh', '-c', "until [ -e $go ]; do sleep 0.1; done; echo done");
ok($first->poll_query_until('postgres', "SELECT count(*) = 1 FROM shedlock_locks WHERE name = 'job' AND state = 'held'"),
	'a command runs under a lock of the first host');
my $token = $first->safe_psql('postgres', "SELECT token FROM shedlock_locks WHERE name = 'job'");

$first->stop('immediate');
$second->promote;
$first->set_standby_mode;
$first->start;
is($first->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'the first host is a standby now');

my $until = $second->safe_psql('postgres', "SELECT lock_until FROM shedlock_locks WHERE name = 'job'");
ok($second->poll_query_until('postgres', "SELECT lock_until > '$until' FROM shedlock_locks WHERE name = 'job'"),
	'keep-alive extends the lease on the second');
is($second->safe_psql('postgres', "SELECT token FROM shedlock_locks WHERE name = 'job'"), $token, '... of the same acquisition');
my ($refused, $said) = run_command([ $tool, 'run', 'job', '--dsn', $both, '--at-most', '10s', '-E', '9', '--', 'false' ]);
is($? >> 8, 9, 'others are refused');

append_to_file($go, '');
is(ended($job), 0, 'the command ends as it likes');
is($job->{out}, "done\n", '... in its own time');
is($second->safe_psql('postgres', "SELECT state FROM shedlock_locks WHERE name = 'job'"), 'free', '... and its lock is released');

my ($list) = run_command([ $tool, 'list', '--dsn', $first->connstr('postgres') ]);
like($list, qr/^job +held /m, 'list works on a standby');
my (undef, $why) = run_command([ $tool, 'acquire', 'job', '--dsn', $first->connstr('postgres'), '--at-most', '10s' ]);
is($? >> 8, 125, 'acquire does not');
like($why, qr/read-only|takes no writes/, '... and says why');
(undef, $why) = run_command([ $tool, 'acquire', 'job', '--dsn', $first->connstr('postgres') . ' target_session_attrs=any', '--at-most', '10s' ]);
like($why, qr/on a standby.*target_session_attrs=read-write/, '... also when it was told to take any server');

$_->stop for $first, $second;
done_testing();
