// What may differ on the portable edition: it has only what SQL can see, and only SQL's locks.
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;

// From REPEATABLE READ on it sees what was there when the transaction began.
bool may_be_out_of_date(world const &world, operation const &op)
{
    return world.is_portable() && world.level_of(op) != history::level::committed;
}

// An extend that keep-alive has sent before the release may come to the server after it. It has the row locked until it
// knows, and nobody waits for that.
bool may_still_be_extended(world const &world, acquisition const &one, operation const &refused)
{
    return world.is_portable() && one.op->keep_alive &&
           std::any_of(one.changes.begin(), one.changes.end(), [&](auto const &change) {
               auto const since = world.settled_at(*change.op);
               return change.op->what == action::release && since <= refused.called.at &&
                      refused.called.at <= since + one.op->at_most;
           });
}

// There, too, whoever changes or guards what others have changed since fails; an acquire is refused. SERIALIZABLE
// counts what was read, and fails at any time. Guards are waited for until their transactions end, and those may be
// waiting for others.
bool is_expected_of_portable(world const &world, operation const &op)
{
    auto const level = world.level_of(op);
    bool const changes = op.what == action::extend || op.what == action::release || op.what == action::guard;
    if (op.state == "40P01")
        return changes;
    return op.state == "40001" &&
           (level == history::level::serializable || (level == history::level::repeatable && changes));
}

// A guard keeps others away, and does not see what its own transaction acquires.
bool is_let_pass_by_portable(world const &world, operation const &acquire, operation const &commit)
{
    return world.is_portable() && in_one_transaction(acquire, commit);
}

} // namespace checker
