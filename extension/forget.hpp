// For administrators: deletes the row of a job that no longer exists.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// Deletes the row if nothing in it is needed any more (is_past) and no transaction in progress has changed or locked
// it; otherwise changes nothing and returns false. A NOTICE says if a Java client wrote the row last. Never waits.
// 55000 if other tables refer to the lock table by foreign keys, which would not be checked. If there is no row, fails
// like require_storable with 22023 or 22001 if the name cannot be stored.
bool forget(lock_table &table, const lock_name &name);

} // namespace shedlock
