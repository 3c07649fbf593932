// What may differ on the portable edition, which sees only what SQL can see, and has only the locks that SQL offers.
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;

// At REPEATABLE READ and above it sees the rows as of the transaction's snapshot, which its first query takes.
bool may_be_out_of_date(const world &world, const operation &op)
{
    return world.is_portable() && world.level_of(op) != history::level::committed;
}

// An extend that keep-alive sent before the release may reach the server after it. It locks the row until it finds that
// it is too late, and an acquire does not wait for that.
bool may_still_be_extended(const world &world, const acquisition &one, const operation &refused)
{
    return world.is_portable() && one.op->keep_alive &&
           std::any_of(one.changes.begin(), one.changes.end(), [&](const auto &change) {
               const auto since = world.settled_at(*change.op);
               return change.op->what == action::release && since <= refused.called.at &&
                      refused.called.at <= since + one.op->at_most;
           });
}

// At REPEATABLE READ and above, a call that changes or guards a row fails if another transaction has changed the row
// since the snapshot, and an acquire is refused. SERIALIZABLE also takes reads into account, and can fail at any time.
// Calls wait for a guard until its transaction ends, which may itself be waiting, so deadlocks are possible.
bool is_expected_of_portable(const world &world, const operation &op)
{
    const auto level = world.level_of(op);
    const bool changes = op.what == action::extend || op.what == action::release || op.what == action::guard;
    if (op.state == "40P01")
        return changes;
    return op.state == "40001" &&
           (level == history::level::serializable || (level == history::level::repeatable && changes));
}

// A guard keeps other transactions out, but does not notice what its own transaction acquires.
bool is_let_pass_by_portable(const world &world, const operation &acquire, const operation &commit)
{
    return world.is_portable() && in_one_transaction(acquire, commit);
}

} // namespace checker
