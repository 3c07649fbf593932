// How many connections a client opens, and what it does when it gets only one.
#include "fixture.hpp"
#include "keeper.hpp"
#include "tool_access.hpp"

#include <cstdlib>

using namespace shedlock;
using namespace shedlock::internal;

class limit_test : public with_server {
protected:
    std::atomic<int> asked = 0;

    shedlock::client counted()
    {
        return shedlock::client{[this] {
                                    ++asked;
                                    return server::connection();
                                },
                                {.timeout = 1min, .on_event = heard.handler()}};
    }
};

TEST_F(limit_test, a_short_job_needs_no_connection_for_keep_alive)
{
    {
        auto brief = counted();
        const auto mine = brief.try_acquire(name, {.at_most = 1h, .keep_alive = true});
        EXPECT_TRUE(mine);
    } // the destructor has ended the client's threads
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(limit_test, a_short_lease_has_a_connection_for_keep_alive_at_once)
{
    const frozen_clock clock; // so nothing is extended
    auto brief = counted();
    const auto mine = brief.try_acquire(name, {.at_most = 2s, .keep_alive = true});
    EXPECT_TRUE(server::comes_true([&] { return asked == 2; }));
}

TEST_F(limit_test, a_lock_that_ends_with_its_session_is_extended_on_it_and_lost_with_it)
{
    auto one = counted();
    const auto acquire = [&] {
        return tool_access::acquire(one, name, {.at_most = 1h, .keep_alive = true},
                                    {.end = clock::now(), .ends_with_session = true}, nullptr);
    };
    if (!server::connection().empty()) {
        EXPECT_THROW(acquire(), usage_error) << "the pooler's session would live on";
        EXPECT_EQ(server::state(name), "");
        return;
    }
    auto mine = acquire();
    ASSERT_TRUE(mine);
    const auto until = [&] {
        return server::ask("SELECT lock_until FROM shedlock_locks WHERE name = " + server::literal(name));
    };
    const auto before = until();
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return until() > before; }));
    EXPECT_EQ(asked, 1) << "no other connection";
    auto watching = std::async(std::launch::async, [&] { tool_access::watch_session(one, *mine, {}); });
    server::ask("SELECT pg_terminate_backend(holder_pid) FROM shedlock_locks WHERE name = " + server::literal(name));
    watching.get();
    // Keep-alive may have found it out first, in its own thread.
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
    EXPECT_TRUE(server::comes_true([&] { return heard.include(event::kind::lost); })) << heard.texts();
    EXPECT_THROW(one.extend(name, mine->token(), 1h), lock_lost) << "it is not connected again";
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; }));
}

class limited_test : public limit_test {
protected:
    void SetUp() override
    {
        if (!server::connection().empty())
            GTEST_SKIP() << "the pooler's connections are not ours";
        const auto *const password = std::getenv("PGPASSWORD");
        server::ask("CREATE ROLE limited LOGIN CONNECTION LIMIT 1 PASSWORD " +
                    server::literal(password ? password : "limited"));
        server::ask("SELECT shedlock_grant('limited')");
    }

    void TearDown() override
    {
        if (!server::connection().empty())
            return;
        server::ask("SELECT shedlock_revoke('limited')");
        server::comes_true([] { return connections() == "0"; });
        server::ask("DROP ROLE limited");
    }

    static std::string connections()
    {
        return server::ask("SELECT count(*) FROM pg_stat_activity WHERE usename = 'limited'");
    }

    // A lease that is due to be extended, because it began long ago.
    std::shared_ptr<lease> due(const std::string &which)
    {
        const auto number = server::ask("SELECT shedlock_acquire_token(" + server::literal(which) + ", '1 hour')");
        return std::make_shared<lease>(time, shedlock::names{which},
                                       grant{token{std::stoll(number)}, clock::now() - 25min, false, {}}, 1h);
    }

    static bool is_extended(const lease &one) { return one.deadline() > clock::now() + 50min; }

    timer time;
    reporter report{shedlock::client_settings{.on_event = heard.handler()}};
};

TEST_F(limited_test, keep_alive_uses_the_only_connection)
{
    const auto source = [] { return std::string{"user=limited"}; };
    session shared{source, 1min};
    shared.ask("SELECT", {}); // opens the only connection that the role may have
    keeper keeping{source, shared, report};
    const auto mine = due(name);
    keeping.keep(mine);
    EXPECT_TRUE(server::comes_true([&] { return is_extended(*mine); })) << heard.texts();
    EXPECT_EQ(connections(), "1");
    EXPECT_EQ(heard.texts(), "") << "that is no trouble";

    server::ask("ALTER ROLE limited CONNECTION LIMIT 2");
    std::vector<std::shared_ptr<lease>> others;
    EXPECT_TRUE(server::comes_true([&] {
        others.push_back(due(name + std::to_string(others.size())));
        keeping.keep(others.back());
        return connections() == "2";
    })) << "it asks for one of its own again";
    EXPECT_TRUE(server::comes_true([&] { return is_extended(*others.back()); })) << heard.texts();
    EXPECT_EQ(heard.texts(), "");
}

// A call occupies the shared connection: it waits for an advisory lock, and never times out, as the clock is stopped.
TEST_F(limited_test, keep_alive_does_not_wait_for_a_busy_shared_connection)
{
    const frozen_clock clock; // so keep-alive never gets to the time at which it asks for a connection of its own again
    const auto source = [] { return std::string{"user=limited"}; };
    session shared{source, 1min};
    shared.ask("SELECT", {});
    keeper keeping{source, shared, report};
    const auto first = due(name), second = due(name + " 2");
    keeping.keep(first);
    EXPECT_TRUE(server::comes_true([&] { return is_extended(*first); })) << heard.texts();
    EXPECT_EQ(connections(), "1");
    server::ask("ALTER ROLE limited CONNECTION LIMIT 2");

    pqxx::connection other{server::connection()};
    pqxx::work held{other};
    held.exec("SELECT pg_advisory_xact_lock(34)");
    auto busy = std::async(std::launch::async, [&] { shared.ask("SELECT pg_advisory_lock(34)", {}); });
    EXPECT_TRUE(server::comes_true([] {
        return server::ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "1";
    }));
    keeping.keep(second);
    EXPECT_TRUE(server::comes_true([&] { return is_extended(*second); })) << heard.texts();
    EXPECT_EQ(busy.wait_for(0s), std::future_status::timeout) << "keep-alive does not wait for the call";
    EXPECT_EQ(heard.texts(), "");
    held.abort();
    busy.get();
}
