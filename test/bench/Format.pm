# Formats figures and tables.
package Format;

use strict;
use warnings;
use utf8;
use List::Util 'max';

# Three significant digits, with thousands separators.
sub number
{
	my ($value) = @_;
	return '–' if !defined $value;
	my $text = $value >= 1000 ? sprintf('%.0f', sprintf('%.3g', $value))
		: $value == int $value ? sprintf('%d', $value) : sprintf('%.3g', $value);
	1 while $text =~ s/^(\d+)(\d{3})/$1,$2/;
	return $text;
}

sub factor
{
	my ($value) = @_;
	return $value >= 100 ? sprintf('%.0f', $value) : $value >= 10 ? sprintf('%.1f', $value) : sprintf('%.2f', $value);
}

# The median, followed by the minimum and the maximum if it was measured more than once.
sub ratio
{
	my ($ratio) = @_;
	return '–' if !$ratio;
	my ($median, $min, $max) = map { factor($ratio->{$_}) } qw(median min max);
	return "**${median}x**" . ($ratio->{count} > 1 ? " ($min–$max)" : '');
}

# A Markdown table with aligned columns, so that the source is readable.
sub table
{
	my (@rows) = @_;
	my @width = map {
		my $column = $_;
		max 3, map { length $_->[$column] } @rows
	} 0 .. $#{ $rows[0] };
	my @lines = map {
		my $row = $_;
		'| ' . join(' | ', map { $row->[$_] . ' ' x ($width[$_] - length $row->[$_]) } 0 .. $#width) . ' |'
	} @rows;
	splice @lines, 1, 0, '|' . join('|', map { '-' x ($_ + 2) } @width) . '|';
	return join "\n", @lines;
}

1;
