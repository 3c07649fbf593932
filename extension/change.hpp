// Changing a row that is there: extend and release by its owner, force_release and resume by administrators. All
// of them wait for a transaction in progress that has the row undecided or locked; only acquire never waits.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// True when all were ours and live, and now are extended. Otherwise false, a WARNING that says which was not and why
// (SL001, or SL002 if all that was in the way were releases as done), and no row is touched. With nowait nothing is
// returned, and no row is touched, if another transaction has changed or locked one of the rows and is not over.
std::optional<bool> extend(lock_table &table, const extend_request &request, const claim &who, bool nowait = false);

// The same for release, of work that was done or not. Without `tell` no WARNING.
std::optional<bool> release(lock_table &table, lock_names names, const claim &who, bool done, bool nowait = false,
                            bool tell = true);

// What a release writes over what was seen, which is ours and not released.
contents to_release(const lock_table &table, const sighting &seen, instant now, bool is_done);

// Frees the lock whoever holds it, and gives the row a new token, so that the old holder's is lost and its guarded
// transactions fail. Whether it was held; false without a row.
bool force_release(lock_table &table, const lock_name &name);

// True when the lock was paused and is free now; otherwise false with a WARNING.
bool resume(lock_table &table, const lock_name &name);

} // namespace shedlock
