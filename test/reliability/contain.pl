# When contain is ended by a signal, or its command ends, no process is left, not even one that made itself a daemon,
# ignores SIGTERM, or was stopped.
use strict;
use warnings;
use IPC::Run;
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
# Otherwise there would be nothing to end.
until [ -s daemon ] && [ -s stubborn ] && [ -s asleep ] && [ -s orphan ]; do sleep 0.05; done
SH
my @names = ('daemon', 'stubborn', 'asleep', 'orphan');

# The processes that are left after contain has ended: "daemon orphan", or "" for none.
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
	is(left(), '', "after SIG$signal nothing is left");
	is($run->full_result & 127, { INT => 2, TERM => 15 }->{$signal}, '... and the status shows the signal');
}
my $run = start('exit 3');
$run->finish;
is(left(), '', 'after the command has ended nothing is left');
is($run->result, 3, '... and the status is that of the command');

done_testing();
