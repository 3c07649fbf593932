// The rules of the lock, as pure functions of plain values: no PostgreSQL, no clock, no allocation, nothing that
// fails. They say when a lock is free, whose it is, and what an acquire, an extend or a release writes. Whether a
// lease has ended with its session is determined elsewhere (row_finder::lease_of, change.cpp).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace shedlock {

using duration = std::chrono::microseconds;
using instant = std::chrono::sys_time<duration>; // UTC, on the database server's clock

inline constexpr instant forever = instant::max(); // 'infinity' in the table
inline constexpr instant never = instant::min();   // '-infinity' in the table

inline constexpr duration shortest_lease = std::chrono::milliseconds{1};
inline constexpr duration tick_tolerance = std::chrono::minutes{1};

// The times of a row. A Java client does not write lock_at_least_until, so in a row that it wrote, this time is absent
// or stale.
struct lease {
    instant lock_until;
    instant locked_at;
    // Of a run that has not been released: a time. Of one that has: absent if it was done, `never` if not. Of a pause
    // or a release by force: absent.
    std::optional<instant> lock_at_least_until;
};

// What a row records of its runs.
struct history {
    std::optional<instant> last_tick;      // of the last run that had a tick, whether it was done or not
    std::optional<instant> last_done_tick; // all ticks up to this one are done
    std::optional<instant> last_done_at;   // when the last run that was done was released
    // What last_done_tick becomes if the current run is done: its tick or, if it has none, the time at which it was
    // acquired. Without a tick it never equals last_tick. Absent if the row has no run of ours.
    std::optional<instant> run_tick{};
};

// How an acquisition was made, which determines its owner. A Java row is any row whose locked_by does not have our
// ending. Pauses and releases by force are not runs, and have no owner.
struct origin {
    enum class kinds { java, token, session, administrator };
    kinds kind = kinds::java;
    std::string_view session; // the session that acquired it: the owner, or the one with which a token's lease ends
    bool ends_with_session = false;

    bool is_java() const { return kind == kinds::java; }
    bool is_run() const { return !is_java() && kind != kinds::administrator; }
};

// What we write into a row, apart from locked_by.
struct contents {
    lease times;
    history past;
};

struct row {
    lease times;
    origin from;
    std::string_view holder; // shown in views and messages
};

// The instant of the schedule that an acquire is for, if any. With retry it is still due if its last run was not done.
// With start_within it is due no longer than that.
struct tick_request {
    std::optional<instant> tick;
    bool retry = false;
    std::optional<duration> start_within{};
};

// By what a caller is recognised as the owner of an acquisition: its session, a token, or, in shedlock_run, both.
struct identity {
    std::string_view session; // empty: the token alone
    std::optional<instant> token;
};

enum class availability {
    free,
    taken,   // a holder has it, or its at_least has not passed
    not_due, // taken or free: this tick had its run, so waiting is useless
    late,    // taken or free: its start_within has passed, so waiting is useless
};

// What has become of the acquisition that a caller says it owns.
enum class acquisition_state {
    live,
    done,    // released as done, and perhaps acquired by others since
    failed,  // released as failed
    expired, // lock_until has been reached
    foreign, // the row has another owner or none, or another acquisition; or the lock is paused
};

// A lock is held while lock_until > now; if they are equal it is free. A tick is due if it is later than the last one
// that is done and later than the last one that was acquired; with retry, also if it is the one that was acquired. That
// it had its run is said before that it is late: a caller who does not know how its commit ended asks again.
availability availability_of(const lease &current, instant now, const tick_request &asked = {},
                             const history &past = {});

// The stored history plus, if a Java client ran last, that run. It counts as done, for every tick up to the time at
// which it acquired the lock.
history history_of(const history &stored, const lease &current, const origin &from);

// What an acquire, an acquisition that is no run, and a release as done write into the history.
history begun(const history &past, std::optional<instant> tick, instant now, duration unit);
history without_run(const history &past);
history done(const history &past, instant now);

// The tick of the row's current run, if it has one.
std::optional<instant> tick_of_run(const history &past);

// Whether any run ever had a tick, so that one that was done must not be forgotten.
bool has_ticks(const history &past);

// What is left of a lease that ends with its session, when the session is gone: its at_least. A lease that was released
// stays as it is.
lease ended(const lease &current);

// The locked_at, hence the token, of a new acquisition: now, raised above every locked_at that it replaces. `unit` is
// the resolution of the table's columns; the result is a multiple of it. Requires latest_previous < forever.
instant new_token(instant now, std::optional<instant> latest_previous, duration unit);

// A token that equals a tick of its row is replaced by the next one: see state_of.
bool is_tick_of(const history &past, instant token);

// What an acquire writes into the times; without at_most, lock_until is `forever`. Leases are rounded up to the unit,
// so that a coarse column never shortens one.
lease granted(instant now, instant token, std::optional<duration> at_most, duration at_least, duration unit);

// Whether the row's latest acquisition is this caller's, its lease over or not. With both a session and a token, both
// must be right.
bool is_owner(const row &current, const identity &who);

// An acquisition that another one has replaced since is known to be done if last_done_tick is its token. (Without a
// tick, run_tick usually is the token.)
acquisition_state state_of(const row &current, const identity &who, instant now, const history &past = {});

// What an extend writes over a live lease. Without at_least the old one stays.
lease extended(const lease &current, instant now, duration at_most, std::optional<duration> at_least, duration unit);

// Whether an acquisition was released. Also true of a pause, which has no at_least.
bool is_released(const lease &current);

// What a release writes over a lease that was not released: free now, or when its at_least has passed.
lease released(const lease &current, instant now, bool done, duration unit);

// What force_release writes, whoever holds the lock: free now, with a new token, so that the old holder has lost it.
lease freed(const lease &current, instant now, duration unit);

bool is_paused(const lease &current);
// What resume writes over a pause: free now.
lease resumed(const lease &current, instant now, duration unit);

// Whether the row may be deleted: the lock is free, and later tokens and ticks will be greater.
bool is_past(const lease &current, const history &past, instant now, duration unit);

} // namespace shedlock
