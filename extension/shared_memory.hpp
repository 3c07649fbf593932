// What all sessions of the server share: the counters and the queues. The memory is requested when the server starts
// (shared_preload_libraries). Without that, from PostgreSQL 17 on, it is a named segment that the first session to use
// it creates. Without shared memory everything else works, but nothing is counted, and waiters must poll.
#pragma once

#include "pg.hpp"

namespace shedlock::shared_memory {

// Increase it whenever the meaning of the contents changes, even if their size does not. The package may be updated
// while the server runs: sessions with the old module keep using the memory that it created, and those with the new one
// must not use it.
inline constexpr uint32 layout_version = 3;

// Called by _PG_init.
void prepare();

// Called at the beginning of every SQL function that counts, waits or wakes. (Its commit may have to count and to wake,
// but then it is too late to attach, because that needs a subtransaction.) Never fails: if the named segment cannot
// be created or attached, it writes that to the server's log.
void attach();

} // namespace shedlock::shared_memory
