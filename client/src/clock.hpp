// Waiting by the clock that leases are trusted by.
#pragma once

#include "shedlock/shedlock.hpp"

#include <condition_variable>
#include <mutex>

namespace shedlock::internal {

// The end of time, if that is sooner.
clock::time_point later(clock::time_point, clock::duration) noexcept;

// How long to wait on something of the system's before looking at our clock again. Its clocks stand still while the
// machine is suspended, ours does not; so nobody waits for long at a time.
clock::duration nap(clock::time_point until);

// True when the time has come, false when a stop was requested before.
bool sleep_until(clock::time_point, std::stop_token const &);

// For std::unique_lock: a mutex that is waited for until a time. (std::timed_mutex is confused by ThreadSanitizer.)
class turn {
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
