// The rules, one function each. What they find they append.
#pragma once

#include "checker.hpp"
#include "model.hpp"

namespace checker {

using found = std::vector<violation>;

// Of one name.
void holds_exclude(model::world const &, model::biography const &, found &);                           // I1, I5
void claims_exclude(model::world const &, std::string const &name, model::biography const &, found &); // I1
void tokens_grow(model::world const &, model::biography const &, found &);                             // I6
void ticks_run_once(model::world const &, model::biography const &, found &);                          // tick
void refusals_have_reasons(model::world const &, std::string const &name, model::biography const &, found &);
void only_holders_change(model::world const &, std::string const &name, model::biography const &, found &); // I4
void guards_fence(model::world const &, std::string const &name, model::biography const &, found &);        // I11

// Of all.
void rows_are_kept(model::world const &, history::record const &, found &);       // I7
void errors_are_expected(model::world const &, history::record const &, found &); // I2
void clients_do_not_trust_too_long(model::world const &, history::record const &, found &);
void nothing_is_acknowledged_without_standby(history::record const &, found &);

void effects_are_exact(model::world const &, history::record const &with_runs, found &);
void losses_have_reasons(model::world const &, history::record const &, found &);

// A run as an acquire, a guard and a release: what the other rules know.
history::record with_runs_taken_apart(history::record const &);

// What may differ on the portable edition.
bool may_be_out_of_date(model::world const &, history::operation const &);
bool is_expected_of_portable(model::world const &, history::operation const &);
bool is_let_pass_by_portable(model::world const &, history::operation const &acquire, history::operation const &commit);

// Of one name, by one of ours: while it asked it wrote nothing.
bool is_plain_refusal(history::operation const &);

// Somebody else may have taken the lock away by hand between the two.
bool was_revoked_between(model::biography const &, history::operation const &first, history::operation const &second);

// Whether Y may have been granted after X, with all that is known of X's lease.
bool may_follow(model::world const &, model::biography const &, model::acquisition const &x,
                model::acquisition const &y);

} // namespace checker
