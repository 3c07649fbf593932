# The functions that check a fleet's log find each violation, and report nothing else.
use strict;
use warnings;
use Test::More;
use Fleet;

sub grant
{
	my ($name, $token, $from, $to) = @_;
	return { name => $name, token => $token, from => $from, to => $to, who => 'x' };
}

my @one = (grant('a', 1, 1.0, 2.0), grant('a', 2, 2.0, 3.0), grant('b', 1, 1.5, 2.5));
is(double_grants(@one), 0, 'grants one after the other are not double grants, nor are grants of different names');
is(double_grants(@one, grant('a', 3, 2.5, 2.6)), 1, 'a grant within the time of another is a double grant');
is(double_grants(grant('a', 1, 1, 9), grant('a', 2, 2, 3), grant('a', 3, 4, 5)), 2,
	'... even if there was a shorter one in between');
is(double_grants(@one, grant('a', 3, 2.8, 2.4)), 0, 'a grant that had ended before it was acknowledged does not count');

is(backward_tokens(@one), 0, 'tokens grow, for each name separately');
is(backward_tokens(@one, grant('a', 2, 4, 5)), 1, 'a repeated token is found');
is(backward_tokens(@one, grant('a', 1, 4, 5)), 1, '... and a smaller one');
is(backward_tokens(@one, grant('a', 0, 4, 5)), 0, 'an unknown token does not count');
is(backward_tokens(@one, grant('a', 1, 4, 3)), 0, '... and neither does a reply that came after the lease');

done_testing();
