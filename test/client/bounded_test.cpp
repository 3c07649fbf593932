// How long calls take when the server is silent, including their waits for each other.
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>

namespace {

constexpr std::chrono::milliseconds timeout = 700ms;
// No attempt to connect is ended by the machine's clock.
const std::string patient = " connect_timeout=600";

} // namespace

class bounded_test : public with_server {
protected:
    proxy network;
    proxy other_network;

    std::vector<shedlock::lock> many_locks(shedlock::client &by, bool keep_alive)
    {
        std::vector<shedlock::lock> all;
        for (int i = 0; i < 20; ++i)
            all.push_back(*by.try_acquire(name + std::to_string(i), {.at_most = 1h, .keep_alive = keep_alive}));
        return all;
    }

    void fall_silent()
    {
        network.hold_replies();
        other_network.hold_replies();
    }

    void end_silence()
    {
        network.cut();
        other_network.cut();
    }

    // Each destructor waits half as long as the one before, so together they take one timeout. The clock is moved by
    // four at most. If each waited for half of the timeout, they would take ten.
    void expect_one_timeout_for(std::vector<shedlock::lock> all)
    {
        auto going = std::async(std::launch::async, [&] { all.clear(); });
        for (int i = 0; i < 40 && going.wait_for(0s) != std::future_status::ready; ++i)
            pass_time(timeout / 10);
        EXPECT_EQ(going.wait_for(1min), std::future_status::ready);
        end_silence();
    }

    void expect_silence_to_cost_one_timeout(bool keep_alive)
    {
        const frozen_clock clock;
        auto through = client(network.connection() + patient, timeout);
        auto all = many_locks(through, keep_alive);
        fall_silent();
        expect_one_timeout_for(std::move(all));
    }
};

TEST_F(bounded_test, calls_of_many_threads_take_one_timeout)
{
    const frozen_clock clock;
    auto through = client(network.connection() + patient, timeout);
    (void) through.try_acquire(name, {.at_most = 1min}); // opens the connection
    fall_silent();
    std::atomic<int> begun = 0, ended = 0;
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 10; ++i)
        crowd.emplace_back([&, i] {
            ++begun;
            EXPECT_THROW((void) through.try_acquire(name + std::to_string(i), {.at_most = 1min}),
                         shedlock::connection_error);
            ++ended;
        });
    EXPECT_TRUE(server::comes_true([&] { return begun == 10; }));
    std::this_thread::sleep_for(100ms);
    advance_clock(timeout);
    for (const auto end = std::chrono::steady_clock::now() + 1min;
         ended < 10 && std::chrono::steady_clock::now() < end;)
        std::this_thread::sleep_for(10ms);
    if (ended < 10) // one of them may not have looked at the clock until now
        advance_clock(timeout);
    EXPECT_TRUE(server::comes_true([&] { return ended == 10; })) << "one after the other they would take ten";
    end_silence();
    while (ended < 10)
        pass_time(timeout);
}

TEST_F(bounded_test, locks_of_a_silent_server_are_destroyed_in_one_timeout)
{
    expect_silence_to_cost_one_timeout(false);
    EXPECT_EQ(heard.count(event::kind::not_released), 20) << heard.texts();
}

TEST_F(bounded_test, locks_that_are_kept_alive_are_destroyed_in_one_timeout)
{
    expect_silence_to_cost_one_timeout(true);
}

TEST_F(bounded_test, locks_of_several_silent_hosts_are_destroyed_in_one_timeout)
{
    const frozen_clock clock;
    auto through = client("host=127.0.0.1,127.0.0.1 port=" + network.port() + ',' + other_network.port() +
                              " sslmode=disable" + patient,
                          timeout);
    auto all = many_locks(through, true);
    fall_silent();
    expect_one_timeout_for(std::move(all));
}

TEST_F(bounded_test, locks_are_destroyed_in_one_timeout_when_no_server_can_be_reached)
{
    const frozen_clock clock;
    auto through = client(network.connection() + patient, timeout);
    auto all = many_locks(through, true);
    network.cut();
    network.hold_newcomers();
    expect_one_timeout_for(std::move(all));
}

TEST_F(bounded_test, a_lease_is_counted_from_when_its_request_is_sent)
{
    auto patient = client(server::connection(), 24h);
    const auto stuck = patient.try_acquire(name + " stuck", {.at_most = 10h});
    pqxx::connection other{server::connection()};
    pqxx::work row{other};
    row.exec("SELECT FROM shedlock WHERE name = '" + name + " stuck' FOR UPDATE");
    auto before = std::async(std::launch::async, [&] { patient.force_release(name + " stuck"); }); // waits for the row
    EXPECT_TRUE(server::comes_true(
        [] { return server::ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != "0"; }));
    auto queued = std::async(std::launch::async, [&] {
        const auto mine = patient.try_acquire(name, {.at_most = 1h});
        EXPECT_TRUE(mine);
        EXPECT_TRUE(mine && mine->held());
    });
    std::this_thread::sleep_for(100ms);
    advance_clock(2h); // longer than its lease
    row.abort();
    before.get();
    queued.get();
}

// Waits and leases that are as long as the type allows.

TEST_F(bounded_test, waits_for_ever_when_asked_to)
{
    constexpr auto for_ever = std::chrono::microseconds::max();
    leave_to_end({.at_most = 500ms});
    EXPECT_TRUE(locks.acquire(name, {.at_most = 1min}, for_ever));
    leave_to_end({.at_most = 500ms});
    EXPECT_TRUE(locks.pause(name, std::nullopt, for_ever));
    std::stop_source stop;
    auto waiting = std::async(std::launch::async, [&] {
        return locks.acquire(name, {.at_most = 1s}, for_ever, stop.get_token()).has_value();
    });
    EXPECT_EQ(waiting.wait_for(300ms), std::future_status::timeout);
    stop.request_stop();
    EXPECT_FALSE(waiting.get());
    EXPECT_TRUE(locks.resume(name));
    EXPECT_THROW((void) locks.acquire(name, {.at_most = 1s}, -1s), shedlock::usage_error);
}

TEST_F(bounded_test, refuses_a_lease_that_no_server_can_count)
{
    constexpr auto too_long = std::chrono::microseconds::max();
    const auto told = [](const auto &work) -> std::string {
        try {
            work();
        } catch (const shedlock::usage_error &failure) {
            return failure.what();
        }
        return "";
    };
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    for (const auto &text : {told([&] { (void) locks.try_acquire(name + " 2", {.at_most = too_long}); }),
                             told([&] { mine->extend(too_long); })})
        EXPECT_NE(text.find("at_most"), std::string::npos) << text;
    EXPECT_TRUE(mine->held());
    EXPECT_TRUE(locks.try_acquire(name + " 2", {.at_most = 24h * 365 * 100}));
}

TEST_F(bounded_test, may_have_no_time_limit)
{
    auto patient = client(server::connection(), std::chrono::milliseconds::max());
    auto mine = patient.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    ASSERT_TRUE(mine);
    for (int i = 0; i < 3; ++i)
        let_pass(patient, 21min);
    EXPECT_TRUE(mine->held());
    EXPECT_NO_THROW(mine->release());
    EXPECT_EQ(heard.texts(), "");
}
