# What is measured: one entry per side, and the pgbench scripts and tables that are made of these entries.
#   key, title     its name in the results, and on the page
#   does           the workloads in which it takes part (see `script`)
#   acquire, release, extend, run   its statements. Parameters: :name, :host (another one for each client), :at_most
#                  (interval), :seconds (the same as a number), :zero
#   refused        instead of acquire where it should be refused: fails if it is granted
#   asked          instead of acquire, to learn from the column `got` whether it was granted; no row means refused
#   completed      instead of release, if its tables do not show how many cycles it has completed on one name
#   setup          SQL that creates its tables, in a schema that has its key as the name
#   schema         the schema of another side, if it uses that one's tables
#   options        settings of its sessions
#   redis          it is a Redis server, with this appendfsync (see Redis.pm)
package Sides;

use strict;
use warnings;
use utf8;

# The literal statements of Java (ShedLock 7.9, usingDbTime()).
my $now = "timezone('utc', CURRENT_TIMESTAMP)";
my $until = "$now + make_interval(secs => :seconds)";
my $set = "SET lock_until = $until, locked_at = $now, locked_by = :host"
	. " WHERE shedlock.name = :name AND shedlock.lock_until <= $now";
my %java = (
	insert => "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES(:name, $until, $now, :host)"
		. " ON CONFLICT (name) DO UPDATE $set",
	update => "UPDATE shedlock $set",
	extend => "UPDATE shedlock SET lock_until = $until WHERE name = :name AND locked_by = :host AND lock_until > $now",
	unlock => "UPDATE shedlock SET lock_until = CASE WHEN locked_at + make_interval(secs => :zero) > $now"
		. " THEN locked_at + make_interval(secs => :zero) ELSE $now END WHERE name = :name AND locked_by = :host",
);
my $table = 'CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,'
	. ' locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)';

# The least that plain SQL can do has a number as its key, and the fillfactor of ours.
my $plain = $table =~ s/varchar\(64\)/bigint/r . ' WITH (fillfactor = 90)';
my $update = 'UPDATE shedlock SET lock_until = now() WHERE name = :name';
my $portable = do { local (@ARGV, $/) = __FILE__ =~ s{[^/]*$}{../../portable/shedlock.sql}r; <> };
my $key = 'hashtextextended(:name, 0)';
my %ours = (
	acquire => 'SELECT shedlock_acquire(:name, :at_most) AS got',
	release => 'SELECT shedlock_release(:name)',
	run => "CALL shedlock_run(:name, 'INSERT INTO work VALUES (1)', :at_most)",
);
my $try = "SELECT pg_try_advisory_lock($key) AS got";
my $unlock_advisory = "SELECT pg_advisory_unlock($key)";
my %advisory = (
	acquire => $try,
	refused => "SELECT 1 / (NOT got)::int FROM ($try) answer",
	release => $unlock_advisory,
	completed => "$unlock_advisory;\nSELECT nextval('completed')",
);

our @sides = (
	{ key => 'ours', title => 'ours', schema => 'public', does => 'refused cycle one extend run',
		setup => 'CREATE EXTENSION shedlock; CREATE TABLE work (done int)',
		%ours, extend => 'SELECT shedlock_extend(:name, :at_most)' },
	{ key => 'ours_sync', title => 'ours, async_release off', schema => 'public', does => 'cycle one',
		%ours, options => '-c shedlock.async_release=off' },
	{ key => 'ours_wait', title => 'ours, wait', schema => 'public', does => 'one',
		%ours, acquire => "SELECT shedlock_acquire(:name, :at_most, wait => '1 min') AS got" },
	{ key => 'ours_apart', title => 'ours, three statements', schema => 'public', does => 'run',
		run => "$ours{acquire};\nINSERT INTO work SELECT 1 FROM shedlock_guard(:name);\n$ours{release}" },
	{ key => 'portable', title => 'the portable edition', does => 'refused cycle run',
		setup => "$portable; CREATE TABLE work (done int)", %ours },
	{ key => 'nothing', title => 'a statement that does nothing', schema => 'public', does => 'refused',
		acquire => 'SELECT :name::text IS NULL AND :at_most::interval IS NULL AS got' },
	{ key => 'plain', title => 'two UPDATEs by primary key', does => 'cycle',
		setup => $plain, acquire => $update, release => $update },
	{ key => 'plain_async', title => 'two UPDATEs, second async', schema => 'plain', does => 'cycle',
		acquire => $update, release => "$update RETURNING set_config('synchronous_commit', 'off', true)" },
	{ key => 'plain_select', title => 'SELECT by primary key', schema => 'plain', does => 'refused',
		acquire => 'SELECT lock_until <= now() AS got FROM shedlock WHERE name = :name' },
	{ key => 'java_first', title => 'Java, first attempt', does => 'refused cycle one', setup => $table,
		acquire => $java{insert}, asked => "$java{insert} RETURNING 1 AS got", release => $java{unlock} },
	{ key => 'java_again', title => 'Java, steady state', does => 'refused cycle one extend', setup => $table,
		acquire => $java{update}, asked => "$java{update} RETURNING 1 AS got", release => $java{unlock},
		extend => $java{extend} },
	{ key => 'advisory', title => 'advisory lock', does => 'refused cycle one',
		setup => "CREATE UNLOGGED SEQUENCE completed; SELECT nextval('completed')", %advisory },
	{ key => 'advisory_wait', title => 'advisory lock, wait', schema => 'advisory', does => 'one',
		%advisory, acquire => "SELECT true AS got FROM pg_advisory_lock($key)" },
	{ key => 'redis_always', title => 'Redis, appendfsync always', redis => 'always', does => 'refused cycle' },
	{ key => 'redis_everysec', title => 'Redis, appendfsync everysec', redis => 'everysec', does => 'cycle' },
);

