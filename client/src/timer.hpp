// Requests a lease's stop at its deadline.
#pragma once

#include "clock.hpp"

#include <map>
#include <thread>

namespace shedlock::internal {

class timer {
public:
    timer();
    ~timer();

    using key = std::pair<clock::time_point, std::uint64_t>; // the number distinguishes alarms of the same instant

    // The destructor cancels it. If its time had already come, request_stop() may still be running afterwards, and the
    // destructor of a std::stop_callback waits for its callback.
    class alarm {
    public:
        alarm(timer &, clock::time_point, const std::stop_source &);
        ~alarm();
        alarm(const alarm &) = delete;
        alarm &operator=(const alarm &) = delete;

        bool move_to(clock::time_point) noexcept; // returns false if its time has come already

    private:
        timer &timer_;
        key key_;
    };

private:
    key add(clock::time_point, const std::stop_source &);
    void remove(const key &);
    bool move(key &, clock::time_point) noexcept;
    void watch();
    void add_watcher();
    void ensure_watcher() noexcept;

    std::mutex mutex_; // for what follows
    std::condition_variable changed_;
    std::map<key, std::stop_source> alarms_;
    std::uint64_t last_number_ = 0;
    bool is_ending_ = false;
    int watching_ = 0;                  // threads that are not in a callback of the application
    std::vector<std::thread> watchers_; // at most one more than were ever in callbacks at the same time
};

} // namespace shedlock::internal
