// How a session that found a lock taken waits: it joins the lock's queue, sleeps until it is woken, and looks again.
// The release of a Java client, a row edited by hand and (outside shedlock_run) the end of the holder's session wake
// no waiter, so it also looks by itself.
#pragma once

#include "queue.hpp"
#include "request.hpp"

namespace shedlock {

class stopwatch {
public:
    duration elapsed() const { return pg::steady_now() - start_; }

private:
    duration start_ = pg::steady_now();
};

// What a look that found a lock taken says about when to look again.
struct retry_hint {
    size_t index = 0;                    // of that lock among those that are waited for
    std::optional<instant> lease_ends{}; // if known
    bool will_wake = false;              // the holder uses this extension, so its release wakes us
};

// How long to sleep between two looks. The first in a queue, and a session without a place, sleep until the lease ends,
// but at most twice as long as the time before: from 10 ms up to 1 s if the holder will wake us, and otherwise up to 50
// ms. The others do not look at the lock, but check that the first still does: the second every second, the third every
// two seconds, and so on. All these sleeps are shortened at random by up to half, so that waiters do not look in
// lockstep. In wait_for_any the others check every second after their first sleep, because they check many at once.
class backoff {
public:
    void restart() { next_ = shortest; }
    duration next(const retry_hint &);

private:
    static constexpr size_t most_ahead = 30; // more waiters than this do not lengthen the sleep
    static constexpr duration shortest = std::chrono::milliseconds{10};
    duration next_ = shortest;
};

// Sleeps for that long, or until woken; not at all if the time is negative, and at most for an hour. Cancels and
// timeouts end it at once.
void sleep(duration);

std::span<queue::key> keys_of(Oid table, lock_names names);

// Sleeps until all locks of one of several waiters may be free. Returns the numbers of these waiters, int4[], sorted;
// none when the time is over or shedlock_end_wait was called. Null: no session would wake us, so waiting here is
// useless.
ArrayType *wait_for_any(Oid function, const wait_request &request);

} // namespace shedlock
