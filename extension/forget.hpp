// Deleting the row of a job that is no more, for administrators.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// Deletes the row if nothing of it is needed any more (is_past) and no transaction in progress has it; with a NOTICE if
// a Java client wrote it last. False: nothing has changed. Never waits. Without a row 22023 and 22001, as
// require_storable.
bool forget(lock_table &table, const lock_name &name);

} // namespace shedlock
