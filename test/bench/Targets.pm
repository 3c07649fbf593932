# What was asked of the product, against what was measured.
package Targets;

use strict;
use warnings;
use utf8;
use Sides;
use Format;

my @java = qw(java_first java_again);
my $faster = sub { my ($workload, $clients, $ours) = @_; return sub { ("$workload/$clients//" . ($ours // 'ours'), "$workload/$clients//$_[0]") } };
my $names = sub { my ($names) = @_; return sub { ("names_refused/8/$names/ours", "names_refused/8/$names/$_[0]") } };
my $fewer = sub { return ('instructions/1/cycle/ours', 'instructions/1/cycle/' . Sides::side($_[0])->{title}) };

# What; the factor asked for, at least or at most; against which sides; which two results make the factor.
our @targets = (
	[ 'refused, 1 client', '≥', 3, ['java_first'], $faster->('refused', 1) ],
	[ 'refused, 32 clients', '≥', 8, ['java_first'], $faster->('refused', 32) ],
	[ 'refused, slower flush, 1 client', '≥', 50, ['java_first'], $faster->('slow_refused', 1) ],
	[ 'refused, slower flush, 32 clients', '≥', 50, ['java_first'], $faster->('slow_refused', 32) ],
	[ 'refused, slower flush, 32 clients, one name', '≥', 50, ['java_first'], $faster->('slow_one_refused', 32) ],
	[ 'refused, 10 names', '≥', 1, ['java_again'], $names->(10) ],
	[ 'refused, 10,000 names', '≥', 1.2, ['java_again'], $names->(10000) ],
	[ 'cycle, async_release off, 1 client', '≥', 1, \@java, $faster->('cycle', 1, 'ours_sync') ],
	[ 'cycle, async_release off, 8 clients', '≥', 1.3, \@java, $faster->('cycle', 8, 'ours_sync') ],
	[ 'cycle, async_release off, 32 clients', '≥', 1.3, \@java, $faster->('cycle', 32, 'ours_sync') ],
	[ 'cycle, 1 client', '≥', 1.7, \@java, $faster->('cycle', 1) ],
	[ 'cycle, 32 clients', '≥', 1.5, \@java, $faster->('cycle', 32) ],
	[ 'cycle, instructions', '≤', 0.66, \@java, $fewer ],
	[ 'one name, 8 clients', '≥', 2.5, \@java, $faster->('one', 8) ],
	[ 'one name, 32 clients', '≥', 2.5, \@java, $faster->('one', 32) ],
	[ 'refused, a million names against ten', '≥', 0.9, [undef], sub { ('names_refused/8/1000000/ours', 'names_refused/8/10/ours') } ],
	[ 'cycle, a million names against ten', '≥', 0.9, [undef], sub { ('names_cycle/8/1000000/ours', 'names_cycle/8/10/ours') } ],
	[ 'refused, after 100,000 cycles under an old snapshot, times slower', '≤', 1.3, [undef], sub { ('old_refused/8/0/ours', 'old_refused/8/100000/ours') } ],
	[ 'cycle, after 100,000 cycles under an old snapshot, times slower', '≤', 1.3, [undef], sub { ('old_cycle/8/0/ours', 'old_cycle/8/100000/ours') } ],
);

sub verdict
{
	my ($met, $missed) = @_;
	return @$met ? 'met' : '?' if !@$missed;
	return '**not met**' if !@$met;
	return '**not met** against ' . join(', ', map { lcfirst(s/^Java, //r) } @$missed);
}

sub row
{
	my ($results, $what, $sign, $asked, $peers, $keys) = @_;
	my (@measured, @met, @missed);
	for my $peer (@$peers)
	{
		my $ratio = $results->ratio($keys->($peer)) or next;
		my $title = defined $peer ? Sides::side($peer)->{title} : '';
		my $good = $sign eq '≥' ? $ratio->{median} >= $asked : $ratio->{median} <= $asked;
		push @{ $good ? \@met : \@missed }, $title;
		push @measured, Format::ratio($ratio) . ($title ? " $title" : '');
	}
	return [ $what, "$sign $asked", join('; ', @measured) || 'not measured', verdict(\@met, \@missed) ];
}

# Those that are no factor.
sub counted
{
	my ($results) = @_;
	my @counts = map { $results->value("exact_refused/1/$_/ours") } qw(xid wal locks);
	my ($instructions, $nothing) = map { $results->value("instructions/1/$_") } qw(refused/ours nothing/same-arguments);
	my $counted = Format::number($instructions) . ', of which ' . Format::number($nothing) . ' are the statement itself';
	my @rows = (
		[ 'refused: transaction ids, WAL bytes, row locks', '0', join(', ', map { $_ // '–' } @counts), !grep { $_ } @counts ],
		[ 'refused: instructions', '≤ 25,000', $counted, ($instructions // 0) <= 25_000 ]);
	return map { [ @$_[ 0 .. 2 ], $_->[2] =~ /–/ ? '?' : $_->[3] ? 'met' : '**not met**' ] } @rows;
}

sub rows
{
	my ($results) = @_;
	return (counted($results), map { row($results, @$_) } @targets);
}

1;
