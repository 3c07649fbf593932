// What all sessions of the server share: the counters and the queues. Up to PostgreSQL 16 the memory must be requested
// when the server starts (shared_preload_libraries); from 17 on it is a named segment that the first session to use it
// creates. Without shared memory everything else works, but nothing is counted, and waiters must poll.
#pragma once

#include "pg.hpp"

namespace shedlock::shared_memory {

// Increase it whenever the meaning of the contents changes, even if their size does not. The package may be updated
// while the server runs: sessions with the old module keep using the memory that it created, and those with the new one
// must not use it.
inline constexpr uint32 layout_version = 3;

// Called by _PG_init.
void prepare();

// Called first by every SQL function. A commit may have to count and wake, but at that point it is too late for the
// subtransaction that this needs. Never fails: if there is no memory, it writes that to the server's log.
void attach();

} // namespace shedlock::shared_memory
