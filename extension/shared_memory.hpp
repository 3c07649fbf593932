// What all sessions of the server share: the counters and the queues. Up to PostgreSQL 16 the memory has to be asked
// for when the server starts (shared_preload_libraries); from 17 on it is a named segment that the first user makes.
// Without it everything else works, but nothing is counted, and whoever waits has to look by himself.
#pragma once

#include "pg.hpp"

namespace shedlock::shared_memory {

// To be raised whenever what is in there means something else, even if its size stays. The package may be updated while
// the server runs: sessions of the old module go on with the memory that it made, those of the new one must not.
inline constexpr uint32 layout_version = 3;

// From _PG_init.
void prepare();

// From the doors, before anything else: at a commit, which may count and wake, it is too late for the subtransaction
// that this needs. Never fails: that there is no memory to be had is a line in the server's log.
void attach();

} // namespace shedlock::shared_memory
