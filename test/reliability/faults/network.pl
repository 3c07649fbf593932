# A network that loses all packets, some of them, or those in one direction, permanently or for a while, while the tool
# connects, acquires, extends or releases. The kernel drops real packets, and TCP reacts as usual.
use strict;
use warnings;
use Namespace '--net';
use File::Spec;
use PostgreSQL::Test::Utils;
use Test::More;
use BootClock;
use Time::HiRes qw(sleep time);
use ShedLock;

my $tmp = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());

# Each case has its own address. Sets of addresses determine which packets to and from an address are lost.
sub nft { system_or_bail('nft', $_[0]); }
system_or_bail('ip', 'link', 'set', 'lo', 'up');
append_to_file("$tmp/rules", <<'NFT');
table inet faults {
	set to_server { type ipv4_addr; }
	set to_client { type ipv4_addr; }
	set loss { type ipv4_addr; }
	chain arriving {
		type filter hook input priority 0;
		ip daddr @to_server drop
		ip saddr @to_client drop
		ip daddr @loss numgen random mod 100 < 30 drop
		ip saddr @loss numgen random mod 100 < 30 drop
	}
}
NFT
system_or_bail('nft', '-f', "$tmp/rules");

my $server = new_server('server', "listen_addresses = '*'\nmax_connections = 200\n");
append_to_file($server->data_dir . '/pg_hba.conf', "host all all 127.0.0.0/8 trust\n");
$server->reload;
sub sql { return $server->safe_psql('postgres', $_[0]); }

sub start_tool
{
	my ($case, $slowness, $command, @how) = @_;
	launch_by($case->{clock} = boot_clock($slowness), $case, $tool, $command, $case->{name},
		'--dsn', "host=$case->{address} port=" . $server->port . ' dbname=postgres sslmode=disable gssencmode=disable',
		@how);
}

# Records every few milliseconds that it is still running; exits with 7 when told to.
my $heartbeat = <<'PERL';
for (;;) {
    open my $file, ">", "$ARGV[0].new"; printf $file "%.6f", time; close $file; rename "$ARGV[0].new", $ARGV[0];
    exit 7 if -e "$ARGV[0].go";
    sleep 0.02;
}
PERL
# Returns whether no extend can be confirmed before the lease ends. (With "replies lost" the server may carry it out.)
sub is_lethal { return $_[0]{phase} eq 'renew' && $_[0]{kind} =~ /cut|lost/; }
sub last_beat { return slurp_file($_[0]{file}); }
sub tell_to_end { append_to_file("$_[0]{file}.go", ''); }

# kind of fault => [ its sets, and, if the fault ends, after how many seconds: minimum and maximum ]. A client waits
# five seconds for an answer.
my %faults = (
	cut => [ [qw(to_server to_client)] ],
	'requests lost' => [ ['to_server'] ],
	'replies lost' => [ ['to_client'] ],
	'30 % loss' => [ ['loss'] ],
	delay => [ [qw(to_server to_client)], 0, 3 ],
	'one-way delay' => [ ['to_client'], 0, 3 ],
	outage => [ [qw(to_server to_client)], 5.5, 7 ]);

sub begin_fault
{
	my ($case) = @_;
	nft("add element inet faults $_ { $case->{address} }") for @{ $faults{ $case->{kind} }[0] };
	$case->{began} = time;
}
sub end_fault
{
	my ($case) = @_;
	nft("delete element inet faults $_ { $case->{address} }") for @{ $faults{ $case->{kind} }[0] };
}

my %count;
sub finish
{
	my ($case) = @_;
	$case->{status} = ended($case);
	$count{"$case->{phase} $case->{status}"}++;
}

# Compares the tool's answer to an acquire with the row. No other client asks for this lock, so "refused" would be wrong
# as well.
sub check_acquire
{
	my ($case, $title) = @_;
	my $row = sql("SELECT token FROM shedlock_locks WHERE name = '$case->{name}' AND state = 'held'");
	like($case->{status}, qr/^(0|125)$/, "$title: granted or an error");
	is("$row\n", $case->{out}, "$title: the token is that of the lock") if $case->{status} == 0;
	is($case->{out}, '', "$title: no token with an error") if $case->{status} != 0;
}

# Another client waits for the lock. The command must have ended before that client gets the lock.
sub check_run
{
	my ($case, $title) = @_;
	my $is_lethal = is_lethal($case);
	is($case->{status}, $is_lethal ? 124 : 7,
		"$title: the command " . ($is_lethal ? 'was stopped' : 'ended by itself'));
	is(sql("SELECT token FROM shedlock_locks WHERE name = '$case->{name}' AND state = 'held'"), $case->{token},
		"I1 $title: ... before its lease ended") if $is_lethal && $case->{kind} ne 'replies lost';
	# Frees the lock in case the tool's release was lost.
	sql("SELECT shedlock_release_token('$case->{name}', $case->{token})");
	ended($case->{next});
	chomp(my $token = $case->{next}{out});
	cmp_ok($token, '>', 0, "$title: the lock is free again");
	cmp_ok(last_beat($case) * 1e6, '<=', $token, "I1 $title: the command had ended when the next one got the lock");
}

