// Why an acquire was refused, according to shedlock_locks.
#pragma once

#include "reply.hpp"

namespace shedlock::internal {

// A query for the rows of the names $1, to which a WHERE may be added, and its columns. not_due says why the tick, an
// SQL expression, is not due any more; NULL if it is due, or empty.
std::string locks_query(const names &, const std::string &tick = {}, bool retry = false);
namespace seen {
enum column { name, state, holder, token, last_tick, last_done_tick, ends, held_for, not_due };
}

refusal refusal_of(const std::vector<fields> &rows, const names &);

// Whether the tick is not due any more, for one of the names.
bool is_not_due(const std::vector<fields> &rows);

// The row that an acquisition with this mark has written, or null.
const fields *row_with_mark(const std::vector<fields> &rows, std::string_view mark);

} // namespace shedlock::internal
