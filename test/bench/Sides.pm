# What is measured: one entry per side. Everything else is derived from these entries.
#   key, title     its name in the results, and on the page
#   note           how the page describes it
#   acquire, release, extend, run   its statements, without the last semicolon. Parameters: :name, :host (another one
#                  for each client), :at_most (interval), :seconds (the same as a number), :zero
#   told           what to append to acquire so that it gives a column `got`: true if granted; false or no row if
#                  refused
#   done           releases and counts: only for a side without a table, whose completed cycles are not counted
#                  otherwise
#   setup          SQL that creates its tables
#   schema         where its tables are, if it shares the schema of another side; the first side of a schema creates
#                  them
#   table          false if it has none
#   loose          a crash loses what it has granted
#   options        settings of its sessions
#   only           the workloads it takes part in. Default: all for which it has statements
#   redis          it is a Redis server, with this appendfsync; the statements are Redis commands
package Sides;

use strict;
use warnings;
use utf8;
use List::Util 'first';

# The literal statements of Java (ShedLock 7.9, usingDbTime()).
my $until = "timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => :seconds)";
my $now = "timezone('utc', CURRENT_TIMESTAMP)";
my $table = <<'SQL';
CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL,
	locked_by varchar(255) NOT NULL);
SQL
my $upsert = "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES(:name, $until, $now, :host)"
	. " ON CONFLICT (name) DO UPDATE SET lock_until = $until, locked_at = $now, locked_by = :host"
	. " WHERE shedlock.name = :name AND shedlock.lock_until <= $now";
my $update = "UPDATE shedlock SET lock_until = $until, locked_at = $now, locked_by = :host"
	. " WHERE shedlock.name = :name AND shedlock.lock_until <= $now";
my $unlock = "UPDATE shedlock SET lock_until = CASE WHEN locked_at + make_interval(secs => :zero) > $now"
	. " THEN locked_at + make_interval(secs => :zero) ELSE $now END WHERE name = :name AND locked_by = :host";
my $extend = "UPDATE shedlock SET lock_until = $until WHERE name = :name AND locked_by = :host AND lock_until > $now";

# The same table with a number as its key, the least that plain SQL can do.
my $plain = <<'SQL';
CREATE TABLE shedlock (name bigint PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL,
	locked_by varchar(255) NOT NULL) WITH (fillfactor = 90);
SQL
my $plain_update = 'UPDATE shedlock SET lock_until = now() WHERE name = :name';

# The command of shedlock_run: one row per run.
my $work = 'INSERT INTO work VALUES (1)';

# The portable edition creates its functions in the current schema.
my $portable = do { local (@ARGV, $/) = __FILE__ =~ s{[^/]*$}{../../portable/shedlock.sql}r; <> };

my $key = 'hashtextextended(:name, 0)';

