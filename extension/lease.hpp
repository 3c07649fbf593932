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

// The times of a row. Beside a locked_at that a Java client wrote, lock_at_least_until is absent or stale.
struct lease {
    instant lock_until;
    instant locked_at;
    std::optional<instant>
        lock_at_least_until; // a time: not released; absent: released, done; never: released, not done
};

struct row {
    lease times;
    std::string_view locked_by;
};

// What the end of locked_by tells of an acquisition.
struct origin {
    bool is_ours; // otherwise a Java client's, which does not tell whether its work was done
    std::optional<instant> tick;
};

// The schedule's instant that an acquire is for, if any. With retry it is still due when its last run was not done.
struct turn {
    std::optional<instant> tick;
    bool retry;
};

// Who claims to own an acquisition: the end that locked_by must have, and if given the locked_at.
struct claim {
    std::string_view suffix;
    std::optional<instant> token;
};

enum class availability {
    free,
    held,       // somebody holds it, or it is kept for its at_least
    had_a_turn, // held or free: this tick is not due any more, so waiting is no use
};

enum class standing {
    ours,     // and live
    released, // ours, but released before
    expired,  // ours, but lock_until has been reached
    foreign,  // somebody else's, or a different acquisition; or paused, which is nobody's to release
};

// Held means lock_until > now; equal is free. A tick had its turn when an acquisition happened at or after it; with
// retry, unless that was one of ours, for this tick or an earlier one, and was not released as done. `from` matters
// only then.
availability availability_of(const lease &current, instant now, const turn &asked = {}, const origin &from = {});

// The lease of a run whose session is gone: unless it was released, what is left of it is its at_least.
lease ended(const lease &current);

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

// Whether an acquisition of ours was released.
bool is_released(const lease &current);

// What a release writes over a lease that is ours and not released: free now, or when its at_least has passed.
lease released(const lease &current, instant now, bool done, duration unit);

// What pause and force_release, which are no runs, keep of the last run: the lock_at_least_until that tells how it
// ended, Java's as done, and its tick. So they neither make a tick due again that was done, nor let one that failed
// count as done.
struct last_run {
    std::optional<instant> outcome;
    std::optional<instant> tick;
};
last_run last_run_of(const lease &current, const origin &from);

// What force_release writes, whoever holds the lock: free now, and a new token, so that the old holder's is lost.
lease freed(const lease &current, const origin &from, instant now, duration unit);

// What resume writes over a paused lease: free now.
bool is_paused(const lease &current);
lease resumed(const lease &current, instant now, duration unit);

} // namespace shedlock
