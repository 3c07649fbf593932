// Finds the lock table, checks its shape, and remembers both until something about the table changes.
#pragma once

#include "shape.hpp"

namespace shedlock {

// The lock table of the extension that `function` belongs to: remembered, or looked up. Fails if there is none.
Oid find_table(Oid function);

// 42P01: DROP EXTENSION, while we waited for a lock. The table may still be there.
[[noreturn]] void report_dropped();
void require_not_dropped(Oid function);

// The shape of an open lock table: remembered, or checked anew when it is new to this backend or something about it has
// changed. 55000 as inspect.
table_shape shape_of(Relation table);

// 55000: what takes a lock does not do so on a Citus worker. Those that were taken before it became one may still be
// released.
[[noreturn]] void report_worker();

} // namespace shedlock