my ($rounds, $address) = (often(1, 15), 1);
for my $round (1 .. $rounds)
{
	my @cases = map {
		my $phase = $_;
		map {
			$address = $address % 250 + 1;
			+{ phase => $phase, kind => $_, name => "$phase $_ $round", file => "$tmp/$phase $_ $round",
				address => "127.0.1.$address" }
		} sort keys %faults
	} qw(connect acquire renew release);
	my @runs = grep { $_->{phase} =~ /^re/ } @cases;
	start_tool($_, 1, 'run', '--at-most', '1h', '--wait-server', '1h',
		'--', 'perl', '-MTime::HiRes=time,sleep', '-e', $heartbeat, $_->{file}) for @runs;
	my $all = @runs;
	$server->poll_query_until('postgres',
		"SELECT count(*) = $all FROM shedlock_locks WHERE name LIKE 're% $round' AND state = 'held'")
		or die 'not all commands run';
	for my $case (@runs)
	{
		sleep(0.05) until -e $case->{file};
		($case->{token}, $case->{until}) = split /\|/,
			sql("SELECT token, lock_until FROM shedlock_locks WHERE name = '$case->{name}'");
		$case->{next} = launch({}, 'psql', '-XAtq', '-d', $server->connstr('postgres'),
			'-c', "SELECT shedlock_acquire_token('$case->{name}', '1 h', wait => '1 h')");
	}

	# The acquires reach the server, and wait there until their network fails. Then their five seconds pass, except with
	# delays and 30 % loss. The server's lock_timeout is shorter than that, and real: on a slow machine the first acquires
	# have ended when the last ones arrive.
	my @acquires = grep { $_->{phase} eq 'acquire' } @cases;
	my $ddl = $server->background_psql('postgres'); # an acquire waits for this lock (the only exception to I2)
	$ddl->query_safe('BEGIN; LOCK TABLE shedlock IN ACCESS EXCLUSIVE MODE');
	start_tool($_, undef, 'acquire', '--at-most', '1h') for @acquires;
	for my $case (@acquires)
	{
		sleep(0.05) while is_running($case) && sql("SELECT count(*) FROM pg_stat_activity
			WHERE wait_event = 'relation' AND query LIKE '%acquire_token%$case->{name}%holder =>%'") == 0;
	}
	begin_fault($_) for @acquires;
	advance($_->{clock}, 6) for grep { $_->{kind} !~ /delay|loss/ } @acquires;
	$ddl->quit;

	for my $case (grep { $_->{phase} ne 'acquire' } @cases)
	{
		start_tool($case, 1, 'acquire', '--at-most', '1h') if $case->{phase} eq 'connect';
		sleep(rand(0.05));
		begin_fault($case);
		tell_to_end($case) if $case->{phase} eq 'release';
		advance($case->{clock}, when_an_extend_is_due) if $case->{phase} eq 'renew';
	}
	my @later; # [ when, what ]
	for my $case (@cases)
	{
		my (undef, $from, $to) = @{ $faults{ $case->{kind} } };
		push @later, [ $case->{began} + $from + rand($to - $from), sub { end_fault($case) } ] if $to;
	}
	for my $event (sort { $a->[0] <=> $b->[0] } @later)
	{
		my ($when, $what) = @$event;
		my $left = $when - time;
		sleep($left) if $left > 0;
		$what->();
	}
	advance($_->{clock}, after_the_deadline) for grep { is_lethal($_) } @cases;
	for my $case (@cases)
	{
		my $title = "$case->{kind}, in $case->{phase}";
		if ($case->{phase} eq 'renew' && !is_lethal($case))
		{
			ok($server->poll_query_until('postgres',
					"SELECT lock_until > '$case->{until}' FROM shedlock_locks WHERE name = '$case->{name}'"),
				"$title: the lease is extended");
			tell_to_end($case);
		}
		finish($case);
		$case->{phase} =~ /^re/ ? check_run($case, $title) : check_acquire($case, $title);
		end_fault($case) unless $faults{ $case->{kind} }[2];
	}
}
my $times = 28 * $rounds;
seen(17, $times, 'faults', 'phases and exit statuses: ' . join ', ', map { "$_ ($count{$_})" } sort keys %count);

$server->stop;
done_testing();
