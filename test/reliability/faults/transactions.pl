# Transactions that stay open: a holder that is idle in its transaction, and prepared transactions, even across a crash
# of the server. Until the transaction ends, other callers are refused at once.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $server = new_server('server', "max_prepared_transactions = 40\n", allows_streaming => 1);
# If anything blocks, that is an error.
sub sql { return $server->safe_psql('postgres', "SET statement_timeout = '10 min'; $_[0]"); }
sql(<<'SQL');
CREATE TABLE work (act text);
CREATE TABLE asked (granted boolean, took interval);
CREATE PROCEDURE ask(lock text) LANGUAGE plpgsql AS $$
DECLARE
    sent timestamptz;
    granted boolean;
BEGIN
    FOR i IN 1 .. 100 LOOP
        sent := clock_timestamp();
        granted := shedlock_acquire(lock, '1 h');
        INSERT INTO asked VALUES (granted, clock_timestamp() - sent);
    END LOOP;
END $$;
SQL
sql('SELECT shedlock_keep_history()');

# A session that acquires, and then stays idle in its transaction.
sub idle_holder
{
	my ($name) = @_;
	my $holder = $server->background_psql('postgres');
	$holder->query_safe("SET application_name = '$name'; BEGIN; SELECT shedlock_acquire('$name', '1 h')");
	return $holder;
}

my %ends = (
	rollback => sub { $_[0]->query_safe('ROLLBACK'); },
	timeout => sub { $_[0]->query("SET idle_in_transaction_session_timeout = '1 ms'"); },
	terminate => sub {
		sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$_[1]'");
	},
	death => sub { $_[0]{run}->signal('KILL'); });

my $rounds = often(10, 100);
my @kinds = sort keys %ends;
for my $n (1 .. $rounds)
{
	my $kind = $kinds[ $n % @kinds ];
	my $name = "idle $kind $n";
	sql("SELECT shedlock_acquire('$name', '1 h'), shedlock_release('$name')") if $n % 3; # otherwise the name is new
	my $holder = idle_holder($name);
	sql("CALL ask('$name')");
	is(sql("SELECT count(*) FROM asked WHERE granted"), 0,
		"I2 a holder idle in its transaction: other callers are refused ($kind)");
	$ends{$kind}->($holder, $name);
	ok($server->poll_query_until('postgres', "SELECT shedlock_acquire('$name', '1 h')"),
		"... and the lock is granted after the holder's $kind");
	eval { $holder->quit };
}
my $late = sql("SELECT extract(epoch FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY took)) * 1000 FROM asked");
seen(23, $rounds, 'transactions', sprintf 'refused after %.2f ms (99th percentile)', $late);

# What is prepared => [ SQL before it, its own SQL, whether the lock is held after COMMIT PREPARED, after ROLLBACK
# PREPARED ]
my %acts = (
	'acquire of a new name' => [ '', "SELECT shedlock_acquire_token('NAME', '1 h')", 1, 0 ],
	'acquire of a used name' => [ "SELECT shedlock_acquire_token('NAME', '1 ms')",
		"SELECT shedlock_acquire_token('NAME', '1 h', wait => '10 s')", 1, 0 ],
	'acquire by a session' => [ '', "SELECT shedlock_acquire('NAME', '1 h')", 1, 0 ],
	'acquire of several' => [ '', "SELECT shedlock_acquire_token(ARRAY['NAME', 'NAME too'], '1 h')", 1, 0 ],
	'extend' => [ "SELECT shedlock_acquire_token('NAME', '1 h')",
		"SELECT shedlock_extend_token('NAME', token, '2 h') FROM shedlock_locks WHERE name = 'NAME'", 1, 1 ],
	'release' => [ "SELECT shedlock_acquire_token('NAME', '1 h')",
		"SELECT shedlock_release_token('NAME', token) FROM shedlock_locks WHERE name = 'NAME'", 0, 1 ],
	'completion' => [ "SELECT shedlock_acquire_token('NAME', '1 h')", "INSERT INTO work VALUES ('NAME');
		SELECT shedlock_complete_token('NAME', token) FROM shedlock_locks WHERE name = 'NAME'", 0, 1 ],
	'guard after the lease' => [ "SELECT shedlock_acquire_token('NAME', '1 ms')", "INSERT INTO work VALUES ('NAME');
		SELECT shedlock_guard_token('NAME', token) FROM shedlock_locks WHERE name = 'NAME'", 0, 0 ]);

# What the history of runs says after COMMIT PREPARED. After ROLLBACK PREPARED it says nothing.
my %outcomes = (release => 'done', completion => 'done', 'acquire of a used name' => 'ran out');

my $crashes = often(2, 50);
for my $n (1 .. $crashes)
{
	my %token;
	for my $act (sort keys %acts)
	{
		for my $end ('COMMIT', 'ROLLBACK')
		{
			my ($before, $statement) = map { s/NAME/$act $end $n/gr } @{ $acts{$act} }[ 0, 1 ];
			sql($before) if $before;
			my ($rc, $out, $err) = $server->psql('postgres',
				"\\set VERBOSITY verbose\nBEGIN; $statement; PREPARE TRANSACTION '$act $end'");
			is("$rc$err", '0', "$act: can be prepared");
			$token{"$act $end"} = $out;
		}
	}
	$server->stop($n % 2 ? 'immediate' : 'fast');
	$server->start;
	for my $act (sort keys %acts)
	{
		for my $end ('COMMIT', 'ROLLBACK')
		{
			my $name = "$act $end $n";
			is(sql("SELECT shedlock_acquire('$name', '1 h')"), 'f',
				"I2 $act, prepared before a restart: other callers are refused");
			sql("$end PREPARED '$act $end'");
			is(sql("SELECT string_agg(outcome, ',') FROM shedlock_history WHERE name = '$name'"),
				($end eq 'COMMIT' && $outcomes{$act}) || '', '... and the history has a row of what has ended by that');
			my $held = $acts{$act}[ $end eq 'COMMIT' ? 2 : 3 ];
			is(sql("SELECT shedlock_acquire('$name', '1 h')"), $held ? 'f' : 't',
				"I12 $act, $end PREPARED: " . ($held ? 'held' : 'free'));
			next unless $held && $end eq 'COMMIT' && $token{"$act $end"} =~ /^\d+$/;
			is(sql("SELECT shedlock_release_token(" . ($act =~ /several/ ? "ARRAY['$name', '$name too']" : "'$name'")
					. ", $token{qq($act $end)})"),
				't', '... and can be released by the token that was returned');
		}
	}
	is(sql("SELECT string_agg(act, ',' ORDER BY act) FROM work"),
		"completion COMMIT $n,guard after the lease COMMIT $n",
		'I11 of the guarded transactions only the committed one has had an effect');
	sql('DELETE FROM work');
}
seen(24, 2 * keys(%acts) * $crashes, "prepared transactions, $crashes crashes",
	'then committed or rolled back: refused until then, consistent afterwards, and so is the history of runs');

$server->stop;
done_testing();
