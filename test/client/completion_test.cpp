// A lock that was released as done by a transaction's commit: it is not ours any more, but it is not lost either.
#include "fixture.hpp"
#include "proxy.hpp"

#include <functional>
#include <future>

namespace {

// Extended every twenty minutes.
const shedlock::options kept{.at_most = 1h, .keep_alive = true};

} // namespace

class completion_test : public with_server {
protected:
    // By SQL, as the holder of the token may do it.
    void complete(const shedlock::lock &mine) const
    {
        for (const auto &one : mine.names().list())
            server::ask("SELECT shedlock_complete_token(" + server::literal(one) + ", " +
                        std::to_string(number(mine.token())) + ")");
    }

    // Keep-alive learns that the lock is not ours any more, and drops it. No stop is requested and no event
    // is reported, neither then nor at the deadline nor after it.
    void expect_dropped_in_silence(const shedlock::lock &mine)
    {
        const frozen_clock clock;
        advance_clock(21min);
        EXPECT_TRUE(server::comes_true([&] { return !mine.held(); })) << "keep-alive has learned of it";
        let_pass(1h);
        EXPECT_FALSE(mine.stop_token().stop_requested()) << "the work may go on";
        EXPECT_FALSE(mine.held());
        EXPECT_EQ(heard.texts(), "");
    }
};

// Completed by another program that has the token

