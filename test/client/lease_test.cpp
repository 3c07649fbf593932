// The trust in a lease: how long, and how it is renewed.
#include "core.hpp"
#include "fixture.hpp"
#include "proxy.hpp"

#include <atomic>
#include <cstdlib>

using lease_test = with_server;

TEST_F(lease_test, is_trusted_from_before_the_request_was_sent)
{
    proxy network;
    auto slow = client(network.connection(), 30s);
    (void) slow.try_acquire(name, {.at_most = 1s}); // so that it is connected
    network.hold_replies();
    auto const begin = shedlock::clock::now();
    std::jthread const later{[&] {
        std::this_thread::sleep_for(2s);
        network.let_go();
    }};
    auto mine = slow.try_acquire(name, {.at_most = 10s});
    ASSERT_TRUE(mine);
    ASSERT_GE(shedlock::clock::now(), begin + 2s);
    EXPECT_LE(mine->deadline(), begin + 10s) << "a slow success must not stretch it";

    network.hold_replies();
    auto const extending = shedlock::clock::now();
    std::jthread const later_again{[&] {
        std::this_thread::sleep_for(1s);
        network.let_go();
    }};
    mine->extend(5s);
    EXPECT_LE(mine->deadline(), extending + 5s);
    EXPECT_GT(mine->deadline(), extending + 4s);
}

// The server carries out what a client sent that has gone since.
TEST_F(lease_test, is_trusted_no_longer_than_a_request_lasts_that_was_given_up_on_and_arrives_late)
{
    proxy network;
    auto slow = client(network.connection(), 500ms);
    auto mine = slow.try_acquire(name, {.at_most = 1min});
    ASSERT_TRUE(mine);
    network.hold_requests();
    try {
        mine->extend(5s); // the first try is held up
    } catch (shedlock::connection_error const &) {
    }
    mine->extend(1h);
    auto const deadline = mine->deadline();
    EXPECT_LE(deadline, shedlock::clock::now() + 5s);
    EXPECT_GT(server::remaining(name), 59min);
    network.let_go();
    if (!server::connection().empty())
        GTEST_SKIP() << "the pooler drops what a client has asked that has said good-bye";
    EXPECT_TRUE(server::comes_true([&] { return server::remaining(name) < 1min; })) << "the lease was cut";
    EXPECT_LE(deadline - shedlock::clock::now(), server::remaining(name));
}

TEST_F(lease_test, ends_before_the_servers_lease_does)
{
    for (auto const at_most :
         {std::chrono::microseconds{2s}, std::chrono::microseconds{1min}, std::chrono::microseconds{1h}}) {
        auto const mine = locks.try_acquire(name, {.at_most = at_most});
        auto const theirs = server::remaining(name);
        auto const margin = std::min<std::chrono::microseconds>(at_most / 10, 6s) + at_most / 1000;
        EXPECT_LE(mine->deadline() + margin, shedlock::clock::now() + theirs); // which was later when it was asked
        EXPECT_GT(mine->deadline() - shedlock::clock::now(), at_most * 3 / 4);
    }
}

TEST_F(lease_test, requests_stop_at_its_end_without_keep_alive)
{
    auto const mine = locks.try_acquire(name, {.at_most = 500ms});
    auto const stop = mine->stop_token();
    EXPECT_FALSE(stop.stop_requested());
    std::atomic<bool> in_time = false;
    std::stop_callback const when{stop, [&] { in_time = server::remaining(name) > 0s; }};
    EXPECT_TRUE(server::comes_true([&] { return stop.stop_requested(); }));
    EXPECT_FALSE(mine->held());
}

TEST_F(lease_test, requests_no_stop_when_it_is_released)
{
    auto mine = locks.try_acquire(name, {.at_most = 300ms});
    auto const stop = mine->stop_token();
    mine->release();
    std::this_thread::sleep_for(600ms);
    EXPECT_FALSE(stop.stop_requested());
}

