# Code of one role never runs with the rights of another one through our functions, whatever the owner of their schema
# does meanwhile.
#
# PostgreSQL looks a name up again after it has waited for a lock on what the name meant. So the owner of a schema, or
# of a database in a trusted installation, can lock one of our objects, let somebody else's call wait for it, put a
# planted object of the same name in its place and commit. This test does that to every function and view of the
# extension, for each of its relations, in each of these ways; to CREATE EXTENSION; and to the portable edition, whose
# schema is renamed. The calls come from the catalogs, so new functions are tried, too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use ShedLock;

my $node = PostgreSQL::Test::Cluster->new('rights');
$node->init;
configure($node, "shared_preload_libraries = 'shedlock'\n");
$node->start;

# The thief owns the schema and the extension, and is no superuser. A superuser owns the functions. The sequence counts
# how often a planted object runs with the rights of any other role. (A rollback would undo everything else.) The lock
# table of somebody else, to which the planted view shedlock_link leads, must stay as it is.
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE thief LOGIN;
CREATE ROLE caller LOGIN;
CREATE ROLE bound LOGIN;
CREATE ROLE other;
CREATE ROLE team;
CREATE SCHEMA lab;
GRANT USAGE ON SCHEMA lab TO PUBLIC;
CREATE SEQUENCE lab.loot;
GRANT ALL ON SEQUENCE lab.loot TO PUBLIC;
CREATE TABLE lab.shedlock (name varchar(255) PRIMARY KEY,
    lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL,
    lock_at_least_until timestamp, last_tick timestamp, last_done_tick timestamp, last_done_at timestamp);
CREATE FUNCTION lab.steal(confederate name) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF current_user NOT IN ('thief', confederate) THEN
        PERFORM pg_catalog.nextval('lab.loot');
    END IF;
    RETURN NULL;
END $$;
CREATE TABLE lab.plans (n serial, plan text);
GRANT SELECT ON lab.plans TO PUBLIC;
-- Plans an object of the same name for each object in our schema. Code in it counts unless the confederate runs it.
CREATE PROCEDURE lab.make_plans(schema_name regnamespace, confederate name) LANGUAGE plpgsql AS $$
DECLARE
    steal CONSTANT text := format('lab.steal(%L)', confederate);
BEGIN
    INSERT INTO lab.plans (plan)
    SELECT format('CREATE DOMAIN %s.%I AS text CHECK (%s IS NULL)', schema_name, t.typname, steal)
      FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
     WHERE t.typnamespace = schema_name;
    INSERT INTO lab.plans (plan)
    SELECT format('CREATE VIEW %s.%I AS SELECT %s', schema_name, c.relname,
               CASE c.relname WHEN 'shedlock_link' THEN 'FROM lab.shedlock'
               ELSE string_agg(steal || '::' || format_type(a.atttypid, a.atttypmod)
                               || ' AS ' || quote_ident(a.attname), ', ' ORDER BY a.attnum) END)
      FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.relnamespace = schema_name AND c.relkind IN ('r', 'v') GROUP BY c.oid, c.relname;
    INSERT INTO lab.plans (plan)
    SELECT format('CREATE %s %s.%I(%s) %s LANGUAGE plpgsql AS %L',
               CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, schema_name, p.proname,
               pg_get_function_arguments(p.oid), 'RETURNS ' || pg_get_function_result(p.oid),
               format('BEGIN PERFORM %s; %s END', steal,
                   CASE WHEN p.prokind = 'p' OR p.proretset OR p.prorettype = 'void'::regtype
                             OR p.proargmodes IS NOT NULL THEN '' ELSE 'RETURN NULL;' END))
      FROM pg_proc p WHERE p.pronamespace = schema_name ORDER BY p.oid;
END $$;
-- Whoever calls this plants the objects of which there is none.
CREATE PROCEDURE lab.plant(schema_name text) LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    FOR plan IN SELECT p.plan FROM lab.plans p ORDER BY p.n LOOP
        BEGIN
            EXECUTE plan;
        EXCEPTION WHEN duplicate_function OR duplicate_table THEN
            NULL;
        END;
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO PUBLIC', schema_name);
    FOR plan IN
        SELECT format('GRANT SELECT ON %s TO PUBLIC', oid::regclass) FROM pg_class
         WHERE relnamespace = schema_name::regnamespace AND relkind = 'v' AND relowner = current_user::regrole
    LOOP
        EXECUTE plan;
    END LOOP;
