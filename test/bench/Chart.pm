# The chart docs/benchmark.svg: one panel per workload, one bar per side.
package Chart;

use strict;
use warnings;
use utf8;
use List::Util 'max';
use Sides;
use Format;

my ($width, $bar, $label, $gap) = (460, 16, 185, 20);
my %colour = (ours => '#1d6fb8', peer => '#8a94a0', loose => '#cfd5db');

# The title, and the first part of the key of the results. The side is the rest of the key.
my @panels = (
	[ 'refused attempts per second, 32 clients', 'refused/32/' ],
	[ 'acquired and released per second, 32 clients', 'cycle/32/' ],
	[ 'one name, 32 clients: completed cycles per second', 'one/32/' ],
	[ 'acquired and released per second, a slower flush', 'slow_cycle/32/' ],
);

# Colours for light and dark mode.
my $style = '<style>text { fill: #1f2328 } .dim { fill: #656d76 } .back { fill: #fff } '
	. '@media (prefers-color-scheme: dark) '
	. '{ text { fill: #e6edf3 } .dim { fill: #9198a1 } .back { fill: #151b23 } }</style>';

sub escape { return $_[0] =~ s/&/&amp;/gr =~ s/</&lt;/gr }

sub text
{
	my ($x, $y, $words, $more) = @_;
	return sprintf qq{<text x="%.0f" y="%.0f" %s>%s</text>\n}, $x, $y, $more // '', escape($words);
}

# One bar per side that was measured.
sub panel
{
	my ($results, $x, $y, $title, $what) = @_;
	my @bars = map { my $value = $results->value("$what/$_->{key}"); defined $value ? [ $_, $value ] : () }
		@Sides::sides;
	my $most = max map { $_->[1] } @bars;
	my $svg = text($x, $y, $title, 'font-weight="bold"');
	for (@bars)
	{
		my ($side, $value) = @$_;
		$y += $bar + 5;
		my $kind = $side->{key} =~ /^(ours|portable)/ ? 'ours' : $side->{loose} ? 'loose' : 'peer';
		my $length = max 1, ($width - $label - 75) * $value / $most;
		$svg .= text($x + $label - 6, $y - 4, $side->{title}, 'text-anchor="end"')
			. sprintf(qq{<rect x="%d" y="%.0f" width="%.1f" height="%d" fill="%s"/>\n},
				$x + $label, $y - $bar, $length, $bar, $colour{$kind})
			. text($x + $label + $length + 5, $y - 4, Format::number($value));
	}
	return ($svg, scalar @bars);
}

sub chart
{
	my ($results, $caption) = @_;
	my ($y, $svg) = ($gap + 10, '');
	for my $row (0 .. $#panels / 2)
	{
		my $rows = 0;
		for my $column (0, 1)
		{
			my ($drawn, $bars) = panel($results, $gap + $column * ($width + $gap), $y,
				@{ $panels[ 2 * $row + $column ] });
			$svg .= $drawn;
			$rows = max $rows, $bars;
		}
		$y += $rows * ($bar + 5) + 40;
	}
	$svg .= text($gap, $y, $caption, 'class="dim"');
	my ($w, $h) = (2 * $width + 3 * $gap, $y + 15);
	return qq{<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $w $h" width="$w" height="$h" }
		. qq{font-family="sans-serif" font-size="12">\n$style\n}
		. qq{<rect width="$w" height="$h" class="back"/>\n$svg</svg>\n};
}

1;
