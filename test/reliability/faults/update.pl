# Fault 39: ALTER EXTENSION UPDATE from every older version results in the same catalog as CREATE EXTENSION. Older
# versions are those whose shedlock--VERSION.sql still exists. Made-up versions prove that a difference is seen.
use strict;
use warnings;
use Cwd 'abs_path';
use PostgreSQL::Test::Utils;
use Test::More;
use ShedLock;

my ($sharedir) = map { chomp; $_ } `pg_config --sharedir`;
my $scripts = "$ENV{SHEDLOCK_STAGE}$sharedir/extension";
my ($version) = slurp_file("$scripts/shedlock.control") =~ /^default_version = '(.*)'/m or die 'no default_version';
my $fresh = slurp_file("$scripts/shedlock--$version.sql");
my @older = sort grep { $_ ne $version }
	map { /shedlock--((?:(?!--).)+)\.sql$/ ? $1 : () } glob "$scripts/shedlock--*.sql";

# The made-up versions are put into a copy of the staged files, which the server uses.
my $copy = abs_path(PostgreSQL::Test::Utils::tempdir());
system_or_bail('cp', '-r', "$ENV{SHEDLOCK_STAGE}/.", $copy);
my $settings = $ENV{SHEDLOCK_SETTINGS} =~ s/\Q$ENV{SHEDLOCK_STAGE}\E/$copy/gr;
my $node = PostgreSQL::Test::Cluster->new('server');
$node->init;
$node->append_conf('postgresql.conf', $settings);
$node->start;

# Dumps everything that pg_upgrade would transfer, including members of the extension, but without numbers that always
# differ.
sub catalog
{
	my ($version, $update) = @_;
	$node->safe_psql('postgres', 'CREATE DATABASE trial TEMPLATE template0');
	$node->safe_psql('trial', "CREATE EXTENSION shedlock VERSION '$version'");
	$node->safe_psql('trial', 'ALTER EXTENSION shedlock UPDATE') if $update;
	my ($dump, $err) = PostgreSQL::Test::Utils::run_command([ 'pg_dump',
		'--schema-only', '--binary-upgrade', '-d', $node->connstr('trial') ]);
	$node->safe_psql('postgres', 'DROP DATABASE trial WITH (FORCE)');
	$dump =~ s/^.*(binary_upgrade_set_next|relfrozenxid|\\(un)?restrict|-- For binary upgrade).*\n//mg;
	$dump =~ s/'\{?\K\d{5,}(?=\}?')/OID/g;
	return $dump;
}

# Returns the lines that are in only one of the two dumps.
sub different
{
	my %count;
	$count{$_}++ for split /^/, $_[0];
	$count{$_}-- for split /^/, $_[1];
	return grep { $count{$_} } sort keys %count;
}

my $wanted = catalog($version);
like($wanted, qr/CREATE FUNCTION public\.shedlock_resume/, 'the catalog of a fresh installation shows members');
is(join("", different($wanted, catalog($version))), "", 'two fresh installations do not differ');
is(join("", different($wanted, catalog($_, 1))), "", "updated from $_") for @older;

# The made-up older versions have no shedlock_resume.
my ($function, $comment) =
	$fresh =~ /^(CREATE FUNCTION shedlock_resume.*?;\n).*\('shedlock_resume',\s*('.*?')\)/ms
	or die 'no shedlock_resume';
my $resume = "${function}COMMENT ON FUNCTION shedlock_resume(text) IS $comment;\n";
my $rights = "REVOKE ALL ON FUNCTION shedlock_resume(text) FROM PUBLIC;\n"
	. "DO \$do\$ BEGIN EXECUTE format('GRANT EXECUTE ON FUNCTION shedlock_resume(text) TO %s', "
	. "\$owner\$\@extowner\@\$owner\$); END \$do\$;\n";
my %made_up = (
	'0.9' => [ $resume . $rights, 1, 'a correct update' ],
	'0.8' => [ $rights =~ s/.*//sr, 0, 'the function is missing' ],
	'0.7' => [ $resume, 0, 'PUBLIC may execute the function' ],
	'0.6' => [ $resume =~ s/COMMENT.*//sr . $rights, 0, 'its comment is missing' ],
	'0.5' => [ $resume =~ s/PARALLEL UNSAFE/PARALLEL SAFE/r . $rights, 0, 'a different PARALLEL' ],
	'0.4' => [ $resume . $rights . "ALTER TABLE shedlock ALTER lock_until DROP NOT NULL;\n", 0,
		'a column of the table differs' ],
	'0.3' => [ $resume . $rights . "ALTER EXTENSION shedlock DROP VIEW shedlock_stats;\n", 0,
		'a view is no longer a member' ]);
for my $from (sort keys %made_up)
{
	my ($script, $same, $what) = @{ $made_up{$from} };
	append_to_file("$copy$sharedir/extension/shedlock--$from.sql", "$fresh\nDROP FUNCTION shedlock_resume(text);\n");
	append_to_file("$copy$sharedir/extension/shedlock--$from--$version.sql", $script);
	my @difference = different($wanted, catalog($from, 1));
	($same ? \&is : \&isnt)->("@difference", '',
		"made-up version, $what: " . ($same ? 'no difference' : 'the difference is found'));
}
$node->stop;
my $further = @older ? " and from @older" : ', because there is no older one yet';
seen(39, 1 + @older, 'ALTER EXTENSION UPDATE', "from a made-up version$further");
done_testing();
