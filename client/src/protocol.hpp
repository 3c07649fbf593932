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
std::string release(session &, names const &, token, clock::time_point until);

// 50 to 100 ms, so that many who wait do not ask in step. Less when there is not that much time; false after a stop.
bool rest(clock::time_point until, std::stop_token const &stop = {});

// Repeats until it does not throw connection_error, or the time is over. Once a reply was lost, an error of a later try
// (it was cancelled, say) does not tell that nothing has happened: then in_doubt is thrown instead.
template <std::invocable Work> auto persist(clock::time_point until, Work const &work)
{
    for (bool doubtful = false;;) {
        try {
            return work();
        } catch (reply_lost const &) {
            doubtful = true;
            if (clock::now() >= until)
                throw;
        } catch (connection_error const &) {
            if (clock::now() >= until)
                throw;
        } catch (lock_lost const &) {
            throw;
        } catch (error const &failure) {
            if (!doubtful)
                throw;
            if (clock::now() >= until)
                throw in_doubt{std::string{"it is not known whether it was done. "} + failure.what()};
        }
        rest(until);
    }
}

} // namespace shedlock::internal
