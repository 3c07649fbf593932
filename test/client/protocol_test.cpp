// In doubt: the reply never arrived, so the server may or may not have carried out the request.
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>

namespace {

using pending = std::future<std::optional<shedlock::lock>>;

} // namespace

class protocol_test : public with_server {
protected:
    proxy network;
    shedlock::client through = client(network.connection(), 2h);

    // An acquire that is carried out, while its reply is held back.
    pending acquire_without_reply(const shedlock::options &how = {.at_most = 1min})
    {
        (void) through.try_acquire(name + " to connect", {.at_most = 1min});
        network.hold_replies();
        return acquire_behind(through, how);
    }

    pending acquire_behind(shedlock::client &by, const shedlock::options &how = {.at_most = 1min})
    {
        return std::async(std::launch::async, [this, &by, how] { return by.try_acquire(name, how); });
    }

    // Cuts the connection before the reply. If the client cannot find out, it throws in_doubt when its time is over.
    bool is_refused_after_cut(pending &acquiring)
    {
        EXPECT_TRUE(server::comes_true([this] { return network.holds_a_reply(); }));
        network.cut();
        (void) server::comes_true([&] { return acquiring.wait_for(0s) == std::future_status::ready; });
        return !as_time_passes(acquiring);
    }
};

TEST_F(protocol_test, finds_out_that_it_was_granted)
{
    auto acquiring = acquire_without_reply();
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    const auto granted = server::token(name);
    network.cut();
    const auto mine = acquiring.get();
    ASSERT_TRUE(mine) << "it is ours";
    EXPECT_EQ(number(mine->token()), granted) << "by the very acquisition whose reply was lost";
    EXPECT_TRUE(mine->held());
}

TEST_F(protocol_test, finds_out_that_the_server_is_merely_silent)
{
    auto acquiring = acquire_without_reply();
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    network.let_go();
    const auto mine = acquiring.get();
    ASSERT_TRUE(mine);
    EXPECT_EQ(number(mine->token()), server::token(name));
}

TEST_F(protocol_test, finds_out_that_it_was_refused)
{
    const auto theirs = locks.try_acquire(name, {.at_most = 1min});
    auto acquiring = acquire_without_reply();
    EXPECT_TRUE(is_refused_after_cut(acquiring));
    EXPECT_EQ(server::token(name), number(theirs->token()));
}

// When the tick has had its run, the row is free, as it also is while our own acquire is on its way to the disk.
TEST_F(protocol_test, finds_out_that_the_tick_has_had_its_run)
{
    for (shedlock::options how :
         {shedlock::options{.tick = shedlock::instant{1h}}, {.every = 10 * 365 * 24h}, {.cron = "@yearly"}}) {
        how.at_most = 1min;
        locks.try_acquire(name, how)->release();
        auto acquiring = acquire_without_reply(how);
        EXPECT_TRUE(is_refused_after_cut(acquiring));
        server::ask("DELETE FROM shedlock WHERE name = " + server::literal(name));
    }
}

// A lost request may have been granted in time, and not be visible yet. That it is too late by now says nothing about
// it.
TEST_F(protocol_test, does_not_take_too_late_for_refused)
{
    ONLY_THE_EXTENSION("it counts no attempts");
    auto acquiring = acquire_without_reply({.at_most = 1min, .tick = shedlock::instant{1h}, .start_within = 1h});
    EXPECT_TRUE(server::comes_true([this] { return network.holds_a_reply(); }));
    network.cut();
    EXPECT_TRUE(server::comes_true([this] { // it has asked again
        const auto attempts = server::ask("SELECT attempts FROM shedlock_stats WHERE name = " + server::literal(name));
        return attempts > "1";
    }));
    EXPECT_THROW((void) as_time_passes(acquiring), shedlock::in_doubt);
}

