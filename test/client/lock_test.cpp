#include "fixture.hpp"
#include "proxy.hpp"

#include <functional>

using lock_test = with_server;

TEST_F(lock_test, is_released_with_a_detail)
{
    using shedlock::outcome;
    const server::kept_history history;
    locks.try_acquire(name, {.at_most = 1min})->release(outcome::failed, "the disk is full");
    locks.try_acquire(name, {.at_most = 1min})->release();
    locks.release(name, locks.try_acquire(name, {.at_most = 1min})->detach(), outcome::done, "2 of 3 files");
    locks.release(name, locks.try_acquire(name, {.at_most = 1min})->detach(), outcome::failed);
    EXPECT_EQ(history.of(name), "failed: the disk is full\ndone\ndone: 2 of 3 files\nfailed");
    const std::string other = name + " other";
    locks.try_acquire({name, other}, {.at_most = 1min})->release(outcome::failed, "both");
    EXPECT_EQ(history.of(other), "failed: both");
}

TEST_F(lock_test, is_released_whatever_its_detail_is)
{
    using namespace std::string_literals;
    const server::kept_history history;
    const auto kept = [&](const std::string &detail) {
        locks.try_acquire(name, {.at_most = 1min})->release(shedlock::outcome::failed, detail);
        EXPECT_EQ(server::state(name), "free");
        const auto all = "\n" + history.of(name);
        return all.substr(all.rfind("\nfailed") + 7);
    };
    EXPECT_EQ(kept("it's \"\\\" $1 %s"), ": it's \"\\\" $1 %s");
    EXPECT_EQ(kept("@extschema@ me@host"), ": @extschema@ me@host");
    EXPECT_EQ(kept("größer als 5 € 🔒"), ": größer als 5 € 🔒");
    EXPECT_EQ(kept("a\0b \xFF \xC3"s), ": a\\x00b \\xFF \\xC3");
    EXPECT_EQ(kept("\xC0\xAF \xE0\x80\xAF \xED\xA0\x80 \xF5"), ": \\xC0\\xAF \\xE0\\x80\\xAF \\xED\\xA0\\x80 \\xF5");
    EXPECT_EQ(kept(std::string(1 << 20, 'x')), ": " + std::string(1000, 'x'));
    std::string locked;
    for (int i = 0; i < 1000; ++i)
        locked += "🔒";
    EXPECT_EQ(kept(locked + "🔒"), ": " + locked);
}

// Nobody has said that the work is done.
TEST_F(lock_test, is_released_as_failed_at_the_end_of_its_scope)
{
    {
        const auto mine = locks.try_acquire(name, {.at_most = 1min});
        EXPECT_EQ(server::state(name), "held");
    }
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
    ASSERT_EQ(heard.count(event::kind::not_reported), 1);
    EXPECT_EQ(heard.all()[0].lock.list(), std::vector{name});
    EXPECT_EQ(heard.all()[0].text,
              "lock \"" + name + "\" was destroyed without release(): its run was recorded as failed");

    (void) locks.try_acquire(name + " every", {.at_most = 1min, .every = 1h});
    ASSERT_EQ(heard.count(event::kind::not_reported), 2);
    EXPECT_TRUE(heard.all()[1].text.ends_with("failed, so with retry its tick is due again")) << heard.all()[1].text;

    auto mine = locks.try_acquire(name, {.at_most = 1min});
    mine = locks.try_acquire(name + " other", {.at_most = 1min});
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_EQ(heard.count(event::kind::not_reported), 3);
    mine->release();
}

TEST_F(lock_test, is_released_as_failed_when_its_thread_is_cancelled)
{
    std::promise<void> begun;
    std::thread job{[&] {
        (void) locks.run(name, {.at_most = 1min}, [&](shedlock::lock &) {
            begun.set_value();
            for (;;)
                ::pause();
        });
    }};
    begun.get_future().get();
    ::pthread_cancel(job.native_handle());
    job.join();
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_EQ(heard.count(event::kind::not_reported), 1);
}

TEST_F(lock_test, is_cancelled_between_calls_not_during_one)
{
    proxy network;
    std::atomic<bool> is_asking = false, has_answered = false, is_cancelled = true;
    std::thread job{[&] {
        auto slow = client(network.connection());
        auto mine = slow.try_acquire(name, {.at_most = 1h});
        network.hold_replies();
        is_asking = true;
        mine->extend(2h);
        has_answered = true;
        ::pthread_testcancel();
        is_cancelled = false;
    }};
    EXPECT_TRUE(server::comes_true([&] { return is_asking && network.holds_a_reply(); }));
    ::pthread_cancel(job.native_handle());
    network.let_go();
    job.join();
    EXPECT_TRUE(has_answered);
    EXPECT_TRUE(is_cancelled);
    EXPECT_EQ(server::state(name), "free");
}

