# Row 66: a process ends while threads of the library are at work, perhaps inside libpq or OpenSSL. It does not crash,
# it does not hang, and its exit status is the one it gave. exits.cpp says in which ways it ends.
use strict;
use warnings;
use File::Spec;
use IPC::Run;
use Test::More;
use ShedLock;

my @ways = qw(static late exit thread callback);
my $rounds = often(2, 200);

my $folder = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
my $said = '';
IPC::Run::run([ qw(openssl req -new -x509 -days 10 -nodes -subj /CN=localhost -newkey rsa:2048 -keyout), "$folder/key",
		'-out', "$folder/certificate" ],
	'<', \undef, '>&', \$said)
  or die "openssl: $said";
chmod 0600, "$folder/key";
my $node = new_server('server',
	"listen_addresses = '127.0.0.1'\nssl = on\nssl_cert_file = '$folder/certificate'\nssl_key_file = '$folder/key'\n");
my %connections = (
	TLS => 'host=127.0.0.1 sslmode=require port=' . $node->port . ' dbname=postgres user='
		. $node->safe_psql('postgres', 'SELECT current_user'),
	socket => $node->connstr('postgres'));

# In each round every way is tried over both kinds of connection, all at the same time, because on a busy machine the
# threads run in different orders.
my ($ran, %wrong);
for my $round (1 .. $rounds)
{
	my @running;
	for my $kind (sort keys %connections)
	{
		for my $how (@ways)
		{
			my $work = int rand 30;
			push @running, launch({ of => "$how, $kind, $work ms" }, program('exits'), $how, $connections{$kind},
				"$how $kind $round", $work);
		}
	}
	for my $one (@running)
	{
		ended($one); # dies if the process hangs
		my $status = $one->{run}->full_result(0);
		$ran++;
		$wrong{"$one->{of}: status $status $one->{err}"}++ if $status != 7 << 8;
	}
}
is_deeply([ sort keys %wrong ], [], "$ran processes end with the status that they gave");
seen(66, $ran, 'processes', 'in five ways, over TLS and over a Unix socket');

$node->stop;
done_testing();
