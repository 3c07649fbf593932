// Counters per name, in shared memory. They are not part of any transaction: a rolled-back acquire was an attempt all
// the same. Counting writes no WAL, and costs a hash and a shared lightweight lock.
//
// Up to PostgreSQL 16 the memory has to be asked for when the server starts (shared_preload_libraries); without it
// nothing is counted and everything else works. From 17 on it is a named segment that the first user makes.
#pragma once

#include "request.hpp"

namespace shedlock::stats {

enum class counter { attempts, acquired, refused, released, failed, extended, expired, lost };
inline constexpr int counter_count = 8;

// From _PG_init.
void prepare();

// From the doors, before anything else: at a commit, which may count, too, it is too late. Without memory nothing is
// counted, and nothing fails.
void attach();

void record(const lock_name &name, counter what);
void record_attempt(const lock_name &name, bool granted, duration waited);
void record_release(const lock_name &name, duration held, bool done);

// The rows of the view shedlock_stats, of this database. 55000 with a hint when there is no memory.
void put_rows(FunctionCallInfo fcinfo);

// Forgets what was counted in this database. 55000.
void reset();

} // namespace shedlock::stats
