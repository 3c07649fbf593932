# Counters never make a lock function fail. From PostgreSQL 17 on they need no shared_preload_libraries, because their
# memory is a named segment. The server may be unable to allocate it. And if the package is updated while the server
# runs, the segment that the old module made still exists.
use strict;
use warnings;
use Cwd 'abs_path';
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

plan skip_all => 'named segments came with PostgreSQL 17' if $ENV{SHEDLOCK_SERVER} < 17;

# Copies the staged files, so that the test can replace the module.
my ($libdir) = map { chomp; $_ } `pg_config --pkglibdir`;
my $copy = abs_path(PostgreSQL::Test::Utils::tempdir());
system_or_bail('cp', '-r', "$ENV{SHEDLOCK_STAGE}/.", $copy);
$ENV{SHEDLOCK_SETTINGS} =~ s/\Q$ENV{SHEDLOCK_STAGE}\E/$copy/g;
my $node = new_server('server', "dynamic_shared_memory_type = mmap\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }

# Starts a session whose first call is a guard. The guard fails at the commit, and counts that if there is shared
# memory.
sub lose
{
	my ($name) = @_;
	my $token = sql("SELECT shedlock_acquire_token('$name', '1 h')");
	my ($rc, $out, $err) = $node->psql('postgres', <<"SQL", on_error_stop => 0);
\\set VERBOSITY verbose
BEGIN;
SELECT shedlock_guard_token('$name', $token);
\\! psql -XqAt -d postgres -c "SELECT shedlock_force_release('$name')"
COMMIT;
SELECT 'goes on';
SQL
	like("$out$err", qr/goes on.*ERROR:  SL001: lock "$name" is lost/s, "a guard fails at the commit: $name");
}

# With dynamic_shared_memory_type = mmap, segments are files in this folder.
my $segments = $node->data_dir . '/pg_dynshmem';
chmod 0500, $segments or die $!;
is(sql("SELECT shedlock_acquire('a', '1 h'), shedlock_acquire('a', '1 h'), shedlock_extend('a', '1 h'),
		shedlock_release('a')"),
	't|f|t|t', 'without shared memory, acquire, extend and release work');
my $said = () = slurp_file($node->logfile) =~ /LOG:  this session does without shared memory/g;
is($said, 1, '... and the log says so once');
is(sql("BEGIN; SAVEPOINT s; SELECT shedlock_acquire('b', '1 h'); ROLLBACK TO s; SELECT shedlock_acquire('b', '1 h');
		COMMIT; SELECT shedlock_release('b')"),
	"t\nt\nt", '... and savepoints');
is(sql("CALL shedlock_run('r', 'SELECT 1', '1 min')"), 't', '... and run');
is(sql('SELECT count(*) > 0 FROM shedlock_doctor()'), 't', '... and the doctor');
lose('uncounted');
my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM shedlock_stats");
like($err, qr/ERROR:  55000: .*HINT:  Add shedlock to shared_preload_libraries/s, 'shedlock_stats says what to do');
chmod 0700, $segments or die $!;
lose('counted');
is(sql("SELECT lost FROM shedlock_stats WHERE name = 'counted'"), 1,
	'once there is memory again, new sessions count, also at the commit');
sql('SELECT shedlock_stats_reset()');

# One server has sessions with the old module, and sessions that load a new one with another layout of its memory.
my $session = $node->background_psql('postgres');
is($session->query_safe("SELECT shedlock_acquire('a', '1 h')"), 't', 'a session of this module');
for my $change ([ 'counter_table.hpp', 'longest_name = 1020', 'longest_name = 1100' ],
	[ 'shared_memory.hpp', 'layout_version = 3', 'layout_version = 4' ])
{
	my ($name, $old, $new) = ("extension/$$change[0]", @$change[ 1, 2 ]);
	my $source = slurp_file($name);
	$source =~ s/\Q$old\E/$new/ or die "no $old";
	open my $file, '>', $name or die $!;
	print $file $source;
	close $file;
	system_or_bail('make', '--silent', 'with_llvm=no', 'shedlock.so');
	system_or_bail('cp', 'shedlock.so', "$copy$libdir/new.so");
	rename "$copy$libdir/new.so", "$copy$libdir/shedlock.so" or die $!;
	is(sql("SELECT shedlock_acquire('a', '1 h'), shedlock_acquire('$new', '1 h'), shedlock_release('$new')"), 'f|t|t',
		"a session of a module with $new");
	is(sql("SELECT string_agg(name || ' ' || attempts, ', ' ORDER BY name) FROM shedlock_stats"), "a 1, $new 1",
		'... has its own counters');
	is($session->query_safe("SELECT shedlock_extend('a', '1 h')"), 't',
		'... and the session of the old module still works');
}
is($session->query_safe("SELECT name, attempts, extended FROM shedlock_stats"), 'a|1|2', '... with its own counters');
$session->quit;
$node->stop;
done_testing();
