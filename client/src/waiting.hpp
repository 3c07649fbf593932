// Waits on the server: one thread with one connection for all callers of a client that wait.
#pragma once

#include "outage.hpp"
#include "session.hpp"

#include <map>
#include <set>
#include <thread>

namespace shedlock::internal {

// The thread asks the server which callers may find all their locks free. Each of its statements, a slice, waits for at
// most five seconds. When the server cannot wait for the callers, they pause briefly between requests. So do callers
// whose names do not fit any more into one statement. When one wait after another fails, they pause for longer and
// longer: the server may be busy, and many clients that ask often would keep it busy.
class waiting {
public:
    waiting(session::source, session &shared); // the connection of the callers, with which they end a slice
    ~waiting();                                // joins the thread

    // A call that waits. The callers are kept in the order in which they first waited.
    class caller {
    public:
        caller(waiting &, const names &);
        ~caller();
        caller(const caller &) = delete;
        caller &operator=(const caller &) = delete;

        // Called after a refusal. Returns when the caller should ask again: all of the locks may be free, the time is
        // over, a stop was requested, or the last request was long ago. Until this caller waits again or leaves, but
        // for at most a second, no other is told that these locks are free.
        void wait(clock::time_point until, const std::stop_token & = {});

    private:
        friend class waiting;
        waiting &owner_;
        const names &names_;
        int in_vain_ = 0; // how many short waits in a row ended with "may be free" and then a refusal
        backoff pauses_;

        std::condition_variable changed_; // with the owner's mutex
        // While the caller is in callers_, these change only under that mutex.
        enum { idle, waits, may_ask, must_poll } state_ = idle;
        clock::time_point until_{};
        std::uint64_t number_ = 0;
    };

private:
    struct slice { // names[i] is in the list number which[i], from 1; callers wait for all names of a list
        std::vector<std::vector<std::string>> lists;
        std::vector<std::string> names;
        std::vector<std::string> which;
        clock::duration wait{};
    };
    struct turn { // the caller that was told that a lock may be free; until its end no other is told
        const caller *whose;
        clock::time_point end;
    };
    enum reason { has_failed, cannot_wait }; // why callers poll

    void wait(caller &, const std::stop_token &);
    void leave(caller &) noexcept;
    [[nodiscard]] bool has_room_for(const names &) const;
    void add(caller &);
    void remove(const caller &) noexcept;
    void end_slice_for(caller &, std::unique_lock<std::mutex> &);
    [[nodiscard]] bool may_be_told(const caller &) const;
    [[nodiscard]] bool is_missing_from_slice(const caller &) const;

    void work(const std::stop_token &);
    bool wait_for_callers(const std::stop_token &);
    void run_slice(const std::stop_token &);
    slice begin_slice();
    bool finish_slice(const slice &, clock::duration took, const std::string &free);
    void tell(const slice &, const std::string &free);
    void send_away(reason) noexcept;

    session &shared_;
    session session_;
    const clock::duration grace_; // how much later than the end of its slice an answer may come
    const std::string wait_id_;

    std::mutex mutex_; // for what follows
    std::condition_variable_any changed_;
    std::map<std::uint64_t, caller *> callers_;             // callers that wait
    std::map<std::vector<std::string>, std::size_t> lists_; // lists of names, and how many callers wait for each
    std::size_t names_count_ = 0;                           // in these lists together
    std::uint64_t last_number_ = 0;
    std::map<std::string, turn> turns_;                       // by name
    std::set<std::vector<std::string>> running_;              // the lists that the server waits for in this slice
    clock::time_point began_{};                               // when this slice began
    const caller *ends_it_ = nullptr;                         // the caller that is asking the server to end it
    clock::time_point poll_until_ = clock::time_point::min(); // after a slice that was of no use
    clock::duration polling_time_;                            // after the next slice that fails
    std::jthread thread_;                                     // the last member, because it uses the others
};

} // namespace shedlock::internal
