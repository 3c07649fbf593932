// Why an acquire was refused, according to shedlock_locks.
#pragma once

#include "reply.hpp"

namespace shedlock::internal {

// A query for the rows of the names $1, to which a WHERE may be added, and its columns.
std::string locks_query(const names &);
namespace seen {
enum column { name, state, holder, token, last_tick, last_done_tick, ends, held_for };
}

// Whether this tick is not due any more.
bool has_had_run(const fields &row, const std::optional<refusal::time> &tick, bool retry);

refusal refusal_of(const std::vector<fields> &rows, const names &, const std::optional<refusal::time> &tick,
                   bool retry);

// The row that an acquisition with this mark has written, or null.
const fields *row_with_mark(const std::vector<fields> &rows, std::string_view mark);

} // namespace shedlock::internal