TEST_F(lock_test, is_not_reported_when_an_exception_ends_its_scope)
{
    struct at_scope_exit {
        const std::function<void()> work;
        ~at_scope_exit() { work(); }
    };
    try {
        const auto mine = locks.try_acquire(name, {.at_most = 1min});
        const at_scope_exit log{[&] { locks.try_acquire(name + " log", {.at_most = 1min}).reset(); }};
        throw std::out_of_range{"work"};
    } catch (const std::out_of_range &) {
        const auto next = locks.try_acquire(name + " next", {.at_most = 1min});
    }
    EXPECT_EQ(server::last_outcome(name), "failed");
    std::string forgotten;
    for (const auto &one : heard.all())
        forgotten += one.text.substr(0, one.text.find(" was")) + '\n';
    EXPECT_EQ(forgotten, "lock \"" + name + " log\"\nlock \"" + name + " next\"\n") << "no exception ended their scope";
}

TEST_F(lock_test, is_not_reported_when_it_was_not_forgotten)
{
    {
        auto mine = locks.try_acquire(name, {.at_most = 1min});
        auto other = std::move(*mine);
        other.release(shedlock::outcome::failed);
        (void) locks.try_acquire(name, {.at_most = 1min})->detach();
    }
    EXPECT_TRUE(locks.force_release(name));
    {
        auto mine = locks.try_acquire(name, {.at_most = 1min});
        const auto statement = mine->complete_statement();
    }
    {
        const auto mine = locks.try_acquire(name, {.at_most = 1min});
        EXPECT_TRUE(locks.force_release(name));
    }
    EXPECT_EQ(heard.count(event::kind::not_reported), 0);
    EXPECT_EQ(heard.count(event::kind::lost), 1);
}

void expect_inert(shedlock::lock &lock)
{
    EXPECT_FALSE(lock.held());
    EXPECT_LT(lock.deadline() - shedlock::clock::now(), 0s);
    EXPECT_FALSE(lock.stop_token().stop_requested());
    EXPECT_NO_THROW(lock.release());
    EXPECT_THROW(lock.extend(1min), shedlock::usage_error);
    EXPECT_THROW(lock.detach(), shedlock::usage_error);
    EXPECT_THROW((void) lock.token(), shedlock::usage_error);
    EXPECT_THROW((void) lock.tick(), shedlock::usage_error);
    EXPECT_THROW((void) lock.guard_statement(), shedlock::usage_error) << "work must not seem guarded";
    EXPECT_THROW((void) lock.complete_statement(), shedlock::usage_error);
    EXPECT_NO_THROW(lock.completed());
}

TEST_F(lock_test, is_inert_when_moved_from)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    const auto other = std::move(*mine);
    EXPECT_TRUE(other.held());
    expect_inert(*mine);
    mine.reset();
    EXPECT_EQ(server::state(name), "held");
}

TEST_F(lock_test, is_inert_when_released_and_when_detached)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    mine->release();
    expect_inert(*mine);
    auto again = locks.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    locks.release(name, again->detach());
    expect_inert(*again);
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(lock_test, detach_waits_for_an_extend_that_keep_alive_has_sent)
{
    std::promise<void> is_extending, may_go_on;
    shedlock::client keeping{server::connection(), {.timeout = 1h, .on_activity = [&](const shedlock::activity &one) {
                                                        if (one.what != shedlock::activity::kind::extended)
                                                            return;
                                                        is_extending.set_value();
                                                        may_go_on.get_future().wait();
                                                    }}};
    auto mine = keeping.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    advance_clock(21min);
    is_extending.get_future().wait();
    auto detached = std::async(std::launch::async, [&] { return mine->detach(); });
    EXPECT_EQ(detached.wait_for(300ms), std::future_status::timeout);
    may_go_on.set_value();
    locks.release(name, detached.get());
}

// ThreadSanitizer and AddressSanitizer see more than this does.
TEST_F(lock_test, may_be_asked_while_it_is_released)
{
    for (int i = 0; i < 20; ++i) {
        auto mine = locks.try_acquire(name, {.at_most = 1min});
        const auto begin = shedlock::clock::now();
        std::atomic<bool> was_held = false;
        const std::jthread asking{[&](const std::stop_token &end) {
            while (!end.stop_requested())
                if (mine->held() && mine->deadline() > begin && mine->stop_token().stop_possible())
                    was_held = true;
        }};
        EXPECT_TRUE(server::comes_true([&] { return was_held.load(); }));
        mine->release();
        EXPECT_FALSE(mine->held());
    }
}

TEST_F(lock_test, release_twice_does_not_free_the_next_holders_lock)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    mine->release();
    const auto next = locks.try_acquire(name, {.at_most = 1min});
    mine->release();
    mine.reset();
    EXPECT_EQ(server::state(name), "held");
    EXPECT_EQ(server::token(name), number(next->token()));
}

