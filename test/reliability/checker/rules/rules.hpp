// The rules, one function each. What they find they append.
#pragma once

#include "checker.hpp"
#include "world.hpp"

namespace checker {

using found = std::vector<violation>;

// Of one name.
void holds_exclude(world const &, biography const &, found &);                           // I1, I5
void claims_exclude(world const &, std::string const &name, biography const &, found &); // I1
void tokens_grow(world const &, biography const &, found &);                             // I6
void ticks_run_once(world const &, biography const &, found &);                          // tick
void refusals_have_reasons(world const &, std::string const &name, biography const &, found &);
void only_holders_change(world const &, std::string const &name, biography const &, found &); // I4
void guards_fence(world const &, std::string const &name, biography const &, found &);        // I11

// Of all.
void rows_are_kept(world const &, history::record const &, found &);       // I7
void errors_are_expected(world const &, history::record const &, found &); // I2
void clients_do_not_trust_too_long(world const &, history::record const &, found &);
void nothing_is_acknowledged_without_standby(history::record const &, found &);

void effects_are_exact(world const &, history::record const &given, found &);
void losses_have_reasons(world const &, history::record const &, found &);

// A run as an acquire, a guard and a release: what the other rules know.
history::record with_runs_taken_apart(history::record const &);

// A completion as a guard and a release, which the extension writes at the commit.
history::record with_completions_taken_apart(history::record const &);

// What may differ on the portable edition.
bool may_be_out_of_date(world const &, history::operation const &);
bool may_still_be_extended(world const &, acquisition const &, history::operation const &refused);
bool is_expected_of_portable(world const &, history::operation const &);
bool is_let_pass_by_portable(world const &, history::operation const &acquire, history::operation const &commit);

// Of one name, by one of ours: while it asked it wrote nothing.
bool is_plain_refusal(history::operation const &);

// Its row may have been deleted between the two, and with it what it told of ticks.
bool was_deleted_between(biography const &, history::operation const &first, history::operation const &second);

// Somebody else may have taken the lock away by hand between the two: deleted its row, or released it by force.
bool was_revoked_between(biography const &, history::operation const &first, history::operation const &second);

// Whether Y may have been granted after X, with all that is known of X's lease.
bool may_follow(world const &, biography const &, acquisition const &x, acquisition const &y);

} // namespace checker
