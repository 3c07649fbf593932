# make torture, ended by a signal, leaves nothing running: not what made itself a daemon, does not want to end, or was stopped.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use ShedLock;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $members = <<"SH";
cd '$folder'
setsid sh -c 'echo \$\$ >daemon; exec sleep 600' &
setsid perl -e '\$SIG{QUIT} = "DEFAULT"; \$SIG{TERM} = "IGNORE"; system "echo \$\$ >stubborn"; sleep 600' &
setsid sh -c 'echo \$\$ >asleep; kill -STOP \$\$; sleep 600' &
sh -c 'setsid sh -c "echo \\\$\\\$ >orphan; exec sleep 600" &'
until [ -s daemon ] && [ -s stubborn ] && [ -s asleep ] && [ -s orphan ]; do sleep 0.05; done # or there would be nothing to end
SH
my @names = ('daemon', 'stubborn', 'asleep', 'orphan');

# After contain has ended: "daemon orphan", or "" for none.
sub left
{
	my @pids = map { slurp_file("$folder/$_") =~ /(\d+)/ } @names;
	my @left = grep { kill 0, $pids[$_] } 0 .. $#names;
	kill 'KILL', @pids[@left];
	return join ' ', @names[@left];
}

sub start
{
	unlink map { "$folder/$_" } @names;
	my $run = IPC::Run::start([ program('contain'), 'sh', '-c', $members . shift ]);
	for my $name (@names) { sleep 0.05 until -s "$folder/$name" }
	return $run;
}

for my $signal ('INT', 'TERM')
{
	my $run = start('sleep 600');
	$run->signal($signal);
	$run->finish;
	is(left(), '', "ended by SIG$signal, nothing is left");
	is($run->full_result & 127, { INT => 2, TERM => 15 }->{$signal}, '... and it says by what it was ended');
}
my $run = start('exit 3');
$run->finish;
is(left(), '', 'the command has ended, and nothing is left');
is($run->result, 3, '... of its status');

done_testing();
