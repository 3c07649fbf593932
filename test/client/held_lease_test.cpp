// How long a lease is trusted, and how it is extended.
#include "core.hpp"
#include "fixture.hpp"
#include "proxy.hpp"

#include <atomic>
#include <cstdlib>

using held_lease_test = with_server;

TEST_F(held_lease_test, is_trusted_from_before_the_request_was_sent)
{
    const frozen_clock clock;
    proxy network;
    auto slow = client(network.connection(), 24h);
    (void) slow.try_acquire(name + " to connect", {.at_most = 1min});
    network.hold_replies();
    const auto asked = shedlock::clock::now();
    auto acquiring = std::async(std::launch::async, [&] { return slow.try_acquire(name, {.at_most = 1h}); });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    advance_clock(10min);
    network.let_go();
    auto mine = acquiring.get();
    ASSERT_TRUE(mine);
    EXPECT_EQ(mine->deadline(), trusted_until(asked, 1h)) << "a slow success must not stretch it";

    network.hold_replies();
    const auto extending = shedlock::clock::now();
    auto extended = std::async(std::launch::async, [&] { mine->extend(2h); });
    EXPECT_TRUE(server::comes_true([&] { return server::remaining(name) > 90min; }));
    advance_clock(10min);
    network.let_go();
    extended.get();
    EXPECT_EQ(mine->deadline(), trusted_until(extending, 2h));
}

// The server may carry out a request after its client has given up and disconnected.
TEST_F(held_lease_test, is_trusted_no_longer_than_an_abandoned_request_that_arrives_late_would_last)
{
    proxy network;
    auto slow = client(network.connection(), 10min);
    auto mine = slow.try_acquire(name, {.at_most = 1h});
    ASSERT_TRUE(mine);
    network.hold_requests();
    auto extending = std::async(std::launch::async, [&] { mine->extend(30min); });
    EXPECT_TRUE(server::comes_true([&] { return network.holds_a_request(); }));
    advance_clock(10min);
    EXPECT_THROW(extending.get(), shedlock::connection_error);
    ASSERT_TRUE(mine->held());
    mine->extend(2h);
    EXPECT_GT(server::remaining(name), 1h);
    const auto before = shedlock::clock::now();
    EXPECT_LE(mine->deadline(), before + 30min) << "it may arrive at any time";
    network.let_go();
    if (!server::connection().empty())
        GTEST_SKIP() << "the pooler drops the request of a client that has disconnected";
    EXPECT_TRUE(server::comes_true([&] { return server::remaining(name) < 31min; })) << "the lease was cut";
}

TEST_F(held_lease_test, ends_before_the_servers_lease_does)
{
    for (const auto at_most :
         {std::chrono::microseconds{30s}, std::chrono::microseconds{1min}, std::chrono::microseconds{1h}}) {
        const auto before = shedlock::clock::now();
        const auto mine = locks.try_acquire(name, {.at_most = at_most});
        const auto theirs = server::remaining(name);
        const auto now = shedlock::clock::now();
        const auto margin = std::min<std::chrono::microseconds>(at_most / 10, 6s) + at_most / 1000;
        EXPECT_LE(mine->deadline() + margin, now + theirs);
        EXPECT_GE(mine->deadline(), trusted_until(before, at_most));
    }
}

TEST_F(held_lease_test, requests_stop_at_its_end_without_keep_alive)
{
    const frozen_clock clock;
    const auto mine = locks.try_acquire(name, {.at_most = 1h});
    const auto stop = mine->stop_token();
    advance_clock(mine->deadline() - shedlock::clock::now() - 1us);
    EXPECT_TRUE(mine->held());
    EXPECT_FALSE(stop.stop_requested());
    advance_clock(1us);
    EXPECT_FALSE(mine->held());
    EXPECT_TRUE(server::comes_true([&] { return stop.stop_requested(); }));
}

TEST_F(held_lease_test, requests_no_stop_when_it_is_released)
{
    auto mine = locks.try_acquire(name, {.at_most = 1h});
    const auto stop = mine->stop_token();
    mine->release();
    let_pass(1h);
    EXPECT_FALSE(stop.stop_requested());
}

