// The table of stats.cpp, in shared memory: an entry per name and database. If it is full, the least recently used of a
// few entries makes space for a new one.
#pragma once

#include "name.hpp"

namespace shedlock::stats {

enum class counter { attempts, acquired, refused, released, failed, extended, expired, lost };
inline constexpr int counter_count = 8;

// 255 characters of four bytes. A longer name is possible only in an adopted table, and is not counted.
inline constexpr size_t longest_name = 1020;

struct entry {
    uint64 hash;
    Oid database;
    uint32 length;
    pg_atomic_uint64 last_used; // for evicting the least recently used
    pg_atomic_uint64 counters[counter_count];
    pg_atomic_uint64 waited; // in microseconds, like the next two
    pg_atomic_uint64 longest_hold;
    pg_atomic_uint64 total_hold;
    char name[longest_name];
};

// The size of its part of the shared memory, and the steps to set that up.
Size size();
void initialize(void *memory, int tranche);
void use(void *memory);
void keep_over_restarts(uint32 layout_version); // clean restarts only, in a file

// Whether there is shared memory.
bool are_available();

// The entry of that name in this database, a new one if need be. Null, if there is no shared memory or the name is too
// long; otherwise the table is locked until unlock().
entry *lock_entry(const lock_name &name);

// For the functions below there must be shared memory.

// All entries, of all databases. The table is locked until unlock().
std::span<entry> lock_entries();
void unlock();

void remove_entries_of_database(); // of this one

} // namespace shedlock::stats
