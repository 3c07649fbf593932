// One thread and one connection keep all locks of a client alive.
#include "fixture.hpp"
#include "proxy.hpp"

#include <filesystem>
#include <map>

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

    // Waits until keep-alive has extended it.
    static void expect_extended(const shedlock::lock &one, shedlock::clock::time_point since)
    {
        EXPECT_TRUE(server::comes_true([&] { return one.deadline() > since; })) << one.names().to_text();
        EXPECT_TRUE(one.held()) << one.names().to_text();
    }

    // A lock that the client believes to hold is its own in the table, too, and for longer than the client says.
    static void expect_in_table(const std::vector<shedlock::lock> &all)
    {
        pqxx::connection connection;
        std::map<std::string, std::pair<std::int64_t, std::chrono::microseconds>> rows;
        for (const auto &row : pqxx::nontransaction{connection}.exec(
                 "SELECT name, token, (extract(epoch FROM remaining) * 1000000)::bigint FROM shedlock_locks"))
            if (!row[1].is_null() && !row[2].is_null())
                rows[row[0].c_str()] = {row[1].as<std::int64_t>(),
                                        std::chrono::microseconds{row[2].as<std::int64_t>()}};
        for (const auto &one : all)
            for (const auto &which : one.names().list()) {
                const auto left = one.deadline() - shedlock::clock::now();
                EXPECT_TRUE(left <= 0s || rows[which].first == number(one.token())) << which;
                EXPECT_TRUE(left <= 0s || rows[which].second > left) << which;
            }
    }

    shedlock::client own = client("application_name=kept", 24h);
};

TEST_F(keeper_test, gives_its_connection_back)
{
    const frozen_clock clock; // so that nothing is extended
    auto mine = own.try_acquire(name, {.at_most = 2s, .keep_alive = true});
    EXPECT_TRUE(server::comes_true([] { return connections() == "2"; }));
    mine.reset();
    EXPECT_TRUE(server::comes_true([] { return connections() == "1"; }));
}

// Every tenth has three names. Of those that end with 50 the row of the second name is locked by hand, of those that
// end with 51 the only row.
TEST_F(keeper_test, keeps_a_thousand_locks_and_loses_only_those_whose_rows_are_locked)
{
    const auto before = threads();
    std::vector<shedlock::lock> all;
    for (int i = 0; i < 1000; ++i) {
        const auto one = name + ' ' + std::to_string(i);
        all.push_back(*own.try_acquire(i % 10 ? shedlock::names{one} : shedlock::names{one, one + 'b', one + 'c'},
                                       {.at_most = 1h, .keep_alive = true}));
    }
    const auto is_stuck = [&](const shedlock::lock &one) { return (&one - all.data()) % 100 / 2 == 25; };
    const auto pass = [&](bool any_stuck) {
        std::vector<shedlock::clock::time_point> deadlines;
        for (const auto &one : all)
            deadlines.push_back(one.deadline());
        advance_clock(21min);
        for (const auto &one : all)
            if (!any_stuck || !is_stuck(one)) {
                expect_extended(one, deadlines[static_cast<std::size_t>(&one - all.data())]);
                EXPECT_GT(one.deadline(), shedlock::clock::now() + 30min) << "in good time";
            }
        expect_in_table(all);
        EXPECT_EQ(connections(), "2") << "the callers', and the keeper's";
        EXPECT_LT(threads() - before, 10);
    };
    // A busy machine may be too slow for one batch, which is an event about all locks, and not about a single one.
    const auto heard_of_one_lock = [&](event::kind what) {
        return std::ranges::count_if(heard.all(),
                                     [&](const event &one) { return one.what == what && !one.lock.list().empty(); });
    };
    pass(false);
    EXPECT_EQ(heard_of_one_lock(event::kind::extend_failing), 0) << heard.texts();

    pqxx::connection other;
    pqxx::work rows{other};
    rows.exec("SELECT FROM shedlock WHERE name ~ '^" + name + " .*(50b|51)$' FOR UPDATE");
    pass(true);
    EXPECT_TRUE(server::comes_true([&] { return heard_of_one_lock(event::kind::extend_failing) == 20; }))
        << heard.texts();
    pass(true);
    pass(true); // an hour, and three minutes
    EXPECT_TRUE(server::comes_true([&] { return heard_of_one_lock(event::kind::lost) == 20; })) << heard.texts();
    for (const auto &one : all) {
        EXPECT_EQ(one.held(), !is_stuck(one)) << one.names().to_text();
        EXPECT_TRUE(is_stuck(one) ? server::comes_true([&] { return one.stop_token().stop_requested(); })
                                  : !one.stop_token().stop_requested());
        EXPECT_EQ(
            std::ranges::count(heard.all(), one.names().list(), [](const auto &event) { return event.lock.list(); }),
            is_stuck(one) ? 2 : 0);
    }
}