our @sides = (
	{
		key => 'ours', title => 'ours',
		note => 'the session functions `shedlock_acquire`, `shedlock_release` and `shedlock_extend`,'
			. ' counted for `shedlock_stats`;'
			. ' `shedlock.async_release` on, the default: the commit of a release does not wait for the disk',
		schema => 'public', setup => 'CREATE EXTENSION shedlock; CREATE TABLE work (done int);',
		acquire => 'SELECT shedlock_acquire(:name, :at_most) AS got',
		release => 'SELECT shedlock_release(:name)',
		extend => 'SELECT shedlock_extend(:name, :at_most)',
		run => "CALL shedlock_run(:name, '$work', :at_most)",
	},
	{
		key => 'ours_sync', title => 'ours, async_release off',
		note => 'the same, but every commit waits for the disk, as with the portable edition, Java'
			. ' and `two UPDATEs by primary key`',
		schema => 'public', options => '-c shedlock.async_release=off', only => [qw(cycle one)],
		acquire => 'SELECT shedlock_acquire(:name, :at_most) AS got',
		release => 'SELECT shedlock_release(:name)',
	},
	{
		key => 'ours_wait', title => 'ours, wait',
		note => 'the same as ours, with `wait => \'1 min\'`: a refused session sleeps until it is woken,'
			. ' and does not ask again',
		schema => 'public', only => ['one'],
		acquire => q{SELECT shedlock_acquire(:name, :at_most, wait => '1 min') AS got},
		release => 'SELECT shedlock_release(:name)',
	},
	{
		key => 'ours_apart', title => 'ours, three statements',
		note => '`shedlock_acquire`, then the work with `shedlock_guard` in one statement, then `shedlock_release`:'
			. ' what `CALL shedlock_run` does in one',
		schema => 'public', only => ['run'],
		run => "SELECT shedlock_acquire(:name, :at_most);\n"
			. "${\($work =~ s/VALUES \(1\)/SELECT 1 FROM shedlock_guard(:name)/r)};\n"
			. "SELECT shedlock_release(:name)",
	},
	{
		key => 'portable', title => 'the portable edition',
		note => 'the same functions in PL/pgSQL, from `portable/shedlock.sql`: every commit waits for the disk',
		setup => "$portable CREATE TABLE work (done int);", only => [qw(cycle refused run)],
		acquire => 'SELECT shedlock_acquire(:name, :at_most) AS got',
		release => 'SELECT shedlock_release(:name)',
		run => "CALL shedlock_run(:name, '$work', :at_most)",
	},
	{
		key => 'nothing', title => 'a statement that does nothing',
		note => 'a SELECT of a false value made of the same two arguments: what the statement itself costs',
		schema => 'public', only => ['refused'],
		acquire => 'SELECT :name::text IS NULL AND :at_most::interval IS NULL AS got',
	},
	{
		key => 'plain_select', title => 'SELECT by primary key',
		note => 'tests whether the row is free, which is all that plain SQL needs for a refusal,'
			. ' in a table that has a bigint as its key',
		schema => 'plain', setup => $plain, only => ['refused'],
		acquire => 'SELECT lock_until <= now() AS got FROM shedlock WHERE name = :name',
	},
	{
		key => 'plain', title => 'two UPDATEs by primary key',
		note => "twice `$plain_update`, unconditionally,"
			. ' in a table that has a bigint as its key and the fillfactor of ours:'
			. ' the least that an acquire and a release of one row can be in SQL',
		schema => 'plain', only => ['cycle'],
		acquire => $plain_update, release => $plain_update,
	},
	{
		key => 'plain_async', title => 'two UPDATEs, second async',
		note => 'the same; the second one turns `synchronous_commit` off for its own transaction, as our release does.'
			. ' To do that in one statement it calls `set_config`; `SET LOCAL` would take three more statements,'
			. ' and a session setting would apply to both UPDATEs',
		schema => 'plain', only => ['cycle'],
		acquire => $plain_update, release => "$plain_update RETURNING set_config('synchronous_commit', 'off', true)",
	},
	{
		key => 'java_first', title => 'Java, first attempt',
		note => 'the literal statements of Java ShedLock 7.9 with `usingDbTime()`: `INSERT … ON CONFLICT`,'
			. ' as a JVM sends it the first time it tries a name, and its unlock',
		setup => $table, acquire => $upsert, told => ' RETURNING 1 AS got', release => $unlock,
		only => [qw(cycle refused one)], # it extends like the next side
	},
	{
		key => 'java_again', title => 'Java, steady state',
		note => 'the `UPDATE` that the JVM sends from then on, and the same unlock',
		setup => $table, acquire => $update, told => ' RETURNING 1 AS got', release => $unlock, extend => $extend,
	},
	{
		key => 'advisory', title => 'advisory lock',
		note => '`pg_try_advisory_lock` and `pg_advisory_unlock` of the name\'s hash: nothing is stored,'
			. ' nothing survives the session',
		table => 0, loose => 1,
		setup => 'CREATE UNLOGGED SEQUENCE completed;',
		acquire => "SELECT pg_try_advisory_lock($key) AS got",
		release => "SELECT pg_advisory_unlock($key)",
		done => "SELECT pg_advisory_unlock($key), nextval('completed')",
	},
	{
		key => 'advisory_wait', title => 'advisory lock, wait',
		note => '`pg_advisory_lock`, which waits; otherwise the same',
		table => 0, loose => 1, only => ['one'],
		setup => 'CREATE UNLOGGED SEQUENCE completed;',
		acquire => "SELECT true AS got FROM pg_advisory_lock($key)",
		release => "SELECT pg_advisory_unlock($key)",
		done => "SELECT pg_advisory_unlock($key), nextval('completed')",
	},
	map({
		key => "redis_$_", title => "Redis, appendfsync $_", redis => $_, table => 0, loose => $_ ne 'always',
		note => '`SET … NX PX` and a script that compares and deletes, append-only file with'
			. ($_ eq 'always' ? ' a flush before each reply'
				: ' a flush each second: up to a second of grants is lost in a crash'),
		acquire => 'SET lock:%name %value NX PX 60000',
		release => 'EVALSHA %compare_delete 1 lock:%name %value',
	}, qw(always everysec)),
);

# The sides that are measured with up to a million names. Plain SQL is among them to show how much it slows down with
# that many names.
our %with_many_names = (refused => [qw(ours plain_select java_again)], cycle => [qw(ours plain_async java_again)]);

sub side
{
	my ($key) = @_;
	return (first { $_->{key} eq $key } @sides) // die "no side $key";
}

# Returns the sides that can do a workload: cycle, refused, one, extend, run.
sub sides_for
{
	my ($workload) = @_;
	return grep {
		my $side = $_;
		$side->{only} ? grep({ $_ eq $workload } @{ $side->{only} })
			: $workload !~ /^(extend|run)$/ || $side->{$workload}
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
