# Rows 30 to 33 and 62: random calls with hostile arguments, and rows edited by hand, in databases with four encodings.
# The program fuzz makes each call of both editions, which must answer and write the same. The server runs with every
# check that a stock PostgreSQL has: freed memory is overwritten and checked, pages have checksums, a standby compares
# every page that it replays with the primary's, and amcheck examines the tables afterwards.
use strict;
use warnings;
use JSON::PP;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use BootClock;
use ShedLock;

my $seed = $ENV{FUZZ_SEED} // time;
my $calls = often(3_500, 260_000);
my @encodings = qw(UTF8 SQL_ASCII LATIN1 EUC_JP);

$ENV{SERVER_CLOCK} = PostgreSQL::Test::Utils::tempdir() . '/clock';
open my $clock, '>', $ENV{SERVER_CLOCK} or die;
truncate $clock, 4_194_304 * 8; # a time for every process id that Linux allows; nearly all of the file is a hole
close $clock;
chmod 0666, $ENV{SERVER_CLOCK};
my $checks = { LD_PRELOAD => 'libc_malloc_debug.so.0 ' . program('server_clock.so'), MALLOC_CHECK_ => 3,
	MALLOC_PERTURB_ => 165 };
sub started
{
	my ($node) = @_;
	local @ENV{ keys %$checks } = values %$checks;
	$node->start;
}

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => ['--data-checksums']);
configure($primary, <<'CONF');
shared_preload_libraries = 'shedlock'
log_statement = none
max_connections = 40
log_min_error_statement = panic
wal_consistency_checking = 'heap,heap2,btree'
CONF
started($primary);
my $standby = new_standby($primary, 'standby');
# It may fall behind by more log than the primary would keep without a slot.
$primary->safe_psql('postgres', q[SELECT pg_create_physical_replication_slot('standby')]);
$standby->append_conf('postgresql.conf', q[primary_slot_name = 'standby']);
$standby->start;

for my $encoding (@encodings)
{
	$primary->safe_psql('postgres',
		"CREATE DATABASE fuzz_\L$encoding\E TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'");
	$primary->safe_psql("fuzz_\L$encoding\E", "CREATE SCHEMA extension; CREATE SCHEMA portable");
	for my $edition (qw(extension portable))
	{
		# One database has a Java team's table, with short names, an additional column that is TOASTed, and updates that
		# are not HOT.
		my $java = 'lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL';
		my $table = {
			LATIN1 => <<"SQL",
CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, $java, note text);
ALTER TABLE shedlock ALTER note SET STORAGE EXTERNAL;
INSERT INTO shedlock SELECT 'noted ' || n, '2026-01-01', '2026-01-01', 'host', repeat('x', 1000 * n)
  FROM generate_series(1, 20) n;
CREATE INDEX ON shedlock (lock_until);
SQL
			# One has a table with names of any length.
			EUC_JP => "CREATE TABLE shedlock (name text PRIMARY KEY, $java);",
		}->{$encoding} // '';
		$primary->safe_psql("fuzz_\L$encoding\E", "SET search_path = $edition; $table"
			. ($edition eq 'extension' ? 'CREATE EXTENSION shedlock SCHEMA extension;' : slurp_file('portable/shedlock.sql'))
			. "SELECT $edition.shedlock_keep_history()");
	}
	$primary->safe_psql("fuzz_\L$encoding\E", "CREATE EXTENSION amcheck; CREATE FUNCTION pass_time(bigint) "
		. "RETURNS boolean STRICT LANGUAGE c AS '" . program('server_clock.so') . "'");
}
my $started = $primary->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

# All four at the same time.
$ENV{PGHOST} = $primary->host;
$ENV{PGPORT} = $primary->port;
my (%run, %out, %err);
for my $encoding (@encodings)
{
	$out{$encoding} = $err{$encoding} = '';
	$run{$encoding} = IPC::Run::start([ program('fuzz'), "fuzz_\L$encoding\E", $seed, $calls ], '>', \$out{$encoding},
		'2>', \$err{$encoding});
}
my %count;
for my $encoding (@encodings)
{
	ok($run{$encoding}->finish, "$calls calls in $encoding, seed $seed") or diag($err{$encoding});
	$count{$1} += $2 while $out{$encoding} =~ /^(.*): (\d+)$/mg;
}

my @imitated = ('Java', 'tokens', 'tokens that end with a session', 'sessions', 'sessions whose locks end with them',
	'administrators');

# A fuzzer that only causes errors, or never meets a held lock, has shown nothing.
my @must_have_met = (
	(map { "error $_" } qw(22001 22004 22008 22021 22023 2202E 54000 SL001)),
	'warning SL001', 'warning SL002', 'warning 01000', 'edits by hand', 'looks at all rows', 'the empty name accepted',
	(map { ("$_ true", "$_ false") }
		qw(acquire extend extend_token release release_token force_release pause resume run forget)),
	'acquire_token token', 'acquire_token null', 'guard false', 'guard_token false', 'complete false',
	'complete_token false', map { "imitations of $_" } @imitated);
# A short run may miss some of these by chance, so they are required only in make torture.
my @not_met = grep { !$count{$_} } @must_have_met;
$ENV{TORTURE}
	? is_deeply(\@not_met, [], 'every function has given each of its answers, and every error has occurred')
	: note("not met: @not_met");
