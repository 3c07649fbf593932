// Waiting by the clock that measures leases.
#pragma once

#include "shedlock/shedlock.hpp"

#include <condition_variable>
#include <mutex>

namespace shedlock::internal {

// Saturates at time_point::max().
clock::time_point later(clock::time_point, clock::duration) noexcept;

// How long to wait on a system clock: until the given time, but for at most a second, before looking at our clock
// again. System clocks stop while the machine is suspended, and ours does not.
clock::duration limited_wait(clock::time_point until);

// Returns true when the time has come, and false if a stop was requested before.
bool sleep_until(clock::time_point, const std::stop_token &);

// A mutex for std::unique_lock, for which a thread can wait until a time of our clock. (Besides, ThreadSanitizer does
// not understand std::timed_mutex.)
class timed_mutex {
public:
    bool try_lock() { return try_lock_until(clock::time_point::min()); }
    bool try_lock_until(clock::time_point);
    void unlock() noexcept;

private:
    std::mutex mutex_;
    std::condition_variable given_back_;
    bool is_taken_ = false;
};

} // namespace shedlock::internal
