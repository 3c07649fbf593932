// What may differ on the portable edition: it has only what SQL can see, and only SQL's locks.
#include "rules.hpp"

namespace checker {

using namespace model;
using history::action;

// From REPEATABLE READ on it sees what was there when the transaction began.
bool may_be_out_of_date(world const &world, operation const &op)
{
    return world.is_portable() && world.level_of(op) != history::level::committed;
}

// There, too, whoever changes or guards what others have changed since fails; an acquire is refused. SERIALIZABLE
// counts what was read, and fails at any time. Who extends several waits for guards one after the other.
bool is_expected_of_portable(world const &world, operation const &op)
{
    auto const level = world.level_of(op);
    if (op.state == "40P01")
        return op.what != action::acquire && op.names.size() > 1;
    if (op.state == "0A000")
        return op.what == action::acquire && op.wait > 0 && level != history::level::committed;
    bool const changes = op.what == action::extend || op.what == action::release || op.what == action::guard;
    return op.state == "40001" &&
           (level == history::level::serializable || (level == history::level::repeatable && changes));
}

} // namespace checker