TEST_F(completion_test, keep_alive_drops_a_completed_lock_in_silence)
{
    auto mine = locks.try_acquire(name, kept);
    complete(*mine);
    expect_dropped_in_silence(*mine);
    EXPECT_EQ(server::state(name), "free");
    locks.try_acquire(name, {.at_most = 1min})->release(); // so that the server no longer knows of the completion
    EXPECT_NO_THROW(mine->release());
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(completion_test, keep_alive_drops_it_in_silence_although_it_was_acquired_again)
{
    auto mine = locks.try_acquire(name, kept);
    complete(*mine);
    const auto next = locks.try_acquire(name, {.at_most = 1min});
    expect_dropped_in_silence(*mine);
    mine.reset();
    EXPECT_EQ(heard.texts(), "");
    EXPECT_EQ(server::token(name), number(next->token())) << "and leaves the next holder alone";
}

TEST_F(completion_test, keep_alive_distinguishes_completed_lost_and_held_locks)
{
    const auto held = locks.try_acquire(name + " held", kept);
    const auto completed = locks.try_acquire({name + " a", name + " b"}, kept);
    const auto lost = locks.try_acquire(name + " lost", kept);
    const auto failed = locks.try_acquire(name + " failed", kept);
    const auto also_completed = locks.try_acquire(name + " also", kept);
    complete(*completed);
    locks.force_release(name + " lost");
    locks.release(name + " failed", failed->token(), shedlock::outcome::failed);
    complete(*also_completed);
    let_pass(21min);
    for (const auto *const one : {&*lost, &*failed})
        EXPECT_TRUE(server::comes_true([&] { return one->stop_token().stop_requested(); }));
    for (const auto *const one : {&*completed, &*also_completed}) {
        EXPECT_TRUE(server::comes_true([&] { return !one->held(); }));
        EXPECT_FALSE(one->stop_token().stop_requested()) << one->names().to_text();
    }
    for (int i = 0; i < 3; ++i)
        let_pass(21min);
    EXPECT_TRUE(held->held());
    EXPECT_EQ(heard.all().size(), 2u) << heard.texts();
    for (const auto &one : heard.all()) {
        EXPECT_EQ(one.what, event::kind::lost) << one.text;
        EXPECT_NE(one.text.find(one.lock.list().front()), std::string::npos) << one.text;
        EXPECT_TRUE(one.lock.list() == lost->names().list() || one.lock.list() == failed->names().list()) << one.text;
    }
}

TEST_F(completion_test, a_completed_lock_may_be_released_in_any_way)
{
    const auto completed = [&] {
        auto mine = locks.try_acquire(name, {.at_most = 1min});
        complete(*mine);
        return mine;
    };
    for (const auto how : {shedlock::outcome::done, shedlock::outcome::failed}) {
        EXPECT_NO_THROW(completed()->release(how));
        EXPECT_EQ(server::last_outcome(name), "done");
        EXPECT_NO_THROW(locks.release(name, completed()->detach(), how));
        EXPECT_EQ(server::last_outcome(name), "done");
    }
    completed().reset();
    try {
        const auto mine = completed();
        throw std::out_of_range{"work"};
    } catch (const std::out_of_range &) {
    }
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(completion_test, a_completed_lock_cannot_be_extended)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    complete(*mine);
    const auto state = [](const std::function<void()> &extend) -> std::string {
        try {
            extend();
            return "";
        } catch (const shedlock::lock_lost &failure) {
            return failure.sqlstate();
        }
    };
    EXPECT_EQ(state([&] { locks.extend(name, mine->token(), 1min); }), "SL002");
    EXPECT_TRUE(mine->held()) << "the call did not go through the lock object";
    EXPECT_EQ(state([&] { mine->extend(1min); }), "SL002");
    EXPECT_FALSE(mine->held());
    EXPECT_FALSE(mine->stop_token().stop_requested());
    auto lost = locks.try_acquire(name, {.at_most = 1min});
    EXPECT_EQ(state([&] { mine->extend(1min); }), "SL002") << "although it was acquired again";
    mine.reset();
    EXPECT_EQ(heard.texts(), "");
    locks.force_release(name);
    EXPECT_EQ(state([&] { lost->extend(1min); }), "SL001");
    EXPECT_TRUE(server::comes_true([&] { return lost->stop_token().stop_requested(); }));
}

// SQL may complete one name after the other. The server then refuses a request for all of them, so the client asks for
// each one.
TEST_F(completion_test, of_several_names_only_those_not_completed_are_kept_and_released)
{
    const auto a = name + " a", b = name + " b", c = name + " c";
    auto mine = locks.try_acquire({a, b, c}, kept);
    const auto complete_one = [&](const std::string &one) {
        server::ask("SELECT shedlock_complete_token('" + one + "', " + std::to_string(number(mine->token())) + ")");
    };
    complete_one(b);
    for (int i = 0; i < 3; ++i)
        let_pass(21min);
    EXPECT_TRUE(mine->held());
    EXPECT_EQ(server::state(a) + server::state(b) + server::state(c), "heldfreeheld");
    EXPECT_NO_THROW(mine->extend(10h));
    EXPECT_GT(server::remaining(a), 9h);
    EXPECT_GT(server::remaining(c), 9h);
    complete_one(a);
    mine->release(shedlock::outcome::failed);
    EXPECT_EQ(server::state(a) + server::state(b) + server::state(c), "freefreefree");
    EXPECT_EQ(server::last_outcome(a) + server::last_outcome(b) + server::last_outcome(c), "donedonefailed");

    mine = locks.try_acquire({a, b, c}, kept);
    complete_one(a);
    locks.force_release(b);
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
    EXPECT_FALSE(mine->held());
    EXPECT_TRUE(server::comes_true([&] { return heard.include(event::kind::lost); })) << heard.texts();
    EXPECT_EQ(heard.all().size(), 1u) << heard.texts();
}

TEST_F(completion_test, of_several_names_one_that_is_lost_is_reported)
{
    const auto a = name + " a", b = name + " b", c = name + " c";
    auto mine = locks.try_acquire({a, b, c}, {.at_most = 1min});
    server::ask("SELECT shedlock_complete_token('" + a + "', " + std::to_string(number(mine->token())) + ")");
    locks.force_release(b);
    try {
        locks.extend({a, b, c}, mine->token(), 1min);
        FAIL() << "lost";
    } catch (const shedlock::lock_lost &lost) {
        EXPECT_EQ(lost.sqlstate(), "SL001") << lost.what();
    }
    EXPECT_THROW(mine->release(), shedlock::lock_lost);
    EXPECT_EQ(server::last_outcome(a), "done");
}

TEST_F(completion_test, run_is_true_when_its_work_has_completed_the_lock)
{
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [&](shedlock::lock &lock) { complete(lock); }));
    EXPECT_TRUE(locks.run(name, kept, [&](shedlock::lock &lock) {
        complete(lock);
        advance_clock(21min);
        EXPECT_TRUE(server::comes_true([&] { return !lock.held(); })) << "keep-alive has learned of it";
    }));
    EXPECT_TRUE(locks.run(name, {.at_most = 1h}, [&](shedlock::lock &lock) {
        complete(lock);
        advance_clock(1h);
        EXPECT_FALSE(lock.held());
    })) << "the client does not know of it, and the lease has ended by the client's clock";
    EXPECT_THROW((void) locks.run(name, {.at_most = 1min},
                                  [&](shedlock::lock &lock) {
                                      complete(lock);
                                      throw std::out_of_range{"work"};
                                  }),
                 std::out_of_range);
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_EQ(heard.texts(), "");
}

