// Keep-alive: one thread with one connection for all leases of a client.
#pragma once

#include "lease.hpp"
#include "reporter.hpp"

#include <thread>

namespace shedlock::internal {

class keeper {
public:
    // shared: used while the server grants no connection of our own.
    keeper(session::source, session &shared, reporter const &);
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
        clock::time_point not_before = clock::time_point::min(); // for the next try, because the last one has failed
        clock::time_point due{};                                 // as of the last look

        [[nodiscard]] bool is_last() const { return is_stuck || is_suspect; }
    };
    struct extending {
        std::shared_ptr<kept> one;
        std::unique_lock<timed_mutex> mine; // on what.extending
        clock::duration at_most;
    };

    void work(std::stop_token const &);
    std::vector<extending> wait_for_due(std::stop_token const &);
    std::shared_ptr<kept> take_lost();
    [[nodiscard]] bool is_any_overdue() const;
    void report_lost(lease const &) const;
    std::vector<extending> due_now(clock::time_point &next);
    void connect(std::stop_token const &);
    session &choose(clock::time_point until, std::stop_token const &);
    void extend(std::vector<extending> const &, std::stop_token const &);
    void settle(extending const &, clock::time_point sent, extended const &);
    void failed(std::vector<extending> const &, std::exception const &why);
    static void pause(kept &);
    void pause_all();
    void report_stuck(kept &, std::string_view why);
    void begin_outage(std::exception const &why);
    void end_outage();
    template <std::invocable<std::string const &> Words> void report_all(event::kind, Words const &);
    [[nodiscard]] clock::duration patience_for(lease const &) const;
    clock::duration lock_wait();

    std::chrono::milliseconds const patience_;
    reporter const &report_;
    session &shared_;
    session own_;
    clock::time_point own_again_ = clock::time_point::min(); // until then own_ is tried only if shared_ is occupied
    bool is_outage_ = false;                                 // nothing can be extended, and that was reported
    bool is_recovering_ = false;                             // but a lease was extended since

    std::mutex mutex_; // for what follows
    std::condition_variable_any changed_;
    std::vector<std::shared_ptr<kept>> kept_;
    bool is_to_look_ = false;
    bool is_to_connect_ = false;
    std::jthread thread_; // the last member: it uses the others
};

} // namespace shedlock::internal
