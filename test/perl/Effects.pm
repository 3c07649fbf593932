# Runs the schedulers of effects.cpp, and tests that each tick has one effect, and one row in the history of runs.
package Effects;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use Test::More;
use Time::HiRes;
use ShedLock;

our @EXPORT = qw(is_recorded start_season announced finish_season start_run held gone);

# Tests that the history says "done" of exactly these effects, a query of names and ticks, and that no run has two rows.
# Returns the number of rows of these names by outcome.
sub is_recorded
{
	my ($node, $title, $effects) = @_;
	my $of_them = "WITH effects (name, tick) AS MATERIALIZED ($effects),
		rows AS MATERIALIZED (SELECT * FROM shedlock_history WHERE name IN (SELECT name FROM effects)),
		done AS (SELECT name, tick FROM rows WHERE outcome = 'done')";
	is($node->safe_psql('postgres', "$of_them (TABLE effects EXCEPT ALL TABLE done)
			UNION ALL (TABLE done EXCEPT ALL TABLE effects)"), '', "$title: the history says done of exactly these");
	is($node->safe_psql('postgres', "$of_them SELECT name, token FROM rows GROUP BY 1, 2 HAVING count(*) > 1"), '',
		"$title: ... and has no two rows of one run");
	return map { split /\|/ } split /\n/,
		$node->safe_psql('postgres', "$of_them SELECT outcome, count(*) FROM rows GROUP BY 1");
}

# Starts the program on servers whose tables "effects" and "shedlock_history" are empty. $how: kills, calm or backlog.
sub start_season
{
	my ($connection, $ticks, $how) = @_;
	my $season = { ticks => $ticks, out => '', err => '' };
	$season->{run} = IPC::Run::start([ program('effects'), $connection, $ticks, $how ], '>', \$season->{out},
		'2>', \$season->{err});
	return $season;
}

# Waits until that tick is announced or, with backlog, done. Returns false if the program has ended.
sub announced
{
	my ($season, $tick) = @_;
	until ($season->{out} =~ /^tick $tick$/m)
	{
		return 0 unless is_running($season);
		Time::HiRes::usleep(2_000);
	}
	return 1;
}

# Waits until the program has ended, and tests that every tick has had exactly one effect, and a row in the history.
# Returns what the program counted, by key, and the rows of the history by outcome.
sub finish_season
{
	my ($season, $node, $title) = @_;
	$season->{run}->finish;
	is($season->{run}->result(0), 0,
		"$title: each of $season->{ticks} ticks got done, although leases outlast the test") or diag($season->{err});
	comes_true($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'scheduler'");
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT tick) FROM effects'),
		"$season->{ticks}|$season->{ticks}", "$title: ... exactly once");
	return ($season->{out} =~ /^count (.*) (\d+)$/mg,
		is_recorded($node, $title, "SELECT 'job', to_timestamp(tick::numeric / 1000000) FROM effects"));
}

# Starts a run that does not end by itself. held() waits until it holds its lock, gone() until its session is gone.
sub start_run
{
	my ($node, $name, $at_least) = @_;
	my $call = "CALL shedlock_run('$name', 'SELECT pg_sleep(3600)', '1 hour', at_least => '$at_least')";
	return IPC::Run::start([ 'psql', '-XAtq', '-c', $call,
			'-d', $node->connstr('postgres') . ' application_name=dying' ],
		'<', \undef, '>', \my $out, '2>', \my $err);
}

sub held
{
	my ($node, @names) = @_;
	my $list = join ',', map { "'$_'" } @names;
	return comes_true($node,
		'SELECT count(*) = ' . @names . " FROM shedlock_locks WHERE state = 'held' AND name IN ($list)");
}

sub gone { return comes_true($_[0], "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'dying'"); }

1;