// complete_statement

TEST_F(completion_test, completes_by_a_statement_for_any_driver)
{
    const table_of_work table;
    auto mine = locks.try_acquire({name, name + " '2'"}, {.at_most = 1min});
    const auto statement = mine->complete_statement();
    EXPECT_EQ(statement.find('\n'), std::string::npos) << "one line, for logs: " << statement;
    EXPECT_EQ(table.do_with(statement + "; ROLLBACK; BEGIN"), "");
    EXPECT_EQ(server::state(name), "held");
    EXPECT_EQ(table.do_with(statement), "");
    EXPECT_EQ(table.rows(), "1");
    EXPECT_EQ(server::state(name) + server::state(name + " '2'"), "freefree");
    EXPECT_EQ(server::last_outcome(name) + server::last_outcome(name + " '2'"), "donedone");
    EXPECT_EQ(table.do_with(statement), "SL001") << "once";
    EXPECT_EQ(table.rows(), "1");

    auto lost = locks.try_acquire(name, {.at_most = 1min});
    const auto too_late = lost->complete_statement();
    locks.force_release(name);
    EXPECT_EQ(table.do_with(too_late), "SL001");
    EXPECT_EQ(table.rows(), "1");
}

TEST_F(completion_test, is_inert_after_completed)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    server::ask("BEGIN; " + mine->complete_statement() + "; COMMIT");
    const auto stop = mine->stop_token();
    mine->completed();
    EXPECT_FALSE(mine->held());
    EXPECT_FALSE(stop.stop_requested());
    EXPECT_THROW((void) mine->token(), shedlock::usage_error);
    EXPECT_THROW((void) mine->complete_statement(), shedlock::usage_error);
    EXPECT_THROW((void) mine->tick(), shedlock::usage_error);
    const auto next = locks.try_acquire(name, {.at_most = 1min});
    EXPECT_NO_THROW(mine->completed());
    EXPECT_NO_THROW(mine->release());
    mine.reset();
    EXPECT_EQ(server::state(name), "held") << "by the next";
    EXPECT_EQ(heard.texts(), "");
    EXPECT_TRUE(locks.run(name + " run", {.at_most = 1h}, [&](shedlock::lock &lock) {
        server::ask("BEGIN; " + lock.complete_statement() + "; COMMIT");
        lock.completed();
    }));
}

