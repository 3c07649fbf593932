# A crontab on many hosts: many "shedlock run --every" start at the same moment, and the command runs once.
use strict;
use warnings;
use File::Spec;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use BootClock;
use ShedLock;

my $tmp = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
my $crowd = often(40, 500);
my $server = new_server('server', "max_connections = " . ($crowd + 20) . "\n");

# Starts that many tools at once. Returns how often each exit status occurred, and the ticks of all runs of that name so
# far.
sub start_all
{
	my ($count, $name, $every) = @_;
	my $ran = "$tmp/$name";
	append_to_file($ran, '');
	my @command = ('psql', '-XqAt', '-d', $server->connstr('postgres'), '-c', "\\o | cat >> '$ran'",
		'-c', "SELECT last_tick FROM shedlock WHERE name = '$name'");
	my @tools = map {
		launch({}, slow_tool, 'run', $name, '--dsn', $server->connstr('postgres'), '--at-most', '1h',
			'--every', $every, '-E', '9', '--', @command)
	} 1 .. $count;
	my %ends;
	$ends{ ended($_) }++ for @tools;
	diag($_->{err}) for grep { $_->{err} } @tools;
	return (\%ends, [ split /\n/, slurp_file($ran) ]);
}

# Chooses, of three lengths, the one whose current slot has most time left, so that it does not end during the test.
# Slots are counted from 2001, like all ticks.
my $since_2001 = time - 978_307_200;
my ($long) = sort { $b - $since_2001 % $b <=> $a - $since_2001 % $a } 7 * 86_400, 5 * 86_400, 11 * 86_400;
my $rounds = often(1, 3);
for my $n (1 .. $rounds)
{
	my ($ends, $ticks) = start_all($crowd, "once $n", "${long}s");
	is(scalar(@$ticks), 1, "$crowd parallel starts for one slot: the command ran once");
	is_deeply($ends, { 0 => 1, 9 => $crowd - 1 },
		'... one tool exited with 0, the others with 9, the status of a skipped run');
}
seen(41, $crowd * $rounds, "parallel starts of $rounds jobs: exactly one command of each ran");

# Short slots: they begin and end while tools are started.
my (@all, $started);
my $until = time + often(2, 60);
while (time < $until || @all < 2)
{
	my (undef, $ticks) = start_all(8, 'each', '1s');
	@all = @$ticks;
	$started += 8;
}
my %slots;
$slots{$_}++ for @all;
is(scalar(grep { $_ > 1 } values %slots), 0, 'slots of a second: never two commands in one');
seen(41, $started, 'starts over ' . keys(%slots) . ' slots of a second: never two commands in one');

$server->stop;
done_testing();
