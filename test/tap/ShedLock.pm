# A server of PostgreSQL's own test framework on which CREATE EXTENSION shedlock works.
package ShedLock;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_server configure is_portable create_shedlock pgbench_script);

sub configure
{
	my ($node, $settings) = @_;
	my $staged = $ENV{SHEDLOCK_SETTINGS} or die "run by test/check, which stages the extension";
	$node->append_conf('postgresql.conf', $staged . "\n" . ($settings // ''));
}

# SHEDLOCK_EDITION=portable: what runs on either edition runs on that one.
sub is_portable { return ($ENV{SHEDLOCK_EDITION} // '') eq 'portable'; }

sub create_shedlock
{
	my ($node, $database) = @_;
	my $as_ordinary_role = "CREATE ROLE locksmith; GRANT CREATE ON SCHEMA public TO locksmith; SET ROLE locksmith;\n";
	$node->safe_psql($database, is_portable() ? $as_ordinary_role . slurp_file('extension/portable/shedlock.sql') : 'CREATE EXTENSION shedlock');
	return;
}

# Initialised, with the extension created.
sub new_server
{
	my ($name, $settings, @init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(@init);
	configure($node, $settings);
	$node->start;
	create_shedlock($node, 'postgres');
	return $node;
}

# Runs a script with pgbench, in the database postgres unless a last argument names another; gives its exit status, what it said, and how many transactions it completed.
sub pgbench_script
{
	my ($node, $script, @options) = @_;
	my $database = @options % 2 ? pop @options : 'postgres';
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	PostgreSQL::Test::Utils::append_to_file($file, $script);
	my ($out, $err) = ('', '');
	local $ENV{PGOPTIONS} = '-c client_min_messages=error';
	my $ok = IPC::Run::run([ 'pgbench', '-n', '-f', $file, @options, '-h', $node->host, '-p', $node->port, $database ],
		'>', \$out, '2>', \$err);
	my ($done) = $out =~ /transactions actually processed: (\d+)/;
	return ($ok, $done // 0, $err);
}

1;
