// Finds the lock table, checks its shape, and remembers both until the table changes.
#pragma once

#include "shape.hpp"

namespace shedlock {

// The lock table of the extension that `function` belongs to: remembered, or looked up. Fails if there is none.
Oid find_table(Oid function);

// 42P01 if it has been dropped.
Oid owner_of_extension(Oid extension);

// 42P01, after a DROP EXTENSION while we waited for a lock. The table may still exist.
[[noreturn]] void report_dropped();
void require_not_dropped(Oid function);

// The shape of an open lock table: remembered, or checked again if it is new to this backend or has changed. 55000 as
// inspect.
table_shape shape_of(Relation table);

// 55000: no lock can be acquired on a Citus worker. A lock that was acquired before the server became a worker can
// still be released.
[[noreturn]] void report_worker();

} // namespace shedlock
