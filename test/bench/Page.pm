# Writes docs/benchmark.md from the template page.md, in which {{word}} is replaced by what the function of that name
# returns.
package Page;

use strict;
use warnings;
use utf8;
use Sides;
use Targets;
use Delays;
use Format;

my $results;

sub write_page
{
	(my $template, $results) = @_;
	return $template =~ s/\{\{(\w+)(?: ([^}]+))?\}\}/(__PACKAGE__->can($1) || die "page.md: no $1")->($2)/ger;
}

sub fact { return $results->fact(@_) }

sub delay { return $results->fact('flush_delay') =~ s/^(\d+)(ms|us)$/$1 $2/r =~ s/us$/µs/r }

sub command { return $results->fact('command', 'make bench') }

sub minutes
{
	return sprintf '%.0f', ($results->fact('ended', time) - $results->fact('started', time)) / 60;
}

sub redis
{
	my $version = $results->fact('redis');
	return $version eq 'none' ? 'Redis left out, because redis-server is not installed' : "Redis $version";
}

sub targets
{
	return Format::table([ 'target', 'asked', 'measured', '' ], Targets::rows($results));
}

# A summary: ours per second, then ours divided by every other side. The cycle that flushes each commit is compared with
# sides that do so, too; the cycle with the asynchronous release is compared with all sides except plain.
sub ratios
{
	my @columns = (
		[ 'refused', 'refused', 'ours', [ 1, 8, 32 ] ],
		[ 'cycle, each commit flushed', 'cycle', 'ours_sync', [ 1, 8, 32 ],
			qw(portable plain java_first java_again redis_always) ],
		[ 'cycle, asynchronous release', 'cycle', 'ours', [ 1, 8, 32 ],
			grep { $_ ne 'plain' } map { $_->{key} } Sides::sides_for('cycle') ],
		[ 'one name', 'one', 'ours', [ 8, 32 ] ]);
	my $row = sub {
		my ($title, $cell) = @_;
		return [ $title,
			map { my $column = $_; join(' · ', map { $cell->($column, $_) // () } @{ $column->[3] }) } @columns ];
	};
	my @rows = map {
		my $side = $_;
		$row->($side->{title}, sub {
			my ($title, $workload, $ours, undef, @sides) = @{ $_[0] };
			return undef if @sides && !grep { $_ eq $side->{key} } @sides;
			my $ratio = $results->ratio(map { "$workload/$_[1]//$_" } $ours, $side->{key}) or return undef;
			return Format::factor($ratio->{median});
		})
	} grep { $_->{key} !~ /^ours/ } @Sides::sides;
	my $ours = $row->('**ours, per second**', sub { Format::number($results->value("$_[0][1]/$_[1]//$_[0][2]")) });
	return Format::table([ 'ours against', map { $_->[0] } @columns ], $ours, grep { "@$_[1..$#$_]" =~ /\d/ } @rows);
}

# One row per side, one column per number of clients: ours divided by the side, then the side's operations per second.
sub speeds
{
	my ($ours, $part, $workload, $clients, @sides) = @_;
	my @rows = map {
		my $side = $_;
		my @cells = map {
			my $key = "$part$workload/$_//";
			my $value = Format::number($results->value("$key$side->{key}"));
			$side->{key} eq $ours ? "$value/s"
				: Format::ratio($results->ratio("$key$ours", "$key$side->{key}")) . " $value/s"
		} @$clients;
		[ $side->{key} eq $ours ? "**$side->{title}**" : $side->{title}, @cells ]
	} sort { ($b->{key} eq $ours) <=> ($a->{key} eq $ours) } @sides;
	@rows = grep { "@$_[1..$#$_]" !~ /^(– –\/s ?)+$/ } @rows;
	return Format::table([ '', map { $_ == 1 ? '1 client' : "$_ clients" } @$clients ], @rows);
}

sub speed
{
	my ($workload) = @_;
	# plain is compared with ours_sync.
	my @sides = grep { "$workload/$_->{key}" ne 'cycle/plain' } Sides::sides_for($workload);
	return speeds('ours', '', $workload, $workload eq 'one' ? [ 8, 32 ] : [ 1, 8, 32 ], @sides);
}

sub slow
{
	my ($workload) = @_;
	return speeds('ours', 'slow_', $workload, [ 1, 32 ], Sides::sides_for($workload));
}

sub slow_one
{
	return speeds('ours', 'slow_one_', 'refused', [32], map { Sides::side($_) } qw(ours java_first java_again));
}

# One row per workload and side, one column per number of names: cells as in speeds(), then the speed relative to ten
# names.
sub names
{
	my @sizes = (10, 10_000, 1_000_000);
	my @rows = map {
		my $workload = $_;
		map {
			my $side = $_;
			my @cells = map {
				my ($ten, $key) = map { "names_$workload/8/$_" } 10, $_;
				my $against = $side eq 'ours' ? '' : Format::ratio($results->ratio("$key/ours", "$key/$side")) . ' ';
				my $left = $_ == 10 ? undef : $results->ratio("$key/$side", "$ten/$side");
				$against . Format::number($results->value("$key/$side")) . '/s'
					. ($left ? ', ' . Format::factor($left->{median}) . ' of ten' : '')
			} @sizes;
			[ "$workload, " . ($side eq 'ours' ? '**ours**' : Sides::side($side)->{title}), @cells ]
		} @{ $Sides::with_many_names{$workload} }
	} qw(refused cycle);
	return Format::table([ '', '10 names', '10,000', '1,000,000' ], @rows);
}

sub snapshot
{
	my @sides = qw(ours java_first java_again);
	my @rows = map {
		my ($workload, $title) = @$_;
		map {
			my $side = Sides::side($_);
			my @cells = map {
				my $key = "$workload/8/$_/$side->{key}";
				my $slower = $_ ? Format::ratio($results->ratio("$workload/8/0/$side->{key}", $key)) . ' ' : '';
				$slower . Format::number($results->value($key)) . '/s'
			} 0, 1_000, 10_000, 100_000;
			[ "$title, " . ($side->{key} eq 'ours' ? '**ours**' : $side->{title}), @cells ]
		} @sides
	} [ old_refused => 'refused' ], [ old_cycle => 'cycle' ];
	return Format::table([ '', 'no snapshot', 'after 1,000 cycles', '10,000', '100,000' ], @rows);
}

sub exact
{
	my @rows = map {
		my $workload = $_;
		map {
			my $side = $_;
			my @values = map { $results->value("exact_$workload/1/$_/$side->{key}") } qw(xid flushes wal locks);
			my $instructions = $results->value("instructions/1/$workload/$side->{title}");
			defined $values[0] || defined $instructions
				? [ "$workload, " . ($side->{key} =~ /^ours/ ? "**$side->{title}**" : $side->{title}),
				map({ defined $_ ? sprintf('%.2f', $_) =~ s/\.?0+$//r : '–' } @values[ 0, 1 ]),
				defined $values[2] ? sprintf('%.0f', $values[2]) : '–',
				defined $values[3] ? sprintf('%.2f', $values[3]) =~ s/\.?0+$//r : '–',
				Format::number($instructions) ]
				: ()
		} grep { !$_->{redis} } Sides::sides_for($workload)
	} qw(refused cycle run extend);
	return Format::table([ '', 'transaction ids', 'flushes', 'WAL bytes', 'row locks', 'instructions' ], @rows);
}

sub beyond_nothing
{
	my ($ours, $nothing) = map { $results->value("instructions/1/refused/$_") // return '–' }
		'ours', Sides::side('nothing')->{title};
	return Format::number($ours - $nothing);
}

sub sides
{
	return join "\n", map { "- **$_->{title}**: $_->{note}." } @Sides::sides;
}

# How far one server goes ----------------------------------------------------------------------------------------------

# The share of a server's time that one job takes: in each interval, one cycle and the refused attempts of the other
# hosts.
sub load_of_job
{
	my ($hosts, $interval) = @_;
	my ($cycles, $refused) = map { $results->value("$_/32//ours") // return } qw(cycle refused);
	return (1 / $cycles + ($hosts - 1) / $refused) / $interval;
}

sub jobs
{
	my @intervals = (1, 10, 60);
	my @rows = map {
		my $hosts = $_;
		my @cells = map {
			my $load = load_of_job($hosts, $_);
			$load ? Format::number(sprintf '%.2g', 0.5 / $load) : '–'
		} @intervals;
		[ "$hosts hosts", @cells ]
	} 10, 100, 1000;
	return Format::table([ '', map { $_ == 60 ? 'each minute' : $_ == 1 ? 'each second' : "each $_ s" } @intervals ],
		@rows);
}

# 1000 jobs, each tried by 100 hosts every minute.
sub example
{
	my $load = load_of_job(100, 60);
	return $load ? sprintf '%.1f %%', 100 * 1000 * $load : '–';
}

sub example_connecting
{
	my $refused = $results->value('connecting_refused/8//ours');
	return $refused ? sprintf '%.1f', 1000 * 100 / 60 / $refused : '–';
}

sub value { return Format::number($results->value(@_)) }

sub delays { return Delays->can($_[0])->($results) }

sub one_work { return speeds('ours_wait', '', 'one_work', [32], map { Sides::side($_) } qw(ours_wait advisory_wait)) }

1;
