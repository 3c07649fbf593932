# What a fleet's log is judged by finds what it should, and nothing else.
use strict;
use warnings;
use Test::More;
use Fleet;

sub grant { my ($name, $token, $from, $to) = @_; return { name => $name, token => $token, from => $from, to => $to, who => 'x' } }

my @one = (grant('a', 1, 1.0, 2.0), grant('a', 2, 2.0, 3.0), grant('b', 1, 1.5, 2.5));
is(double_grants(@one), 0, 'one after the other is no double grant, nor is another name');
is(double_grants(@one, grant('a', 3, 2.5, 2.6)), 1, 'one inside another is');
is(double_grants(grant('a', 1, 1, 9), grant('a', 2, 2, 3), grant('a', 3, 4, 5)), 2, '... also when a shorter one was in between');
is(double_grants(@one, grant('a', 3, 2.8, 2.4)), 0, 'a grant that came when it was already over is none');

is(backward_tokens(@one), 0, 'tokens grow, each name for itself');
is(backward_tokens(@one, grant('a', 2, 4, 5)), 1, 'a token that comes back is found');
is(backward_tokens(@one, grant('a', 1, 4, 5)), 1, '... and one that falls');
is(backward_tokens(@one, grant('a', 0, 4, 5)), 0, 'a token that nobody learned is none');

done_testing();
