# A fleet of different clients that follow the primary through fail-overs. They record which client held which lock,
# from when to when, and with which token. All servers and clients run on this machine, so all times are by the same
# clock.
package Fleet;

use strict;
use warnings;
use Exporter 'import';
use POSIX ();
use Time::HiRes qw(time sleep);

our @EXPORT = qw(start_fleet stop_fleet double_grants forgotten backward_tokens);

my @names = ('one', 'two', 'three');
my $lease = 2;    # at_most, in seconds

# A grant lasts from its acknowledgement until its client begins to release it, or until at_most after the call began,
# when the client may no longer rely on it. Each grant is a line in its client's log: name, token, called ("kept" if
# at_most is no limit), from, to.

# Calls the functions for sessions, many times on one connection.
sub session_turn
{
	my $name = shift;
	return <<"SQL";
\\set called `date +%s.%N`
SELECT shedlock_acquire('$name', '$lease s') AS got \\gset
\\if :got
\\set from `date +%s.%N`
SELECT coalesce((SELECT token FROM shedlock_locks WHERE name = '$name' AND holder_pid = pg_backend_pid()), 0)
 AS token \\gset
SELECT pg_sleep(random() * 0.2) \\g /dev/null
\\set to `date +%s.%N`
\\echo $name :token :called :from :to
SELECT shedlock_release('$name') \\g /dev/null
\\endif
SELECT pg_sleep(random() * 0.1) \\g /dev/null
SQL
}

# The exact statements of Java clients, except for RETURNING: without it, reading the token would be a race.
sub java_turn
{
	my $name = shift;
	my $sets = "lock_until = timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $lease), "
	  . "locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = 'java'";
	my $returning = 'RETURNING (extract(epoch FROM locked_at) * 1000000)::bigint AS token';
	my $free = "shedlock.name = '$name' AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP)";
	return <<"SQL";
\\set called `date +%s.%N`
INSERT INTO shedlock(name, lock_until, locked_at, locked_by)
 VALUES('$name', timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $lease),
 timezone('utc', CURRENT_TIMESTAMP), 'java')
 ON CONFLICT (name) DO UPDATE SET $sets WHERE $free $returning \\gset
SELECT :ROW_COUNT = 1 AS got \\gset
\\if :got
\\set from `date +%s.%N`
SELECT pg_sleep(random() * 0.2) \\g /dev/null
\\set to `date +%s.%N`
\\echo $name :token :called :from :to
UPDATE shedlock SET lock_until = CASE WHEN locked_at + make_interval(secs => 0) > timezone('utc', CURRENT_TIMESTAMP)
 THEN locked_at + make_interval(secs => 0) ELSE timezone('utc', CURRENT_TIMESTAMP) END
 WHERE name = '$name' AND locked_by = 'java';
\\endif
SELECT pg_sleep(random() * 0.1) \\g /dev/null
SQL
}

# Acquires locks for an hour, each with another name, and never releases them. If one of them is missing at the end, a
# grant was forgotten. (The leases of the other clients end before a fail-over does.)
sub keeping_turn
{
	return <<"SQL";
SELECT 'kept_' || replace(gen_random_uuid()::text, '-', '') AS name \\gset
SELECT shedlock_acquire_token(:'name', '1 h') AS token \\gset
\\echo :name :token kept 0 0
SELECT pg_sleep(0.02) \\g /dev/null
SQL
}

# psql exits when its connection is lost, and the next psql looks for the primary.
sub run_psql
{
	my ($fleet, $log, $turn) = @_;
	my $script = "$log.sql";
	open my $file, '>', $script or die $!;
	print $file $turn->($names[ rand @names ]) for 1 .. 100;
	close $file;
	system "psql -XAtq -v ON_ERROR_STOP=1 -f '$script' -d '$fleet->{hosts}' >>'$log' 2>>'$log.errors'";
	sleep 0.1;
}