END $$;
-- A superuser locks a single relation. (LOCK TABLE on a view would lock the relations in it, too.)
CREATE PROCEDURE lab.lock(relation regclass) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(CASE WHEN relkind = 'v' THEN 'ALTER VIEW %s RESET (security_barrier)' ELSE 'LOCK TABLE %s' END,
        relation) FROM pg_class WHERE oid = relation;
END $$;
-- A call of each function in our schema, and of each view that the caller may read. Of a function that runs with its
-- owner's rights, every Boolean argument is tried in both ways.
CREATE FUNCTION lab.calls(schema_name regnamespace) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format(CASE p.prokind WHEN 'p' THEN 'CALL %s.%I(%s)' WHEN 'f' THEN 'SELECT * FROM %s.%I(%s)' END,
                  schema_name, p.proname, string_agg(quote_ident(a.name) || ' => ' || CASE
                      WHEN a.type = 'bool'::regtype THEN CASE WHEN a.n = v.chosen THEN 'true' ELSE 'false' END
                      WHEN a.name = 'role' THEN quote_literal('other')
                      WHEN a.name = 'command' THEN quote_literal('SELECT 1')
                      WHEN a.name IN ('at_least', 'wait') THEN quote_literal('0')
                      WHEN a.name IN ('at', 'since') THEN 'now()'
                      WHEN a.name = 'zone' THEN quote_literal('UTC')
                      WHEN a.type = 'interval'::regtype THEN quote_literal('1 min')
                      WHEN a.type = 'bigint'::regtype THEN '1'
                      WHEN a.type = 'text[]'::regtype THEN '''{job}''::text[]'
                      WHEN a.type = 'int[]'::regtype THEN quote_literal('{1}')
                      WHEN a.type = 'text'::regtype THEN '''job''::text'
                      ELSE 'NULL' END, ', ' ORDER BY a.n))
      FROM pg_proc p
           LEFT JOIN LATERAL (SELECT n, type, p.proargnames[n] AS name
                                FROM unnest(p.proargtypes) WITH ORDINALITY t (type, n)) a ON true
           CROSS JOIN LATERAL (SELECT 0 AS chosen
                                UNION SELECT g FROM generate_series(1, p.pronargs) g
                                       WHERE p.prosecdef AND p.proargtypes[g - 1] = 'bool'::regtype) v
     WHERE p.pronamespace = schema_name AND p.prorettype <> 'trigger'::regtype
           AND has_function_privilege('caller', p.oid, 'EXECUTE')
     GROUP BY p.oid, v.chosen
    UNION ALL
    SELECT format('SELECT * FROM %s.%I', schema_name, c.relname) FROM pg_class c
     WHERE c.relnamespace = schema_name AND c.relkind = 'v' AND has_table_privilege('caller', c.oid, 'SELECT')
     ORDER BY 1
