# Collects facts for the page: the machine, the software and the settings of the run.
package Machine;

use strict;
use warnings;
use POSIX 'strftime';
use Server;
use Redis;

sub first_line
{
	my ($pattern, $file) = @_;
	my ($found) = (-r $file ? Server::read_file($file) : '') =~ $pattern;
	return $found // 'unknown';
}

# Returns how many microseconds a flush takes on the file system of the server's data. pg_test_fsync measures that, and
# is stopped once it has printed the figure.
sub flush
{
	my $file = Server::sql('postgres', 'SHOW data_directory') . '/flush';
	open my $from, '-|', Server::program('pg_test_fsync'), '-s', 1, '-f', $file or die "pg_test_fsync: $!";
	my $took;
	while (defined(my $line = <$from>))
	{
		last if ($took) = $line =~ /^\s+fdatasync .*?(\d+) usecs\/op/;
	}
	close $from;
	unlink $file;
	return $took // 'unknown';
}

sub facts
{
	my ($plan) = @_;
	my ($kib) = first_line(qr/^MemTotal: +(\d+)/m, '/proc/meminfo');
	my %fact = (
		date => strftime('%Y-%m-%d', localtime),
		cpu => first_line(qr/^model name\s*: (.*)/m, '/proc/cpuinfo'),
		cores => `nproc` + 0,
		memory => $kib eq 'unknown' ? $kib : int($kib / 1024 / 1024 + 0.5),
		kernel => `uname -r` =~ s/\n//r,
		system => first_line(qr/^PRETTY_NAME="(.*)"/m, '/etc/os-release'),
		disk => `findmnt -n -o FSTYPE -T '${\Server::sql('postgres', 'SHOW data_directory')}'` =~ s/\n//r,
		postgres => Server::sql('postgres', 'SHOW server_version'),
		collation => Server::sql('postgres', "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"),
		redis => Redis::missing() ? 'none' : `redis-server --version` =~ s/.*v=(\S+).*\n/$1/sr,
		commit => `git describe --always --dirty 2>/dev/null` =~ s/\n//r || 'unknown',
		flush => flush(),
		map { (lc($_ =~ s/^BENCH_//r) => $ENV{$_}) }
			qw(BENCH_SECONDS BENCH_REPEAT BENCH_FLUSH_DELAY BENCH_HANDOVERS BENCH_VAIN BENCH_SETTINGS BENCH_COMMAND),
	);
	{
		local @ENV{qw(LD_PRELOAD)} = $ENV{BENCH_SLOW_FLUSH};
		$fact{slow_flush} = flush();
	}
	die "a flush takes $fact{slow_flush} us with $fact{flush_delay} added"
		if $fact{slow_flush} < $ENV{BENCH_FLUSH_MICROSECONDS};
	$plan->{results}->add("fact/$_", $fact{$_}) for sort keys %fact;
}

1;