// A job that failed is due again, so that the row says nothing about a lost request.
TEST_F(protocol_test, does_not_take_a_failed_run_for_the_end_of_a_tick)
{
    const shedlock::options how{.at_most = 1min, .tick = shedlock::instant{1h}, .retry = true};
    locks.try_acquire(name, how)->release(shedlock::outcome::failed);
    auto acquiring = acquire_without_reply(how);
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    network.cut();
    EXPECT_TRUE(acquiring.get()) << "it is ours";
}

TEST_F(protocol_test, finds_out_that_another_of_its_locks_is_held)
{
    const auto theirs = locks.try_acquire(name + " 2", {.at_most = 1min});
    (void) through.try_acquire(name + " to connect", {.at_most = 1min});
    network.hold_replies();
    auto acquiring = std::async(std::launch::async, [this] {
        return through.try_acquire(shedlock::names{name, name + " 2"}, {.at_most = 1min});
    });
    EXPECT_TRUE(is_refused_after_cut(acquiring));
}

TEST_F(protocol_test, acquires_when_the_request_never_arrived)
{
    (void) through.try_acquire(name + " to connect", {.at_most = 1min});
    network.cut();
    const auto mine = through.try_acquire(name, {.at_most = 1min});
    ASSERT_TRUE(mine);
    EXPECT_EQ(number(mine->token()), server::token(name));
}

TEST_F(protocol_test, does_not_take_its_own_pause_for_somebody_elses)
{
    (void) through.try_acquire(name + " to connect", {.at_most = 1min});
    network.hold_replies();
    auto pausing = std::async(std::launch::async, [&] { return through.pause(name, std::nullopt, 1h); });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "paused"; }));
    network.cut();
    EXPECT_THROW((void) pausing.get(), shedlock::in_doubt);
    locks.resume(name);
}

TEST_F(protocol_test, reports_a_lease_that_ended_before_it_was_known)
{
    auto acquiring = acquire_without_reply({.at_most = 1h});
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    server::end_lease(name);
    network.cut();
    EXPECT_THROW((void) acquiring.get(), shedlock::lock_lost);
}

