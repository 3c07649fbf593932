// client::run: what it returns and throws tells the truth about the work.
#include "fixture.hpp"
#include "proxy.hpp"

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

TEST_F(run_test, reports_a_lock_that_was_lost_meanwhile)
{
    EXPECT_THROW(
        (void) locks.run(name, {.at_most = 1min}, [&](shedlock::lock &) { EXPECT_TRUE(locks.force_release(name)); }),
        shedlock::lock_lost);
}

TEST_F(run_test, reports_a_lock_that_could_not_be_trusted_until_the_end)
{
    EXPECT_THROW((void) locks.run(name, {.at_most = 100ms},
                                  [&](shedlock::lock &lock) {
                                      locks.extend(name, lock.token(), 1h); // so that the server takes a release
                                      while (!lock.stop_token().stop_requested())
                                          std::this_thread::sleep_for(1ms);
                                  }),
                 shedlock::lock_lost);
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [](shedlock::lock &lock) { lock.release(); }));
}

namespace {

void wait_for_end_of(shedlock::lock const &lock)
{
    while (lock.held())
        std::this_thread::sleep_for(1ms);
}

// May log in and use locks, until it is shut out.
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
    worker(worker const &) = delete;
    worker &operator=(worker const &) = delete;

    static void shut_out()
    {
        server::ask("ALTER ROLE worker NOLOGIN");
        server::ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker'");
    }
};

} // namespace

TEST_F(run_test, reports_a_loss_that_the_server_does_not_tell_it_of)
{
    worker const worker;
    auto evicted = client("user=worker password=w", 500ms);
    EXPECT_THROW((void) evicted.run(name, {.at_most = 300ms},
                                    [&](shedlock::lock &) {
                                        worker.shut_out();
                                        EXPECT_TRUE(locks.acquire(name, {.at_most = 1min}, 30s)) << "another holder";
                                    }),
                 shedlock::lock_lost);
}

TEST_F(run_test, reports_a_lease_that_ended_while_the_server_was_silent)
{
    proxy network;
    auto through = client(network.connection(), 500ms);
    EXPECT_THROW((void) through.run(name, {.at_most = 300ms},
                                    [&](shedlock::lock &lock) {
                                        network.hold_replies();
                                        wait_for_end_of(lock);
                                    }),
                 shedlock::lock_lost);
    network.cut();
}

TEST_F(run_test, is_done_when_only_its_release_could_not_be_told)
{
    proxy network;
    auto through = client(network.connection(), 2s);
    EXPECT_TRUE(through.run(name, {.at_most = 1min}, [&](shedlock::lock &) {
        network.cut();
        network.refuse_newcomers();
    }));
    EXPECT_TRUE(heard.tell_of(event::kind::not_released)) << heard.texts();
    EXPECT_EQ(server::state(name), "held") << "until at_most";
}
