// Requests stops at their times: of a lease at its deadline, of a request to the server at its time limit. One thread.
#pragma once

#include "shedlock/shedlock.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace shedlock::internal {

class timer {
public:
    timer();
    ~timer();

    using key = std::pair<clock::time_point, std::uint64_t>; // the number tells alarms of one instant apart

    // Taken back when it goes. The stop may then still be in progress: a std::stop_callback waits for that.
    class alarm {
    public:
        alarm(timer &, clock::time_point, std::stop_source const &);
        ~alarm();
        alarm(alarm const &) = delete;
        alarm &operator=(alarm const &) = delete;

        void move_to(clock::time_point) noexcept; // nothing, once it has rung

    private:
        timer &timer_;
        key key_;
    };

private:
    key add(clock::time_point, std::stop_source const &);
    void remove(key const &);
    key move(key const &, clock::time_point) noexcept;
    void keep_time(std::stop_token const &end);

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::map<key, std::stop_source> alarms_;
    std::uint64_t last_number_ = 0;
    std::jthread thread_; // the last member: it uses the others
};

// How long to wait on a condition variable before looking at our clock again. They stand still while the machine is
// suspended, our clock does not; so nobody waits for long at a time.
clock::duration nap(clock::time_point until);

// Sleeps by our clock: true when the time has come, false when a stop was requested before.
bool sleep_until(clock::time_point, std::stop_token const &);

} // namespace shedlock::internal
