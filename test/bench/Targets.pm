# The targets. Where plain SQL can do the same, its figure from the same run is the yardstick.
package Targets;

use strict;
use warnings;
use utf8;
use Results;

# What is measured for a target: a title, a value, and the value as the page prints it. Nothing if it was not measured.
# A ratio is rounded, so that the page never says that 1.00 is less than 1.
sub ratio
{
	my ($title, @pair) = @_;
	my ($value, $text) = Results::ratio(@pair) or return;
	return [ $title, Results::factor($value), $title ? "$title $text" : $text ];
}

sub amount
{
	my ($title, $value, $unit) = @_;
	return defined $value ? [ $title, $value, join ' ', Results::number($value), grep { $_ } $unit, $title ] : ();
}

# Ours against another side, with each number of clients.
sub clients
{
	my ($workload, $ours, $other) = @_;
	return map { ratio($_ == 1 ? '1 client' : $_, "$workload/$_/$ours", "$workload/$_/$other") } 1, 8, 32;
}

# Ours against both sides of Java.
my %java = ('first attempt' => 'java_first', 'steady state' => 'java_again');
sub java
{
	my ($what, $ours) = @_;
	return map { ratio($_, "$what/$ours", "$what/$java{$_}") } sort keys %java;
}

# The rows of the table: what, the least or the most that is asked, what was measured, and whether the target is met.
sub rows
{
	my $took = sub { return amount('', Results::quantile($_[1], Results::all("handover/$_[0]")), 'ms') };
	my @queue = Results::all('handover/100/ours');
	my $idle = sub {
		my ($what, $unit) = @_;
		return map { amount($_, Results::value("idle/$what/$_"), $unit) } qw(sessions clients threads);
	};
	my $twice = Results::number(2 * (Results::value('handover/1/advisory') // 0) + Results::fact('flush') / 1000);
	return map { row(@$_) } (
		[ 'refused: transaction ids, WAL bytes, row locks', '≤ 0',
			map { amount($_, Results::value("exact_refused/$_/ours")) } qw(xid wal locks) ],
		[ 'refused / a statement that does nothing', '≥ 0.9', clients(qw(refused ours nothing)) ],
		[ 'cycle, async_release off / two UPDATEs', '≥ 1', clients(qw(cycle ours_sync plain)) ],
		[ 'cycle / two UPDATEs, second async', '≥ 1', clients(qw(cycle ours plain_async)) ],
		[ 'shedlock_run / three statements', '≥ 1', clients(qw(run ours ours_apart)) ],
		[ 'refused, 32 clients / Java', '≥ 1', java('refused/32', 'ours') ],
		[ 'refused, one name, flush 1 ms slower, 32 clients / Java, first attempt', '≥ 50',
			ratio('', 'slow_refused/32/ours', 'slow_refused/32/java_first') ],
		[ 'refused, 10,000 names / Java, steady state', '≥ 1.2',
			ratio('', 'names_refused/10000/ours', 'names_refused/10000/java_again') ],
		[ 'cycle, async_release off, 32 clients / Java', '≥ 1.3', java('cycle/32', 'ours_sync') ],
		[ 'cycle, 32 clients / Java', '≥ 1.5', java('cycle/32', 'ours') ],
		[ 'cycle, instructions / Java', '≤ 0.66',
			map { ratio($_, 'instructions/cycle/ours', "instructions/cycle/Java, $_") } sort keys %java ],
		map({ [ "one name, $_ clients / Java", '≥ 2.5', java("one/$_", 'ours') ] } 8, 32),
		map({ [ "$_, a million names / ten", '≥ 0.9', ratio('', "names_$_/1000000/ours", "names_$_/10/ours") ] }
			qw(refused cycle)),
		map({ [ "$_, no old snapshot / 100,000 cycles under one", '≤ 1.3',
			ratio('', "old_$_/0/ours", "old_$_/100000/ours") ] } qw(refused cycle)),
		[ 'hand-over, SQL, median: twice an advisory lock and a flush', "≤ $twice ms", $took->('1/ours', 0.5) ],
		[ 'hand-over, SQL, median', '≤ 1 ms', $took->('1/ours', 0.5) ],
		[ 'hand-over, SQL, 99 %', '≤ 5 ms', $took->('1/ours', 0.99) ],
		[ 'hand-over, C++ library, median', '≤ 3 ms', $took->('1/library', 0.5) ],
		[ 'a queue of 100: hand-overs of over 10 ms', '≤ 0', @queue ? amount('', scalar grep { $_ > 10 } @queue) : () ],
		[ '200 idle waiters: processor time, of one core', '≤ 1 %', $idle->('cpu', '%') ],
		[ '200 idle waiters: statements per second and waiter', '≤ 1', $idle->('statements') ],
	);
}

sub row
{
	my ($what, $asked, @measured) = @_;
	return [ $what, $asked, 'not measured', '?' ] if !@measured;
	my ($sign, $limit) = split / /, $asked;
	my @missed = grep { $sign eq '≥' ? $_->[1] < $limit : $_->[1] > $limit } @measured;
	my $which = @missed < @measured ? ': ' . join ', ', map { $_->[0] } @missed : '';
	return [ $what, $asked, join('; ', map { $_->[2] } @measured), @missed ? "**not met**$which" : 'met' ];
}

1;
