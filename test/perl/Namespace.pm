# A test that begins with `use Namespace '--net';` runs in its own kernel namespaces. There it can mount file systems
# and make the network drop packets without being root, and nothing remains afterwards. The test is skipped if the
# kernel forbids that.
package Namespace;

use strict;
use warnings;

sub import
{
	my (undef, @kinds) = @_;
	return if $ENV{SHEDLOCK_NAMESPACE};
	my @unshare = ('unshare', '--map-current-user', '--keep-caps', @kinds);
	if (system("@unshare true") != 0)
	{
		require Test::More;
		Test::More::plan(skip_all => "needs namespaces (@unshare), which this machine does not allow");
	}
	$ENV{SHEDLOCK_NAMESPACE} = 1;
	exec @unshare, $^X, (map { "-I$_" } @INC), $0 or die "unshare: $!";
}

1;
