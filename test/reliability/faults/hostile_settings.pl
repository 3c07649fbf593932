# Row 19: settings that a session inherits from a role, a database or another client of its pooler. With each setting,
# and in torture with each pair of settings, the lock functions and the tool give the same result or say clearly why
# not; they never grant a lock wrongly. Row 27: the same with parallel query forced.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use BootClock;
use ShedLock;

my $node = new_server('server', "log_statement = none\nshared_preload_libraries = 'shedlock'\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }
sql(<<'SQL');
CREATE SCHEMA evil;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$;
CREATE FUNCTION evil.shedlock_acquire_token(text, text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION evil.le(timestamp, timestamp) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR evil.<= (LEFTARG = timestamp, RIGHTARG = timestamp, FUNCTION = evil.le);
CREATE FUNCTION evil.eq(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE TABLE evil.shedlock (LIKE public.shedlock);
CREATE VIEW evil.shedlock_locks AS SELECT 'free' AS state;
SQL
my $started = sql('SELECT pg_postmaster_start_time()');

# Settings that may make a call fail, and with which error.
my %stops = (read_only => '25006', statement_timeout => '57014', lock_timeout => '55P03', idle => '25P03|57P05|57P01');
my %setting = (
	async => '-c synchronous_commit=off',
	search_path => '-c search_path=evil,pg_catalog,public',
	serializable => '-c default_transaction_isolation=serializable',
	read_only => '-c default_transaction_read_only=on',
	statement_timeout => '-c statement_timeout=1ms',
	lock_timeout => '-c lock_timeout=1ms',
	idle => '-c idle_in_transaction_session_timeout=1ms -c idle_session_timeout=1s',
	IntervalStyle => '-c IntervalStyle=sql_standard',
	DateStyle => '-c DateStyle=German',
	TimeZone => '-c TimeZone=UTC-14', # from PostgreSQL 18 on, UTC then means this zone
	quotes => '-c quote_all_identifiers=on',
	row_security => '-c row_security=off -c session_replication_role=replica',
	strings => '-c backslash_quote=on'
		. ($ENV{SHEDLOCK_SERVER} < 19 && ' -c standard_conforming_strings=off -c escape_string_warning=off'),
	client_encoding => '-c client_encoding=LATIN1');
my $forces = sql("SELECT count(*) FROM pg_settings WHERE name = 'debug_parallel_query'")
	? 'debug_parallel_query=regress' : 'force_parallel_mode=regress';
my %parallel = (parallel => '-c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c min_parallel_table_scan_size=0'
		. " -c $forces");

# The calls of one session, each with the answer that it must give unless it fails.
my @calls = (
	[ "SELECT public.shedlock_acquire('held', '1 h')", 'f' ],
	[ "SELECT public.shedlock_acquire('free', '1 day', '0', '0', '2026-01-01 00:00:00+00')", 't' ],
	[ "SELECT public.shedlock_acquire('free', '1 h')", 'f' ],
	[ "SELECT public.shedlock_extend('free', '1 h 1 s')", 't' ],
	[ "SELECT public.shedlock_guard('free')", '' ],
	[ "SELECT extract(epoch FROM lock_until) > extract(epoch FROM pg_catalog.clock_timestamp())
		FROM public.shedlock_locks WHERE name OPERATOR(pg_catalog.=) 'free'", 't' ],
	[ "SELECT public.shedlock_acquire(ARRAY['one', 'held']::text[], '1 h')", 'f' ],
	[ "SELECT public.shedlock_acquire_token('na\\ve', '1 h', holder => 'x') > 1", 't' ],
	[ "SELECT public.shedlock_release('held')", 'f' ],
	[ "SELECT public.shedlock_release('free')", 't' ],
	[ "CALL public.shedlock_run('run', 'SELECT 1', '1 h')", 't' ],
	[ "SELECT state FROM public.shedlock_locks WHERE name OPERATOR(pg_catalog.=) 'held'", 'held' ],
	[ "SELECT count(*) >= 0 FROM public.shedlock_doctor()", 't' ],
	[ "SELECT extract(epoch FROM public.shedlock_tick('1 day', 'Europe/Berlin', '2026-03-29 12:00Z'))",
		'1774738800.000000' ]);

# All rows, except the one whose name has a backslash.
sub rows
{
	return join ', ', grep { !/^na/ } split /\n/,
		sql("SELECT name || ' ' || state FROM shedlock_locks ORDER BY name COLLATE \"C\"");
}

sub by_sql
{
	my ($options, $may_stop) = @_;
	sql("DELETE FROM shedlock; SELECT shedlock_acquire_token('held', '1 h')");
	my (@answers, @wrong);
	my $script = "\\set VERBOSITY sqlstate\n" . join('', map { "$_->[0];\n\\echo --\n" } @calls);
	local $ENV{PGOPTIONS} = $options;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$script, '>', \$out, '2>&1');
	@answers = map { s/\AWARNING:  SL001\n|\n\z//gr } split /^--\n/m, $out;
	for my $i (0 .. $#calls)
	{
		my $answer = $answers[$i] // '';
		# After a call has failed, the following calls find another state, but a held lock must never be granted to
		# them.
		my $was_stopped = "@answers[0 .. $i]" =~ /$may_stop/ || !defined $answers[$i];
		my $grants_nothing = $answer eq 'f' || $i != 0 && $i != 8 && $calls[$i][0] !~ /held'/;
		push @wrong, "$calls[$i][0]: $answer"
			unless $answer eq $calls[$i][1] || ($may_stop ne 'never' && $was_stopped
				&& ($answer =~ /$may_stop|SL001/ || $answer eq '' || $grants_nothing));
	}
	delete local $ENV{PGOPTIONS};
	my $rows = rows();
	push @wrong, "rows $rows" if $may_stop eq 'never' && $rows ne 'free free, held held, run free';
	push @wrong, "held was lost" unless sql("SELECT state FROM shedlock_locks WHERE name = 'held'") eq 'held';
	return @wrong;
}

# The tool must exit with the expected status and output, or with 125 and a line that says why.
sub by_tool
{
	my ($options, $may_stop) = @_;
	my @wrong;
	sql("DELETE FROM shedlock; SELECT shedlock_acquire_token('held', '1 h')");
	for my $try (
		[ [ 'run', 'held', '--at-most', '1h', '-E', '77', '--', 'echo', 'granted' ], 77, qr/\A(?!.*granted)/s ],
		[ [ 'run', 'free', '--at-most', '1h', '--', 'echo', 'granted' ], 0, qr/granted/ ],
		[ [ 'list', '--json' ], 0, qr/"held"/ ])
	{
		my ($arguments, $status, $says) = @$try;
		my ($out, $err) = ('', '');
		local $ENV{PGOPTIONS} = $options;
		# Where it may fail, it tries again until its time is over, which would take minutes by a slow clock.
		my @tool = $may_stop eq 'never' ? slow_tool : $tool;
		IPC::Run::run([ @tool, $arguments->[0], '--dsn', $node->connstr('postgres'), @$arguments[ 1 .. $#$arguments ] ],
			'>', \$out, '2>', \$err);
		my $ended = $? >> 8;
		push @wrong, "@$arguments: $ended $out$err"
			unless ($ended == $status && $out =~ $says)
			|| ($may_stop ne 'never' && $ended == 125 && $err ne '' && $out !~ /granted/);
	}
	return @wrong;
}

sub try_settings
{
	my ($what, $options, @names) = @_;
	my $may_stop = join('|', grep { defined } map { $stops{$_} } @names) || 'never';
	my @wrong = (by_sql($options, $may_stop), by_tool($options, $may_stop));
	is(join("\n", @wrong), '', "$what: the same results, or errors that this may cause");
}

my @names = sort keys %setting;
try_settings('nothing inherited', '');
try_settings($_, $setting{$_}, $_) for @names;
my $pairs = 0;
if ($ENV{TORTURE})
{
	for my $i (0 .. $#names)
	{
		try_settings("$names[$i] and $_", "$setting{$names[$i]} $setting{$_}", $names[$i], $_), $pairs++
			for @names[ $i + 1 .. $#names ];
	}
}
try_settings('parallel query', $parallel{parallel}, 'parallel');
try_settings('parallel query, serializable', "$parallel{parallel} $setting{serializable}", 'parallel');

# A query that could run in parallel does not if it calls a function that uses the lock table, even in a cursor.
sql('CREATE TABLE big AS SELECT generate_series(1, 10000) AS n; ANALYZE big');
{
	local $ENV{PGOPTIONS} = "$parallel{parallel} -c max_parallel_workers_per_gather=4";
	is(sql("SELECT count(*) FILTER (WHERE shedlock_acquire('row ' || n, '1 h')), count(*)
			FROM (SELECT n FROM big WHERE n % 100 = 0) s;
		SELECT sum(n) FROM big WHERE n <= 10 AND shedlock_release('row ' || n * 100)"),
		"100|100\n55", 'a hundred rows, a hundred locks; some released by a condition');
	is(sql("BEGIN; DECLARE c CURSOR FOR SELECT shedlock_acquire('c' || n, '1 h') FROM big ORDER BY n; FETCH 2 c; COMMIT;
			SELECT count(*) FROM shedlock WHERE name ~ '^c[0-9]'"),
		"t\nt\n2", 'a cursor acquires the locks of the rows that are fetched');
	is(sql("SELECT count(*) > 100 FROM shedlock_locks"), 't', 'the view with parallel query forced');
}

is(sql('SELECT pg_postmaster_start_time()'), $started, 'the server has not restarted');
unlike(slurp_file($node->logfile),
	qr/ERROR:  cannot .* during a parallel operation|PANIC|leak|could not serialize access/,
	'no 25000, no 40001, no leak and no crash');
$node->stop;
seen(19, scalar(@names) + $pairs, 'settings and pairs of them',
	'the same result, or 25006, 57014, 55P03, or the loss of the session');
seen(27, 2, 'sets of settings', 'no function that uses the lock table runs in a parallel worker');
done_testing();