TEST_F(protocol_test, hands_out_no_lease_that_is_over_when_the_reply_comes)
{
    auto acquiring = acquire_without_reply({.at_most = 1h, .keep_alive = true});
    EXPECT_TRUE(server::comes_true([this] { return network.holds_a_reply(); }));
    advance_clock(1h); // as after the machine was suspended; the request itself may take two
    network.let_go();
    EXPECT_THROW((void) acquiring.get(), shedlock::lock_lost);
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(protocol_test, does_not_ask_again_after_a_stop)
{
    auto theirs = locks.try_acquire(name, {.at_most = 1h});
    (void) through.try_acquire(name + " to connect", {.at_most = 1min});
    network.hold_replies();
    std::stop_source stop;
    auto acquiring =
        std::async(std::launch::async, [&] { return through.acquire(name, {.at_most = 1min}, 1h, stop.get_token()); });
    EXPECT_TRUE(server::comes_true([this] { return network.holds_a_reply(); }));
    theirs->release();
    stop.request_stop();
    network.let_go(); // the answer is that it was refused
    EXPECT_FALSE(acquiring.get()) << "nobody wants it any more";
}

// A refused acquire asks whether the tick has had its run. Whatever happens to that query, nothing is in doubt.
TEST_F(protocol_test, goes_on_waiting_when_a_mere_look_gets_no_reply)
{
    auto quick = client(server::connection(), 10min);
    const auto theirs = locks.try_acquire(name, {.at_most = 1h});
    const auto usual = server::ask("SELECT pg_get_functiondef('shedlock_session_alive(text)'::regprocedure)");
    pqxx::connection other;
    pqxx::nontransaction holding{other};
    holding.exec("SELECT pg_advisory_lock(4711)");
    // Only a look calls this function.
    server::ask("CREATE OR REPLACE FUNCTION shedlock_session_alive(session text) RETURNS boolean LANGUAGE plpgsql AS "
                "'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END'");
    std::stop_source stop;
    auto acquiring = std::async(std::launch::async, [&] {
        return quick.acquire(name, {.at_most = 1min, .every = 1h}, 24h, stop.get_token()).has_value();
    });
    const auto has_looked = [](int times) {
        return std::stoi(server::ask("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")) >=
               times;
    };
    EXPECT_TRUE(server::comes_true([&] { return has_looked(1); }));
    advance_clock(10min + 1s);
    EXPECT_TRUE(server::comes_true([&] { return has_looked(2); })) << "it looks once more";
    EXPECT_EQ(acquiring.wait_for(0s), std::future_status::timeout);
    stop.request_stop();
    server::ask(usual);
    holding.exec("SELECT pg_advisory_unlock(4711)");
    EXPECT_FALSE(acquiring.get());
}

TEST_F(protocol_test, says_that_it_cannot_know_when_the_server_stays_away)
{
    auto acquiring = acquire_without_reply();
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    network.cut();
    network.refuse_newcomers();
    EXPECT_TRUE(server::comes_true([&] { return network.refused() > 0; }));
    EXPECT_THROW((void) as_time_passes(acquiring), shedlock::in_doubt);
    network.let_go();
}

// Another caller's uncommitted acquire looks like our own that is still on its way to the disk.
TEST_F(protocol_test, waits_until_an_undecided_row_is_decided)
{
    pqxx::connection connection;
    pqxx::work undecided{connection};
    auto acquiring = acquire_without_reply();
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    server::ask("SELECT shedlock_force_release('" + name + "')");
    undecided.exec("SELECT shedlock_acquire('" + name + "', '1 min')");
    network.cut();
    std::this_thread::sleep_for(300ms);
    EXPECT_NE(acquiring.wait_for(0s), std::future_status::ready) << "it cannot know yet whether it was granted";
    undecided.commit();
    EXPECT_FALSE(acquiring.get());
}

TEST_F(protocol_test, trusts_the_shorter_lease_when_an_extend_may_have_shortened_it)
{
    auto mine = through.try_acquire(name, {.at_most = 48h});
    network.hold_replies();
    const auto asked = shedlock::clock::now();
    auto extending = std::async(std::launch::async, [&] { mine->extend(24h); });
    EXPECT_TRUE(server::comes_true([&] { return server::remaining(name) < 25h; })) << "it has happened";
    EXPECT_THROW(as_time_passes(extending), shedlock::connection_error);
    EXPECT_LE(mine->deadline(), asked + 24h + 3h) << "not two days";
    network.cut();
}

TEST_F(protocol_test, finds_out_also_when_its_query_of_the_rows_is_cancelled)
{
    auto acquiring = acquire_without_reply();
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
    const auto granted = server::token(name);
    pqxx::connection other{server::connection()};
    pqxx::work table{other};
    table.exec("LOCK TABLE shedlock"); // its query waits for this
    network.cut();
    EXPECT_TRUE(server::comes_true([] { return server::cancel("shedlock_locks") == 1; }));
    table.abort();
    const auto mine = acquiring.get();
    ASSERT_TRUE(mine);
    EXPECT_EQ(number(mine->token()), granted);
}

TEST_F(protocol_test, extends_and_releases_a_third_time_when_the_second_attempt_is_cancelled)
{
    auto mine = through.try_acquire(name, {.at_most = 1min});
    const auto cancelled_after_lost_reply = [&](const char *function, const auto &ask, const auto &is_done) {
        network.hold_replies();
        auto asking = std::async(std::launch::async, ask);
        EXPECT_TRUE(server::comes_true(is_done));
        pqxx::connection other{server::connection()};
        pqxx::work table{other};
        table.exec("LOCK TABLE shedlock"); // the second attempt waits for this
        network.cut();
        EXPECT_TRUE(server::comes_true([&] { return server::cancel(function) == 1; }));
        table.abort();
        EXPECT_NO_THROW(asking.get()) << function;
    };
    cancelled_after_lost_reply(
        "shedlock_extend_token", [&] { mine->extend(1h); }, [&] { return server::remaining(name) > 30min; });
    cancelled_after_lost_reply(
        "shedlock_release_token", [&] { mine->release(); }, [&] { return server::state(name) == "free"; });
}

TEST_F(protocol_test, sends_the_detail_of_a_release_again)
{
    const server::kept_history history;
    auto mine = through.try_acquire(name, {.at_most = 1h});
    network.hold_requests();
    auto releasing = std::async(std::launch::async, [&] { mine->release(shedlock::outcome::failed, "no space"); });
    EXPECT_TRUE(server::comes_true([&] { return network.holds_a_request(); }));
    network.cut();
    EXPECT_NO_THROW(releasing.get());
    EXPECT_EQ(history.of(name), "failed: no space");
}

// The first request may have been carried out, even though the second one finds the row locked.
TEST_F(protocol_test, is_in_doubt_when_the_row_is_busy_after_a_lost_reply)
{
    auto quick = client(network.connection(), 10min);
    auto mine = quick.try_acquire(name, {.at_most = 48h});
    for (const auto &ask : {std::function{[&] { mine->extend(40h); }}, std::function{[&] { mine->release(); }}}) {
        (void) quick.try_acquire(name + " to connect", {.at_most = 1min});
        network.hold_requests();
        auto asking = std::async(std::launch::async, ask);
        EXPECT_TRUE(server::comes_true([&] { return network.holds_a_request(); }));
        pqxx::connection other{server::connection()};
        pqxx::work row{other};
        row.exec("SELECT FROM shedlock WHERE name = '" + name + "' FOR UPDATE");
        network.cut();
        EXPECT_THROW(as_time_passes(asking), shedlock::in_doubt);
    }
    EXPECT_EQ(server::state(name), "held");
    locks.force_release(name);
}

TEST_F(protocol_test, is_in_doubt_when_the_server_stays_away_after_a_lost_reply)
{
    auto quick = client(network.connection(), 10min);
    auto mine = quick.try_acquire(name, {.at_most = 48h});
    network.hold_replies();
    auto releasing = std::async(std::launch::async, [&] { mine->release(); });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; }));
    network.cut();
    network.refuse_newcomers();
    EXPECT_THROW(as_time_passes(releasing), shedlock::in_doubt);
}