// Otherwise keep-alive and the destructor might both report it.
TEST_F(held_lease_test, is_lost_or_released_but_not_both)
{
    using namespace shedlock::internal;
    timer time;
    const grant granted{token{1}, shedlock::clock::now(), false, std::nullopt};
    lease released{time, name, granted, 1h}, lost{time, name, granted, 1h}, late{time, name, granted, 1h};
    EXPECT_TRUE(released.end());
    EXPECT_FALSE(released.lose(sqlstate::lost));
    EXPECT_FALSE(released.note_deadline_passed());
    EXPECT_TRUE(lost.lose(sqlstate::lost));
    EXPECT_FALSE(lost.lose(sqlstate::lost));
    EXPECT_FALSE(lost.end());
    EXPECT_LT(lost.deadline() - shedlock::clock::now(), 0s);
    EXPECT_FALSE(late.note_deadline_passed()) << "an extend has just moved it";
    const frozen_clock clock;
    advance_clock(2h);
    EXPECT_TRUE(late.note_deadline_passed());
    EXPECT_FALSE(late.note_deadline_passed());
    EXPECT_TRUE(late.end()) << "the server may still have it";
}

// A former bug: keep-alive became due while an extend was under way, and from then on used the old at_most.
TEST_F(held_lease_test, keep_alive_takes_over_the_at_most_of_an_extend_that_it_had_to_wait_for)
{
    auto patient = client(server::connection() + " application_name=patient", 24h);
    auto mine = patient.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    const auto other = patient.try_acquire(name + " other", {.at_most = 1h, .keep_alive = true});
    const auto deadline = other->deadline();
    pqxx::connection another{server::connection()};
    pqxx::work row{another};
    row.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE"); // extend waits for this
    auto extending = std::async(std::launch::async, [&] { mine->extend(10h); });
    EXPECT_TRUE(server::comes_true([] {
        return server::ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'patient'"
                           " AND query LIKE '%shedlock_extend_token%'") == "1";
    }));
    advance_clock(21min); // a third of at_most has passed
    EXPECT_TRUE(server::comes_true([&] { return other->deadline() > deadline; })) << "keep-alive is at work";
    row.abort();
    extending.get();
    let_pass(patient, 21min);
    EXPECT_GT(server::remaining(name), 5h);
    EXPECT_FALSE(heard.include(event::kind::lost)) << heard.texts();
}

TEST_F(held_lease_test, is_as_before_when_an_extend_found_it_busy)
{
    shedlock::internal::timer time;
    shedlock::internal::lease mine{time, name, {token{1}, shedlock::clock::now(), false, {}}, 1h};
    const auto until = mine.deadline();
    EXPECT_THROW(mine.extend(1min,
                             [](const auto &before) -> shedlock::clock::time_point {
                                 before();
                                 throw shedlock::internal::busy{"its row is locked"};
                             }),
                 shedlock::connection_error);
    EXPECT_EQ(mine.deadline(), until);
    EXPECT_EQ(mine.next().certain, 1h);
    const std::unique_lock by_keep_alive{mine.extending, std::try_to_lock};
    ASSERT_TRUE(by_keep_alive);
    EXPECT_THROW(mine.extend(1min, [](const auto &before) { return before(), shedlock::clock::now(); }),
                 shedlock::internal::busy);
    EXPECT_EQ(mine.deadline(), until);
}

TEST_F(held_lease_test, is_as_before_when_there_is_no_reply_to_an_extend_that_is_too_short)
{
    shedlock::internal::timer time;
    shedlock::internal::lease mine{time, name, {token{1}, shedlock::clock::now(), false, {}}, 1h};
    for (const auto at_most : {-1h, 0h})
        EXPECT_THROW(mine.extend(at_most,
                                 [](const auto &before) -> shedlock::clock::time_point {
                                     before();
                                     throw shedlock::in_doubt{"no reply"};
                                 }),
                     shedlock::in_doubt);
    EXPECT_EQ(mine.next().certain, 1h) << "the server refuses it in any case";
}

