// What client::run returns or throws agrees with what happened.
#include "fixture.hpp"
#include "proxy.hpp"

#include <thread>

using run_test = with_server;

TEST_F(run_test, releases_and_passes_exceptions_on)
{
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [&](shedlock::lock &lock) {
        EXPECT_TRUE(lock.held());
        EXPECT_FALSE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &) { FAIL(); }));
    }));
    EXPECT_EQ(server::state(name), "free");
    EXPECT_THROW((void) locks.run(name, {.at_most = 1min}, [](shedlock::lock &) { throw std::out_of_range{"work"}; }),
                 std::out_of_range);
    EXPECT_EQ(server::state(name), "free");
}

// Then no destructor of the caller runs.
TEST_F(run_test, releases_although_nobody_catches_the_exception)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // the work is done by another process of this test
    const auto run_with = [&](const auto &failure) { // in a thread, because GoogleTest would catch the exception
        std::thread{[&] {
            shedlock::client mine{"", {.timeout = 1min}};
            (void) mine.run(name, {.at_most = 1h}, [&](shedlock::lock &) { throw failure; });
        }}.join();
    };
    for (const bool is_known : {true, false}) {
        EXPECT_EXIT(is_known ? run_with(std::out_of_range{"work"}) : run_with(1), testing::KilledBySignal(SIGABRT), "");
        EXPECT_EQ(server::state(name), "free");
        EXPECT_EQ(server::last_outcome(name), "failed");
        server::ask("SELECT shedlock_forget(" + server::literal(name) + ")");
    }
}

TEST_F(run_test, releases_as_its_work_says)
{
    using shedlock::outcome;
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &) { return outcome::failed; }));
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &) { return outcome::done; }));
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_EQ(heard.all().size(), 0U);
}

TEST_F(run_test, keeps_why_its_work_failed)
{
    const server::kept_history history;
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &) { return shedlock::outcome::failed; }));
    EXPECT_THROW((void) locks.run(name, {.at_most = 1min},
                                  [](shedlock::lock &) { throw std::runtime_error{"no \xFF file\r\nnor folder"}; }),
                 std::runtime_error);
    EXPECT_THROW((void) locks.run(name, {.at_most = 1min}, [](shedlock::lock &) { throw 1; }), int);
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &) {}));
    EXPECT_EQ(history.of(name), "failed\nfailed: no \\xFF file\nfailed\ndone");
    EXPECT_THROW((void) locks.run(name, {.at_most = 1min},
                                  [](shedlock::lock &lock) {
                                      lock.release();
                                      throw std::runtime_error{"too late"};
                                  }),
                 std::runtime_error);
    EXPECT_EQ(history.of(name), "failed\nfailed: no \\xFF file\nfailed\ndone\ndone");
    EXPECT_EQ(heard.all().size(), 0U);
}

TEST_F(run_test, reports_a_lock_that_was_lost_meanwhile)
{
    EXPECT_THROW(
        (void) locks.run(name, {.at_most = 1min}, [&](shedlock::lock &) { EXPECT_TRUE(locks.force_release(name)); }),
        shedlock::lock_lost);
}

TEST_F(run_test, reports_a_lock_that_could_not_be_trusted_until_the_end)
{
    EXPECT_THROW((void) locks.run(name, {.at_most = 1h},
                                  [&](shedlock::lock &lock) {
                                      advance_clock(1h); // the server still accepts a release
                                      EXPECT_TRUE(
                                          server::comes_true([&] { return lock.stop_token().stop_requested(); }));
                                  }),
                 shedlock::lock_lost);
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &lock) { lock.release(); }));
}

namespace {

// A role that may log in and use locks, until the test forbids it to log in.
class worker {
public:
    worker()
    {
        server::ask("CREATE ROLE worker LOGIN PASSWORD 'w'");
        server::ask("SELECT shedlock_grant('worker')");
    }
    ~worker()
    {
        server::ask("DROP OWNED BY worker");
        server::ask("DROP ROLE worker");
    }
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;

    static void shut_out()
    {
        server::ask("ALTER ROLE worker NOLOGIN");
        server::ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker'");
    }
};

} // namespace

TEST_F(run_test, reports_a_loss_that_the_server_does_not_report)
{
    const worker worker;
    auto evicted = client("user=worker password=w");
    std::promise<void> worked;
    auto running = std::async(std::launch::async, [&] {
        return evicted.run(name, {.at_most = 1h}, [&](shedlock::lock &) {
            worker.shut_out();
            server::end_lease(name);
            EXPECT_TRUE(locks.acquire(name, {.at_most = 1min}, 10min)) << "another holder";
            advance_clock(1h);
            worked.set_value();
        });
    });
    worked.get_future().get();
    EXPECT_THROW((void) as_time_passes(running), shedlock::lock_lost);
}

TEST_F(run_test, reports_a_lease_that_ended_while_the_server_was_silent)
{
    proxy network;
    auto through = client(network.connection());
    std::promise<void> worked;
    auto running = std::async(std::launch::async, [&] {
        return through.run(name, {.at_most = 1h}, [&](shedlock::lock &lock) {
            network.hold_replies();
            advance_clock(1h);
            EXPECT_FALSE(lock.held());
            worked.set_value();
        });
    });
    worked.get_future().get();
    EXPECT_THROW((void) as_time_passes(running), shedlock::lock_lost);
    network.cut();
}

TEST_F(run_test, is_done_when_only_its_release_failed)
{
    proxy network;
    auto through = client(network.connection());
    std::promise<void> worked;
    auto running = std::async(std::launch::async, [&] {
        return through.run(name, {.at_most = 24h}, [&](shedlock::lock &) {
            network.cut();
            network.refuse_newcomers();
            worked.set_value();
        });
    });
    worked.get_future().get();
    EXPECT_TRUE(server::comes_true([&] { return network.refused() > 0; }));
    EXPECT_TRUE(as_time_passes(running));
    EXPECT_TRUE(heard.include(event::kind::not_released)) << heard.texts();
    EXPECT_EQ(server::state(name), "held") << "until at_most";
}
