# Fault 46: a server that checks its assertions, which Debian's does not. Runs the regression files, the races and
# random histories. Then runs most regression files again, with every cache invalidated as often as possible, and
# amcheck. This file is run by test/reliability/instrumented/assert, which builds such a server, and does nothing
# otherwise. With ASSERT_SHORT it runs only the regression files and races.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Crowd;
use ShedLock;

my $sources = $ENV{ASSERT_SOURCES} or plan skip_all => 'run by test/reliability/instrumented/assert';

my $node = new_server('server', crowd_settings() . <<'CONF', extra => [ '--encoding=UTF8', '--locale=C' ]);
shared_preload_libraries = 'shedlock'
fsync = off
log_min_messages = warning
log_min_error_statement = panic
CONF

# On another server the other tests would pass without proving anything.
my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
is(readlink "/proc/$postmaster/exe", "$sources/server/bin/postgres", 'the server is the one that was built')
	&& is($node->safe_psql('postgres', 'SHOW debug_assertions'), 'on', '... and checks its assertions')
	or BAIL_OUT('not on a server with assertions');
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;

my $read = 0; # how much of the log earlier calls have checked
sub nothing_in_the_log
{
	my ($what) = @_;
	my $log = slurp_file($node->logfile, $read);
	$read += length $log;
	my @trouble = grep { /^TRAP:|PANIC|terminated by signal|leak|still referenced/ } split /\n/, $log;
	is(join("\n", @trouble[ 0 .. ($#trouble < 9 ? $#trouble : 9) ]), '',
		"$what: no assertion failed, no crash, nothing leaked");
}

# Returns how many tests passed. The time limit, in seconds, ends the run even if a session loops and cannot be
# interrupted.
sub installcheck
{
	my ($what, $time, @variables) = @_;
	my $out = '';
	my $good = IPC::Run::run([ 'timeout', $time, 'make', '-C', $sources, 'installcheck', @variables ], '>&', \$out);
	my $passed = () = $out =~ /^(?:test .* \.\.\. ok|ok \d+ )/mg;
	ok($good && $passed, "$what: $passed passed")
		or diag($out, -e "$sources/regression.diffs" ? slurp_file("$sources/regression.diffs") : ());
	nothing_in_the_log($what);
	return $passed;
}

my $passed = installcheck('regression files and races', 1800);

# When a session ends by FATAL, the portal of its CALL is freed before the callbacks of the transaction are called.
$node->psql('postgres', q[CALL shedlock_run('ended', 'SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)', '1 h')]);
like($node->safe_psql('postgres', 'SELECT state FROM shedlock_locks'), qr/^free$/, 'a session that ends in shedlock_run');
nothing_in_the_log('... does so in good order');

if ($ENV{ASSERT_SHORT})
{
	$node->stop;
	done_testing();
	exit;
}

# As in histories.pl, each group of clients has its own table.
copies($node, map { "crowd$_" } 1 .. 4);
my @crowds = map {
	start_crowd($node, connection => connection($node->connstr("crowd$_")), faults => 'force', pace => 200,
		histories => 50)
} 1 .. 4;
my %saw;
for my $crowd (@crowds)
{
	my %counts = eval { finish_crowd($crowd, 'random histories') };
	$saw{$_} += $counts{$_} for keys %counts;
}
nothing_in_the_log('random histories');

# Without caches some files would take many minutes, so they are left out: they create and drop tables and extensions,
# plan many queries, or make thousands of calls. (adopt also expects a warning once, which here is given with every look
# at the table.) clock, retry and run are left out because their leases, ticks and timeouts end before such slow
# statements do.
my @files =
	grep { !/^(?:install|adopt|attached|clock|doctor|hostile|protect|refusal|retry|row_hint|run|schedule|writers)$/ }
	map { m{(\w+)\.sql$} } sort glob "$sources/sql/*.sql";
$node->safe_psql('postgres', 'ALTER SYSTEM SET debug_discard_caches = 1');
$node->reload;
my $again = installcheck('regression files, every cache invalidated as often as possible', 3600, 'ISOLATION=',
	"REGRESS=install @files");
$node->safe_psql('postgres', 'ALTER SYSTEM RESET debug_discard_caches');
$node->reload;

cmp_ok($node->safe_psql('crowd1', 'SELECT count(*) FROM shedlock'), '>', 0, 'the lock table has rows');
command_ok([ 'pg_amcheck', '--all', '--install-missing', '--heapallindexed' ],
	'amcheck finds every table and index sound');
$node->stop;

seen(46, $saw{histories}, 'histories',
	"after $passed regression files and races; $again regression files without caches");
done_testing();