TEST_F(completion_test, is_released_as_failed_when_its_transaction_has_not_committed)
{
    const auto rolled_back = [](shedlock::lock &lock) {
        server::ask("BEGIN; " + lock.complete_statement() + "; ROLLBACK");
    };
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    rolled_back(*mine);
    mine.reset();
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_TRUE(locks.run(name + " run", {.at_most = 1min}, rolled_back));
    EXPECT_EQ(server::last_outcome(name + " run"), "failed");
    mine = locks.try_acquire(name, {.at_most = 1min});
    rolled_back(*mine);
    mine->release();
    EXPECT_EQ(server::last_outcome(name), "done") << "the caller says so";
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(completion_test, of_one_of_several_leaves_the_detail_to_the_others)
{
    const server::kept_history history;
    const std::string other = name + " other";
    auto mine = locks.try_acquire({name, other}, {.at_most = 1min});
    server::ask("SELECT shedlock_complete_token(" + server::literal(name) + ", " +
                std::to_string(number(mine->token())) + ')');
    mine->release(shedlock::outcome::failed, "no space");
    EXPECT_EQ(history.of(name), "done");
    EXPECT_EQ(history.of(other), "failed: no space");
}

TEST_F(completion_test, keep_alive_goes_on_when_the_commit_has_failed)
{
    const table_of_work table;
    server::ask("ALTER TABLE work ADD UNIQUE (number) DEFERRABLE INITIALLY DEFERRED");
    auto mine = locks.try_acquire(name, kept);
    EXPECT_EQ(table.do_with(std::string{table.work} + "; " + mine->complete_statement()), "23505");
    for (int i = 0; i < 4; ++i) {
        const auto deadline = mine->deadline();
        let_pass(21min);
        ASSERT_TRUE(server::comes_true([&] { return mine->deadline() > deadline; }));
        ASSERT_EQ(server::state(name), "held");
    }
    EXPECT_EQ(heard.texts(), "");
    EXPECT_EQ(table.do_with(mine->complete_statement()), "") << "the second attempt";
    EXPECT_EQ(table.rows(), "1");
    EXPECT_EQ(server::last_outcome(name), "done");
}

TEST_F(completion_test, what_keep_alive_sees_during_the_commit_is_no_loss)
{
    auto mine = locks.try_acquire(name, kept);
    (void) mine->complete_statement();
    // To the client this looks like a commit for a tick, followed by an acquisition for a later tick.
    locks.force_release(name);
    const auto next = locks.try_acquire(name, {.at_most = 1min});
    expect_dropped_in_silence(*mine);
    mine.reset();
    EXPECT_EQ(heard.texts(), "");
    EXPECT_EQ(server::token(name), number(next->token()));

    auto not_kept = locks.try_acquire(name + " not kept", {.at_most = 1min});
    (void) not_kept->complete_statement();
    locks.force_release(name + " not kept");
    not_kept.reset();
    EXPECT_EQ(heard.texts(), "") << "what the destructor sees is no loss, either";
}

TEST_F(completion_test, after_the_deadline_the_destructor_reports_that_it_could_not_release)
{
    proxy network;
    auto through = client(network.connection());
    auto mine = through.try_acquire(name, kept);
    auto other = through.try_acquire(name + " other", kept);
    (void) mine->complete_statement();
    network.cut();
    network.refuse_newcomers();
    advance_clock(1h);
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::lost) == 1; })) << heard.texts();
    other.reset();
    EXPECT_FALSE(heard.include(event::kind::not_released)) << "its loss was reported";
    mine.reset();
    EXPECT_TRUE(heard.include(event::kind::not_released)) << "the commit may have failed";
    EXPECT_EQ(heard.count(event::kind::lost), 1) << heard.texts();
}

