# The targets, compared with the measurements. Where plain SQL can do the same, its figure from the same run is the
# yardstick: a refusal cannot be faster than a statement that does nothing, and a cycle has to write and flush a row as
# two UPDATEs do.
package Targets;

use strict;
use warnings;
use utf8;
use Sides;
use Format;
use Delays;

# Pairs of results with their titles: ours against another side ...
sub against
{
	my ($workload, $ours, $other, @clients) = @_;
	return map { [ $_ == 1 ? '1 client' : $_, "$workload/$_//$ours", "$workload/$_//$other" ] } @clients;
}

# ... against both sides of Java ...
sub against_java
{
	my ($what, $ours) = @_;
	return map { [ lcfirst(Sides::side($_)->{title} =~ s/^Java, //r), "$what/$ours", "$what/$_" ] }
		qw(java_first java_again);
}

# ... and a side against itself under other circumstances.
sub itself
{
	my ($side, $one, $other) = @_;
	return [ '', "$one/$side", "$other/$side" ];
}

# what: its name. asked: the minimum or maximum of the factor for each pair of results in `of`. compared: a pair that
# shows how much plain SQL loses. because: where the page explains why the target is not met.
our @targets = (
	{
		what => 'refused / a statement that does nothing', asked => [ '≥', 0.9 ],
		of => [ against('refused', 'ours', 'nothing', 1, 8, 32) ],
		because => 'see [Refused attempts](#refused-attempts)'
	},
	{ what => 'cycle, async_release off / two UPDATEs', asked => [ '≥', 1 ],
		of => [ against('cycle', 'ours_sync', 'plain', 1, 8, 32) ] },
	{ what => 'cycle / two UPDATEs, second async', asked => [ '≥', 1 ],
		of => [ against('cycle', 'ours', 'plain_async', 1, 8, 32) ] },
	{ what => 'shedlock_run / three statements', asked => [ '≥', 1 ],
		of => [ against('run', 'ours', 'ours_apart', 1, 8, 32) ] },
	{ what => 'refused, 32 clients / Java', asked => [ '≥', 1 ], of => [ against_java('refused/32/', 'ours') ] },
	{
		what => 'refused, one name, slower flush, 32 clients / Java, first attempt', asked => [ '≥', 50 ],
		of => [ [ '', 'slow_one_refused/32//ours', 'slow_one_refused/32//java_first' ] ]
	},
	{
		what => 'refused, 10,000 names / Java, steady state', asked => [ '≥', 1.2 ],
		of => [ [ '', 'names_refused/8/10000/ours', 'names_refused/8/10000/java_again' ] ],
		because => 'see [Ten names to a million](#ten-names-to-a-million)'
	},
	{ what => 'cycle, async_release off, 32 clients / Java', asked => [ '≥', 1.3 ],
		of => [ against_java('cycle/32/', 'ours_sync') ] },
	{ what => 'cycle, 32 clients / Java', asked => [ '≥', 1.5 ], of => [ against_java('cycle/32/', 'ours') ] },
	{
		what => 'cycle, instructions / Java', asked => [ '≤', 0.66 ],
		of => [ map { [ lcfirst(s/^Java, //r), 'instructions/1/cycle/ours', "instructions/1/cycle/$_" ] }
			'Java, first attempt', 'Java, steady state' ]
	},
	{ what => 'one name, 8 clients / Java', asked => [ '≥', 2.5 ], of => [ against_java('one/8/', 'ours') ] },
	{ what => 'one name, 32 clients / Java', asked => [ '≥', 2.5 ], of => [ against_java('one/32/', 'ours') ] },
	{
		what => 'refused, a million names / ten', asked => [ '≥', 0.9 ],
		of => [ itself('ours', 'names_refused/8/1000000', 'names_refused/8/10') ],
		compared => itself('plain_select', 'names_refused/8/1000000', 'names_refused/8/10'),
		because => 'see [Ten names to a million](#ten-names-to-a-million)'
	},
	{
		what => 'cycle, a million names / ten', asked => [ '≥', 0.9 ],
		of => [ itself('ours', 'names_cycle/8/1000000', 'names_cycle/8/10') ],
		compared => itself('plain_async', 'names_cycle/8/1000000', 'names_cycle/8/10'),
		because => 'see [Ten names to a million](#ten-names-to-a-million)'
	},
	map { {
		what => "$_, after 100,000 cycles under an old snapshot: times slower", asked => [ '≤', 1.3 ],
		of => [ itself('ours', "old_$_/8/0", "old_$_/8/100000") ]
	} } qw(refused cycle)
);

sub row
{
	my ($results, $target) = @_;
	my ($sign, $asked) = @{ $target->{asked} };
	my (@measured, @missed);
	for (@{ $target->{of} })
	{
		my ($title, @pair) = @$_;
		my $ratio = $results->ratio(@pair) or next;
		push @missed, $title if $sign eq '≥' ? $ratio->{median} < $asked : $ratio->{median} > $asked;
		push @measured, ($title ? "$title " : '') . Format::ratio($ratio);
	}
	return [ $target->{what}, "$sign $asked", 'not measured', '?' ] if !@measured;
	my $which = @missed < @measured ? ': ' . join ', ', @missed : '';
	my $why = $target->{because} ? ", $target->{because}" : '';
	my $verdict = @missed ? "**not met**$which$why" : 'met';
	if (my $plain = $target->{compared})
	{
		my $title = Sides::side($plain->[1] =~ s/.*\///r)->{title};
		push @measured, "$title " . Format::ratio($results->ratio(@$plain[ 1, 2 ]));
	}
	return [ $target->{what}, "$sign $asked", join('; ', @measured), $verdict ];
}

sub nothing_written
{
	my ($results) = @_;
	my @counts = map { $results->value("exact_refused/1/$_/ours") } qw(xid wal locks);
	my $verdict = grep({ !defined } @counts) ? '?' : grep({ $_ } @counts) ? '**not met**' : 'met';
	return [ 'refused: transaction ids, WAL bytes, row locks', '0', join(', ', map { $_ // '–' } @counts), $verdict ];
}

sub rows
{
	my ($results) = @_;
	return (nothing_written($results), (map { row($results, $_) } @targets), Delays::targets($results));
}

1;