TEST_F(held_lease_test, is_not_trusted_again_once_its_deadline_has_passed)
{
    auto mine = locks.try_acquire(name, {.at_most = 1h});
    advance_clock(mine->deadline() - shedlock::clock::now()); // the server's lease still runs
    ASSERT_FALSE(mine->held());
    mine->extend(1h);
    EXPECT_FALSE(mine->held());
    EXPECT_EQ(server::state(name), "held");
    mine.reset();
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(held_lease_test, keep_alive_holds_it_beyond_at_most)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    for (int i = 0; i < 6; ++i) {
        const auto deadline = mine->deadline();
        let_pass(21min);
        EXPECT_TRUE(server::comes_true([&] { return mine->deadline() > deadline; })) << "when a third is over";
        ASSERT_TRUE(mine->held());
        ASSERT_EQ(server::state(name), "held");
    }
    const auto deadline = mine->deadline();
    let_pass(15min);
    EXPECT_EQ(mine->deadline(), deadline) << "no sooner";
    EXPECT_FALSE(mine->stop_token().stop_requested());
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(held_lease_test, keep_alive_follows_an_explicit_extend)
{
    auto mine = locks.try_acquire(name, {.at_most = 24h, .keep_alive = true});
    mine->extend(1h); // otherwise the keeper would sleep for eight hours
    const auto deadline = mine->deadline();
    let_pass(21min);
    EXPECT_TRUE(server::comes_true([&] { return mine->deadline() > deadline; }));
    EXPECT_LT(server::remaining(name), 2h);
    EXPECT_TRUE(mine->held());
}

TEST_F(held_lease_test, keep_alive_survives_killed_connections)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    for (int i = 0; i < 8; ++i) {
        const auto deadline = mine->deadline();
        server::ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
        let_pass(21min);
        ASSERT_TRUE(server::comes_true([&] { return mine->deadline() > deadline; }));
        ASSERT_TRUE(mine->held());
    }
    EXPECT_EQ(server::token(name), number(mine->token()));
}

TEST_F(held_lease_test, keep_alive_survives_a_restart_of_the_server)
{
    auto mine = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    const auto deadline = mine->deadline();
    ASSERT_EQ(std::system("pg_ctlcluster \"$PGVERSION\" regress restart -m immediate >/dev/null 2>&1"), 0);
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return mine->deadline() > deadline; }));
    EXPECT_TRUE(mine->held());
    EXPECT_FALSE(mine->stop_token().stop_requested());
    EXPECT_EQ(server::token(name), number(mine->token()));
    EXPECT_NO_THROW(mine->release());
}

TEST_F(held_lease_test, requests_stop_before_the_lease_ends_when_it_cannot_be_extended)
{
    proxy network;
    auto through = client(network.connection());
    const auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    const auto first = mine->deadline();
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return mine->deadline() > first; })) << "it has been extended";
    network.hold_replies(); // the server is there, but its answers do not arrive
    const auto deadline = mine->deadline();
    advance_clock(21min);
    const frozen_clock clock;
    EXPECT_TRUE(mine->held());
    EXPECT_FALSE(mine->stop_token().stop_requested());
    advance_clock(deadline - shedlock::clock::now());
    EXPECT_TRUE(server::comes_true([&] { return mine->stop_token().stop_requested(); }));
    EXPECT_EQ(mine->deadline(), deadline);
    EXPECT_FALSE(mine->held());
    EXPECT_TRUE(server::comes_true([&] {
        return heard.texts().find("could not be extended in time") != std::string::npos;
    })) << heard.texts();
    network.let_go();
}

TEST_F(held_lease_test, never_keeps_a_released_lock_alive)
{
    auto mine = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    pqxx::connection other{server::connection()};
    pqxx::work row{other};
    row.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE");
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return heard.include(event::kind::extend_failing); }));
    auto releasing = std::async(std::launch::async, [&] { mine.reset(); });
    row.abort();
    releasing.get();
    let_pass(21min);
    EXPECT_EQ(server::state(name), "free");
}

TEST_F(held_lease_test, keep_alive_ends_at_once_even_while_it_waits_for_the_network)
{
    proxy network;
    auto through = client(network.connection(), 24h);
    auto connected = through.try_acquire(name + " before", {.at_most = 1h});
    network.hold_newcomers(); // the keeper's own connection will be one of these
    const auto before = network.newcomers();
    auto mine = through.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    ASSERT_TRUE(mine);
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return network.newcomers() > before; })); // libpq cannot be interrupted now
    auto ending = std::async(std::launch::async, [&] { mine.reset(); });
    EXPECT_EQ(ending.wait_for(server::at_last), std::future_status::ready) << "connecting would take a day";
    EXPECT_EQ(server::state(name), "free");
    connected.reset();
    network.let_go();
    ending.get();
}

TEST_F(held_lease_test, an_extend_that_the_server_refuses_changes_nothing)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    const auto before = mine->deadline();
    for (const auto at_most : {-1h, 0h})
        EXPECT_THROW(mine->extend(at_most), shedlock::usage_error);
    EXPECT_THROW(mine->extend(10s, 20s), shedlock::usage_error) << "at_least is longer";
    EXPECT_EQ(mine->deadline(), before);
    EXPECT_FALSE(mine->stop_token().stop_requested());
}
