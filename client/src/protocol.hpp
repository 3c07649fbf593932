// Extend and release, over connections that break, and while the outcome of a request is not known.
#pragma once

#include "session.hpp"

namespace shedlock::internal {

inline constexpr const char *row_is_busy = "another transaction has changed or locked its row, and is not over";

// Returns the time at which the successful request was sent. Throws lock_lost; busy; reply_lost when the extend may
// have happened; in_doubt when the synchronous standby may not have it. Safe to repeat. `before` is called immediately
// before sending.
clock::time_point extend(session &, const names &, token, std::chrono::microseconds at_most,
                         std::optional<std::chrono::microseconds> at_least, clock::time_point until,
                         const std::function<void()> &before = {});

// The same for many locks in one transaction. It does not wait for locked rows. If the whole table is locked, it waits
// for lock_wait at most, and then fails for all of them.
struct extension {
    const shedlock::names &names;
    shedlock::token token;
    std::chrono::microseconds at_most;
};
struct extended {
    bool is_busy = false;            // another transaction has the row
    std::optional<notice> refused{}; // the server's notice that says why
};
struct extensions {
    clock::time_point sent;
    std::vector<extended> each;
};
extensions extend_all(session &, const std::vector<extension> &, std::chrono::microseconds lock_wait,
                      clock::time_point until, const std::stop_token &);

// If the connection broke, tries again until `until`; if a reply was lost, tries once more in any case, unless `over`
// has passed. While the row is busy it tries again until shortly before `over`. Throws lock_lost; in_doubt if a reply
// was lost and no later one settled it; connection_error.
struct released {
    bool was_done = false; // it was already released as done, by a completion or by a try of ours whose reply was lost
    std::string unclear{}; // the server's message if another caller may have released it, because a reply was lost
};
released release(session &, const names &, token, outcome, clock::time_point until, clock::time_point over,
                 std::string_view detail = {});

// Tries once. If the row is busy, the server goes on waiting for it after we have given up. That is right for a lock
// that is in doubt anyway.
void release_late(session &, const names &, token, outcome, clock::time_point over, const std::stop_token & = {});

// Sleeps for 50 to 100 ms, at random, so that many callers do not ask at the same time. Less if `until` or a stop comes
// earlier.
void rest(clock::time_point until, const std::stop_token &stop = {});

// Repeated attempts at one request. While the row is busy, they leave the connection to other callers in between. Once
// the request may have been carried out, because a reply was lost or cannot be relied on, the error of a later attempt
// (it was cancelled, or the row was busy) does not mean that nothing has happened. Then in_doubt is thrown instead.
class tries {
public:
    // `what` is the rest of a message that begins with "it is not known whether".
    tries(clock::time_point until, std::string what) : tries{until, until, std::move(what)} {}
    // The first lost reply allows another attempt until `over`, and a busy row until latest_request(over).
    tries(clock::time_point until, clock::time_point over, std::string what)
        : until_{until}, over_{over}, latest_{latest_request(over)}, what_{std::move(what)}
    {
    }

    // Called in the handler of an exception that an attempt threw. Returns if another attempt is worth making;
    // otherwise throws what the caller should get.
    void failed();
    void rest() const; // before the next attempt
    [[nodiscard]] bool may_have_happened() const { return may_have_happened_; }

private:
    [[noreturn]] void give_up(const error &) const;

    clock::time_point until_;
    clock::time_point over_;
    clock::time_point latest_; // to try again after busy
    clock::duration pause_{};
    std::string what_;
    bool may_have_happened_ = false;
};

// Repeats the work until it succeeds, or tries::failed() throws. `what`: as in tries.
template <std::invocable Work> auto persist(clock::time_point until, std::string what, const Work &work)
{
    for (tries mine{until, std::move(what)};; mine.rest())
        try {
            return work();
        } catch (const error &) {
            mine.failed();
        }
}

} // namespace shedlock::internal
