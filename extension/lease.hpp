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

// What a row keeps of its runs.
struct history {
    std::optional<instant> last_tick; // the tick of the last run, or without one the time of its acquisition
    std::optional<instant> last_done_tick;
    std::optional<instant> last_done_at; // when the last run that was done was released
};

// Who made an acquisition, and so who owns it. A Java row is whatever we have not written; pauses and releases by
// force are no runs, and nobody owns them.
struct origin {
    enum class kinds { java, token, session, administrator };
    kinds kind = kinds::java;
    std::string_view session; // that acquired it: the owner, or the one with which a token's lease ends
    bool ends_with_session = false;

    bool is_ours() const { return kind != kinds::java; }
    bool is_run() const { return is_ours() && kind != kinds::administrator; }
};

// What we write of a row, apart from locked_by.
struct contents {
    lease times;
    history past;
};

struct row {
    lease times;
    origin from;
    std::string_view holder; // text for people
};

// The schedule's instant that an acquire is for, if any. With retry it is still due when its last run was not done.
struct turn {
    std::optional<instant> tick;
    bool retry;
};

// Who claims to own an acquisition: a session, the owner of its token, or, for a run, a session and the token.
struct claim {
    std::string_view session; // empty: by the token alone
    std::optional<instant> token;
};

enum class availability {
    free,
    held,       // somebody holds it, or it is kept for its at_least
    had_a_turn, // held or free: this tick is not due any more, so waiting is no use
};

enum class standing {
    ours,     // and live
    done,     // ours, but released before as done, perhaps acquired by others since
    released, // ours, but released before as failed
    expired,  // ours, but lock_until has been reached
    foreign,  // somebody else's, or a different acquisition; or paused, which is nobody's to release
};

// Held means lock_until > now; equal is free. A tick is due if it is later than the last one; with retry, also if it is
// the last one and was not done. An earlier tick is not due any more.
availability availability_of(const lease &current, instant now, const turn &asked = {}, const history &past = {});

// What counts of a row's history. A Java run counts as done, and as for the tick at which it acquired the lock.
history history_of(const history &stored, const lease &current, const origin &from);

// What an acquire writes, and a release as done.
history begun(const history &past, std::optional<instant> tick, instant now, duration unit);
history done(const history &past, instant now);

// Whether the acquisition is for a tick. (new_token and begun see to that.)
bool has_tick(const history &past, const lease &current);

// A lease that ends with its session, when that is gone: unless it was released, its at_least is left.
lease ended(const lease &current);

// The locked_at, hence the token, of a new acquisition: now, raised above every locked_at that it replaces, and never
// equal to the tick. `unit` is the resolution of the table's columns; the result is a multiple of it.
// Requires latest_previous < forever.
instant new_token(instant now, std::optional<instant> tick, std::optional<instant> latest_previous, duration unit);

// What an acquire writes; without_end gives a lock_until of forever. No promise is shortened by a coarse column: leases
// are rounded up to the unit.
lease granted(instant now, instant token, duration at_most, duration at_least, duration unit);

// An acquisition that others have replaced since is known to be done as long as last_done_tick is its token, which an
// acquisition without a tick has for a tick.
standing standing_of(const row &current, const claim &who, instant now, const history &past = {});

// What an extend writes over a lease that is ours and live. Without at_least the old one stays.
lease extended(const lease &current, instant now, duration at_most, std::optional<duration> at_least, duration unit);

// Whether an acquisition of ours was released.
bool is_released(const lease &current);

// What a release writes over a lease that is ours and not released: free now, or when its at_least has passed.
lease released(const lease &current, instant now, bool done, duration unit);

// What force_release writes, whoever holds the lock: free now, and a new token, so that the old holder's is lost.
lease freed(const lease &current, instant now, duration unit);

// What resume writes over a paused lease: free now.
bool is_paused(const lease &current);
lease resumed(const lease &current, instant now, duration unit);

// Whether the row may be deleted: the lock is free, and the tokens and ticks that come after it are later.
bool is_past(const lease &current, const history &past, instant now, duration unit);

} // namespace shedlock
