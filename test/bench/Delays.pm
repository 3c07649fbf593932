# The page's tables for the parts waits and standby.
package Delays;

use strict;
use warnings;
use utf8;
use Format;

my ($crowd, $queue) = (200, 100);
my @who = ([ sessions => 'sessions' ], [ clients => 'clients of the library' ], [ threads => 'threads of one client' ]);
my %side = (ours => 'ours, SQL', library => 'ours, C++ library', advisory => 'advisory lock');

sub ms { return defined $_[0] ? Format::number(sprintf '%.3g', $_[0] / 1000) . ' ms' : '–' }

# One row per side: the median, the 99th percentile and the maximum.
sub spread
{
	my ($results, $what, @sides) = @_;
	my @rows = map {
		my $side = $_;
		[ ($side eq 'advisory' ? $side{$side} : "**$side{$side}**"),
			map { ms($results->quantile("$what//$side", $_)) } 0.5, 0.99, 1 ]
	} @sides;
	return Format::table([ '', 'median', '99 %', 'greatest' ], @rows);
}

sub handovers { return spread($_[0], 'handover/2', qw(ours library advisory)) }

sub queued { return spread($_[0], "queue/$queue", qw(ours advisory)) }

sub cost
{
	my ($results) = @_;
	my @rows = map {
		my ($who, $title) = @$_;
		my @values = map { $results->value("vain/$crowd/$_/$who") } qw(cpu statements attempts);
		[ "$crowd $title", map { defined ? sprintf '%.2f', $_ : '–' } @values ]
	} @who;
	return Format::table([ '', '% of one core', 'statements', 'attempts' ], @rows);
}

# Rows of the page's table of targets.
sub targets
{
	my ($results) = @_;
	my $time = sub { my ($side, $part) = @_; return $results->quantile("handover/2//$side", $part) };
	my $limit = 2 * ($time->('advisory', 0.5) // 0) + $results->fact('flush', 0);
	my $late = grep { $_ > 10_000 } $results->all("queue/$queue//ours");
	my $row = sub {
		my ($what, $asked, $limit, $said, @values) = @_;
		my $verdict = grep({ !defined } @values) || !@values ? '?'
			: grep({ $_ > $limit } @values) ? '**not met**' : 'met';
		return [ $what, $asked, $said, $verdict ];
	};
	my $each = sub {
		my ($what, $format) = @_;
		my @values = map { $results->value("vain/$crowd/$what/$_->[0]") } @who;
		return (join(', ', map { defined $values[$_] ? sprintf("$format $who[$_][1]", $values[$_]) : () } 0 .. $#who)
			|| 'not measured', @values);
	};
	return (
		$row->('hand-over, SQL, median', '≤ 2x advisory lock + a flush: ' . ms($limit), $limit,
			map({ (ms($_), $_) } $time->('ours', 0.5))),
		$row->('hand-over, SQL, median', '≤ 1 ms', 1000, map({ (ms($_), $_) } $time->('ours', 0.5))),
		$row->('hand-over, SQL, 99 %', '≤ 5 ms', 5000, map({ (ms($_), $_) } $time->('ours', 0.99))),
		$row->('hand-over, C++ library, median', '≤ 3 ms', 3000, map({ (ms($_), $_) } $time->('library', 0.5))),
		$row->("$crowd waiters, no release: processor time, of one core", '< 1 %', 1, $each->('cpu', '%.2f %%')),
		$row->("$crowd waiters, no release: statements per second and waiter", '≤ 1', 1,
			$each->('statements', '%.2f')),
		$row->("a queue of $queue: hand-overs of more than 10 ms", '0', 0, $late,
			$results->all("queue/$queue//ours") ? $late : undef),
	);
}

sub replicated
{
	my ($results) = @_;
	my @rows = map {
		my ($kind, $title) = @$_;
		[ $title,
			map({ Format::number($results->value("standby_$_/$kind/ours")) . '/s' }
				qw(cycle/1 cycle/8 cycle/32 refused/8)),
			map({ ms($results->quantile("standby_handover/2/$kind//ours", $_)) } 0.5, 0.99) ]
	} [ async => 'asynchronous' ], [ sync => 'synchronous' ];
	my @columns = ('cycle, 1 client', '8 clients', '32 clients', 'refused, 8 clients', 'hand-over, median', '99 %');
	return Format::table([ 'the standby', @columns ], @rows);
}

1;
