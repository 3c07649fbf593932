// How a session waits that found a lock taken: it stands in the lock's queue, sleeps until it is woken, and looks
// again. A Java client's release, a row edited by hand and a session that crashed wake nobody. So it also looks by
// itself.
#pragma once

#include "queue.hpp"

namespace shedlock {

class stopwatch {
public:
    duration elapsed() const { return pg::steady_now() - start_; }

private:
    duration start_ = pg::steady_now();
};

// What a look that found a lock taken tells of when to look again.
struct outlook {
    size_t place = 0;           // of that lock among those that are waited for
    instant lease_ends = never; // never: nobody knows
    bool will_wake = false;     // its holder is one of ours, whose release wakes us
};

// How long to sleep between two looks. The first in a queue, and whoever stands in none: until the lease ends, but from
// 10 ms on no longer than twice the time before, up to a second if the holder will wake us, else up to 50 ms. The
// others do not look at the lock, but whether the first still does: the second every second, the third every two
// seconds, and so on. All are shortened by up to a half at random, lest many look in step.
class naps {
public:
    void start_anew() { next_ = shortest; }
    duration next(const outlook &);

private:
    static constexpr size_t most_ahead = 30; // who count
    static constexpr duration shortest = std::chrono::milliseconds{10};
    duration next_ = shortest;
};

// For that long, or until woken; not at all if the time is negative, and for an hour at most. Cancels and timeouts end
// it at once.
void sleep(duration);

std::span<queue::key> keys_of(Oid table, lock_names names);

// Sleeps until all locks of one of several waiters may be free. The numbers of the waiters of whom that is so, int4[],
// sorted; none when the time is over or the room was closed. Null: nobody would wake us, so it is no use to wait here.
ArrayType *wait_for_any(Oid function, const wait_request &request);

} // namespace shedlock
