// Keep-alive: one thread with one connection for all leases of a client.
#pragma once

#include "held_lease.hpp"
#include "protocol.hpp"
#include "reporter.hpp"

#include <thread>

namespace shedlock::internal {

class keeper {
public:
    // shared: used while the server grants no connection of our own.
    keeper(session::source, session &shared, const reporter &);
    ~keeper(); // waits for the thread

    // Extends it from now on, whenever a third of its at_most has passed, until it is over. One statement extends many
    // leases, and skips those whose rows another transaction has locked. These are tried again soon, after all others.
    void keep(std::shared_ptr<lease>);

    // A lease is over, or its plan has changed.
    void look_again() noexcept;

private:
    static constexpr std::size_t most_at_once = 100; // in one statement: their rows are locked until it commits

    struct kept {
        std::shared_ptr<lease> what;
        bool is_stuck = false;   // it cannot be extended, while others can, and that was reported
        bool is_suspect = false; // a statement with it failed, and it may be the cause
        bool is_out = false;     // the outage was reported for it
        clock::time_point not_before = clock::time_point::min(); // earliest time of the next try, after one that failed
        clock::time_point due{};                                 // as of the last look

        [[nodiscard]] bool is_last() const { return is_stuck || is_suspect; }
    };
    struct extending {
        std::shared_ptr<kept> one;
        std::unique_lock<timed_mutex> mine; // on what.extending
        clock::duration at_most;
    };

    void work(const std::stop_token &);
    std::vector<extending> wait_for_due(const std::stop_token &);
    std::shared_ptr<kept> take_lost();
    [[nodiscard]] bool is_any_overdue() const;
    void report_lost(const lease &) const;
    std::vector<extending> due_now(clock::time_point &next);
    void connect(const std::stop_token &);
    session &choose(clock::time_point until, const std::stop_token &);
    void extend(const std::vector<extending> &, const std::stop_token &);
    void settle(const extending &, clock::time_point sent, const extended &);
    void failed(const std::vector<extending> &, const std::exception &why);
    static void pause(kept &);
    void pause_all();
    void report_stuck(kept &, std::string_view why);
    void begin_outage(const std::exception &why);
    void end_outage();
    template <std::invocable<const std::string &> Words> void report_all(event::kind, const Words &);
    [[nodiscard]] clock::duration patience_for(const lease &) const;
    clock::duration lock_wait();

    const std::chrono::milliseconds patience_;
    const reporter &report_;
    session &shared_;
    session own_;
    clock::time_point own_again_ = clock::time_point::min(); // until then own_ is tried only if shared_ is occupied
    bool is_outage_ = false;                                 // nothing can be extended, and that was reported
    bool is_recovering_ = false;                             // a lease was extended during the outage

    std::mutex mutex_; // for what follows
    std::condition_variable_any changed_;
    std::vector<std::shared_ptr<kept>> kept_;
    bool is_to_look_ = false;
    bool is_to_connect_ = false;
    std::jthread thread_; // the last member: it uses the others
};

} // namespace shedlock::internal
