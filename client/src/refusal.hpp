// Why an acquire was refused, according to shedlock_locks.
#pragma once

#include "reply.hpp"

namespace shedlock::internal {

// What an acquire asks for: its tick, an SQL expression or empty, and on which conditions that is due.
struct tick_asked {
    std::string tick{};
    bool retry = false;
    std::optional<std::chrono::microseconds> start_within{};
};

// A query for the names $1 and their rows, to which a WHERE may be added, and its columns. A name without a row is
// free. not_due says why the tick is not due any more; NULL if it is, or if there is none. late_in: after how many
// microseconds it will be too late. older: for functions that are so old that they cannot tell by name or tick. Then
// the whole view is read.
std::string locks_query(const names &, const tick_asked & = {}, bool older = false);
namespace seen {
enum column { name, state, holder, token, last_tick, last_done_tick, ends, held_for, not_due, late_in };
}

refusal refusal_of(const std::vector<fields> &rows, const names &);

// Whether the tick is not due any more, for one of the names; and whether because it had its run.
bool is_not_due(const std::vector<fields> &rows);
bool had_run(const std::vector<fields> &rows);
// When it will be too late for the tick; nullopt: never.
std::optional<std::chrono::microseconds> late_in(const std::vector<fields> &rows);

// The row that an acquisition with this mark has written, or null.
const fields *row_with_mark(const std::vector<fields> &rows, std::string_view mark);

} // namespace shedlock::internal
