// Which tables can be shedlock_history: as for the lock table (inspection.hpp), whatever is not known to be harmless is
// not written.
#pragma once

#include "pg.hpp"

#include <array>

namespace shedlock {

// The columns of shedlock_history. There may be others.
struct history_shape {
    static constexpr const char *usual_name = "shedlock_history";

    enum columns { name, token, tick, holder, acquired_at, ended_at, outcome, detail, column_count };

    struct column_type {
        const char *name;
        Oid type;
    };
    static constexpr column_type types[column_count] = {
        {"name", TEXTOID},
        {"token", INT8OID},
        {"tick", TIMESTAMPTZOID},
        {"holder", TEXTOID},
        {"acquired_at", TIMESTAMPTZOID},
        {"ended_at", TIMESTAMPTZOID},
        {"outcome", TEXTOID},
        {"detail", TEXTOID},
    };

    std::array<AttrNumber, column_count> numbers;
    Oid index; // on (name, ended_at), perhaps with further columns
};

extern const char *const foreign_owner; // one of the faults

// Why the open table cannot be the history of a lock table with that owner, or null if it can. Sets the shape.
const char *find_fault(Relation history, Oid owner, history_shape &shape);

} // namespace shedlock