// A commit that waits for its synchronous standby has happened already: when the wait ends by cancel, termination or
// the client's death, the lock is held here, and a fail-over would forget it.

namespace {

bool is_asked_for(const std::string &function)
{
    return server::ask("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
                       " AND query LIKE '%" +
                       function + "%'") != "0";
}

// For half of its two hours the client tries to confirm the lock by an extend. For the rest it tries to release it.
void expect_no_belief_in(pending &acquiring)
{
    for (const auto *const function : {"shedlock_extend_token", "shedlock_release_token"}) {
        EXPECT_TRUE(server::comes_true([=] { return is_asked_for(function); })) << function;
        advance_clock(1h);
    }
    EXPECT_THROW((void) acquiring.get(), shedlock::in_doubt);
}

} // namespace

TEST_F(protocol_test, does_not_believe_a_grant_whose_wait_for_the_standby_was_cancelled)
{
    auto patient = client(server::connection(), 2h);
    {
        const server::missing_standby missing;
        auto acquiring = acquire_behind(patient, {.at_most = 10h});
        EXPECT_TRUE(server::comes_true(server::a_commit_waits_for_the_standby));
        EXPECT_EQ(server::cancel("shedlock_acquire_token"), 1);
        expect_no_belief_in(acquiring);
    }
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; })) << "and the lock is released";
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(protocol_test, does_not_believe_a_grant_whose_session_was_terminated_while_it_waited_for_the_standby)
{
    const server::missing_standby missing;
    auto patient = client(server::connection(), 2h);
    auto acquiring = acquire_behind(patient, {.at_most = 10h});
    EXPECT_TRUE(server::comes_true(server::a_commit_waits_for_the_standby));
    EXPECT_EQ(server::terminate("shedlock_acquire_token"), 1);
    expect_no_belief_in(acquiring);
}

