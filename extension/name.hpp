// Names of locks.
#pragma once

#include "pg.hpp"

namespace shedlock {

// A lock's name: bytes, compared as bytes.
struct lock_name {
    text *datum;
    std::string_view bytes;
    uint64 hash; // of the bytes
};

inline lock_name to_lock_name(text *datum)
{
    const auto bytes = pg::view_of(datum);
    return {datum, bytes, pg::hash_of(bytes, 0)};
}

// At least one, except in a history_request. Sorted and distinct, except in a wait_request.
using lock_names = std::span<lock_name>;

// 22023. The argument is what the message calls the name.
void require_not_empty(const lock_name &name, const char *argument);

// For a name that has no row yet: 22023 if it is empty, or an array literal ({a,b}: what drivers send for a list
// without a type); 22001 if it is longer than the table's column, which only the opened table knows.
void require_storable(const lock_name &name, int limit);

} // namespace shedlock