// As docs/client.md says. On the portable edition the row is stuck until the commit.
TEST_F(keeper_test, survives_a_guarded_transaction_of_half_a_lease)
{
    const auto mine = own.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    const auto other = own.try_acquire(name + " other", {.at_most = 30min, .keep_alive = true});
    const auto pass = [&](std::chrono::seconds time) {
        const auto deadline = other->deadline();
        advance_clock(time);
        expect_extended(*other, deadline);
    };
    pass(19min); // just before an extend is due
    pqxx::connection connection;
    pqxx::work transaction{connection};
    transaction.exec(mine->guard_statement());
    const auto deadline = mine->deadline();
    for (int i = 0; i < 3; ++i)
        pass(10min + 10s);
    if (server::is_portable())
        EXPECT_TRUE(server::comes_true([&] { return heard.include(event::kind::extend_failing); }));
    else
        expect_extended(*mine, deadline);
    EXPECT_NO_THROW(transaction.commit());
    expect_extended(*mine, deadline);
    pass(10min + 10s);
    EXPECT_TRUE(mine->held());
    for (const auto &one : heard.all())
        EXPECT_EQ(one.lock.list(), std::vector{name}) << one.text;
    EXPECT_EQ(heard.include(event::kind::extend_failing), server::is_portable()) << heard.texts();
}

TEST_F(keeper_test, extends_several_names_as_one)
{
    const auto mine = own.try_acquire({name + " a", name + " b"}, {.at_most = 1h, .keep_alive = true});
    const auto deadline = mine->deadline();
    let_pass(own, 21min);
    expect_extended(*mine, deadline);
    const auto until = [&](const std::string &which) {
        return "(SELECT lock_until FROM shedlock WHERE name = '" + name + which + "')";
    };
    EXPECT_EQ(server::ask("SELECT " + until(" a") + " = " + until(" b")), "t");
}

// While there is no server, the client tries each lock again as often as its own lease requires.
TEST_F(keeper_test, a_long_lease_does_not_keep_a_short_one_waiting)
{
    const frozen_clock clock;
    proxy network;
    auto through = client(network.connection(), 24h);
    const auto mine = through.try_acquire(name + " long", {.at_most = 15s, .keep_alive = true}); // due after 5 s
    advance_clock(4850ms);
    const auto brief = through.try_acquire(name + " brief", {.at_most = 6s, .keep_alive = true}); // due after 2 s
    ASSERT_TRUE(mine && brief);
    // The server's clock is not frozen; its leases must outlast the test.
    server::ask("UPDATE shedlock SET lock_until = lock_until + interval '1 h' WHERE name LIKE '" + name + "%'");
    const auto until = brief->deadline();
    network.cut();
    network.refuse_newcomers();
    advance_clock(2100ms);
    // Lets a ninth of the rest of the lease pass, which is more than keep-alive's pause. Does so again if keep-alive
    // had not begun to pause by then.
    const auto comes_in_time = [&](const std::function<bool()> &condition) {
        for (auto patience = 1s; !condition() && patience < server::at_last; patience *= 2) {
            advance_clock((until - shedlock::clock::now()) / 9);
            const auto end = std::chrono::steady_clock::now() + patience;
            while (!condition() && std::chrono::steady_clock::now() < end)
                std::this_thread::sleep_for(10ms);
        }
        return condition();
    };
    for (int i = 1; i <= 6; ++i)
        ASSERT_TRUE(comes_in_time([&] { return network.refused() >= i; })) << "one try a second would be too few";
    network.let_go();
    EXPECT_TRUE(comes_in_time([&] { return brief->deadline() > until; }));
    EXPECT_TRUE(mine->held());
}
