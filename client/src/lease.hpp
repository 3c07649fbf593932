// What we believe of an acquisition: until when it is ours for certain.
#pragma once

#include "protocol.hpp"
#include "timer.hpp"

#include <atomic>
#include <exception>
#include <memory>

namespace shedlock::internal {

class lease {
public:
    lease(timer &, shedlock::names, grant const &, clock::duration at_most);
    lease(lease const &) = delete;
    lease &operator=(lease const &) = delete;

    shedlock::names const names;
    shedlock::token const token;
    std::optional<instant> const tick;
    int const exceptions = std::uncaught_exceptions(); // when it was acquired
    clock::time_point const acquired = clock::now();

    [[nodiscard]] clock::time_point deadline() const noexcept { return clock::time_point{clock::duration{deadline_}}; }
    [[nodiscard]] std::stop_token stop_token() const noexcept { return stop_.get_token(); }

    // Calls before when nothing is left but to send the request, and gives the time at which it was sent.
    using request = std::function<clock::time_point(std::function<void()> const &before)>;
    // One request at a time, so that the server has them in our order. But one that was given up on may reach it after
    // later ones. The turn is taken in before, which throws busy if it is taken: nobody has it while waiting for the
    // connection.
    void extend(clock::duration at_most, request const &ask);

    // The steps of it. Only for who has the turn.
    turn extending;
    void begin_extend(clock::duration at_most); // before the request is sent
    void end_extend(clock::duration at_most, clock::time_point sent);
    void doubt_extend(clock::duration at_most) noexcept; // it may happen still
    // The server has said, by this SQLSTATE, that it is not ours any more. A loss requests a stop. It is none (false)
    // if it was released as done, or may have been.
    bool lose(std::string_view sqlstate) noexcept;

    // For keep-alive: what to extend by, how much of that is certain then, and when: a third of it has passed.
    struct plan {
        clock::duration at_most;
        clock::duration certain;
        clock::time_point due;
    };
    [[nodiscard]] plan next() const;

    // Released or given away: no stop is requested any more.
    void end() noexcept;
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
    // Ended, or known to be lost.
    [[nodiscard]] bool is_over() const noexcept { return is_over_; }
    std::atomic<bool> is_told_lost = false; // by keep-alive, at the deadline: the server may have more to say

    // A transaction of the application's may release it as done, and we may see that before the application tells us.
    void begin_completion() noexcept { is_completing_ = true; }
    [[nodiscard]] bool is_completing() const noexcept { return is_completing_; }
    // Released as done, but not by a release of ours: the server said so.
    [[nodiscard]] bool was_done() const noexcept { return was_done_; }

private:
    void trust(clock::time_point);
    void forget_extend(clock::time_point before); // nothing has happened
    [[nodiscard]] clock::duration certain() const { return std::min(at_most_, shortest_in_doubt_); }

    std::stop_source stop_; // the work should stop
    std::atomic<clock::rep> deadline_;
    std::atomic<bool> is_over_ = false;
    std::atomic<bool> has_ended_ = false;
    std::atomic<bool> is_completing_ = false;
    std::atomic<bool> was_done_ = false;

    mutable std::mutex mutex_; // for what follows
    clock::duration at_most_;
    // at_most of requests that were given up on: at any time the lease may be cut to it.
    clock::duration shortest_in_doubt_;
    clock::time_point extended_; // when the latest request was sent that is known to have succeeded
    std::optional<timer::alarm> alarm_;
};

// Not moved from, released or given away.
inline bool is_live(std::shared_ptr<lease> const &one)
{
    return one && !one->has_ended();
}

// That began then, and is over now.
inline activity activity_of(activity::kind what, lease const &one, clock::time_point began,
                            std::optional<outcome> how = std::nullopt)
{
    auto const now = clock::now();
    return {what, one.names, one.token, one.tick, how, now - began, now - one.acquired};
}

} // namespace shedlock::internal
