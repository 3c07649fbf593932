# A role may be able to create functions in our schema, or in one that comes earlier in the search_path. Neither the
# script of the portable edition nor any function of either edition ever calls one of them, which would give it another
# role's rights. (A careless call by a user may. sql/hostile.sql tests the same for CREATE EXTENSION.)
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use BootClock;
use ShedLock;

my $node = PostgreSQL::Test::Cluster->new('hostile');
$node->init;
configure($node);
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE team; CREATE ROLE attacker; CREATE ROLE app');
my $traps = slurp_file('test/perl/traps.sql');
my $sources = join "\n", map { slurp_file($_) } glob 'extension/*.sql portable/*.sql';
my ($install, $uninstall) = map { "\\i portable/$_.sql" } qw(shedlock uninstall);

sub database
{
	my ($name) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, "SET client_min_messages = error;
		CREATE SCHEMA jobs AUTHORIZATION team; GRANT USAGE ON SCHEMA jobs TO PUBLIC;
		CREATE SCHEMA regress_evil AUTHORIZATION attacker; SET ROLE attacker; $traps");
}
# Lays traps as the attacker, which may create objects in that schema meanwhile. Returns the number of traps.
sub lay
{
	my ($database, $home, $call) = @_;
	return $node->safe_psql($database, "GRANT ALL ON SCHEMA $home TO attacker; SET ROLE attacker;
		SELECT $call; RESET ROLE; REVOKE CREATE ON SCHEMA $home FROM attacker");
}
# Runs SQL, and returns its result and its errors.
sub answer
{
	my ($database, $sql) = @_;
	my ($status, $out, $error) = $node->psql($database, $sql, extra_params => [ '-v', 'VERBOSITY=terse' ]);
	return join "\n", grep { $_ ne '' } $out, grep { /ERROR/ } split /\n/, $error;
}

# The traps exist before the script runs. A superuser runs it twice, with the schema of the traps in the search_path:
# once after pg_catalog, which comes first if the path does not name it, and once before it.
database('before');
my $home = q[regress_target];
$node->safe_psql('before', 'CREATE SCHEMA regress_target');
cmp_ok(lay('before', $home,
		"regress_evil.lay_traps('$home') + regress_evil.lay_overloads_of_named('$home', \$read\$$sources\$read\$)"),
	'>', 300, 'traps are laid');
my $with_our_names = q[SELECT oid::regprocedure FROM pg_proc
	WHERE pronamespace = 'regress_target'::regnamespace AND proname ~ '^shedlock'];
$node->safe_psql('before', "DROP FUNCTION $_") for split /\n/, $node->safe_psql('before', $with_our_names);
like(answer('before', "SET search_path = $home; SELECT format('%s'::text, 'x'::text)"), qr/A TRAP RUNS AS/,
	'... and an unqualified call runs into one');
for my $path ($home, "$home, pg_catalog")
{
	is(answer('before', "SET search_path = $path; $install"), '', "shedlock.sql runs into none (search_path = $path)");
	is(answer('before', "SELECT $home.shedlock_acquire('a'::pg_catalog.text, '1 min'::interval), count(*)
			FROM $home.shedlock_locks"),
		't|0', '... its functions work');
	is(answer('before', "SET search_path = $path; $uninstall"), '', '... and uninstall.sql runs into none');
	is(answer('before', "DROP TABLE $home.shedlock"), '', '... which leaves the table, on which nothing depends');
}

# If other roles have objects with our names, or may create objects in the schema, the script refuses to run.
my $start_of = sub { (split /\n/, answer('before', "SET search_path = refusing; $install"))[0] };
$node->safe_psql('before', 'CREATE SCHEMA refusing; GRANT ALL ON SCHEMA refusing TO attacker');
like($start_of->(), qr/ERROR:  cannot install shedlock in schema refusing: others may create objects there: attacker/,
	'a schema in which another role may create objects is refused');
if ($node->safe_psql('before', 'SHOW server_version_num') >= 160000)
{
	$node->safe_psql('before', 'GRANT postgres TO attacker WITH INHERIT FALSE, SET FALSE');
	like($start_of->(), qr/others may create objects there: attacker/,
		'... even if it is a member of the installing role, as which it cannot act');
	$node->safe_psql('before', 'REVOKE postgres FROM attacker');
}
for (
	['FUNCTION refusing.shedlock_release(name text, done boolean) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$',
		qr/routine refusing\.shedlock_release\(text,boolean\)/],
	['VIEW refusing.shedlock_locks AS SELECT 1 AS name', qr/relation refusing\.shedlock_locks/],
	['TYPE refusing.shedlock__row AS (x int)', qr/relation refusing\.shedlock__row/],
	['DOMAIN refusing.shedlock_name AS text', qr/type refusing\.shedlock_name/],
	['TYPE refusing.shedlock AS ENUM ()', qr/type refusing\.shedlock/],
	['TABLE refusing.shedlock (name text)', qr/cannot adopt table refusing\.shedlock: it/])
{
	my ($bait, $named) = @$_;
	my ($kind, $what) = $bait =~ /^(\w+) ([^ (]+)/;
	$node->safe_psql('before', "GRANT ALL ON SCHEMA refusing TO attacker; SET ROLE attacker;
		CREATE $bait; RESET ROLE; REVOKE ALL ON SCHEMA refusing FROM attacker");
	like($start_of->(), qr/$named belongs to role attacker, not to postgres/,
		"... and so is one in which a $kind of another role has one of our names");
	$node->safe_psql('before', "DROP $kind $what");
}
$node->safe_psql('before', 'GRANT CREATE ON SCHEMA refusing TO PUBLIC');
like($start_of->(), qr/others may create objects there: PUBLIC$/m, '... and one in which PUBLIC may create objects');
$node->safe_psql('before', 'REVOKE ALL ON SCHEMA refusing FROM PUBLIC; ALTER SCHEMA refusing OWNER TO attacker');
like($start_of->(), qr/others may create objects there: attacker/, '... and one that another role owns');
$node->safe_psql('before', 'REVOKE ALL ON SCHEMA refusing FROM attacker');
like($start_of->(), qr/others may create objects there: attacker/,
	'... even if that role has revoked CREATE from itself');
is(answer('before', 'GRANT team TO attacker; GRANT ALL ON SCHEMA jobs TO attacker;
		SET ROLE team; SET search_path = jobs; ' . $install),
	'', '... unless that role is a member of the installing role');
$node->safe_psql('before', 'REVOKE team FROM attacker');

# Default privileges grant nothing on the objects that the script creates. What shedlock_grant granted remains when the
# script runs again.
$node->safe_psql('before', 'CREATE ROLE default_role; CREATE SCHEMA defaults AUTHORIZATION team; SET ROLE team;
	ALTER DEFAULT PRIVILEGES IN SCHEMA defaults GRANT ALL ON FUNCTIONS TO default_role;
	ALTER DEFAULT PRIVILEGES IN SCHEMA defaults GRANT ALL ON TABLES TO default_role');
is(answer('before', "SET ROLE team; SET search_path = defaults;\n$install\nSELECT shedlock_grant('app');\n$install"),
	'', 'the script runs twice where default privileges are set');
is($node->safe_psql('before', q[SELECT string_agg(o::text, ' ') FROM (SELECT oid::regprocedure::text FROM pg_proc
		WHERE pronamespace = 'defaults'::regnamespace AND has_function_privilege('default_role', oid, 'EXECUTE')
		UNION ALL SELECT oid::regclass::text FROM pg_class
		WHERE relnamespace = 'defaults'::regnamespace AND relkind IN ('r', 'v')
			AND has_table_privilege('default_role', oid, 'SELECT, INSERT, UPDATE, DELETE, TRIGGER')) o (o)]),
	'', '... which grant nothing on its objects');
is($node->safe_psql('before', q[SELECT has_function_privilege('app', 'defaults.shedlock_complete(text)', 'EXECUTE'),
		has_function_privilege('app', 'defaults.shedlock_pause(text, text, interval)', 'EXECUTE')]),
	't|f', '... while the rights given by shedlock_grant remain');
$node->safe_psql('before', 'GRANT TRIGGER ON defaults.shedlock TO default_role');
like(answer('before', 'SELECT severity, finding FROM defaults.shedlock_doctor()'),
	qr/^error\|.*role default_role may put triggers on it/m,
	'the doctor names a role that may create triggers on the table');

# Calls every function (except shedlock_stats_reset and shedlock_after_pg_upgrade) in one session, with exactly the
# declared types: first without overloads, then among overloads that would be a better match if one of the types
# differed. Calls that raise an error are included, because the portable edition raises errors by calling other
# functions of ours.
# (A line that begins with a tab continues the call above it.)
my @surface = map { [ /^(\S+) (.*\S)/s ] } split /\n(?!\t)/, <<'SQL';
ok SELECT @.shedlock_version()
ok SELECT @.shedlock_tick('1 h'::interval, 'UTC'::text, clock_timestamp())
ok SELECT @.shedlock_tick('1 h'::text, 'UTC'::text, clock_timestamp()),
	@.shedlock_tick('30 2 1,L * mon#1'::text, 'Europe/Berlin'::text, '2023-03-26 12:00Z'::timestamptz)
ok SELECT count(*) FROM @.shedlock_ticks('1 h'::interval, clock_timestamp() - '3 h'::interval, 'UTC'::text)
ok SELECT count(*) FROM @.shedlock_ticks('*/30 * * * *'::text, clock_timestamp() - '3 h'::interval, 'UTC'::text)
ok SELECT @.shedlock_keep_history(true)
ok SELECT @.shedlock_acquire('a'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false)
ok SELECT @.shedlock_acquire('a'::text, '1 h'::interval, '0'::interval, '30 ms'::interval, clock_timestamp(), true,
	'1 h'::interval, false)
ok SELECT @.shedlock_acquire('{b,c}'::text[], '1 h'::interval, '1 ms'::interval, '1 ms'::interval,
	'2026-01-01'::timestamptz, true, NULL::interval, false)
ok SELECT @.shedlock_extend('a'::text, '1 h'::interval, NULL::interval)
ok SELECT @.shedlock_extend('{b,c}'::text[], '1 h'::interval, '1 ms'::interval)
ok SELECT @.shedlock_guard('a'::text)
ok SELECT @.shedlock_release('a'::text, false, 'why'::text)
ok SELECT @.shedlock_release('{b,c}'::text[], true, NULL::text)
ok SELECT @.shedlock_release('a'::text, true, NULL::text)
ok SELECT @.shedlock_extend('a'::text, '1 h'::interval, '0'::interval)
ok SELECT @.shedlock_acquire_token('t'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, 'x'::text, false) AS t \gset
ok SELECT @.shedlock_extend_token('t'::text, :t::bigint, '1 h'::interval, '1 ms'::interval, false),
	@.shedlock_guard_token('t'::text, :t::bigint), @.shedlock_release_token('t'::text, :t::bigint, true, false, NULL::text)
ok SELECT @.shedlock_acquire_token('{u,v}'::text[], '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz,
	false, NULL::interval, NULL::text, false) AS t \gset
ok SELECT @.shedlock_extend_token('{u,v}'::text[], :t::bigint, '1 h'::interval, NULL::interval, false),
	@.shedlock_release_token('{u,v}'::text[], :t::bigint, false, false, NULL::text)
ok SELECT @.shedlock_extend_token('t'::text, '1'::bigint, '1 h'::interval, NULL::interval, false),
	@.shedlock_release_token('t'::text, '1'::bigint, true, false, NULL::text)
ok SELECT @.shedlock_acquire('s'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, true),
	@.shedlock_acquire('s'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, true)
ok SELECT @.shedlock_complete('s'::text), @.shedlock_complete('s'::text), @.shedlock_release('s'::text, true, NULL::text)
ok SELECT @.shedlock_acquire('{s,u}'::text[], '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, true), @.shedlock_complete('{s,u}'::text[])
ok SELECT @.shedlock_acquire_token('s'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, NULL::text, true) AS t \gset
ok SELECT @.shedlock_extend_token('s'::text, :t::bigint, '1 h'::interval, NULL::interval, false),
	@.shedlock_complete_token('s'::text, :t::bigint),
	@.shedlock_extend_token('s'::text, :t::bigint, '1 h'::interval, NULL::interval, false)
ok SELECT @.shedlock_acquire_token('{s,u}'::text[], '1 ms'::interval, '0'::interval, '0'::interval, NULL::timestamptz,
	false, NULL::interval, NULL::text, true) AS t, pg_sleep(0.002) \gset
ok SELECT @.shedlock_complete_token('{s,u}'::text[], :t::bigint)
ok SELECT @.shedlock_session_alive('/1.2.'::text
	|| COALESCE(right(current_setting('shedlock_portable.session', true), 8), '00000000'))
ok SELECT @.shedlock_wait_any('{a}'::text[], '{1}'::int[], '1 ms'::interval, '1'::bigint),
	@.shedlock_end_wait('1'::bigint)
ok CALL @.shedlock_run('r'::text, 'SELECT 1'::text, '1 h'::interval, '0'::interval, '0'::interval, clock_timestamp(),
	true, NULL::interval, NULL::boolean)
ok CALL @.shedlock_run('r'::text, 'SELECT pg_sleep(0.005)'::text, '1 ms'::interval, '0'::interval, '0'::interval,
	NULL::timestamptz, false, NULL::interval, NULL::boolean)
ok SELECT @.shedlock_pause('p'::text, 'reason'::text, '0'::interval)
ok SELECT @.shedlock_extend('p'::text, '1 h'::interval, NULL::interval)
ok SELECT @.shedlock_resume('p'::text), @.shedlock_resume('p'::text), @.shedlock_force_release('b'::text)
ok SELECT @.shedlock_acquire('x'::text, '1 ms'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false), pg_sleep(0.002)
ok SELECT @.shedlock_acquire('x'::text, '1 ms'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false), pg_sleep(0.002), @.shedlock_forget('x'::text)
ok SELECT count(*) FROM @.shedlock_history('{a,r}'::text[], '-infinity'::timestamptz, 1)
ok SELECT count(*) FROM @.shedlock_history(NULL::text[], NULL::timestamptz, NULL::integer)
ok SELECT @.shedlock_keep_history(false)
ok SELECT count(*) FROM @.shedlock_locks
ok SELECT count(*) FROM @.shedlock_doctor()
ok SELECT @.shedlock_protect(true)
ok SELECT @.shedlock_acquire('a'::text, '1 h'::interval, '1 ms'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false)
ok SELECT @.shedlock_extend('a'::text, '1 h'::interval, NULL::interval), @.shedlock_release('a'::text, true, NULL::text)
ok SELECT @.shedlock_protect(false)
ok SELECT @.shedlock_grant('app'::text, true, true, false)
ok SELECT @.shedlock_forget('b'::text), @.shedlock_forget('none'::text)
ok SELECT @.shedlock_revoke('app'::text, true, true)
22004 SELECT @.shedlock_acquire(NULL::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false)
22004 SELECT @.shedlock_acquire('e'::text, NULL::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false)
22004 SELECT @.shedlock_acquire('e'::text, '1 h'::interval, NULL::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false)
22004 SELECT @.shedlock_acquire('e'::text, '1 h'::interval, '0'::interval, NULL::interval, NULL::timestamptz, false,
	NULL::interval, false)
22004 SELECT @.shedlock_acquire('e'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz,
	NULL::boolean, NULL::interval, false)
22004 SELECT @.shedlock_acquire(NULL::text[], '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, false)
22004 SELECT @.shedlock_acquire('e'::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz, false,
	NULL::interval, NULL::boolean)
22001 SELECT @.shedlock_acquire(repeat('x'::text, 300), '1 h'::interval, '0'::interval, '0'::interval,
	NULL::timestamptz, false, NULL::interval, false)
22004 SELECT @.shedlock_release('e'::text, NULL::boolean, NULL::text)
22004 SELECT @.shedlock_release_token('e'::text, NULL::bigint, true, false, NULL::text)
22004 SELECT @.shedlock_ticks('1 h'::interval, NULL::timestamptz, 'UTC'::text)
22004 SELECT @.shedlock_ticks('@daily'::text, NULL::timestamptz, 'UTC'::text)
22023 SELECT @.shedlock_tick('0 25 * * *'::text, 'UTC'::text, clock_timestamp())
22023 SELECT @.shedlock_history(NULL::text[], NULL::timestamptz, 1)
22004 SELECT @.shedlock_keep_history(NULL::boolean)
22004 SELECT @.shedlock_forget(NULL::text)
22004 SELECT @.shedlock_pause(NULL::text, NULL::text, '0'::interval)
22004 SELECT @.shedlock_pause('e'::text, NULL::text, NULL::interval)
22004 CALL @.shedlock_run('r'::text, NULL::text, '1 h'::interval, '0'::interval, '0'::interval, NULL::timestamptz,
	false, NULL::interval, NULL::boolean)
22012 CALL @.shedlock_run('r'::text, 'SELECT 1/0'::text, '1 h'::interval, '0'::interval, '0'::interval,
	NULL::timestamptz, false, NULL::interval, NULL::boolean)
SL001 SELECT @.shedlock_guard('none'::text)
SL001 SELECT @.shedlock_guard_token('t'::text, '1'::bigint)
SL001 SELECT @.shedlock_complete('s'::text)
SL001 SELECT @.shedlock_complete_token('s'::text, '1'::bigint)
22004 SELECT @.shedlock_complete_token('s'::text, NULL::bigint)
25006 SET default_transaction_read_only = on; SELECT @.shedlock_release('e'::text, true, NULL::text)
SQL
sub whole_surface
{
	my ($database, $where) = @_;
	my $calls = join '', map {
		my ($result, $call) = @$_;
		$call =~ s/@\./jobs./g;
		"$call" . ($call =~ /\\gset/ ? '' : ';') . "\n\\echo :SQLSTATE\n"
	} @surface;
	my ($status, $out, $error) = $node->psql($database, $calls, on_error_stop => 0,
		extra_params => [ '-v', 'VERBOSITY=terse' ]);
	my @states = $out =~ /^([0-9A-Z]{5})$/mg;
	my @wrong = map { ($states[$_] // '') eq ($surface[$_][0] =~ s/^ok$/00000/r) ? () : "$surface[$_][1]: $states[$_]" }
		0 .. $#surface;
	is_deeply(\@wrong, [], "every function works $where") or diag($error);
	unlike($error, qr/A TRAP/, '... and no trap runs');
}
for my $edition ('portable', 'extension')
{
	database($edition);
	$node->safe_psql($edition, $edition eq 'portable' ? "SET ROLE team; SET search_path = jobs; $install"
		: 'CREATE EXTENSION shedlock SCHEMA jobs');
	whole_surface($edition, "without overloads, $edition edition");
	cmp_ok(lay($edition, 'jobs', "regress_evil.lay_overloads_of_named('jobs', \$read\$$sources\$read\$)"
			. " + regress_evil.lay_overloads_of_ours('jobs')"),
		'>', 1000, 'overloads are created');
	like(answer($edition, "SELECT jobs.shedlock_acquire('x', '1 h', '0', '0', NULL, false)"),
		qr/A TRAP RUNS AS|is not unique/, '... which a call with literals runs into');
	whole_surface($edition, "among overloads of PostgreSQL's functions and ours, $edition edition");
	# The tool, and with it the library, passes exactly the declared types, too.
	my @dsn = ('--dsn', $node->connstr($edition) . q[ options='-c search_path=jobs']);
	for my $call ([ 'run', 'tool', '--at-most', '1h', '--every', '1h', '--retry', '--', 'true' ],
		[ 'acquire', 'tool', '--at-most', '1h', '--wait', '1ms' ], [ 'pause', 'paused', '--reason', 'why' ],
		[ 'resume', 'paused' ], [ 'list' ], [ 'metrics' ], [ 'doctor' ], [ 'version' ],
		[ 'release', '--force', 'tool' ])
	{
		my @command = @$call;
		splice @command, 1, 0, @dsn; # before any --
		my $process = launch({}, slow_tool, @command);
		is(ended($process), $call->[0] eq q(doctor) ? 1 : 0, "... the command shedlock $call->[0] works among them")
			or diag($process->{err});
	}
	# Ambiguous overloads of our other functions do not stop the doctor, protect, grant and revoke of either edition,
	# and the doctor reports who can create them. (Those of these four are dropped: with them our own calls here would
	# be ambiguous.)
	cmp_ok(lay($edition, 'jobs', "regress_evil.lay_ambiguities('jobs')"), '>', 30, 'ambiguous overloads are created');
	$node->safe_psql($edition, q[DROP FUNCTION jobs.shedlock_doctor(int),
		jobs.shedlock_grant(text, boolean, boolean, boolean, int), jobs.shedlock_revoke(text, boolean, boolean, int),
		jobs.shedlock_protect(boolean, int)]);
	# team owns the schema.
	my ($severity, $others) = $edition eq 'portable' ? ('error', 'attacker') : ('warning', 'attacker, team');
	for ([ PUBLIC => 'PUBLIC' ], [ attacker => $others ])
	{
		my ($grantee, $named) = @$_;
		$node->safe_psql($edition, "REVOKE CREATE ON SCHEMA jobs FROM PUBLIC; GRANT CREATE ON SCHEMA jobs TO $grantee");
		like(answer($edition, q[SELECT severity, finding FROM jobs.shedlock_doctor()]),
			qr/^$severity\|others may create objects in schema jobs, next to the functions of shedlock: $named$/m,
			"... the doctor works and names who can create them: $named");
	}
	like(answer($edition, q[SELECT severity, finding FROM jobs.shedlock_doctor()]),
		qr/^error\|role attacker owns function jobs.shedlock_acquire\(.*\), which may be called instead of ours$/m,
		'... and those that are there');
	is(answer($edition, q[SELECT jobs.shedlock_protect(true), jobs.shedlock_protect(false),
			jobs.shedlock_grant('app'::text, true, true, false), jobs.shedlock_revoke('app'::text, true, true)]),
		'|||', '... and so do protect, grant and revoke');
}
is($node->safe_psql('postgres', q[SELECT rolsuper FROM pg_roles WHERE rolname = 'attacker']), 'f',
	'the attacker has not become a superuser');
$node->stop;
done_testing();
