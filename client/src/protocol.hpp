// Acquire, extend and release over connections that break, and servers that do not know yet.
#pragma once

#include "session.hpp"

namespace shedlock::internal {

struct grant {
    shedlock::token token;
    clock::time_point sent; // the lease lasts at_most from here on, at least
    bool asked_again;       // extended since, perhaps more than once: one of these may still be on its way
};

// Asks at once, and again until then or a stop. Nothing: refused. Throws in_doubt; connection_error when the server
// could not be asked until then.
std::optional<grant> acquire(session &, names const &, options const &, clock::time_point until,
                             std::stop_token const &stop);

// When the request was sent whose success is certain. Throws lock_lost; in_doubt when it may have happened, or the
// synchronous standby may not have it. Safe to repeat.
clock::time_point extend(session &, names const &, token, std::chrono::microseconds at_most,
                         std::optional<std::chrono::microseconds> at_least,
                         std::optional<std::chrono::milliseconds> patience = {});

// Tries again until then when the connection broke, once at least. Throws lock_lost, connection_error. Gives the
// server's words if it is free in any case, but perhaps not by us: an earlier reply was lost.
std::string release(session &, names const &, token, outcome, clock::time_point until);

// 50 to 100 ms, so that many who wait do not ask in step. Less when there is not that much time; false after a stop.
bool rest(clock::time_point until, std::stop_token const &stop = {});

// The tries of one request, of which one after the other fails. Once a reply was lost, an error of a later try (it was
// cancelled, say) does not tell that nothing has happened: then in_doubt is thrown instead.
class tries {
public:
    enum class after_lost_reply { only_in_time, once_more };

    // what: "it was done", of which it may not be known whether.
    tries(clock::time_point until, std::string what, after_lost_reply first = after_lost_reply::only_in_time)
        : until_{until}, what_{std::move(what)}, first_{first}
    {
    }

    // In a handler of what a try has thrown: throws what the caller is to be told, unless it is worth another try.
    void failed();
    [[nodiscard]] bool lost_a_reply() const { return lost_a_reply_; }

private:
    clock::time_point until_;
    std::string what_;
    after_lost_reply first_;
    bool lost_a_reply_ = false;
};

// Repeats until it does not throw connection_error, or the time is over.
template <std::invocable Work> auto persist(clock::time_point until, Work const &work)
{
    for (tries mine{until, "it was done"};; rest(until))
        try {
            return work();
        } catch (error const &) {
            mine.failed();
        }
}

} // namespace shedlock::internal