TEST_F(protocol_test, confirms_a_grant_when_the_standby_is_there_again)
{
    for (const auto end_wait : {server::cancel, server::terminate}) {
        auto patient = client(server::connection(), 1h);
        std::optional<server::missing_standby> missing{std::in_place};
        auto acquiring = acquire_behind(patient);
        EXPECT_TRUE(server::comes_true(server::a_commit_waits_for_the_standby));
        EXPECT_EQ(end_wait("shedlock_acquire_token"), 1);
        EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "held"; }));
        missing.reset();
        const auto mine = acquiring.get();
        ASSERT_TRUE(mine);
        EXPECT_EQ(number(mine->token()), server::token(name));
    }
}

TEST_F(protocol_test, does_not_count_on_an_extend_whose_wait_for_the_standby_was_cancelled)
{
    auto quick = client(server::connection(), 1h);
    auto mine = quick.try_acquire(name, {.at_most = 24h});
    const auto before = mine->deadline();
    const server::missing_standby missing;
    std::atomic<bool> done = false, was_cancelled = false;
    const std::jthread cancelling{[&] {
        while (!done) // if it were cancelled before the commit waits, that would not have happened
            if (server::a_commit_waits_for_the_standby())
                was_cancelled = server::cancel("shedlock_extend_token") > 0 || was_cancelled;
    }};
    auto extending = std::async(std::launch::async, [&] { mine->extend(48h); });
    EXPECT_TRUE(server::comes_true([&] { return was_cancelled.load(); }));
    EXPECT_THROW(as_time_passes(extending), shedlock::connection_error);
    done = true;
    EXPECT_LE(mine->deadline(), before) << "the earlier of the two possible deadlines";
}

TEST_F(protocol_test, does_not_deny_an_extend_because_the_next_try_was_cancelled)
{
    auto quick = client(server::connection(), 1h);
    auto mine = quick.try_acquire(name, {.at_most = 10h});
    pqxx::connection other{server::connection()};
    pqxx::work table{other};
    {
        const server::missing_standby missing;
        auto extending = std::async(std::launch::async, [&] { mine->extend(2h); });
        EXPECT_TRUE(server::comes_true(server::a_commit_waits_for_the_standby));
        auto locking = std::async(std::launch::async, [&] { table.exec("LOCK TABLE shedlock"); }); // the next try waits
        EXPECT_TRUE(server::comes_true([] {
            return server::ask("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted") ==
                   "1";
        }));
        EXPECT_EQ(server::cancel("shedlock_extend_token"), 1);
        locking.get();
        for (; extending.wait_for(10ms) != std::future_status::ready; advance_clock(10min))
            server::cancel("shedlock_extend_token");
        EXPECT_THROW(extending.get(), shedlock::connection_error);
    }
    table.abort();
    EXPECT_LT(server::remaining(name), 3h) << "the first has happened";
}

TEST_F(protocol_test, what_was_granted_when_the_caller_had_given_up_is_released)
{
    auto direct = client(""); // past a pooler, whose sessions cannot be cancelled
    const auto state = [&] { return server::state(name) + server::last_outcome(name); };
    {
        const server::missing_standby missing;
        auto asking = std::async(std::launch::async, [&] { (void) direct.try_acquire(name, {.at_most = 1h}); });
        EXPECT_TRUE(server::comes_true([] {
            return server::ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE "
                               "'%shedlock_acquire_token%'") == "1";
        }));
        advance_clock(1min); // once: the thread that goes on has a minute from now on
        EXPECT_THROW(asking.get(), shedlock::in_doubt);
        EXPECT_TRUE(server::comes_true([&] { return !state().empty(); })) << "its wait was cancelled";
    }
    EXPECT_TRUE(server::comes_true([&] { return state() == "freefailed"; })) << state(); // the release may wait, too
}
