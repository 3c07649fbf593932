// Acquire, extend and release over connections that break, and servers that do not know yet.
#pragma once

#include "session.hpp"

namespace shedlock::internal {

class waiting;
class outage;

// Nothing has happened, and it can be tried again soon: another transaction has the row, for example.
class busy : public connection_error {
public:
    using connection_error::connection_error;
};
inline constexpr char const *row_is_busy = "another transaction has changed or locked its row, and is not over";

struct grant {
    shedlock::token token;
    clock::time_point sent; // the lease lasts at_most from here on, at least
    bool asked_again;       // extended since, perhaps more than once: one of these may still be on its way
    std::optional<instant> tick;
};

// How long an acquire waits.
struct limits {
    clock::time_point end;
    std::stop_token stop{};
    std::optional<clock::duration> server{}; // for a server that cannot be reached; nothing: until the end
};

// Asks at once, and again until the end or a stop; it is over within the session's patience after that. Nothing:
// refused, and why. Throws in_doubt; connection_error when the server could not be asked.
std::optional<grant> acquire(session &, waiting &, outage &, names const &, options const &, limits const &,
                             refusal *why);

// When the request was sent whose success is certain. Throws lock_lost; busy; in_doubt when it may have happened, or
// the synchronous standby may not have it. Safe to repeat. before: is called when all is ready to send.
clock::time_point extend(session &, names const &, token, std::chrono::microseconds at_most,
                         std::optional<std::chrono::microseconds> at_least, clock::time_point until,
                         std::function<void()> const &before = {});

// The same for many in one transaction. Waits for nobody's row; for a lock of the whole table it waits for lock_wait at
// most, and then all fail.
struct extension {
    shedlock::names const &names;
    shedlock::token token;
    std::chrono::microseconds at_most;
};
struct extended {
    bool is_busy = false;            // another transaction has the row
    std::optional<notice> refused{}; // why not, by SQLSTATE
};
struct extensions {
    clock::time_point sent;
    std::vector<extended> each;
};
extensions extend_all(session &, std::vector<extension> const &, std::chrono::microseconds lock_wait,
                      clock::time_point until, std::stop_token const &);

// Tries again until then when the connection broke, and once more in any case if a reply was lost, unless it is over.
// Tries again until shortly before it is over while the row is busy. Throws lock_lost, connection_error.
struct released {
    bool was_done = false; // released as done before: by whoever completed it, or by a try of ours whose reply was lost
    std::string unclear{}; // the server's words if it is free, but perhaps not by us: an earlier reply was lost
};
released release(session &, names const &, token, outcome, clock::time_point until, clock::time_point over);

// Once, and the server goes on waiting for a busy row when nobody does any more: for what is in doubt anyway.
void release_late(session &, names const &, token, outcome, clock::time_point over);

// 50 to 100 ms, so that many who wait do not ask in step; less if there is not that much time, or after a stop.
void rest(clock::time_point until, std::stop_token const &stop = {});

// The tries of one request, of which one after the other fails. While it is busy, they leave the connection to other
// callers in between. Once it may have happened, because a reply was lost or
// is not to be relied on, an error of a later try (it was cancelled, say) does not tell that nothing has: then in_doubt
// is thrown instead.
class tries {
public:
    // what: "it was done", of which it may not be known whether.
    tries(clock::time_point until, std::string what) : tries{until, until, std::move(what)} {}
    // After the first lost reply, once more until it is over. While it is busy, again until it is over.
    tries(clock::time_point until, clock::time_point over, std::string what)
        : until_{until}, over_{over}, latest_{latest_request(over)}, what_{std::move(what)}
    {
    }

    // In a handler of what a try has thrown: throws what the caller is to be told, unless it is worth another try.
    void failed();
    void rest() const; // before the next one
    [[nodiscard]] bool may_have_happened() const { return may_have_happened_; }

private:
    clock::time_point until_;
    clock::time_point over_;
    clock::time_point latest_; // of a try after busy
    clock::duration pause_{};
    std::string what_;
    bool may_have_happened_ = false;
};

// Repeats until it does not throw connection_error, or the time is over.
template <std::invocable Work> auto persist(clock::time_point until, Work const &work)
{
    for (tries mine{until, "it was done"};; mine.rest())
        try {
            return work();
        } catch (error const &) {
            mine.failed();
        }
}

} // namespace shedlock::internal
