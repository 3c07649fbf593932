# Row 51: many sessions wait for one lock. A third of the releases wake no session, because the row is edited by hand.
# Some waiters are cancelled by a timeout in any phase of the wait, and some are stopped and resumed.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Crowd;
use ShedLock;

my $node = new_server('server', crowd_settings());
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql('CREATE TABLE counter (n int); INSERT INTO counter VALUES (0); CREATE TABLE freed (at timestamptz, told boolean);
	CREATE TABLE taken (at timestamptz)');

my $folder = PostgreSQL::Test::Utils::tempdir();
my ($clients, $seconds) = (often(60, 200), seconds(8, 300));
append_to_file("$folder/wait.sql", <<'SCRIPT');
\set told random(1, 3)
SELECT shedlock_acquire_token('one', '1 h', wait => '1 h') AS token \gset
INSERT INTO taken VALUES (clock_timestamp());
SELECT n AS old FROM counter \gset
UPDATE counter SET n = :old + 1;
INSERT INTO freed VALUES (clock_timestamp(), :told > 1);
\if :told > 1
SELECT shedlock_release_token('one', :token);
\else
UPDATE shedlock SET lock_until = timezone('UTC', clock_timestamp()) WHERE name = 'one';
\endif
SCRIPT
my $errors = '';
my $waiting = IPC::Run::start([ 'pgbench', '-n', '-f', "$folder/wait.sql", '-c', $clients, '-T', $seconds,
		'-h', $node->host, '-p', $node->port, 'postgres' ],
	'>', '/dev/null', '2>', \$errors);
# Waiters that are cancelled. If one gets the lock before that, its short lease ends by itself.
append_to_file("$folder/cancelled.sql", join '', map { "SET statement_timeout =
		" . (1 + int rand 40) . "; SELECT shedlock_acquire_token('one', '2 ms', wait => '1 h');\n" } 1 .. 100_000);
my @complaints = ('') x 3;
my @cancelled = map {
	IPC::Run::start([ 'timeout', $seconds, 'psql', '-XAtq', '-d', $node->connstr('postgres'),
			'-f', "$folder/cancelled.sql" ],
		'>', '/dev/null', '2>', \$_)
} @complaints;

my ($stopped, $end) = (0, time() + $seconds);
while (time() < $end - 1)
{
	my @pids = split /\n/,
		sql("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Extension' ORDER BY random() LIMIT 5");
	kill 'STOP', @pids;
	sleep(0.1 + rand(0.2));
	kill 'CONT', @pids;
	$stopped += @pids;
}
$_->finish for $waiting, @cancelled;
my ($cancels, @others) = (0);
# If a timeout occurs just as its statement ends, PostgreSQL reports it as a cancel due to user request.
/canceling statement due to (statement timeout|user request)/ ? $cancels++ : push @others, $_
	for map { /^.*ERROR.*$/mg } $errors, @complaints;
is("@others", '', 'no errors except those of the timeouts');

is($waiting->result(0), 0, 'control: pgbench ended normally') or diag($errors);
my ($runs, $counted) = split /\|/, sql('SELECT (SELECT count(*) FROM taken), n FROM counter');
is($counted, $runs, "I1 no update is lost in $runs runs");
met($cancels, 'waiters were cancelled');
met($stopped, 'waiters were stopped');

# How long the lock was free after each release until the next session had it. Waiters that were not woken look again
# within a second.
sql('CREATE INDEX ON taken (at)'); # otherwise the query would read all of taken for each row of freed
my $gaps = "SELECT told, (SELECT min(t.at) FROM taken t WHERE t.at > f.at) - f.at AS gap FROM freed f";
my %longest = map { split /\|/ } split /\n/,
	sql("SELECT told, round(extract(epoch FROM max(gap)) * 1000) FROM ($gaps) g GROUP BY told");
my ($lost) = sql('SELECT count(*) FROM freed WHERE NOT told');
note("free for $longest{$_} ms at most while sessions wait, " . ($_ eq 't' ? 'released' : 'edited'))
	for sort keys %longest;
seen(51, $runs, "runs, the lock was free for $longest{f} ms at most",
	"$clients sessions; $lost releases woke no session, $cancels waits were cancelled, $stopped sessions stopped");

$node->stop;
done_testing();
