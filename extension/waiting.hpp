// How those wait who found a lock taken: they stand in its queue, sleep until they are woken, and look. What wakes them
// may be missed: a Java client's release, a row that was edited or a session that has crashed wakes nobody. So they
// look by themselves, too.
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
    size_t place = 0;           // which of those that are waited for it is
    instant lease_ends = never; // never: nobody knows
    bool will_wake = false;     // its holder is one of ours, whose release wakes us
};

// From look to look the naps grow: from 10 ms up to a second where somebody will wake us, else to 50 ms. They are
// spread, so that many do not look in step. Of those who stand in a queue only the first looks, and sets its alarm at
// the end of the lease. The others look whether it still does: the second once a second, the third every two, and so
// on.
class naps {
public:
    void start_anew() { next_ = shortest; }
    duration next(const outlook &);

private:
    static constexpr size_t most_ahead = 30; // who count
    static constexpr duration shortest = std::chrono::milliseconds{10};
    duration next_ = shortest;
};

// Or until woken. Cancels and timeouts end it at once.
void sleep(duration);

std::span<queue::key> keys_of(Oid table, lock_names names, size_t more = 0);

// Sleeps until all locks of one of several waiters may be free: the numbers of those of whom that is so, int4[],
// sorted; none when the time is over or the room was closed. Null: it is no use to wait here, since nobody would wake
// us.
ArrayType *wait_for_any(Oid function, const wait_request &request);

} // namespace shedlock
