// Counters per name, in shared memory. They are not part of any transaction: an acquire that was rolled back still
// counts as an attempt. Counting writes no WAL, and costs a hash and a shared lightweight lock.
#pragma once

#include "name.hpp"

namespace shedlock::stats {

enum class counter { attempts, acquired, refused, released, failed, extended, expired, lost };
inline constexpr int counter_count = 8;

// The size of its part of the shared memory, and the steps to set that up.
Size size();
void initialize(void *memory, int tranche);
void use(void *memory);
void keep_over_restarts(uint32 layout_version); // clean restarts only, in a file

// Without shared memory nothing is counted, and nothing fails.
void record(const lock_name &name, counter what);
void record_attempt(const lock_name &name, bool granted, duration waited);
void record_wait(const lock_name &name,
                 duration waited); // in shedlock_wait_any; the attempt is counted by another call
void record_release(const lock_name &name, duration held, bool done);

// Whether there is shared memory.
bool are_available();

// The rows of the view shedlock_stats for this database. 55000 with a hint if there is no shared memory.
void put_rows(FunctionCallInfo fcinfo);

// Resets the counters of this database. 55000.
void reset();

} // namespace shedlock::stats