TEST_F(lock_test, a_late_release_does_not_free_the_next_holders_lock)
{
    auto late = locks.try_acquire(name, {.at_most = 1h});
    server::end_lease(name);
    const auto next = locks.acquire(name, {.at_most = 1h}, 1h);
    advance_clock(1h);
    EXPECT_FALSE(late->held());
    try {
        late->release();
        FAIL() << "a loss must be reported";
    } catch (const shedlock::lock_lost &lost) {
        EXPECT_NE(std::string{lost.what()}.find("taken over"), std::string::npos) << lost.what();
        EXPECT_EQ(lost.sqlstate(), "SL001");
    }
    EXPECT_EQ(server::token(name), number(next->token()));
    EXPECT_EQ(server::state(name), "held");
}

TEST_F(lock_test, assignment_releases_what_it_had)
{
    auto one = locks.try_acquire(name + " 1", {.at_most = 1min});
    auto two = locks.try_acquire(name + " 2", {.at_most = 1min});
    *one = std::move(*two);
    EXPECT_EQ(server::state(name + " 1"), "free");
    EXPECT_EQ(server::state(name + " 2"), "held");
    EXPECT_EQ(one->names().list().front(), name + " 2");
    auto &self = *one;
    self = std::move(*one);
    EXPECT_TRUE(one->held());
}

TEST_F(lock_test, outlives_its_client)
{
    std::optional<shedlock::lock> mine;
    {
        auto brief = client(server::connection());
        mine = brief.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    }
    EXPECT_TRUE(mine->held());
    mine->extend(2min);
    mine->release();
    EXPECT_EQ(server::state(name), "free");
}

TEST_F(lock_test, destructor_does_not_throw_or_dawdle_when_the_server_is_gone)
{
    proxy network;
    auto through = client(network.connection());
    auto mine = through.try_acquire(name, {.at_most = 1min, .keep_alive = true});
    network.cut();
    network.refuse_newcomers();
    const frozen_clock clock; // so that the wait does not end by time
    EXPECT_NO_THROW(mine.reset());
    EXPECT_NE(heard.texts().find("ends by itself"), std::string::npos) << heard.texts();
}

TEST_F(lock_test, releases_over_a_new_connection_when_the_old_one_broke)
{
    proxy network;
    auto through = client(network.connection());
    auto mine = through.try_acquire(name, {.at_most = 1min});
    network.cut();
    mine.reset();
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(lock_test, is_released_by_a_second_call_when_the_first_has_failed)
{
    auto hasty = client(server::connection(), 500ms);
    const auto comes_through = [](const auto &call) {
        return server::comes_true([&] {
            try {
                return call();
            } catch (const shedlock::connection_error &) { // on a slow machine
                return false;
            }
        });
    };
    std::optional<shedlock::lock> mine;
    ASSERT_TRUE(comes_through([&] {
        server::end_lease(name); // an attempt that got no reply in time may have been granted
        return (mine = hasty.try_acquire(name, {.at_most = 10min})).has_value();
    }));
    {
        pqxx::connection connection{server::connection()};
        pqxx::work row{connection};
        row.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE");
        try {
            mine->release();
            FAIL() << "the row is locked";
        } catch (const shedlock::connection_error &failure) {
            const bool is_seen = std::string{failure.what()}.find("changed or locked its row") != std::string::npos;
            EXPECT_EQ(failure.sqlstate(), is_seen ? "55P03" : "") << failure.what();
        }
    }
    EXPECT_FALSE(mine->held());
    EXPECT_THROW((void) mine->token(), shedlock::usage_error);
    EXPECT_TRUE(comes_through([&] { return mine->release(), true; }));
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_NO_THROW(mine->release()) << "it is inert";
}

TEST_F(lock_test, a_release_whose_reply_is_lost_is_not_reported_as_a_loss)
{
    proxy network;
    auto through = client(network.connection());
    auto mine = through.try_acquire(name, {.at_most = 1min});
    network.hold_replies();
    std::jthread releasing{[&] { EXPECT_NO_THROW(mine->release()); }};
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; }));
    network.cut();
    releasing.join();
    EXPECT_EQ(heard.texts(), "") << "the token was released as done, no matter by which of the two requests";
}

TEST_F(lock_test, a_release_as_done_is_in_doubt_when_another_run_was_done_after_a_lost_reply)
{
    proxy network;
    auto through = client(network.connection());
    auto mine = through.try_acquire(name, {.at_most = 1min});
    network.hold_replies();
    auto releasing = std::async(std::launch::async, [&] { mine->release(); });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; }));
    auto theirs = locks.try_acquire(name, {.at_most = 1min});
    theirs->release(); // after which the server does not know of ours any more
    network.cut();
    EXPECT_THROW(releasing.get(), shedlock::in_doubt);
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(lock_test, extends_from_now_and_learns_of_a_loss)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    const auto before = mine->deadline();
    mine->extend(10h, 5h);
    EXPECT_GT(mine->deadline(), before + 9h);
    EXPECT_GT(server::remaining(name), 9h);
    mine->extend(6h);
    EXPECT_LT(server::remaining(name), 7h);
    EXPECT_LT(mine->deadline(), shedlock::clock::now() + 6h);
    locks.force_release(name);
    EXPECT_THROW(mine->extend(1min), shedlock::lock_lost);
    EXPECT_FALSE(mine->held());
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
}
