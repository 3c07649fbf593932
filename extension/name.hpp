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

// At least one. Sorted and distinct, except in a wait_request.
using lock_names = std::span<lock_name>;

} // namespace shedlock
