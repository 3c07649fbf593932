# The workloads, as pgbench scripts built from a side's statements. One run is one operation; of one and one_work, if
# granted.
#   cycle     acquire and release a name from the client's own share of the names
#   refused   acquire one of the names at random, all held by another session
#   one       acquire the only name; release it if it was granted
#   one_work  the same, with a millisecond of work in between
#   run       some work under a name of the client's own
#   extend    extend a name of the client's own, acquired by its first run
package Script;

use strict;
use warnings;
use Sides;
use Table;

my $host = "\\set host :client_id\n";
my $own = "\\set name 1 + :client_id * :slice + random(0, :slice - 1)\n";

# If a side has no table, what it did cannot be checked afterwards, so the script checks each result. pgbench stops at
# the error.
sub expect
{
	my ($side, $granted) = @_;
	return "$side->{acquire};\n" if Sides::has_table($side);
	my ($good, $bad) = ('', "SELECT 1/0 AS not_expected;\n");
	return "$side->{acquire} \\gset\n"
		. "\\if :got\n" . ($granted ? $good : $bad) . "\\else\n" . ($granted ? $bad : $good) . "\\endif\n";
}

# $work is what is done under the lock: a line of the pgbench script, or empty.
sub one_name
{
	my ($side, $work) = @_;
	my $acquire = $side->{acquire} . ($side->{told} // '');
	my $release = $side->{done} // $side->{release};
	return "$host\\set name 1\n\\set got 0\n$acquire \\aset\n\\if :got\n$work$release;\n\\endif\n";
}

my %script = (
	cycle => sub {
		my ($side) = @_;
		return $host . $own . expect($side, 1) . "$side->{release};\n";
	},
	refused => sub {
		my ($side) = @_;
		return "$host\\set name random(1, :names)\n" . expect($side, 0);
	},
	one => sub { return one_name($_[0], '') },
	one_work => sub { return one_name($_[0], "\\sleep 1 ms\n") },
	run => sub {
		my ($side) = @_;
		return "$own$side->{run};\n";
	},
	extend => sub {
		my ($side) = @_;
		return "$host$own\\if :first\n$side->{acquire};\n\\set first 0\n\\endif\n$side->{extend};\n";
	},
);

sub script
{
	my ($side, $workload) = @_;
	return $script{$workload}->($side);
}

# Returns the -D options of pgbench for this number of clients and names.
sub variables
{
	my ($clients, $names) = @_;
	my %value = (at_most => '1 min', seconds => 60, zero => 0, first => 1, names => $names,
		slice => int($names / $clients) || 1);
	return map { ('-D', "$_=$value{$_}") } sort keys %value;
}

# Writes files for test/bench/instructions into a folder: setup.sql; list, with a line for each workload and side; and
# for each of these NAME.fill, the SQL that fills the table for one name, and NAME.run, the script.
sub save
{
	my ($folder) = @_;
	my %file = ('setup.sql' => Table::setup(), list => '');
	for my $workload (qw(refused cycle run extend))
	{
		for my $side (grep { !$_->{redis} } Sides::sides_for($workload))
		{
			next if $side->{options}; # a side that differs only in settings is not counted again
			# There is no other session that could hold the lock.
			next if $workload eq 'refused' && !Sides::has_table($side);
			my $file = "$workload.$side->{key}";
			$file{list} .= join("\t", $file, $workload, Sides::schema($side), $side->{title}) . "\n";
			$file{"$file.run"} = script($side, $workload);
			my @fill = Sides::has_table($side) ? Table::fill($side, 1, $workload eq 'refused' ? 'held' : 'free') : ();
			$file{"$file.fill"} = join '', map { "$_;\n" } @fill;
		}
	}
	for my $name (sort keys %file)
	{
		open my $out, '>', "$folder/$name" or die "$folder/$name: $!";
		print $out $file{$name};
		close $out or die "$folder/$name: $!";
	}
}

1;