// Keep-alive became due while an extend was under way, and then went on with the old at_most, for good.
TEST_F(lease_test, keep_alive_takes_over_the_at_most_of_an_extend_that_it_had_to_wait_for)
{
    auto mine = locks.try_acquire(name, {.at_most = 3s, .keep_alive = true});
    pqxx::connection other{server::connection()};
    pqxx::work row{other};
    row.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE"); // extend waits for this
    std::jthread const later{[&] {
        std::this_thread::sleep_for(1500ms); // a third of at_most is over
        row.abort();
    }};
    mine->extend(1h);
    for (auto const end = shedlock::clock::now() + 500ms; shedlock::clock::now() < end;) {
        ASSERT_GT(server::remaining(name), 1min);
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_FALSE(heard.tell_of(event::kind::lost)) << heard.texts();
}

TEST_F(lease_test, is_as_before_when_an_extend_found_it_busy)
{
    shedlock::internal::timer time;
    shedlock::internal::lease mine{time, name, {token{1}, shedlock::clock::now(), false, {}}, 1h};
    auto const until = mine.deadline();
    EXPECT_THROW(mine.extend(1min,
                             [](auto const &before) -> shedlock::clock::time_point {
                                 before();
                                 throw shedlock::internal::busy{"its row is locked"};
                             }),
                 shedlock::connection_error);
    EXPECT_EQ(mine.deadline(), until);
    EXPECT_EQ(mine.next().certain, 1h);
    std::unique_lock const by_keep_alive{mine.extending, std::try_to_lock};
    EXPECT_THROW(mine.extend(1min, [](auto const &before) { return before(), shedlock::clock::now(); }),
                 shedlock::internal::busy);
    EXPECT_EQ(mine.deadline(), until);
}

TEST_F(lease_test, is_not_trusted_again_once_its_deadline_has_passed)
{
    auto mine = locks.try_acquire(name, {.at_most = 5s});
    std::this_thread::sleep_until(mine->deadline()); // the work is told to stop, and the server's lease still runs
    ASSERT_FALSE(mine->held());
    mine->extend(1min);
    EXPECT_FALSE(mine->held());
    EXPECT_EQ(server::state(name), "held");
    mine.reset();
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(lease_test, keep_alive_holds_it_beyond_at_most)
{
    auto const mine = locks.try_acquire(name, {.at_most = 2s, .keep_alive = true});
    for (auto const end = shedlock::clock::now() + 4s; shedlock::clock::now() < end;) {
        ASSERT_TRUE(mine->held());
        ASSERT_EQ(server::state(name), "held");
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_FALSE(mine->stop_token().stop_requested());
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(lease_test, keep_alive_follows_an_explicit_extend)
{
    auto mine = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    mine->extend(2s); // the keeper would have slept for 20 minutes
    std::this_thread::sleep_for(3s);
    EXPECT_TRUE(mine->held());
    EXPECT_EQ(server::state(name), "held");
}

TEST_F(lease_test, keep_alive_survives_killed_connections)
{
    auto const mine = locks.try_acquire(name, {.at_most = 2s, .keep_alive = true});
    for (int i = 0; i < 8; ++i) {
        server::ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
        std::this_thread::sleep_for(500ms);
        ASSERT_TRUE(mine->held());
        ASSERT_EQ(server::state(name), "held");
    }
    EXPECT_EQ(server::token(name), number(mine->token()));
}

TEST_F(lease_test, keep_alive_survives_a_restart_of_the_server)
{
    auto mine = locks.try_acquire(name, {.at_most = 30s, .keep_alive = true});
    mine->extend(9s);
    ASSERT_EQ(std::system("pg_ctlcluster \"$PGVERSION\" regress restart -m immediate >/dev/null 2>&1"), 0);
    std::this_thread::sleep_for(10s);
    EXPECT_TRUE(mine->held());
    EXPECT_FALSE(mine->stop_token().stop_requested());
    EXPECT_EQ(server::token(name), number(mine->token()));
    EXPECT_NO_THROW(mine->release());
}

TEST_F(lease_test, requests_stop_before_the_lease_ends_when_it_cannot_be_extended)
{
    proxy network;
    auto through = client(network.connection());
    auto const mine = through.try_acquire(name, {.at_most = 3s, .keep_alive = true});
    EXPECT_TRUE(server::comes_true([&] { return server::remaining(name) > 2900ms; })) << "it has been extended";
    network.hold_replies(); // the server is there, but nothing of it can be heard
    std::atomic<std::int64_t> left = -1;
    std::stop_callback const when{mine->stop_token(), [&] { left = server::remaining(name).count(); }};
    EXPECT_TRUE(server::comes_true([&] { return left >= 0; }));
    EXPECT_GT(left, 0) << "the server's lease must be longer than ours";
    EXPECT_FALSE(mine->held());
    EXPECT_TRUE(server::comes_true([&] {
        return heard.texts().find("could not be extended in time") != std::string::npos;
    })) << heard.texts();
    network.let_go();
}

TEST_F(lease_test, requests_stop_as_soon_as_keep_alive_learns_of_a_loss)
{
    auto const mine = locks.try_acquire(name, {.at_most = 3s, .keep_alive = true});
    locks.force_release(name);
    auto const next = locks.try_acquire(name, {.at_most = 1min});
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
    EXPECT_FALSE(mine->held());
    EXPECT_TRUE(server::comes_true([&] { return heard.texts().find("taken over") != std::string::npos; }))
        << heard.texts();
    EXPECT_EQ(server::token(name), number(next->token())) << "and leaves the next holder alone";
}

TEST_F(lease_test, never_keeps_a_released_lock_alive)
{
    for (int i = 0; i < 20; ++i) {
        auto mine = locks.try_acquire(name, {.at_most = 60ms, .keep_alive = true}); // extended every 20 ms
        ASSERT_TRUE(mine);
        std::this_thread::sleep_for(std::chrono::milliseconds{10 + i});
        mine.reset();
        ASSERT_EQ(server::state(name), "free");
    }
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(server::state(name), "free");
}

TEST_F(lease_test, keep_alive_ends_at_once_even_while_it_waits_for_the_network)
{
    proxy network;
    auto through = client(network.connection(), 1min);
    auto connected = through.try_acquire(name + " before", {.at_most = 1min});
    network.hold_newcomers(); // the keeper's own connection will be one
    auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    ASSERT_TRUE(mine);
    std::this_thread::sleep_for(300ms); // it is connecting now, and libpq cannot be interrupted in that
    auto const begin = shedlock::clock::now();
    mine.reset();
    EXPECT_LT(shedlock::clock::now() - begin, 20s) << "connecting would have taken a minute";
    EXPECT_EQ(server::state(name), "free");
    connected.reset();
    network.let_go();
}

TEST_F(lease_test, an_extend_that_the_server_refuses_changes_nothing)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    auto const before = mine->deadline();
    for (auto const at_most : {-1h, 0h})
        EXPECT_THROW(mine->extend(at_most), shedlock::usage_error);
    EXPECT_THROW(mine->extend(10s, 20s), shedlock::usage_error) << "at_least is longer";
    EXPECT_EQ(mine->deadline(), before);
    EXPECT_FALSE(mine->stop_token().stop_requested());
}
