// Counters per name, in shared memory. They are not part of any transaction: an acquire that was rolled back still
// counts as an attempt. Counting writes no WAL, and costs a hash and a shared lightweight lock.
#pragma once

#include "counter_table.hpp"

namespace shedlock::stats {

// Without shared memory nothing is counted, and nothing fails.
void record(const lock_name &name, counter what);
void record_attempt(const lock_name &name, bool granted, duration waited);
// In shedlock_wait_any, where another call counts the attempt.
void record_wait(const lock_name &name, duration waited);
void record_release(const lock_name &name, duration held, bool done);

// The rows of the view shedlock_stats for this database. 55000 with a hint if there is no shared memory.
void put_rows(FunctionCallInfo fcinfo);

// Resets the counters of this database. 55000.
void reset();

} // namespace shedlock::stats