note("$_: $count{$_}") for grep { /^error|^warning|^edits|^looks|^imitations/ } sort keys %count;

is($primary->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the server is the same');
for my $encoding (@encodings)
{
	my $unsound = $primary->safe_psql("fuzz_\L$encoding\E", <<'SQL');
SELECT msg FROM unnest('{extension.shedlock,extension.shedlock_history}'::regclass[]) t, verify_heapam(t);
SELECT bt_index_parent_check(indexrelid, true) FROM pg_index
 WHERE indrelid = ANY ('{extension.shedlock,extension.shedlock_history}'::regclass[]) AND bt_index_parent_check(indexrelid, true)::text <> '';
SQL
	is($unsound, '', "$encoding: amcheck finds the tables and their indexes sound");
}
{
	local $PostgreSQL::Test::Utils::timeout_default = 7_200;
	$primary->wait_for_catchup($standby);
}
is($standby->safe_psql('fuzz_utf8', 'SELECT count(*) FROM extension.shedlock'),
	$primary->safe_psql('fuzz_utf8', 'SELECT count(*) FROM extension.shedlock'),
	'the standby found every replayed page identical');

# The tool shows each name exactly, in JSON that a parser accepts. In SQL_ASCII bytes have no meaning, but the JSON is
# still valid.
for my $encoding (@encodings)
{
	my $as_bytes = $encoding eq 'SQL_ASCII' ? 'name::bytea' : "convert_to(name, 'UTF8')";
	# The fuzzer does not use these names. It may leave rows whose token cannot grow; acquire fails with 55000 there.
	$primary->safe_psql("fuzz_\L$encoding\E",
		"SELECT extension.shedlock_acquire_token('shown ' || n, '1 h', holder => E'a\"\\\\\\t' || n)
			FROM unnest(ARRAY[E'q\"\\\\\\t\\x01\\x7f', '''; DROP', '%s', '{\"a\":1}']) n");
	$primary->safe_psql("fuzz_\L$encoding\E",
		q{SELECT extension.shedlock_acquire_token(convert_from('\xff80e9', 'SQL_ASCII'), '1 h')}) if $encoding eq 'SQL_ASCII';
	# Some bytes of EUC_JP are not a character of Unicode: the server cannot send them to a client in UTF-8.
	$primary->safe_psql("fuzz_\L$encoding\E", <<'SQL') if $encoding eq 'EUC_JP';
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT name, locked_by FROM extension.shedlock LOOP
        BEGIN
            PERFORM convert_to(r.name || r.locked_by, 'UTF8');
        EXCEPTION WHEN untranslatable_character THEN
            DELETE FROM extension.shedlock WHERE name = r.name;
        END;
    END LOOP;
END $$;
SQL
	my ($json, $complaint);
	my $ok = IPC::Run::run([ slow_tool, 'list', '--json', '--dsn', $primary->connstr("fuzz_\L$encoding\E") ],
		'>', \$json, '2>', \$complaint);
	ok($ok, "$encoding: shedlock list --json") or diag($complaint);
	my $list = eval { JSON::PP->new->utf8->decode($json) };
	my @locks = $list ? (ref $list eq 'ARRAY' ? @$list : @{ $list->{locks} }) : ();
	ok($list, "$encoding: a parser accepts it") or diag($@);
	my @names = $encoding eq 'SQL_ASCII' ? scalar @locks
		: sort map { my $name = $_->{name}; utf8::encode($name); unpack('H*', $name) } @locks;
	my $expected = $encoding eq 'SQL_ASCII' ? 'count(*)' : "encode($as_bytes, 'hex')";
	is_deeply(\@names, [ sort split /\n/, $primary->safe_psql("fuzz_\L$encoding\E", "SELECT $expected FROM extension.shedlock") ],
		"$encoding: it has every lock");
}

$standby->stop;
$primary->stop;
my $complaint = join '|', 'PANIC', 'FATAL', 'TRAP', 'terminated by signal', 'leak', 'runtime error', 'AddressSanitizer',
	'inconsistent page', 'still referenced', 'unpinned';
my $harmless = join '|', 'the database system is', 'terminating (walreceiver|connection|background|autovacuum)',
	'could not (receive|connect)';
my @trouble;
for my $node ($primary, $standby)
{
	open my $log, '<', $node->logfile or die;
	while (my $line = <$log>)
	{
		push @trouble, $line if $line =~ /$complaint/ && $line !~ /$harmless/;
	}
}
is("@trouble[0 .. ($#trouble < 9 ? $#trouble : 9)]", '',
	'no crash, no leak, and no complaint of a checker in the logs');
command_ok([ 'pg_checksums', '--check', '-D', $primary->data_dir ], 'every page has a valid checksum');

my $all = @encodings * $calls;
seen(@$_) for
  [ 30, $all, 'calls' ],
  [ 31, $count{'error 22021'}, 'calls with invalid bytes', 'the JSON of shedlock list parsed in each encoding' ],
  [ 32, $all, 'calls' ],
  [ 33, $count{'edits by hand'}, 'edits' ],
  [ 62, eval { my $n = 0; $n += $count{"imitations of $_"} for @imitated; $n }, 'rows',
	'both editions, the view and the trigger of shedlock_protect took each row for the same kind' ];
done_testing();
