# The measurements: a file with lines "what <tab> value", where what is "workload/clients/variant/side", with one line
# for each repetition or hand-over, in order; or "fact/name".
package Results;

use strict;
use warnings;
use POSIX 'ceil';
use List::Util qw(min max);

sub new
{
	my ($class, $file) = @_;
	return bless { file => $file, values => {}, facts => {} }, $class;
}

sub load
{
	my ($self) = @_;
	open my $in, '<', $self->{file} or die "$self->{file}: $!";
	while (defined(my $line = <$in>))
	{
		chomp $line;
		my ($what, $value) = split /\t/, $line, 2;
		if ($what =~ s/^fact\///) { $self->{facts}{$what} = $value }
		else { push @{ $self->{values}{$what} }, $value }
	}
	return $self;
}

sub add
{
	my ($self, $what, $value) = @_;
	open my $out, '>>', $self->{file} or die "$self->{file}: $!";
	print $out "$what\t$value\n";
	close $out or die "$self->{file}: $!";
}

sub fact
{
	my ($self, $name, $otherwise) = @_;
	return $self->{facts}{$name} // $otherwise // '?';
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return undef if !@sorted;
	return @sorted % 2 ? $sorted[ $#sorted / 2 ] : ($sorted[ @sorted / 2 - 1 ] + $sorted[ @sorted / 2 ]) / 2;
}

sub value
{
	my ($self, $what) = @_;
	return median($self->all($what));
}

sub all
{
	my ($self, $what) = @_;
	return @{ $self->{values}{$what} // [] };
}

# Returns the value that this share of all values does not exceed: 0.99 for the 99th percentile, 1 for the maximum.
sub quantile
{
	my ($self, $what, $part) = @_;
	my @sorted = sort { $a <=> $b } $self->all($what);
	return $part == 0.5 ? median(@sorted) : @sorted ? $sorted[ ceil($part * @sorted) - 1 ] : undef;
}

# Returns the median, minimum and maximum of a/b, each within one repetition; nothing if one of the two was not
# measured.
sub ratio
{
	my ($self, $one, $other) = @_;
	my ($a, $b) = map { $self->{values}{$_} // return } $one, $other;
	my @ratios = map { $b->[$_] ? $a->[$_] / $b->[$_] : () } 0 .. min($#$a, $#$b);
	return if !@ratios;
	return { median => median(@ratios), min => min(@ratios), max => max(@ratios), count => scalar @ratios };
}

1;
