# A server that returns to an earlier state: the old primary after pg_rewind, and recovery to a point before a grant.
# Locks may be forgotten, as docs/guarantees.md says, but tokens still grow. If a server's settings risk data in a
# crash, the doctor says so.
use strict;
use warnings;
use File::Spec;
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my $primary = new_server('first', "wal_log_hints = on\nwal_keep_size = 1GB\n", allows_streaming => 1);
my $standby = new_standby($primary, 'second');

# Recovers to a point before a grant.
sub recover_to
{
	my ($point) = @_;
	my $past = PostgreSQL::Test::Cluster->new($point);
	$past->init_from_backup($primary, 'second');
	my $wal = File::Spec->rel2abs($primary->data_dir . '/pg_wal');
	$past->append_conf('postgresql.conf', "restore_command = 'cp \"$wal/%f\" \"%p\"'\n"
		. "recovery_target_name = '$point'\nrecovery_target_action = promote\n");
	$past->set_recovery_mode;
	$past->start;
	$past->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	return $past;
}

my $recoveries = often(1, 10);
for my $n (1 .. $recoveries)
{
	my ($kept, undef, $lost) = split /\n/, $primary->safe_psql('postgres', <<"SQL");
SELECT shedlock_acquire_token('kept $n', '1 h');
SELECT pg_create_restore_point('point_$n');
SELECT shedlock_acquire_token('lost $n', '1 h');
SQL
	my $past = recover_to("point_$n");
	is($past->safe_psql('postgres',
			"SELECT shedlock_acquire('kept $n', '1 h'), shedlock_extend_token('kept $n', $kept, '1 h')"),
		'f|t', 'recovered to a point in time: a lock that was held then is held, with the same token');
	cmp_ok($past->safe_psql('postgres', "SELECT shedlock_acquire_token('lost $n', '1 h')"), '>', $lost,
		'I6 ... a lock that was granted later is forgotten, and granted again with a greater token');
	$past->stop('immediate');
	$past->clean_node;
}
seen(14, $recoveries, 'recoveries', 'to before a grant: it was forgotten, the next token was greater');

# The two servers take turns as the primary. One is promoted while the other still runs, and both grant locks. Then the
# other is rewound.
$standby->start;
my ($last, $rewinds) = (0, often(1, 10));
for my $n (1 .. $rewinds)
{
	$primary->wait_for_catchup($standby, 'replay');
	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	my $old = $primary->safe_psql('postgres', "SELECT shedlock_acquire_token('job', '1 ms')");
	my $new = $standby->safe_psql('postgres', "SELECT shedlock_acquire_token('job', '1 h')");
	ok($last < $old && $old < $new,
		'I6 tokens grow from one primary to the next, even past those that only the old one granted');

	rewind($primary, $standby);
	$standby->wait_for_catchup($primary, 'replay');
	is($primary->safe_psql('postgres', "SELECT token || ' ' || state FROM shedlock_locks WHERE name = 'job'"),
		"$new held", 'after pg_rewind the old primary has the lock of the new one');
	$last = $standby->safe_psql('postgres',
		"SELECT shedlock_release_token('job', $new) AS released \\gset\nSELECT shedlock_acquire_token('job', '1 ms')");
	cmp_ok($last, '>', $new, 'I6 ... and the next token is greater again');
	($primary, $standby) = ($standby, $primary);
}
seen(14, $rewinds, 'rewinds', 'the old primary is afterwards the same as the new one, tokens grew');

sub rewind
{
	my ($target, $source) = @_;
	my $conf = $target->data_dir . '/postgresql.conf';
	$source->safe_psql('postgres', 'CHECKPOINT'); # otherwise pg_rewind assumes that the source is on its old timeline
	$target->stop('fast');
	my $own = slurp_file($conf);
	command_ok([ 'pg_rewind', '--target-pgdata', $target->data_dir, '--source-server', $source->connstr('postgres') ],
		'pg_rewind');
	unlink $conf; # pg_rewind has copied the source's
	append_to_file($conf,
		"$own\nprimary_conninfo = '" . $source->connstr . ' application_name=' . $target->name . "'\n");
	$target->set_standby_mode;
	$target->start;
}

# fsync is off on all servers of this test framework.
$primary->safe_psql('postgres', $_)
	for 'ALTER SYSTEM SET client_min_messages = error', 'ALTER SYSTEM SET full_page_writes = off',
	'ALTER TABLE shedlock SET UNLOGGED';
$primary->reload;
$primary->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_settings
	WHERE (name, setting) IN (('full_page_writes', 'off'), ('client_min_messages', 'error'))");
my $errors = $primary->safe_psql('postgres', "SELECT finding FROM shedlock_doctor() WHERE severity = 'error'");
like($errors, qr/^$_/m, "the doctor: $_")
	for 'table public.shedlock is UNLOGGED: a server crash', 'fsync is off: a crash',
	'full_page_writes is off: a crash';
seen(8, 3, 'settings');

$_->stop('immediate') for $primary, $standby;
done_testing();
