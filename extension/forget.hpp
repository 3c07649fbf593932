// For administrators: deletes the row of a job that no longer exists.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// Deletes the row if nothing in it is needed any more (is_past) and no transaction in progress has changed or locked
// it. Otherwise changes nothing and returns false. Never waits. If a Java client wrote the row last, a NOTICE says so.
// 55000 if other tables refer to the lock table by foreign keys, because these would not be checked. 22023 or 22001 if
// the table could not even store a row of that name.
bool forget(lock_table &table, const lock_name &name);

} // namespace shedlock
