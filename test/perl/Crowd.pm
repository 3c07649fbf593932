# Runs the program crowd of test/reliability, which starts many clients of a server, and reads what it counted.
package Crowd;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use ShedLock;
use Test::More;
use Time::HiRes;

our @EXPORT = qw(crowd start_crowd finish_crowd counts_as_text recorded crowd_settings connection at_work crash
	crash_options standby_options);

# Settings of a server for histories. Errors are not logged, because clients cause many of them on purpose.
sub crowd_settings
{
	return (is_portable() ? '' : "shared_preload_libraries = 'shedlock'\n") . <<'CONF';
fsync = on
max_connections = 400
max_prepared_transactions = 100
log_min_messages = fatal
log_statement = none
restart_after_crash = on
CONF
}

sub connection
{
	my ($place, $settings) = @_;
	return "$place application_name=crowd options='-c client_min_messages=warning " . ($settings // '') . "'";
}

my $next_seed = $ENV{TORTURE_SEED} // time() % 100_000 * 100_000;

# The options are those of the program (see crowd.cpp). The same seed gives the clients the same random numbers, but
# their requests also depend on the answers.
sub start_crowd
{
	my ($node, %options) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my %all = (seed => $next_seed, folder => $folder, connection => connection($node->connstr('postgres')),
		histories => 1_000_000, edition => is_portable() ? 'portable' : 'extension', %options);
	$next_seed += 20_000;
	note("crowd, seed $all{seed}");
	my $crowd = { seed => $all{seed}, folder => $folder, out => '', err => '' };
	$crowd->{run} = IPC::Run::start([ program('crowd'), map { "--$_=$all{$_}" } sort keys %all ], '>', \$crowd->{out},
		'2>', \$crowd->{err});
	return $crowd;
}

# Options for leases that outlast a crash. A crash may lose releases. If sessions do not wait for the disk, it may also
# lose whatever our functions do not make durable: acquires of Java clients, and the writes of guarded transactions.
sub crash_options
{
	my ($node, $settings) = @_;
	my @only_durable = $settings ? (java => 'no', guards => 'no') : ();
	return (connection => connection($node->connstr('postgres'), $settings), crashes => 'yes', leases => 'yes',
		names => 100, shortest => 200, longest => 5_000, allow => '57P01,57P02,57P03', @only_durable);
}

# Waits until clients are at work. Returns false if all have finished.
sub at_work
{
	my ($node, $crowd) = @_;
	my $at_work = "SELECT count(*) > 1 FROM pg_stat_activity
		WHERE application_name = 'crowd' AND query LIKE '%shedlock_acquire%'";
	do
	{
		return 0 unless is_running($crowd);
		Time::HiRes::usleep(20_000);
	} until ($node->psql('postgres', $at_work))[1] eq 't';
	return 1;
}

# Once clients are at work, stops the server's processes as a power cut would, and starts it again. Returns false if the
# clients have finished.
sub crash
{
	my ($node, $crowd) = @_;
	return 0 unless at_work($node, $crowd);
	Time::HiRes::usleep(rand(300_000));
	$node->stop('immediate');
	$node->start;
	return 1;
}

# Makes the server wait for a synchronous standby that is missing, and returns options for its clients. Waits for the
# standby are cancelled.
sub standby_options
{
	my ($node) = @_;
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\n");
	$node->reload;
	wait_until_commits_wait($node);
	return (only => 'library', standby => 'missing', faults => 'cancel', pace => 5, operations => 60, allow => '57014',
		admin => connection($node->connstr('postgres'), '-c synchronous_commit=local'));
}

# Returns the last 400 lines or so about the lock of the first violation, because the history is deleted with its
# folder.
sub story
{
	my ($crowd) = @_;
	my ($seed) = $crowd->{out} =~ /^history (\d+): .* [1-9]\d* violations/m or return '';
	my ($lock) = $crowd->{out} =~ / names=([^ ,]+)/ or return '';
	my %is_about;
	my @lines = grep { /^(?:call|done) (\d+) / && ($is_about{$1} ||= / names=(?:\S+,)?\Q$lock\E[, ]/) } split /^/,
		slurp_file("$crowd->{folder}/$seed.history");
	return "the last lines about $lock:\n" . join '', @lines[ ($#lines < 400 ? 0 : $#lines - 400) .. $#lines ];
}

# Returns what the program counted, by key. With a title, also tests that no promise was broken.
sub finish_crowd
{
	my ($crowd, $title) = @_;
	$crowd->{run}->finish;
	my %counts = $crowd->{out} =~ /^count (.*) (\d+)$/mg;
	my $good = ($counts{violations} // -1) == 0 && $crowd->{run}->result(0) == 0;
	if (defined $title)
	{
		my $told = sprintf '%s: %d histories, %d operations, %d grants', $title,
			map { $counts{$_} // 0 } qw(histories operations granted);
		note(story($crowd)) unless $good;
		ok($good, $told) or diag("seed $crowd->{seed}\n$crowd->{err}\n" . join "\n",
			grep { !/^count (?!client)|, 0 violations$/ } split /\n/, $crowd->{out});
		die "$title: the rest of this file is not run" unless $good;
	}
	return %counts;
}

sub crowd
{
	my ($node, $title, %options) = @_;
	return finish_crowd(start_crowd($node, %options), $title);
}

# Returns the counts as a text such as "cancelled in mid-operation: 312".
sub counts_as_text
{
	my ($counts, %names) = @_;
	return join ', ', map { "$names{$_}: " . ($counts->{$_} // 0) } sort keys %names;
}

# Returns the number of rows in the history of runs by outcome, from what several crowds have counted.
sub recorded
{
	my (@counts) = @_;
	my %rows;
	for my $counts (@counts)
	{
		/^recorded as (.*)/ and $rows{$1} += $counts->{$_} for keys %$counts;
	}
	return %rows;
}

1;
