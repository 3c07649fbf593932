// Acquires whose callers have given up: what the server grants all the same is released.
#pragma once

#include "session.hpp"

#include <condition_variable>
#include <deque>
#include <thread>

namespace shedlock::internal {

// An acquire that got no reply in time. The server may still carry it out.
struct given_up {
    shedlock::names names;
    std::string mark;                 // with which its holder begins
    std::unique_ptr<connection> over; // the connection on which the reply may still arrive; null if it broke
    bool is_direct = false;           // it leads to the server, not to a pooler
};

class aftermath {
public:
    aftermath(session::source, std::chrono::milliseconds patience);
    ~aftermath(); // first goes on with its work, for the patience or five seconds at most

    // Returns at once. A thread cancels the request and reads its reply. If the locks were granted, it releases them as
    // failed, so that the next caller gets them. If it cannot, the lease ends by itself.
    void take(given_up);

private:
    void work(const std::stop_token &);
    void settle(given_up);
    void cancel(int backend, clock::time_point until);

    session own_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<given_up> all_;
    bool is_idle_ = true;
    std::stop_source hurry_; // nothing is worth waiting for any more
    std::jthread thread_;    // the last member: it uses the others
};

} // namespace shedlock::internal