$$;
SQL
# CREATE DATABASE copies the laboratory.
$node->safe_psql('postgres', 'CREATE DATABASE portable TEMPLATE postgres;
	GRANT CREATE ON DATABASE postgres TO thief; GRANT CREATE ON DATABASE portable TO thief');

sub install
{
	$node->safe_psql('postgres', <<'SQL');
SET client_min_messages = error;
DROP EXTENSION IF EXISTS shedlock CASCADE;
DROP SCHEMA IF EXISTS s, moved CASCADE;
CREATE SCHEMA s AUTHORIZATION thief;
GRANT USAGE ON SCHEMA s TO caller, bound;
SET ROLE thief;
CREATE EXTENSION shedlock SCHEMA s;
SELECT s.shedlock_grant('caller', admin => true), s.shedlock_acquire('job', '1 h');
SQL
	return;
}
install();
$node->safe_psql('postgres', "CALL lab.make_plans('s', 'caller')");
is($node->safe_psql('postgres', "BEGIN; DROP EXTENSION shedlock; DROP TABLE s.shedlock; CALL lab.plant('s');
		SELECT count(*) = (SELECT count(*) FROM lab.plans) FROM pg_depend
		WHERE refobjid = 's'::regnamespace AND classid <> 'pg_type'::regclass"),
	't', 'there is something to plant in the place of each object');
my @calls = split /\n/, $node->safe_psql('postgres', "SELECT lab.calls('s')");
cmp_ok(scalar(@calls), '>=', 40, 'the catalogs give ' . @calls . ' calls');
my @relations = split / /, $node->safe_psql('postgres',
	"SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind IN ('r', 'v')");

my ($locker, $watcher, $thief) = map { $node->background_psql('postgres') } 1 .. 3;
my $loot = 'SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM lab.loot';

# Starts SQL as a role. Returns it once it waits for a lock, or nothing if it has ended without.
sub begin_call
{
	my ($sql, $role) = @_;
	my $process = launch({}, 'psql', '-XAtq', '-d', $node->connstr('postgres') . " user=$role application_name=call",
		'-c', $sql);
	while (is_running($process))
	{
		return $process if $watcher->query_safe("SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'call' AND wait_event_type = 'Lock'") eq '1';
		usleep(2000);
	}
	ended($process);
	return;
}

my ($swaps, @stolen) = 0;
sub swapped_under
{
	my ($call, $way, $swap, $restore) = @_;
	my $before = $watcher->query_safe($loot);
	my $process = begin_call($call, $call =~ /bound/ ? 'bound' : 'caller');
	$swap->($process);
	return if !$process;
	ended($process);
	$swaps++;
	push @stolen, "$call, $way" if $watcher->query_safe($loot) > $before;
	$restore->();
	return;
}

# The thief's transaction has locked our objects when the call begins, and replaces them when the call waits. (Only a
# superuser can move the extension to another schema, after which the thief has the old one.)
my %drops = ('extension dropped' => 'SET ROLE thief; DROP EXTENSION shedlock',
	'schema dropped' => 'SET ROLE thief; DROP SCHEMA s CASCADE; CREATE SCHEMA s',
	'extension moved' => 'CREATE SCHEMA moved; ALTER EXTENSION shedlock SET SCHEMA moved; SET ROLE thief',
	'table renamed' => 'SET ROLE thief; ALTER TABLE s.shedlock RENAME TO gone');
for my $way (sort keys %drops)
{
	for my $call (@calls)
	{
		$thief->query_safe("SET client_min_messages = error; BEGIN; $drops{$way}");
		swapped_under($call, $way,
			sub { $thief->query_safe(($_[0] ? "CALL lab.plant('s'); COMMIT" : 'ROLLBACK') . '; RESET ROLE') },
			\&install);
	}
}
# Others call the functions and views without naming them, so no code of the thief may run as them: PostgreSQL has
# stored what is called.
my @bound = map { "CALL lab.bound_$_()" } 1 .. grep { /^SELECT/ } @calls;
{
	my $n = 0;
	$node->safe_psql('postgres', join "\n", "SELECT s.shedlock_grant('bound', admin => true);",
		map { $n++; "CREATE PROCEDURE lab.bound_$n() LANGUAGE sql BEGIN ATOMIC $_; END;" } grep { /^SELECT/ } @calls);
}
# The schema gets another name, and a new schema the old one, while the call waits for one relation, which anybody may
# have locked.
for my $relation (@relations)
{
	for my $call (@calls, @bound)
	{
		$locker->query_safe("BEGIN; CALL lab.lock('s.$relation')");
		swapped_under($call, "schema renamed, $relation", sub {
			$thief->query_safe("SET ROLE thief; ALTER SCHEMA s RENAME TO moved;
				CREATE SCHEMA s; CALL lab.plant('s'); RESET ROLE") if $_[0];
			$locker->query_safe('ROLLBACK');
		}, sub {
			$watcher->query_safe('SET client_min_messages = error;
				DROP SCHEMA s CASCADE; ALTER SCHEMA moved RENAME TO s');
		});
	}
}
is(join("\n", @stolen), '', "nothing planted runs with another role's rights");
cmp_ok($swaps, '>', 2 * @calls, "... in $swaps calls that waited while an object was replaced");
is($node->safe_psql('postgres', "SELECT count(*) FROM lab.shedlock"), 0,
	'... no call has followed a planted view and written the table of somebody else');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class c
		WHERE c.oid = 'lab.shedlock'::regclass AND (c.relacl IS NOT NULL OR c.relhastriggers)"),
	0, '... or granted it, or put a trigger on it');

# The owner of the table may change. Whoever owns the extension could make its functions write any table (after REASSIGN
# OWNED it could replace shedlock_link), so it must have the rights of the table's owner.
$node->safe_psql('postgres', 'ALTER TABLE s.shedlock OWNER TO other');
my ($status, $out, $error) = $node->psql('postgres', "SELECT s.shedlock_acquire('job 2', '1 h')",
	extra_params => [ '-v', 'VERBOSITY=verbose' ]);
my $reason = 'it belongs to role "other", whose rights the owner of the extension, "thief", does not have';
like($error, qr/ERROR:  55000: table "s\.shedlock" cannot serve as the lock table: $reason/,
	"the extension's owner must have the rights of the table's owner");
is($node->safe_psql('postgres', "GRANT other TO thief; SELECT s.shedlock_acquire('job 2', '1 h')"), 't',
	'... and if it has, the functions work');
$node->safe_psql('postgres', 'REVOKE other FROM thief');

# GRANT and REVOKE take names. Here one of them waits for the row of the first function, and the table is replaced by
# another one meanwhile.
for ([ 'granted', "s.shedlock_grant('other', java => true)", 'GRANT' ],
	[ 'revoked', "s.shedlock_revoke('other', java => true)", 'REVOKE' ])
{
	my ($done, $call, $statement) = @$_;
	install();
	$node->safe_psql('postgres', "SELECT s.shedlock_grant('other', java => true)") if $statement eq 'REVOKE';
	my $first = $node->safe_psql('postgres', q[SELECT min(oid::regprocedure::text COLLATE "C") FROM pg_proc
		WHERE pronamespace = 's'::regnamespace AND proname = 'shedlock_acquire']);
	$locker->query_safe("BEGIN; GRANT EXECUTE ON FUNCTION $first TO team");
	my $process = begin_call("SELECT $call", 'caller') or die "$statement does not wait";
	$thief->query_safe('SET ROLE thief; ALTER TABLE s.shedlock RENAME TO gone;
		CREATE TABLE s.shedlock (name text); GRANT ALL ON s.shedlock TO other; RESET ROLE');
	$locker->query_safe('ROLLBACK');
	ended($process);
	like($process->{err}, qr/ERROR:  TABLE s\.shedlock was replaced while it was being $done/,
		"an object that was replaced is not $done");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class, aclexplode(relacl) a
			WHERE oid = 's.shedlock'::regclass AND a.grantee = 'other'::regrole AND a.is_grantable"),
		0, '... nor is the other one');
	is($node->safe_psql('postgres', "SELECT has_table_privilege('other', 's.shedlock', 'SELECT'),
			has_function_privilege('other', '$first', 'EXECUTE')"),
		$statement eq 'GRANT' ? 't|f' : 't|t', '... and nothing has changed');
}

# CREATE EXTENSION, whose script runs as a superuser in a trusted installation. It waits for a table that it adopts, and
# nobody can exchange the schema meanwhile.
{
	$node->safe_psql('postgres', 'SET client_min_messages = error;
		DROP EXTENSION shedlock; DROP SCHEMA IF EXISTS s, moved CASCADE;
		CREATE SCHEMA s AUTHORIZATION thief; SET ROLE thief;
		CREATE TABLE s.shedlock (name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL,
			locked_by text NOT NULL)');
	my $before = $watcher->query_safe($loot);
	$locker->query_safe('BEGIN; LOCK TABLE s.shedlock IN ROW EXCLUSIVE MODE');
	my $process = begin_call("SET lock_timeout = '1h'; CREATE EXTENSION shedlock SCHEMA s", 'thief')
		or die 'CREATE EXTENSION does not wait';
	for my $ddl ('ALTER SCHEMA s RENAME TO moved', 'DROP SCHEMA s CASCADE')
	{
		my ($status, $out, $error) = $node->psql('postgres', "SET ROLE thief; SET lock_timeout = '10ms'; $ddl");
		like($error, qr/canceling statement due to lock timeout/, "while CREATE EXTENSION runs, nobody can $ddl");
	}
	my ($status, $out, $error) = $node->psql('postgres',
		"SELECT FROM pg_namespace WHERE nspname = 's' FOR UPDATE NOWAIT");
	like($error, qr/could not obtain lock on row/,
		'... even on a server whose ALTER SCHEMA takes no lock on the schema (before November 2026)');
	# The table itself is renamed in the transaction for which the script waits.
	$locker->query_safe('SET ROLE thief; ALTER TABLE s.shedlock RENAME TO gone;
		CREATE VIEW s.shedlock AS SELECT lab.steal($$$$)::text AS name; COMMIT; RESET ROLE');
	ended($process);
	like($process->{err}, qr/table s\.shedlock was renamed or replaced while the extension waited for it/,
		'... and a table that gets another name is not adopted');
	is($watcher->query_safe($loot), $before, '... nor is what has its name now');
}

$_->quit for $locker, $watcher, $thief;

# The portable edition, in which every name is one. Nobody but the owner can rename its schema. If the owner has done
# so, and somebody else creates a schema of the old name, the functions refuse before they use any name, in old sessions
# and new ones.
my $file = slurp_file('portable/shedlock.sql');
my $as_team = 'SET client_min_messages = error; SET ROLE team; SET search_path = s;';
$node->safe_psql('portable', "SET ROLE thief; CREATE SCHEMA older;
	CREATE FUNCTION older.f() RETURNS int LANGUAGE sql AS 'SELECT 1'");
$node->safe_psql('portable', 'CREATE SCHEMA s AUTHORIZATION team; GRANT USAGE ON SCHEMA s TO caller');
$node->safe_psql('portable', "$as_team $file; SELECT shedlock_grant('caller', admin => true)");
$node->safe_psql('portable', "CALL lab.make_plans('s', 'nobody')");
@calls = split /\n/, $node->safe_psql('portable', "SELECT lab.calls('s')");
my @as_caller = (on_error_stop => 0, extra_params => [ '-U', 'caller', '-v', 'VERBOSITY=verbose' ]);
my ($old, $new) = map { $node->background_psql('portable', @as_caller) } 1 .. 2;
$old->query($_) for @calls;
my $refused = qr/ERROR:  55000: the functions of shedlock are no longer in schema s, for which they were written/;
my $reads_nothing = qr/shedlock_(((find|list|sort)_)?ticks?|read_schedule|session_alive|version|wait_any|end_wait
	|doctor|findings|inspect|raise|stats\w*|protect_row)\b/x;
$node->safe_psql('portable', "ALTER SCHEMA s RENAME TO moved; SET ROLE thief; CREATE SCHEMA s; CALL lab.plant('s');
	ALTER FUNCTION older.f() RENAME TO shedlock_run; ALTER FUNCTION older.shedlock_run() SET SCHEMA s");
for my $session ([ 'an old session', $old ], [ 'a new one', $new ])
{
	my ($which, $psql) = @$session;
	my @wrong;
	for my $call (map { s/ s\./ moved./r } @calls)
	{
		$psql->{stderr} = '';
		my $said = $psql->query($call);
		push @wrong, "$call: $psql->{stderr}"
			if $call =~ $reads_nothing ? $psql->{stderr} =~ $refused : $psql->{stderr} !~ $refused;
	}
	is(join("\n", @wrong), '', "portable: after the schema was renamed, functions refuse in $which");
	my $hint = 'Set search_path to the schema in which they are now, and run shedlock\.sql again';
	like($psql->query('SELECT * FROM moved.shedlock_doctor()'),
		qr/^error\|the functions of shedlock are no longer in schema s.*$hint/m, '... and the doctor says so');
}
is($node->safe_psql('portable', $loot), 0, '... and nothing planted has run');
$node->safe_psql('portable', 'SET client_min_messages = error; DROP SCHEMA s CASCADE;
	ALTER SCHEMA moved RENAME TO s; SET ROLE thief; CREATE SCHEMA decoy');
is($_->query("SELECT s.shedlock_acquire('back', '1 h'), s.shedlock_release('back')"), 't|t',
	'... and once it has its name again, they work') for $old, $new;
# Nobody can stop them by a copy of one of them.
my $copy_of_run = $node->safe_psql('portable',
	"SELECT replace(pg_get_functiondef('s.shedlock_run'::regproc), 's.shedlock_run(', 'decoy.shedlock_run(')");
$node->safe_psql('portable', "SET ROLE thief; $copy_of_run");
is($_->query(q[CALL s.shedlock_run('back', 'SELECT 1', '1 h')]), 't', '... even if somebody has copied one')
	for $old, $new;
# The hint can be followed.
$node->safe_psql('portable', 'ALTER SCHEMA s RENAME TO moved');
$node->safe_psql('portable', ($as_team =~ s/= s;/= moved;/r) . $file);
is($_->query("SELECT moved.shedlock_acquire('again', '1 h'), moved.shedlock_release('again')"), 't|t',
	'... or the file has been run again') for $old, $new;
$_->quit for $old, $new;
$node->stop;
done_testing();
