// What we know about an acquisition: until when it is certainly ours.
#pragma once

#include "acquisition.hpp"
#include "timer.hpp"

#include <atomic>
#include <exception>
#include <memory>

namespace shedlock::internal {

// The deadline of what is not held any more. Applications compute the time that is left, deadline() - clock::now(),
// which from time_point::min() would overflow.
constexpr clock::time_point long_past{};

class lease {
public:
    lease(timer &, shedlock::names, const grant &, clock::duration at_most);
    lease(const lease &) = delete;
    lease &operator=(const lease &) = delete;

    const shedlock::names names;
    const shedlock::token token;
    const std::optional<instant> tick;
    const int exceptions = std::uncaught_exceptions(); // when it was acquired
    const clock::time_point acquired = clock::now();
    // Only the lock uses these.
    std::string detail;        // of the release by its destructor
    bool is_unsettled = false; // it was released, and the server could not be asked, or did not answer

    [[nodiscard]] clock::time_point deadline() const noexcept { return clock::time_point{clock::duration{deadline_}}; }
    [[nodiscard]] std::stop_token stop_token() const noexcept { return stop_.get_token(); }

    // Calls `before` immediately before it sends the request, and returns the time at which it was sent.
    using request = std::function<clock::time_point(const std::function<void()> &before)>;
    // One request at a time, so that the server gets them in our order. (A request without a reply may still reach the
    // server after later ones.) The mutex `extending` ensures that. extend() locks it in `before`, when it already has
    // the connection, and `before` throws busy if another thread has the mutex. The thread of keep-alive locks it
    // before it has a connection.
    void extend(clock::duration at_most, const request &ask);

    // The steps of extend(), for the thread that has the mutex.
    timed_mutex extending;
    void begin_extend(clock::duration at_most); // before the request is sent
    void confirm_extend(clock::duration at_most, clock::time_point sent);
    void doubt_extend(clock::duration at_most) noexcept; // it may still happen
    // The server has reported, by this SQLSTATE, that the lock is not ours any more. If it was released as done, or may
    // have been, that is no loss; otherwise a stop is requested. Returns true if it is a loss, and the lease was not
    // over before.
    bool lose(std::string_view sqlstate) noexcept;
    // For keep-alive, once the deadline has passed. On the server the lock may still be ours, so the lease is not over.
    // Returns false if it is over for another reason, if this was called before, or if it was extended just now.
    bool note_deadline_passed() noexcept;
    [[nodiscard]] bool was_lost_at_deadline() const noexcept { return was_lost_at_deadline_; }

    // For keep-alive: what to extend by, how much of that is certain, and when a third of that has passed.
    struct plan {
        clock::duration at_most;
        clock::duration certain;
        clock::time_point due;
    };
    [[nodiscard]] plan next() const;

    // It was released or handed over: no stop is requested any more. Returns false if it was over already.
    bool end() noexcept;
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
    // Ended, or known to be lost or released as done.
    [[nodiscard]] bool is_over() const noexcept { return is_over_; }

    // A transaction of the application may release it as done, and we may see that before it calls completed().
    void begin_completion() noexcept { is_completing_ = true; }
    [[nodiscard]] bool is_completing() const noexcept { return is_completing_; }
    // Whether the server has reported that it was released as done, and not by a release of ours.
    [[nodiscard]] bool was_done() const noexcept { return was_done_; }

private:
    void trust(clock::time_point);
    void forget_extend(clock::time_point before); // nothing has happened; before: the deadline before begin_extend()
    [[nodiscard]] clock::duration certain() const { return std::min(at_most_, shortest_in_doubt_); }

    std::stop_source stop_; // the work should stop
    std::atomic<clock::rep> deadline_;
    std::atomic<bool> is_over_ = false;
    std::atomic<bool> has_ended_ = false;
    std::atomic<bool> was_lost_at_deadline_ = false;
    std::atomic<bool> is_completing_ = false;
    std::atomic<bool> was_done_ = false;

    mutable std::mutex mutex_; // for what follows
    clock::duration at_most_;
    // The shortest at_most of requests that got no reply: the lease may be cut to it at any time.
    clock::duration shortest_in_doubt_;
    clock::time_point extended_; // when the latest request was sent that is known to have succeeded
    std::optional<timer::alarm> alarm_;
};

// Whether it was not moved from, released or handed over.
inline bool is_live(const std::shared_ptr<lease> &one)
{
    return one && !one->has_ended();
}

// An activity that began then, and is over now.
inline activity activity_of(activity::kind what, const lease &one, clock::time_point began,
                            std::optional<outcome> how = std::nullopt)
{
    const auto now = clock::now();
    return {what, one.names, one.token, one.tick, how, now - began, now - one.acquired};
}

} // namespace shedlock::internal
