# The parts of the benchmark that count: what an operation costs whatever the machine's mood, and how long the table becomes.
package Counts;

use strict;
use warnings;
use Sides;
use Table;
use Server;

# WAL position, next transaction id and flushes so far. The last of a session's WAL reaches the disk with this message.
sub position
{
	my $flushes = Server::sql('postgres', 'SHOW server_version_num') < 180000
		? '(SELECT wal_sync FROM pg_stat_wal)' : "(SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')";
	my ($lsn, $xid, $syncs) = split /\|/,
		Server::sql('exact', "SELECT pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot()), $flushes");
	return { lsn => $lsn, xid => $xid, flushes => $syncs };
}

# Bytes of WAL and row locks between two positions, but for what the server writes by itself.
sub written
{
	my ($from, $to) = @_;
	Server::sql('postgres', "SELECT pg_logical_emit_message(true, '', '')"); # whose commit flushes all before
	my $folder = Server::sql('postgres', 'SHOW data_directory') . '/pg_wal';
	my ($bytes, $locks) = (0, 0);
	return ($bytes, $locks) if $from->{lsn} eq $to->{lsn};
	for (split /\n/, Server::output_of(Server::program('pg_waldump'), '-p', $folder, '-s', $from->{lsn}, '-e', $to->{lsn}))
	{
		my ($manager, $length, $description) = /^rmgr: (\S+) .*?len \(rec\/tot\): *\d+\/ *(\d+),.*? desc: (.*)/ or next;
		next if $manager eq 'Standby' || $manager eq 'XLOG';
		$bytes += $length;
		$locks++ if $manager =~ /^Heap/ && $description =~ /^(MULTI_)?LOCK/;
	}
	return ($bytes, $locks);
}

sub exact
{
	my ($plan) = @_;
	my $runs = 1000;
	Server::create_database('exact');
	Server::set('autovacuum', 'off');
	for my $workload (qw(refused cycle run extend))
	{
		for my $side (grep { !$_->{redis} } Sides::sides_for($workload))
		{
			next if !Sides::has_table($side) && $workload eq 'refused'; # nobody holds it here, and it writes nothing
			Server::sql('exact', Table::fill($side, 8, $workload eq 'refused' ? 'held' : 'free')) if Sides::has_table($side);
			my @run = ($side, $workload, 'exact', 1, $workload eq 'extend' ? 1 : 8, '-t'); # a session extends its own name only
			Server::measure(@run, 100) if $workload ne 'extend'; # it would leave the name held
			Server::sql('exact', 'VACUUM ' . Table::table($side)) if Sides::has_table($side);
			my $before = position();
			Server::measure(@run, $runs);
			my $after = position();
			my ($bytes, $locks) = written($before, $after);
			my %count = (wal => $bytes, locks => $locks, map { ($_ => $after->{$_} - $before->{$_}) } qw(xid flushes));
			$plan->{results}->add("exact_$workload/1/$_/$side->{key}", $count{$_} / $runs) for sort keys %count;
			print '.';
		}
	}
	Server::set('autovacuum', 'on');
	Server::sql('postgres', 'DROP DATABASE exact');
}

# Table and index after a million cycles on 8 names by 8 clients. Without fsync, which makes it faster and the table no shorter.
sub million
{
	my ($plan) = @_;
	Server::create_database('million');
	Server::set('fsync', 'off');
	for my $side (map { Sides::side($_) } qw(ours java_again))
	{
		my $table = Table::table($side);
		Server::sql('million', Table::fill($side, 8, 'free'));
		Server::measure($side, 'cycle', 'million', 8, 8, '-t', int($plan->{cycles} / 8));
		my %pages;
		@pages{qw(heap index hot)} = split /\|/, Server::sql('million', 'SELECT pg_relation_size(relid) / 8192, pg_indexes_size(relid) / 8192,'
			. " 100.0 * n_tup_hot_upd / n_tup_upd FROM pg_stat_user_tables WHERE relid = '$table'::regclass");
		$plan->{results}->add("million/8/$_/$side->{key}", $pages{$_}) for sort keys %pages;
		print '.';
	}
	$plan->{results}->add('fact/cycles', $plan->{cycles});
	Server::set('fsync', 'on');
	Server::sql('postgres', 'DROP DATABASE million');
}

1;
