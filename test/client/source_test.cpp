// A function that supplies the connection string, for credentials that change.
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>

class source_test : public with_server {
protected:
    std::mutex mutex;
    std::string where = server::connection(); // for the function below
    int times = 0;

    shedlock::client asking(std::chrono::milliseconds timeout = 1min)
    {
        return shedlock::client{[this] {
                                    const std::lock_guard hold{mutex};
                                    ++times;
                                    return where;
                                },
                                {.timeout = timeout, .on_event = heard.handler()}};
    }

    void supply(const std::string &connection)
    {
        const std::lock_guard hold{mutex};
        where = connection;
    }

    int times_until_now()
    {
        const std::lock_guard hold{mutex};
        return times;
    }
};

TEST_F(source_test, is_asked_whenever_a_connection_is_opened)
{
    proxy network;
    supply(network.connection());
    auto through = asking();
    EXPECT_EQ(times_until_now(), 0) << "not before a connection is needed";
    for (int opened = 1; opened < 3; ++opened) {
        for (int i = 0; i < 3; ++i)
            EXPECT_TRUE(through.try_acquire(name, {.at_most = 1min}));
        EXPECT_EQ(times_until_now(), opened);
        network.cut();
    }
}

TEST_F(source_test, leads_to_another_host_and_with_another_password)
{
    if (!server::connection().empty())
        GTEST_SKIP() << "the pooler has passwords of its own";
    server::ask("CREATE ROLE rotating LOGIN PASSWORD 'one'");
    server::ask("SELECT shedlock_grant('rotating')");
    {
        proxy network;
        supply(network.connection() + " user=rotating password=one");
        auto through = asking();
        const auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
        EXPECT_TRUE(mine);
        server::ask("ALTER ROLE rotating PASSWORD 'two'");
        supply("user=rotating password=two");
        network.cut();
        network.refuse_newcomers();
        EXPECT_TRUE(through.try_acquire(name + " 2", {.at_most = 1min}));
        for (int i = 0; i < 3; ++i)
            let_pass(through, 21min);
        EXPECT_TRUE(mine->held()) << "keep-alive asks the function as well";
    }
    server::ask("DROP OWNED BY rotating");
    server::ask("DROP ROLE rotating");
}

TEST_F(source_test, may_throw)
{
    auto sealed =
        shedlock::client{[]() -> std::string { throw std::runtime_error{"the vault is sealed"}; }, {.timeout = 1min}};
    try {
        (void) sealed.try_acquire(name, {.at_most = 1min});
        FAIL() << "there is no connection";
    } catch (const shedlock::connection_error &failure) {
        EXPECT_NE(std::string{failure.what()}.find("the vault is sealed"), std::string::npos) << failure.what();
    }
}

TEST_F(source_test, may_throw_what_it_likes)
{
    auto odd = shedlock::client{[]() -> std::string { throw 42; }};
    EXPECT_THROW((void) odd.try_acquire(name, {.at_most = 1min}), shedlock::connection_error);
}

// A caller gives up before its attempt to connect fails. The next caller does not get that failure.
TEST_F(source_test, an_old_failure_is_not_reported_to_the_next_caller)
{
    proxy network;
    supply(network.connection() + " connect_timeout=2");
    auto through = asking();
    network.hold_newcomers();
    auto acquiring = std::async(std::launch::async, [&] { return through.try_acquire(name, {.at_most = 1min}); });
    EXPECT_TRUE(server::comes_true([&] { return network.newcomers() > 0; }));
    EXPECT_THROW((void) as_time_passes(acquiring), shedlock::connection_error);
    EXPECT_TRUE(server::comes_true([&] { return network.connections() == 0; })) << "libpq gives up, too";
    supply(network.connection());
    network.let_go();
    EXPECT_TRUE(through.try_acquire(name, {.at_most = 1min}));
}

TEST_F(source_test, may_be_slow_without_holding_up_callers)
{
    std::promise<void> end;
    const auto ended = end.get_future().share();
    auto slow = shedlock::client{[ended] {
                                     ended.wait();
                                     return server::connection();
                                 },
                                 {.timeout = 1min}};
    auto calling =
        std::async(std::launch::async, [&] { return slow.try_acquire(name, {.at_most = 1min}).has_value(); });
    EXPECT_THROW((void) as_time_passes(calling), shedlock::connection_error);
    end.set_value();
    EXPECT_TRUE(server::comes_true([&] {
        try {
            return slow.try_acquire(name, {.at_most = 1min}).has_value();
        } catch (const shedlock::connection_error &) {
            return false; // the function has not returned yet
        }
    })) << "and then its string is used";
}
