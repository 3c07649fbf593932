// The rules of the lock, as pure functions of plain values: no PostgreSQL, no clock, no memory, nothing that fails.
// Whoever wants to know when a lock is free, whose it is, and what an acquire, an extend or a release writes, reads
// this file and nothing else.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace shedlock {

using duration = std::chrono::microseconds;
using instant = std::chrono::sys_time<duration>; // UTC, on the database server's clock

inline constexpr instant forever = instant::max(); // 'infinity' in the table
inline constexpr instant never = instant::min();   // '-infinity' in the table

inline constexpr duration without_end = duration::max(); // the at_most of a pause

inline constexpr duration shortest_lease = std::chrono::milliseconds{1};
inline constexpr duration tick_tolerance = std::chrono::minutes{1};

// The times of a row. lock_at_least_until is absent once the lock was released, and absent or stale beside a locked_at
// that a Java client wrote; is_ours tells the two apart.
struct lease {
    instant lock_until;
    instant locked_at;
    std::optional<instant> lock_at_least_until;
};

struct row {
    lease times;
    std::string_view locked_by;
};

// Who claims to own an acquisition: the end that locked_by must have, and for token functions also the locked_at.
struct claim {
    std::string_view suffix;
    std::optional<instant> token;
};

enum class availability {
    free,
    held,       // somebody holds it, or it is kept for its at_least
    had_a_turn, // held or free: it was acquired at or after this tick, so waiting is no use
};

enum class standing {
    ours,     // and live
    released, // ours, but released before
    expired,  // ours, but lock_until has been reached
    foreign,  // somebody else's, or a different acquisition; or paused, which is nobody's to release
};

// Held means lock_until > now; equal is free.
availability availability_of(const lease &current, instant now, std::optional<instant> tick);

// The locked_at, hence the token, of a new acquisition: now, raised to the tick and above every locked_at that it
// replaces. `unit` is the resolution of the table's columns; the result is a multiple of it.
// Requires latest_previous < forever.
instant new_token(instant now, std::optional<instant> tick, std::optional<instant> latest_previous, duration unit);

// What an acquire writes; without_end gives a lock_until of forever. No promise is shortened by a coarse column: leases
// are rounded up to the unit.
lease granted(instant now, instant token, duration at_most, duration at_least, duration unit);

standing standing_of(const row &current, const claim &who, instant now);

// What an extend writes over a lease that is ours and live. Without at_least the old one stays.
lease extended(const lease &current, instant now, duration at_most, std::optional<duration> at_least, duration unit);

// What a release writes over a lease that is ours and live: free now, or when its at_least has passed.
lease released(const lease &current, instant now, duration unit);

// What force_release writes, whoever holds the lock: free now, and a new token, so that the old holder's is lost.
lease freed(const lease &current, instant now, duration unit);

// What resume writes over a paused lease: free now.
bool is_paused(const lease &current);
lease resumed(const lease &current, instant now, duration unit);

} // namespace shedlock
