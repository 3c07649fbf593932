// Keep-alive: one thread with one connection for all leases of a client.
#pragma once

#include "lease.hpp"
#include "teller.hpp"

#include <thread>

namespace shedlock::internal {

class keeper {
public:
    keeper(session::source, std::chrono::milliseconds patience, teller const &);
    ~keeper(); // waits for the thread

    // Extends it from now on, whenever a third of its at_most has passed, until it is over. In statements for many at
    // once. Those of a statement that failed, or got no answer, are tried again in halves, after all larger groups: so
    // whoever holds them up is alone in the end, and holds nobody else up for long.
    void keep(std::shared_ptr<lease>);

    // A lease is over, or its plan has changed.
    void look_again() noexcept;

private:
    static constexpr std::size_t most_at_once = 100; // one statement, one commit: their rows are locked meanwhile

    struct kept {
        std::shared_ptr<lease> what;
        std::size_t most_together = most_at_once;                // in one statement: halved whenever that fails
        bool is_in_trouble = false;                              // and it was told
        clock::time_point not_before = clock::time_point::min(); // a try has failed
        clock::time_point due{};                                 // when we last looked
    };
    struct extending {
        std::shared_ptr<kept> one;
        std::unique_lock<turn> mine; // its turn to be extended
        clock::duration at_most;
    };

    void work(std::stop_token const &);
    std::vector<extending> wait_for_due(std::stop_token const &);
    std::shared_ptr<kept> take_lost();
    void sort();
    std::vector<extending> due_now(clock::time_point &next);
    void extend(std::vector<extending> const &, std::stop_token const &);
    void settle(extending const &, clock::time_point sent, std::optional<notice> const &refused);
    void regroup(std::size_t together);
    static void pause(kept &);
    void pause_all();
    void failed(kept &, std::exception const &why);
    [[nodiscard]] clock::duration patience_for(lease const &) const;
    clock::duration lock_wait(std::size_t count);

    std::chrono::milliseconds const patience_;
    teller const &tell_;
    session session_;

    std::mutex mutex_; // for what follows
    std::condition_variable_any changed_;
    std::vector<std::shared_ptr<kept>> kept_;
    bool is_to_look_ = false;
    int halves_ = 0;      // of groups: extended one after the other, with no failure between
    std::jthread thread_; // the last member: it uses the others
};

} // namespace shedlock::internal
