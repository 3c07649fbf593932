// One thread and one connection keep all locks of a client alive.
#include "fixture.hpp"
#include "proxy.hpp"

#include <filesystem>

class keeper_test : public with_server {
protected:
    void SetUp() override
    {
        if (!server::connection().empty())
            GTEST_SKIP() << "the pooler's connections are not ours";
    }

    static std::string connections()
    {
        return server::ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kept'");
    }

    static std::int64_t threads()
    {
        return std::distance(std::filesystem::directory_iterator{"/proc/self/task"},
                             std::filesystem::directory_iterator{});
    }

    shedlock::client own = client("application_name=kept");
};

TEST_F(keeper_test, gives_its_connection_back)
{
    auto mine = own.try_acquire(name, {.at_most = 2s, .keep_alive = true});
    EXPECT_TRUE(server::comes_true([] { return connections() == "2"; }));
    mine.reset();
    EXPECT_TRUE(server::comes_true([] { return connections() == "1"; }));
}

TEST_F(keeper_test, keeps_many_locks_over_one_connection)
{
    auto const before = threads();
    std::vector<shedlock::lock> all;
    for (int i = 0; i < 30; ++i)
        all.push_back(*own.try_acquire(name + std::to_string(i), {.at_most = 3s, .keep_alive = true}));
    for (auto const end = shedlock::clock::now() + 4s; shedlock::clock::now() < end; std::this_thread::sleep_for(10ms))
        for (auto const &one : all)
            ASSERT_TRUE(one.held());
    EXPECT_EQ(connections(), "2") << "the callers', and the keeper's";
    EXPECT_LT(threads() - before, 10);
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(keeper_test, one_that_is_stuck_does_not_endanger_the_others)
{
    std::vector<shedlock::lock> all;
    for (int i = 0; i < 10; ++i)
        all.push_back(*own.try_acquire(name + std::to_string(i), {.at_most = 3s, .keep_alive = true}));
    pqxx::connection other;
    pqxx::work row{other};
    row.exec("SELECT FROM shedlock WHERE name = '" + name + "0' FOR UPDATE");
    for (auto const end = shedlock::clock::now() + 4s; shedlock::clock::now() < end; std::this_thread::sleep_for(10ms))
        for (auto const &one : all)
            ASSERT_TRUE(one.held() || &one == all.data()) << one.names().to_text();
    EXPECT_FALSE(all[0].held());
    EXPECT_TRUE(all[0].stop_token().stop_requested());
    for (auto const &one : heard.all())
        EXPECT_EQ(one.lock.list(), std::vector{name + '0'}) << one.text;
}

// docs/client.md says so. On the portable edition its row is stuck until the commit.
TEST_F(keeper_test, bears_a_guarded_transaction_of_half_a_lease)
{
    auto const mine = own.try_acquire(name, {.at_most = 6s, .keep_alive = true});
    auto const other = own.try_acquire(name + " other", {.at_most = 3s, .keep_alive = true});
    std::this_thread::sleep_for(1900ms); // just before an extend is due
    pqxx::connection connection;
    pqxx::work transaction{connection};
    transaction.exec(mine->guard_statement());
    std::this_thread::sleep_for(3s);
    EXPECT_NO_THROW(transaction.commit());
    std::this_thread::sleep_for(1s); // beyond the deadline, if it had not been extended
    EXPECT_TRUE(mine->held());
    EXPECT_TRUE(other->held());
    for (auto const &one : heard.all())
        EXPECT_EQ(one.lock.list(), std::vector{name}) << one.text;
    EXPECT_EQ(heard.tell_of(event::kind::extend_failing), server::is_portable()) << heard.texts();
}

TEST_F(keeper_test, extends_several_names_as_one)
{
    auto const mine = own.try_acquire({name + " a", name + " b"}, {.at_most = 2s, .keep_alive = true});
    std::this_thread::sleep_for(3s);
    EXPECT_TRUE(mine->held());
    auto const until = [&](std::string const &which) {
        return "(SELECT lock_until FROM shedlock WHERE name = '" + name + which + "')";
    };
    EXPECT_EQ(server::ask("SELECT " + until(" a") + " = " + until(" b")), "t");
}

// While there is no server, each is tried again as its own lease demands.
TEST_F(keeper_test, a_long_lease_does_not_keep_a_short_one_waiting)
{
    proxy network;
    auto through = client(network.connection());
    auto const mine = through.try_acquire(name + " long", {.at_most = 15s, .keep_alive = true}); // due after 5 s
    std::this_thread::sleep_for(4850ms);
    auto const brief = through.try_acquire(name + " brief", {.at_most = 6s, .keep_alive = true}); // due after 2 s
    auto const until = brief->deadline();
    network.cut();
    network.refuse_newcomers();
    EXPECT_TRUE(server::comes_true([&] { return network.refused() > 5; }));
    network.let_go();
    EXPECT_TRUE(server::comes_true([&] { return brief->deadline() > until; })) << "one try a second would be too few";
    EXPECT_TRUE(mine->held());
}
