// The rules. Each is a function that appends the violations that it finds.
#pragma once

#include "checker.hpp"
#include "world.hpp"

namespace checker {

using found = std::vector<violation>;

// Rules about one name.
void holds_exclude(world const &, biography const &, found &);                           // I1, I5
void claims_exclude(world const &, std::string const &name, biography const &, found &); // I1
void tokens_grow(world const &, biography const &, found &);                             // I6
void ticks_run_once(world const &, biography const &, found &);                          // tick
void refusals_have_reasons(world const &, std::string const &name, biography const &, found &);
void only_holders_change(world const &, std::string const &name, biography const &, found &); // I4, I12
void guards_fence(world const &, std::string const &name, biography const &, found &);        // I11

// Rules about the whole history.
void rows_are_kept(world const &, history::record const &, found &);       // I7
void errors_are_expected(world const &, history::record const &, found &); // I2
void clients_do_not_trust_too_long(world const &, history::record const &, found &);
void nothing_is_acknowledged_without_standby(history::record const &, found &);

void effects_are_exact(world const &, history::record const &given, found &); // given: as recorded, not yet split
void losses_have_reasons(world const &, history::record const &, found &);

// Splits each run into an acquire, a guard and a release, which the other rules handle.
history::record with_runs_taken_apart(history::record const &);

// Splits each completion into a guard and a release, which the extension writes at the commit.
history::record with_completions_taken_apart(history::record const &);

// What may differ on the portable edition.
bool may_be_out_of_date(world const &, history::operation const &);
bool may_still_be_extended(world const &, acquisition const &, history::operation const &refused);
bool is_expected_of_portable(world const &, history::operation const &);
bool is_let_pass_by_portable(world const &, history::operation const &acquire, history::operation const &commit);

// Whether it is a refused acquire of a single name by one of our functions. It has written nothing, unless the library
// made it and a reply was lost.
bool is_plain_refusal(history::operation const &);

// Whether the row may have been deleted between the two, and with it the history of ticks.
bool was_deleted_between(biography const &, history::operation const &first, history::operation const &second);

// Whether the row may have been deleted, or the lock released by force, between the two.
bool was_revoked_between(biography const &, history::operation const &first, history::operation const &second);

// Whether Y may have been granted after X, given everything that is known about the lease of X.
bool may_follow(world const &, biography const &, acquisition const &x, acquisition const &y);

} // namespace checker
