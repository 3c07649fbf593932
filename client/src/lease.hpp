// What we believe of an acquisition: until when it is ours for certain, and the thread that keeps it so.
#pragma once

#include "core.hpp"

#include <atomic>
#include <exception>

namespace shedlock::internal {

class lease : public std::enable_shared_from_this<lease> {
public:
    lease(core &, shedlock::names, grant const &, clock::duration at_most);
    lease(lease const &) = delete;
    lease &operator=(lease const &) = delete;

    shedlock::names const names;
    shedlock::token const token;
    int const exceptions = std::uncaught_exceptions(); // when it was acquired

    [[nodiscard]] clock::time_point deadline() const noexcept { return clock::time_point{clock::duration{deadline_}}; }
    [[nodiscard]] std::stop_token stop_token() const noexcept { return stop_.get_token(); }

    // ask sends the request once, and tells when. One at a time, so that the later request is the later one at the
    // server, too, unless it is given up on: then the server may find it still to be done when it has done later ones.
    void extend(clock::duration at_most, std::function<clock::time_point()> const &ask);

    void keep_alive();

    // Nothing is extended any more, and no stop requested. At once, whatever the keeper is doing.
    void end() noexcept;

private:
    void extend_in_turn(clock::duration at_most, std::function<clock::time_point()> const &ask); // holds extending_
    void trust(clock::time_point);
    void lose() noexcept;
    [[nodiscard]] clock::duration certain() const { return std::min(at_most_, shortest_in_doubt_); }
    bool wait_until_due();
    void keep(std::string connection);
    void extend_over(session &);

    core &core_;
    std::stop_source stop_; // the work should stop
    std::atomic<clock::rep> deadline_;

    std::mutex extending_;

    std::mutex mutex_; // for what follows
    std::condition_variable_any due_changed_;
    clock::duration at_most_;
    // at_most of requests that were given up on: at any time the lease may be cut to it.
    clock::duration shortest_in_doubt_;
    clock::time_point extended_; // when the latest request was sent that is known to have succeeded
    std::optional<timer::alarm> alarm_;

    std::stop_source ended_;
    std::future<void> keeper_;
};

} // namespace shedlock::internal
