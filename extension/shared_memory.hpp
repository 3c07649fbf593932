// What all sessions of the server share: the counters and the queues. Up to PostgreSQL 16 the memory must be requested
// when the server starts (shared_preload_libraries); from 17 on it is a named segment that the first user creates.
// Without it everything else works, but nothing is counted, and waiters must look by themselves.
#pragma once

#include "pg.hpp"

namespace shedlock::shared_memory {

// To be increased whenever the contents change their meaning, even if their size stays. The package may be updated
// while the server runs: sessions with the old module keep using the memory that it created, and those with the new
// one must not use it.
inline constexpr uint32 layout_version = 3;

// Called by _PG_init.
void prepare();

// Called first by every SQL function: at commit, which may count and wake, it is too late for the subtransaction that
// this needs. Never fails: if there is no memory, the server's log says so.
void attach();

} // namespace shedlock::shared_memory
