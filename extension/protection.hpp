// The trigger of shedlock_protect, which keeps other clients from changing a lock of ours that is not free.
#pragma once

#include "pg.hpp"

namespace shedlock {

// Creates the trigger on the lock table, or drops it, unless that has been done before. `function` is any function of
// the extension. Table, trigger and trigger function are found by their OIDs, because after a wait for the table a name
// could mean something else. Waits for transactions that have written the table; to drop the trigger, also for those
// that have read it. 55000 and 42P01 as every call; 42710 if somebody else's trigger has the name.
void protect(Oid function, bool on);

} // namespace shedlock
