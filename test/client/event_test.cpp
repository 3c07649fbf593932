// Problems that no caller can catch.
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>

class event_test : public with_server {
protected:
    proxy network;
    shedlock::client through = client(network.connection());

    void TearDown() override
    {
        for (const auto &one : heard.all()) {
            EXPECT_EQ(one.lock.list(), std::vector{name});
            EXPECT_NE(one.text.find(name), std::string::npos) << one.text;
            EXPECT_EQ(one.text.find('\n'), std::string::npos) << one.text;
            EXPECT_EQ(one.text.find("client encoding"), std::string::npos) << one.text;
        }
    }

    void expect_told(event::kind what, const std::string &words = "")
    {
        EXPECT_TRUE(server::comes_true([&] { return heard.include(what); })) << heard.texts();
        EXPECT_NE(heard.texts().find(words), std::string::npos) << '"' << words << "\" in: " << heard.texts();
    }
};

TEST_F(event_test, keep_alive_reports_its_failure_and_its_recovery)
{
    auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    network.cut();
    network.refuse_newcomers();
    advance_clock(21min);
    expect_told(event::kind::extend_failing);
    EXPECT_FALSE(heard.include(event::kind::extend_recovered));
    network.let_go();
    expect_told(event::kind::extend_recovered);
    EXPECT_TRUE(mine->held());
    mine->release();
    EXPECT_EQ(heard.all().size(), 2u) << "each is reported once: " << heard.texts();
}

TEST_F(event_test, a_lock_that_keep_alive_could_not_extend_is_lost)
{
    auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    network.hold_replies();
    advance_clock(1h);
    expect_told(event::kind::lost, "must stop");
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
    network.cut();
    server::end_lease(name);
    mine.reset(); // the server reports the loss, too
    EXPECT_EQ(heard.count(event::kind::lost), 1) << heard.texts();
}

TEST_F(event_test, a_lock_that_was_taken_over_is_not_reported_to_end_by_itself)
{
    int losses = 0;
    for (const bool keep_alive : {false, true}) {
        auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = keep_alive});
        locks.force_release(name);
        const auto next = locks.try_acquire(name, {.at_most = 1min});
        if (keep_alive) {
            advance_clock(21min);
            EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
        }
        mine.reset();
        ++losses;
        ASSERT_TRUE(server::comes_true([&] { return heard.count(event::kind::lost) == losses; })) << heard.texts();
        EXPECT_NE(heard.all().back().text.find("taken over"), std::string::npos) << heard.texts();
        EXPECT_EQ(server::token(name), number(next->token())) << "the next holder is left alone";
    }
    EXPECT_FALSE(heard.include(event::kind::not_released));
    EXPECT_EQ(heard.texts().find("ends by itself"), std::string::npos) << heard.texts();
}

TEST_F(event_test, a_lock_that_is_known_to_be_lost_is_not_reported_as_not_released_when_the_server_is_gone)
{
    auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    locks.force_release(name);
    advance_clock(21min);
    expect_told(event::kind::lost, "released by force");
    network.cut();
    network.refuse_newcomers();
    mine.reset();
    EXPECT_FALSE(heard.include(event::kind::not_released)) << heard.texts();
}

TEST_F(event_test, a_lock_that_is_reported_as_lost_is_not_reported_as_not_released)
{
    auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    network.cut();
    network.refuse_newcomers();
    advance_clock(1h);
    expect_told(event::kind::lost, "must stop");
    mine.reset();
    EXPECT_FALSE(heard.include(event::kind::not_released)) << heard.texts();
    locks.force_release(name); // so that the test can be repeated
}

TEST_F(event_test, a_release_without_a_reply_is_not_reported_as_not_done)
{
    auto mine = through.try_acquire(name, {.at_most = 1h});
    network.hold_replies();
    auto releasing = std::async(std::launch::async, [&] { mine.reset(); });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; }));
    as_time_passes(releasing);
    expect_told(event::kind::not_released, "it is not known whether");
    EXPECT_EQ(heard.texts().find("was not released"), std::string::npos) << heard.texts();
}

TEST_F(event_test, a_release_whose_reply_was_lost_is_unclear)
{
    auto mine = through.try_acquire(name, {.at_most = 1min});
    network.hold_replies();
    const std::jthread releasing{[&] { mine->release(shedlock::outcome::failed); }};
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; }));
    network.cut();
    expect_told(event::kind::release_unclear, "It has been released before");
}

TEST_F(event_test, a_terminated_connection_is_reported_in_the_servers_words)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1min});
    pqxx::connection other{server::connection()};
    pqxx::work row{other};
    row.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE"); // force_release waits for this
    auto forcing = std::async(std::launch::async, [&]() -> std::string {
        try {
            locks.force_release(name);
        } catch (const shedlock::in_doubt &failure) {
            return failure.what();
        }
        return "";
    });
    EXPECT_TRUE(server::comes_true([] { return server::terminate("shedlock_force_release") == 1; }));
    const auto text = forcing.get();
    EXPECT_NE(text.find("was released by force"), std::string::npos) << text;
    EXPECT_NE(text.find("terminating connection due to administrator command"), std::string::npos) << text;
    EXPECT_EQ(text.find("client encoding"), std::string::npos) << text;
}

TEST_F(event_test, the_handler_may_use_the_client)
{
    std::atomic<bool> is_done = false;
    std::optional<shedlock::client> busy;
    busy.emplace(server::connection(), shedlock::client_settings{.timeout = 1min, .on_event = [&](const event &) {
                                                                     busy->force_release("nobody's");
                                                                     is_done = true;
                                                                 }});
    auto mine = busy->try_acquire(name, {.at_most = 1h, .keep_alive = true});
    locks.force_release(name);
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return is_done.load(); }));
    auto other = busy->try_acquire(name, {.at_most = 1min});
    locks.force_release(name);
    is_done = false;
    other.reset(); // which reports an event, too
    EXPECT_TRUE(is_done);
}
