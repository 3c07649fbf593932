# The part of the benchmark that counts what an operation costs. The counts do not depend on how busy the machine is.
package Counts;

use strict;
use warnings;
use Sides;
use Table;
use Server;

# Returns the WAL position, the next transaction id, and the number of flushes so far.
sub position
{
	my $flushes = Server::sql('postgres', 'SHOW server_version_num') < 180000
		? '(SELECT wal_sync FROM pg_stat_wal)' : "(SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')";
	my ($lsn, $xid, $syncs) = split /\|/,
		Server::sql('exact', "SELECT pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot()), $flushes");
	return { lsn => $lsn, xid => $xid, flushes => $syncs };
}

# Returns the bytes of WAL and the row locks between two positions, without the server's background activity.
sub written
{
	my ($from, $to) = @_;
	Server::sql('postgres', "SELECT pg_logical_emit_message(true, '', '')"); # its commit flushes all WAL before it
	my $folder = Server::sql('postgres', 'SHOW data_directory') . '/pg_wal';
	my ($bytes, $locks) = (0, 0);
	return ($bytes, $locks) if $from->{lsn} eq $to->{lsn};
	for (split /\n/,
		Server::output_of(Server::program('pg_waldump'), '-p', $folder, '-s', $from->{lsn}, '-e', $to->{lsn}))
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
			# No session holds such a lock here, and a refusal writes nothing.
			next if !Sides::has_table($side) && $workload eq 'refused';
			Server::sql('exact', Table::fill($side, 8, $workload eq 'refused' ? 'held' : 'free'))
				if Sides::has_table($side);
			# A session extends its own name only.
			my @run = ($side, $workload, 'exact', 1, $workload eq 'extend' ? 1 : 8, '-t');
			Server::measure(@run, 100) if $workload ne 'extend'; # because it would leave the name held
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

1;