my %side = map { ($_->{key} => $_) } @sides;
sub side { return $side{ $_[0] } // die "no side $_[0]" }
sub sides_for { my ($workload) = @_; return grep { $_->{does} =~ /\b$workload\b/ } @sides }

sub schema { return $_[0]{schema} // $_[0]{key} }
sub table { return schema(@_) . '.shedlock' }

# The workloads, as pgbench scripts. One run is one operation; of one, if the lock was granted.
my $own = "\\set name 1 + :client_id * :slice + random(0, :slice - 1)\n";
my %script = (
	# One of the names at random. Another session holds them all.
	refused => "\\set name random(1, :names)\n%refused;\n",
	# A name from the client's own share of the names.
	cycle => "$own%acquire;\n%release;\n",
	# The only name.
	one => "\\set name 1\n\\set got 0\n%asked \\aset\n\\if :got\n%completed;\n\\endif\n",
	# Some work under a name of the client's own.
	run => "$own%run;\n",
	# A name of the client's own, acquired by its first run.
	extend => "$own\\if :first\n%acquire;\n\\set first 0\n\\endif\n%extend;\n",
);

sub script
{
	my ($side, $workload) = @_;
	my $acquire = $side->{acquire};
	my %word = (refused => $acquire, asked => $acquire, completed => $side->{release}, %$side);
	return "\\set host :client_id\n" . $script{$workload} =~ s/%(\w+)/$word{$1}/gr;
}

# SQL that creates everything that the sides on PostgreSQL need in a database.
sub setup
{
	my $schema = sub { return $_[0] eq 'public' ? '' : "CREATE SCHEMA $_[0]; " };
	return join '', map { $schema->(schema($_)) . "SET search_path = ${\schema($_)};\n$_->{setup};\n" }
		grep { $_->{setup} } @sides;
}

# SQL that fills the side's table with the names 1 to N, either `held` by another session or `free`, and analyzes it for
# the planner.
sub fill
{
	my ($side, $names, $state) = @_;
	return () if $side->{completed} || $side->{redis};
	my $until = $state eq 'held' ? "+ interval '1 day'" : "- interval '1 second'";
	return ("TRUNCATE ${\table($side)}",
		"INSERT INTO ${\table($side)} (name, lock_until, locked_at, locked_by) SELECT n, timezone('utc', now()) $until,"
			. " timezone('utc', now()) - interval '1 minute', 'job\@elsewhere#1' FROM generate_series(1, $names) n",
		"VACUUM ANALYZE ${\table($side)}");
}

# The sides whose operations one client can do alone: no other session holds an advisory lock.
sub alone
{
	my ($workload) = @_;
	return grep { !$_->{redis} && !($_->{completed} && $workload eq 'refused') } sides_for($workload);
}

# Writes files for test/bench/instructions into a folder: setup.sql; list, with a line for each workload and side; and
# for each of these NAME.fill, the SQL that fills the table for one name, and NAME.run, the script.
sub save
{
	my ($folder) = @_;
	my $add = sub { open my $out, '>>', "$folder/$_[0]" or die "$folder/$_[0]: $!"; print $out $_[1] };
	$add->('setup.sql', setup());
	for my $workload (qw(refused cycle run extend))
	{
		for my $side (grep { !$_->{options} } alone($workload)) # one that differs only in settings is not counted again
		{
			my $name = "$workload.$side->{key}";
			$add->('list', join("\t", $name, $workload, schema($side), $side->{title}) . "\n");
			$add->("$name.run", script($side, $workload));
			$add->("$name.fill", join '', map { "$_;\n" } fill($side, 1, $workload eq 'refused' ? 'held' : 'free'));
		}
	}
}

1;
