// For administrators: deletes the row of a job that no longer exists.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// Deletes the row if nothing in it is needed any more (is_past) and no transaction in progress has changed or locked
// it. A NOTICE says if a Java client wrote it last. Returns false if nothing has changed. Never waits. 22023 or 22001
// as require_storable if there is no row.
bool forget(lock_table &table, const lock_name &name);

} // namespace shedlock