TEST_F(completion_test, run_asks_the_server_when_it_does_not_know_of_the_commit)
{
    const auto overtaken = [&](const shedlock::options &how, const std::function<void(shedlock::lock &)> &end) {
        std::optional<shedlock::lock> next;
        return locks.run(name, how, [&](shedlock::lock &lock) {
            end(lock);
            next = locks.try_acquire(name, {.at_most = 1min});
            ASSERT_TRUE(next);
            advance_clock(21min);
            EXPECT_TRUE(server::comes_true([&] { return !lock.held(); })) << "keep-alive has dropped it";
        });
    };
    EXPECT_TRUE(
        overtaken(kept, [](shedlock::lock &lock) { server::ask("BEGIN; " + lock.complete_statement() + "; COMMIT"); }));
    EXPECT_THROW((void) overtaken(kept,
                                  [&](shedlock::lock &lock) {
                                      (void) lock.complete_statement();
                                      locks.force_release(name);
                                  }),
                 shedlock::lock_lost);
    EXPECT_EQ(heard.texts(), "");
    EXPECT_TRUE(locks.run(name + " overran", {.at_most = 1h}, [&](shedlock::lock &lock) {
        const auto statement = lock.complete_statement();
        server::end_lease(name + " overran");
        EXPECT_THROW(lock.extend(1min), shedlock::lock_lost);
        server::ask(statement); // there was no other acquisition
    }));
}

TEST_F(completion_test, a_commit_that_takes_long_is_not_reported_by_keep_alive)
{
    auto mine = locks.try_acquire(name, kept);
    pqxx::connection application{server::connection()};
    pqxx::work transaction{application};
    transaction.exec(mine->complete_statement());
    transaction.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE"); // as the commit itself does
    for (int i = 0; i < 3; ++i)
        let_pass(21min);
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }))
        << "at the deadline, as ever: the commit may still fail";
    let_pass(21min); // long enough for a report by keep-alive
    transaction.commit();
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_TRUE(locks.run(name + " run", {.at_most = 1min}, [](shedlock::lock &) {}));
    mine->completed();
    EXPECT_EQ(heard.texts(), "");
}

// tick

TEST_F(completion_test, tells_the_tick)
{
    using std::chrono::sys_time, std::chrono::microseconds;
    const auto stored = [&] {
        return sys_time<microseconds>{
            microseconds{std::stoll(server::ask("SELECT (extract(epoch FROM last_tick) * 1000000)::bigint FROM shedlock"
                                                " WHERE name = '" +
                                                name + "'"))}};
    };
    EXPECT_EQ(locks.try_acquire(name, {.at_most = 1min})->tick(), std::nullopt);
    const auto now = std::chrono::floor<microseconds>(std::chrono::system_clock::now());
    const auto given = locks.try_acquire(name, {.at_most = 1min, .tick = now})->tick();
    EXPECT_EQ(given, now);
    EXPECT_EQ(stored(), now);
    const auto computed = locks.try_acquire(name + " every", {.at_most = 1min, .every = 30 * 24h})->tick();
    ASSERT_TRUE(computed);
    EXPECT_EQ(server::ask("SELECT extract(epoch FROM shedlock_tick('30 d')) * 1000000 = " +
                          std::to_string(computed->time_since_epoch().count())),
              "t");
}

TEST_F(completion_test, tells_the_tick_of_an_acquisition_whose_reply_was_lost)
{
    using namespace std::chrono;
    for (const shedlock::options &how :
         {shedlock::options{.at_most = 1min, .every = 1h}, {.at_most = 1min, .cron = "@yearly"}, {.at_most = 1min}}) {
        const auto lock = name + how.cron;
        proxy network;
        auto through = client(network.connection());
        (void) through.try_acquire(name + " to connect", {.at_most = 1min});
        network.hold_replies();
        auto acquiring = std::async(std::launch::async, [&] { return through.try_acquire(lock, how); });
        EXPECT_TRUE(server::comes_true([&] { return server::state(lock) == "held"; }));
        network.cut();
        const auto mine = acquiring.get();
        ASSERT_TRUE(mine);
        const auto tick = mine->tick();
        ASSERT_EQ(tick.has_value(), how.every || !how.cron.empty());
        if (tick) {
            EXPECT_EQ(server::ask("SELECT extract(epoch FROM last_tick) * 1000000 = " +
                                  std::to_string(tick->time_since_epoch().count()) + " FROM shedlock WHERE name = '" +
                                  lock + "'"),
                      "t");
        }
    }
}
