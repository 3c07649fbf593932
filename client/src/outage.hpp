// A server that cannot be reached, while calls wait for it.
#pragma once

#include "clock.hpp"
#include "reporter.hpp"

namespace shedlock::internal {

// Reports its beginning and its end, once for all calls of a client that wait. The end is always reported after the
// beginning.
class outage {
public:
    explicit outage(const reporter &report) : report_{report} {}

    void begin(const names &, const std::exception &why) noexcept; // a call could not ask, and goes on trying
    void end(const names &) noexcept;                              // a call could ask

private:
    void report_end(const names &) noexcept;

    const reporter &report_;
    std::mutex mutex_; // is not held while an event is reported: the handler may use the client
    enum { none, begins, is_over_already, begun, ends } state_ = none;
};

// The pauses of one call: at most 100 ms, then twice that, and so on up to the longest. Each is shortened at random by
// up to half, so that many callers do not ask at the same time.
class backoff {
public:
    explicit backoff(clock::duration longest = std::chrono::seconds{5}) : longest_{longest} {}

    void rest(clock::time_point until, const std::stop_token &);
    void reset() noexcept { next_ = shortest; }
    [[nodiscard]] clock::duration next() const noexcept { return next_; } // at most

private:
    static constexpr clock::duration shortest = std::chrono::milliseconds{100};
    clock::duration longest_;
    clock::duration next_ = shortest;
};

} // namespace shedlock::internal
