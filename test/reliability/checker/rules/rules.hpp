// The rules. Each is a function that appends the violations that it finds.
#pragma once

#include "checker.hpp"
#include "world.hpp"

namespace checker {

using found = std::vector<violation>;

// Rules about one name.
void holds_exclude(const world &, const biography &, found &);                           // I1, I5
void claims_exclude(const world &, const std::string &name, const biography &, found &); // I1
void tokens_grow(const world &, const biography &, found &);                             // I6
void ticks_run_once(const world &, const biography &, found &);                          // tick
void refusals_have_reasons(const world &, const std::string &name, const biography &, found &);
void only_holders_change(const world &, const std::string &name, const biography &, found &); // I4, I12
void guards_fence(const world &, const std::string &name, const biography &, found &);        // I11

// Rules about the whole history.
void rows_are_kept(const world &, const history::record &, found &);       // I7
void errors_are_expected(const world &, const history::record &, found &); // I2
void clients_do_not_trust_too_long(const world &, const history::record &, found &);
void nothing_is_acknowledged_without_standby(const history::record &, found &);

void effects_are_exact(const world &, const history::record &given, found &); // given: as recorded, not yet split
// The history of runs; given: as recorded.
void endings_are_recorded(const world &, const history::record &given, found &);
void losses_have_reasons(const world &, const history::record &, found &);

// Splits each run into an acquire, a guard and a release, which the other rules handle.
history::record with_runs_taken_apart(const history::record &);

// Splits each completion into a guard and a release, which the extension writes at the commit.
history::record with_completions_taken_apart(const history::record &);

// What may differ on the portable edition.
bool may_be_out_of_date(const world &, const history::operation &);
bool may_still_be_extended(const world &, const acquisition &, const history::operation &refused);
bool is_expected_of_portable(const world &, const history::operation &);
bool is_let_pass_by_portable(const world &, const history::operation &acquire, const history::operation &commit);

// Whether it is a refused acquire of a single name by one of our functions. It has written nothing, unless the library
// made it and a reply was lost.
bool is_plain_refusal(const history::operation &);

// Whether the row may have been deleted between the two, and with it the history of ticks.
bool was_deleted_between(const biography &, const history::operation &first, const history::operation &second);

// Whether the row may have been deleted, or the lock released by force, between the two.
bool was_revoked_between(const biography &, const history::operation &first, const history::operation &second);

// Whether Y may have been granted after X, given everything that is known about the lease of X.
bool may_follow(const world &, const biography &, const acquisition &x, const acquisition &y);

} // namespace checker