# Starts one process per call, as a crontab or shell script does.
sub run_tool
{
	my ($fleet, $log) = @_;
	my $name = $names[ rand @names ];
	my $called = time;
	chomp(my $token = `$fleet->{tool} acquire $name --dsn '$fleet->{hosts}' --at-most ${lease}s 2>>'$log.errors'`
		// '');
	my $from = time;
	return sleep 0.05 if $? or $token eq '';
	sleep rand 0.2;
	my $to = time;
	append($log, sprintf "%s %s %.6f %.6f %.6f\n", $name, $token, $called, $from, $to);
	system "$fleet->{tool} release $name --dsn '$fleet->{hosts}' --token $token >/dev/null 2>>'$log.errors'";
}

# shedlock run extends the lease while the command runs, so the grant lasts until the command ends, by itself or by
# SIGTERM. The margin of shedlock run decides when it sends SIGTERM, so at_most does not limit the grant here.
sub run_command
{
	my ($fleet, $log) = @_;
	my $name = $names[ rand @names ];
	my $job = 'from=$(date +%s.%N); trap exit TERM; '
		. 'trap \'echo $SHEDLOCK_NAME $SHEDLOCK_TOKEN kept $from $(date +%s.%N)\' EXIT; sleep 0.3';
	system $fleet->{tool}, 'run', $name, '--dsn', $fleet->{hosts}, '--at-most', "${lease}s",
		'--', 'sh', '-c', "exec >>'$log' 2>>'$log.errors'; $job";
	sleep 0.05;
}

sub append
{
	my ($path, $line) = @_;
	open my $file, '>>', $path or die "$path: $!";
	print $file $line;
	close $file;
}

my @members = (
	[ session => \&run_psql, \&session_turn ], [ session => \&run_psql, \&session_turn ],
	[ java => \&run_psql, \&java_turn ], [ keep => \&run_psql, \&keeping_turn ],
	[ tool => \&run_tool ], [ tool => \&run_tool ], [ run => \&run_command ], [ run => \&run_command ]);

# hosts: a connection string that names all servers. tool: the path of shedlock. folder: for the logs.
sub start_fleet
{
	my $fleet = {@_, pids => []};
	append("$fleet->{folder}/go", "the fleet works while this file exists\n");
	for my $number (0 .. $#members)
	{
		my ($kind, $work, @further) = @{ $members[$number] };
		my $pid = fork // die "fork: $!";
		push @{ $fleet->{pids} }, $pid;
		next if $pid;
		srand $number;
		my $log = "$fleet->{folder}/$kind.$number";
		$work->($fleet, $log, @further) while -e "$fleet->{folder}/go";
		POSIX::_exit(0);
	}
	return $fleet;
}

# Ends the fleet, and returns all grants: name, token, from, to, and the path of the client's log, which ends in
# KIND.NUMBER.
sub stop_fleet
{
	my $fleet = shift;
	unlink "$fleet->{folder}/go";
	waitpid $_, 0 for @{ $fleet->{pids} };
	my @grants;
	for my $log (glob "$fleet->{folder}/*.[0-9]")
	{
		open my $file, '<', $log or die "$log: $!";
		while (<$file>)
		{
			my ($name, $token, $called, $from, $to) = /^(\w+) (\d+) (\S+) (\S+) (\S+)$/ or next;
			my $trusted = $called eq 'kept' ? $to : $called + $lease;
			push @grants,
				{ name => $name, token => $token, from => $from, to => $to < $trusted ? $to : $trusted, who => $log };
		}
	}
	return @grants;
}

sub told { my $grant = shift; return sprintf '%s %s of %s from %.6f to %.6f', @$grant{qw(name token who from to)} }

# Returns pairs of grants of one name of which one begins before the other has ended.
sub double_grants
{
	my (%last, @found);
	for my $grant (sort { $a->{from} <=> $b->{from} } grep { $_->{from} < $_->{to} } @_)
	{
		my $before = $last{ $grant->{name} };
		push @found, told($before) . ' and ' . told($grant) if $before && $grant->{from} < $before->{to};
		$last{ $grant->{name} } = $grant if !$before || $grant->{to} > $before->{to};
	}
	return @found;
}

# Returns grants that should have lasted and are not in the table.
sub forgotten
{
	my ($hosts, @grants) = @_;
	my %there = map { $_ => 1 } split /\n/,
		`psql -XAtq -F ' ' -d '$hosts' -c "SELECT name, token FROM shedlock_locks WHERE state = 'held'"`;
	return map { "$_->{name} $_->{token}" }
		grep { $_->{name} =~ /^kept_/ && !$there{"$_->{name} $_->{token}"} } @grants;
}

# Returns pairs of grants of one name of which the one acknowledged later has no greater token. If its lease was over
# then, its reply was late, and it may have been granted first. Skips grants with the token 0, which means that a session
# did not find its row when it looked for its token.
sub backward_tokens
{
	my (%last, @found);
	for my $grant (sort { $a->{from} <=> $b->{from} } grep { $_->{token} } @_)
	{
		my $before = $last{ $grant->{name} };
		my $is_late = $grant->{from} >= $grant->{to};
		push @found, told($before) . ' and ' . told($grant)
			if $before && $grant->{token} <= $before->{token} && !$is_late;
		$last{ $grant->{name} } = $grant if !$before || $grant->{token} > $before->{token};
	}
	return @found;
}

1;
