# Who is measured: one entry a side, and whoever adds a side adds an entry; everything else is read from here.
#   key, title     its name in the results, and on the page
#   note           what the page says of it
#   acquire, release, extend   its statements, without the semicolon. Parameters: :name, :host (another one for each
#                  client), :at_most (interval), :seconds (the same as a number), :zero
#   told           what has to follow acquire so that it gives a column `got`: a true one, or no row, or a false one
#   done           release, and count it: only for a side without a table, whose completed cycles nobody counts otherwise
#   setup          SQL that makes its lock table, in a schema of its own. schema: where that is, if not there
#   table          false: it has none
#   loose          a crash loses what it has granted
#   options        settings of its sessions
#   only           the workloads it takes part in, if not in all that its statements allow
#   redis          it is a Redis server, with this appendfsync; the statements are Redis commands
package Sides;

use strict;
use warnings;
use utf8;
use List::Util 'first';

# Java's literal statements (ShedLock 7.9, usingDbTime()).
my $until = "timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => :seconds)";
my $now = "timezone('utc', CURRENT_TIMESTAMP)";
my $table = <<'SQL';
CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
SQL
my $upsert = "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES(:name, $until, $now, :host)"
	. " ON CONFLICT (name) DO UPDATE SET lock_until = $until, locked_at = $now, locked_by = :host"
	. " WHERE shedlock.name = :name AND shedlock.lock_until <= $now";
my $update = "UPDATE shedlock SET lock_until = $until, locked_at = $now, locked_by = :host"
	. " WHERE shedlock.name = :name AND shedlock.lock_until <= $now";
my $unlock = "UPDATE shedlock SET lock_until = CASE WHEN locked_at + make_interval(secs => :zero) > $now"
	. " THEN locked_at + make_interval(secs => :zero) ELSE $now END WHERE name = :name AND locked_by = :host";
my $extend = "UPDATE shedlock SET lock_until = $until WHERE name = :name AND locked_by = :host AND lock_until > $now";

sub in_function
{
	my ($statement) = @_;
	my %argument = (name => 'p_name', seconds => 'p_seconds', host => 'p_host', zero => '0');
	return $statement =~ s/(?<!:):(\w+)/$argument{$1}/gr;
}
my $functions = join '', map {
	my ($function, $statement) = @$_;
	"CREATE FUNCTION $function(p_name text, p_seconds double precision, p_host text) RETURNS boolean LANGUAGE plpgsql AS "
		. '$$ BEGIN ' . in_function($statement) . "; RETURN FOUND; END \$\$;\n"
} [ acquire => $upsert ], [ release => $unlock ], [ extend => $extend ];

my $key = 'hashtextextended(:name, 0)';

our @sides = (
	{
		key => 'ours', title => 'ours',
		note => 'the session functions `shedlock_acquire`, `shedlock_release` and `shedlock_extend`, counted for `shedlock_stats`;'
			. ' `shedlock.async_release` on, the default: the commit of a release does not wait for the disk',
		schema => 'public', setup => 'CREATE EXTENSION shedlock;',
		acquire => 'SELECT shedlock_acquire(:name, :at_most) AS got',
		release => 'SELECT shedlock_release(:name)',
		extend => 'SELECT shedlock_extend(:name, :at_most)',
	},
	{
		key => 'ours_sync', title => 'ours, async_release off',
		note => 'the same, every commit waits for the disk: what the other sides on PostgreSQL do',
		schema => 'public', options => '-c shedlock.async_release=off', only => [qw(cycle one)],
		acquire => 'SELECT shedlock_acquire(:name, :at_most) AS got',
		release => 'SELECT shedlock_release(:name)',
	},
	{
		key => 'ours_wait', title => 'ours, wait',
		note => 'the same as ours, with `wait => \'1 min\'`: the server looks again, the client does not ask again',
		schema => 'public', only => ['one'],
		acquire => q{SELECT shedlock_acquire(:name, :at_most, wait => '1 min') AS got},
		release => 'SELECT shedlock_release(:name)',
	},
	{
		key => 'java_first', title => 'Java, first attempt',
		note => 'the literal statements of Java\'s ShedLock 7.9 with `usingDbTime()`: `INSERT … ON CONFLICT`, as a JVM sends it the'
			. ' first time it tries a name, and its unlock',
		setup => $table, acquire => $upsert, told => ' RETURNING 1 AS got', release => $unlock,
		only => [qw(cycle refused one)], # its extend is that of the next
	},
	{
		key => 'java_again', title => 'Java, steady state',
		note => 'the `UPDATE` that the JVM sends from then on, and the same unlock',
		setup => $table, acquire => $update, told => ' RETURNING 1 AS got', release => $unlock, extend => $extend,
	},
	{
		key => 'plpgsql', title => 'PL/pgSQL',
		note => 'the first attempt\'s statements, each in a PL/pgSQL function',
		setup => $table . $functions,
		acquire => 'SELECT acquire(:name, :seconds, :host) AS got',
		release => 'SELECT release(:name, :zero, :host)',
		extend => 'SELECT extend(:name, :seconds, :host)',
	},
	{
		key => 'advisory', title => 'advisory lock',
		note => '`pg_try_advisory_lock` and `pg_advisory_unlock` of the name\'s hash: nothing is stored, nothing survives the session',
		table => 0, loose => 1,
		setup => 'CREATE UNLOGGED SEQUENCE completed;',
		acquire => "SELECT pg_try_advisory_lock($key) AS got",
		release => "SELECT pg_advisory_unlock($key)",
		done => "SELECT pg_advisory_unlock($key), nextval('completed')",
	},
	map({
		key => "redis_$_", title => "Redis, appendfsync $_", redis => $_, table => 0, loose => $_ ne 'always',
		note => '`SET … NX PX` and a script that compares and deletes (extend: compares and expires), append-only file with'
			. ($_ eq 'always' ? ' a flush before each reply' : ' a flush each second: up to a second of grants is lost in a crash'),
		acquire => 'SET lock:%name %value NX PX 60000',
		release => 'EVALSHA %compare_delete 1 lock:%name %value',
		extend => 'EVALSHA %compare_expire 1 lock:%name %value 60000',
	}, qw(always everysec)),
);

sub side
{
	my ($key) = @_;
	return (first { $_->{key} eq $key } @sides) // die "no side $key";
}

# The sides that can do a workload: cycle, refused, one, extend.
sub sides_for
{
	my ($workload) = @_;
	return grep {
		my $side = $_;
		$side->{only} ? grep({ $_ eq $workload } @{ $side->{only} }) : $workload ne 'extend' || $side->{extend}
	} @sides;
}

sub schema
{
	my ($side) = @_;
	return $side->{schema} // $side->{key};
}

sub has_table
{
	my ($side) = @_;
	return $side->{table} // 1;
}

1;
