# The results of a run, and how the page prints them.
package Results;

use strict;
use warnings;
use utf8;
use List::Util qw(max min);
use POSIX 'ceil';

my %values;

sub load
{
	my ($file) = @_;
	open my $in, '<:encoding(UTF-8)', $file or die "$file: $!";
	while (<$in>) { push $values{$1}->@*, $2 if /^(.*)\t(.*)$/ }
}

sub all { return @{ $values{ $_[0] } // [] } }

sub fact { return (all("fact/$_[0]/"))[0] // '?' }

# Returns the value that this share of the values does not exceed; undefined if there are none.
sub quantile
{
	my ($part, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;
	return @sorted ? $sorted[ max(0, ceil($part * @sorted) - 1) ] : undef;
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return @sorted ? ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2 : undef;
}

sub value { return median(all($_[0])) }

# Returns the median of a/b, each within one repetition, and a text with the smallest and the largest of them; nothing
# if one of the two was not measured.
sub ratio
{
	my ($one, $other) = @_;
	my @a = all($one);
	my @ratios = map { $a[0] ? shift(@a) / $_ : () } all($other) or return;
	my $spread = @ratios > 1 ? ' (' . factor(min @ratios) . '–' . factor(max @ratios) . ')' : '';
	return (median(@ratios), '**' . factor(median(@ratios)) . "x**$spread");
}

sub factor { return sprintf $_[0] >= 100 ? '%.0f' : $_[0] >= 10 ? '%.1f' : '%.2f', $_[0] }

# Three significant digits, with thousands separators.
sub number
{
	my ($value) = @_;
	return '–' if !defined $value;
	my $text = $value >= 1000 ? sprintf('%.0f', sprintf('%.3g', $value)) : sprintf('%.3g', $value);
	1 while $text =~ s/^(\d+)(\d{3})/$1,$2/;
	return $text;
}

# A Markdown table with aligned columns, so that the source is readable.
sub table
{
	my (@rows) = @_;
	my @width = map { my $column = $_; max 3, map { length $_->[$column] } @rows } 0 .. $#{ $rows[0] };
	my @lines = map { my $row = $_; join ' | ', map { sprintf "%-$width[$_]s", $row->[$_] } 0 .. $#width } @rows;
	splice @lines, 1, 0, join ' | ', map { '-' x $_ } @width;
	return join "\n", map { "| $_ |" } @lines;
}

1;
