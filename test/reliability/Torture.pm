# How often a fault is tried, and what was seen of it. Faults have the numbers of the table in docs/reliability.md.
package Torture;

use strict;
use warnings;
use Exporter 'import';
use Test::More ();

our @EXPORT = qw(often seen program);

# The short count in make check, the long one in make torture.
sub often
{
	my ($short, $long) = @_;
	return $ENV{TORTURE} ? $long : $short;
}

# One line for docs/reliability.md: fault, how many times it was tried, and what came of it. None if a test has failed.
sub seen
{
	my ($fault, $times, $outcome) = @_;
	Test::More::note("fault $fault, $times times: $outcome");
	return unless $ENV{TORTURE_SEEN} && Test::More->builder->is_passing;
	open my $file, '>>', $ENV{TORTURE_SEEN} or die "$ENV{TORTURE_SEEN}: $!";
	print $file "$fault\t$times\t$outcome\n";
	close $file or die "$ENV{TORTURE_SEEN}: $!";
}

# A program of test/reliability that CMake built; the tool is $ENV{SHEDLOCK_STAGE}/usr/bin/shedlock.
sub program { return "$ENV{SHEDLOCK_PROGRAMS}/$_[0]" }

1;
