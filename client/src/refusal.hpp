// Why an acquire was refused, according to shedlock_locks.
#pragma once

#include "connection.hpp"

namespace shedlock::internal {

// A query for the rows of the names $1, to which a WHERE may be added, and its columns.
std::string locks_query(names const &);
namespace seen {
enum column { name, state, holder, token, last_tick, last_done_tick, ends, held_for };
}

// Whether this tick is not due any more.
bool has_had_run(fields const &row, std::optional<refusal::time> const &tick, bool retry);

refusal refusal_of(std::vector<fields> const &rows, names const &, std::optional<refusal::time> const &tick,
                   bool retry);

// The row that an acquisition with this mark has written, or null.
fields const *row_with_mark(std::vector<fields> const &rows, std::string_view mark);

} // namespace shedlock::internal
