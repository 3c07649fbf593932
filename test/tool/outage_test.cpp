// A server that is away, when a run begins or when it ends.
#include "scene.hpp"

#include "../client/proxy.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <thread>

using namespace shedlock::test;

namespace {

words through(const proxy &network, words more)
{
    return words{"shedlock", "--dsn", network.connection(), "run", name(), "--at-most"} + more;
}

int count_of(const std::string &text, const std::string &what)
{
    int count = 0;
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

} // namespace

TEST(outage, wait_reports_once_that_there_is_no_server_and_once_that_there_is)
{
    proxy network;
    network.refuse_newcomers();
    process waiting{through(network, {"1m", "--wait", "1h", "--", "true"})};
    EXPECT_TRUE(comes_true([&] { return network.refused() > 4; }));
    network.let_go();
    const auto ended = waiting.wait();
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(count_of(ended.err, "\n"), 2) << ended.err;
    EXPECT_EQ(last_outcome(), "done");
}

TEST(outage, wait_server_waits_for_the_server_but_not_for_the_lock)
{
    proxy network;
    network.refuse_newcomers();
    acquire(name(), "1h");
    process waiting{through(network, {"1m", "--wait-server", "1h", "-E", "7", "--", "true"})};
    EXPECT_TRUE(comes_true([&] { return network.refused() > 2; }));
    network.let_go();
    EXPECT_EQ(waiting.wait().status, 7);
}

TEST(outage, is_survived_although_nobody_reads_the_message)
{
    proxy network;
    network.refuse_newcomers();
    process waiting{sh("mkfifo full; exec 3<>full; head -c 65536 /dev/zero >&3; exec \"$@\" 2>&3",
                       through(network, {"1m", "--wait-server", "1h", "--", "true"}))};
    EXPECT_TRUE(comes_true([&] { return network.refused() > 2; }));
    waiting.signal(SIGTERM);
    EXPECT_EQ(waiting.wait().status, 128 + SIGTERM);
}

// As when libpq tries the first of two addresses, and its host is gone. The pause is for a tool that would give up.
TEST(outage, a_first_connection_that_takes_long_is_used)
{
    for (const auto &command : {words{"run", name(), "--at-most", "1m", "--verbose", "--", "true"},
                                words{"check", name(), "--max-age", "1d"}, words{"pause", name()}}) {
        proxy network;
        network.hold_newcomers();
        process tool{words{"shedlock", "--dsn", network.connection()} + command};
        ASSERT_TRUE(comes_true([&] { return network.holds_a_reply(); })) << tool.err();
        advance_clock(std::chrono::minutes{1});
        std::this_thread::sleep_for(std::chrono::seconds{1});
        network.let_go();
        const auto ended = tool.wait();
        EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
    }
}

TEST(outage, leaves_the_JSON_of_list_watch_intact)
{
    proxy network;
    process watching{{"shedlock", "--dsn", network.connection(), "list", "--watch", "--json"}};
    ASSERT_TRUE(watching.says("]"));
    EXPECT_TRUE(comes_true([&] {
        network.cut(); // again, in case the tool has connected anew before it was refused
        network.refuse_newcomers();
        return !watching.err().empty();
    }));
    EXPECT_EQ(watching.out().find("shedlock: "), std::string::npos) << watching.out();
}

TEST(outage, wait_server_ends)
{
    proxy network;
    network.refuse_newcomers();
    EXPECT_EQ(run(through(network, {"1m", "--wait", "1h", "--wait-server", "1s", "--", "true"})).status, 125);
    EXPECT_GE(network.refused(), 2);
    EXPECT_EQ(run(through(network, {"1m", "--", "true"})).status, 125) << "without either option it does not wait";
}

TEST(outage, is_not_waited_for_when_the_password_is_wrong)
{
    const auto ended = run({"shedlock", "--dsn", "user=nobody_of_that_name password=wrong", "run", name(), "--at-most",
                            "1m", "--wait", "1h", "--", "true"});
    EXPECT_EQ(ended.status, 125);
    EXPECT_EQ(count_of(ended.err, "\n"), 1) << ended.err;
}

// The command waits for a file, which the test makes once the server is away, or once its replies are held.
class after_the_work : public testing::Test {
protected:
    proxy network;
    process started(words options)
    {
        options.insert(options.end(), {"--", "sh", "-c", "echo started; until [ -e go ]; do sleep 0.1; done"});
        return process{through(network, std::move(options))};
    }
    void lose_the_server(process &during)
    {
        EXPECT_TRUE(during.says("started"));
        network.cut();
        network.refuse_newcomers();
        run({"touch", "go"});
    }
    // The first release is given up after five seconds by the tool's clock.
    static void await_a_failed_release(process &working)
    {
        EXPECT_TRUE(comes_true([&] {
            advance_clock(std::chrono::seconds{1});
            return working.err().find("not recorded yet") != std::string::npos;
        }));
    }
};

TEST_F(after_the_work, retry_records_it_as_soon_as_the_server_is_back)
{
    auto working = started({"1h", "--every", "1d", "--retry"});
    lose_the_server(working);
    await_a_failed_release(working);
    network.let_go();
    const auto ended = working.wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(last_outcome(), "done");
}

TEST_F(after_the_work, retry_gives_up_at_a_signal_and_says_that_it_will_run_again)
{
    auto working = started({"1h", "--every", "1d", "--retry"});
    lose_the_server(working);
    await_a_failed_release(working);
    working.signal(SIGTERM);
    const auto ended = working.wait();
    EXPECT_EQ(ended.status, 123);
    EXPECT_EQ(count_of(ended.err, "will run again"), 1) << ended.err;
}

TEST_F(after_the_work, retry_does_not_say_not_recorded_when_only_the_reply_was_lost)
{
    auto working = started({"1h", "--every", "1d", "--retry"});
    EXPECT_TRUE(working.says("started"));
    network.hold_replies();
    run({"touch", "go"});
    EXPECT_TRUE(comes_true([] { return last_outcome() == "done"; }));
    network.cut();
    network.refuse_newcomers();
    EXPECT_TRUE(comes_true([&] {
        advance_clock(std::chrono::seconds{1});
        return working.err().find("trying until the lease ends") != std::string::npos;
    }));
    working.signal(SIGTERM);
    const auto ended = working.wait();
    EXPECT_EQ(ended.status, 123);
    EXPECT_EQ(count_of(ended.err, "not known whether that was recorded"), 2) << ended.err;
    EXPECT_EQ(count_of(ended.err, "not recorded"), 0) << ended.err;
}

TEST_F(after_the_work, retry_gives_up_when_the_lease_ends)
{
    auto working = started({"1h", "--every", "1d", "--retry", "--no-keep-alive"});
    lose_the_server(working);
    await_a_failed_release(working);
    advance_clock(std::chrono::hours{1});
    EXPECT_EQ(working.wait().status, 123);
}

TEST_F(after_the_work, without_retry_the_status_is_the_commands)
{
    auto working = started({"1h", "--every", "1d"});
    lose_the_server(working);
    EXPECT_TRUE(comes_true([&] {
        advance_clock(std::chrono::seconds{1});
        return working.err().find("not released") != std::string::npos;
    }));
    const auto ended = working.wait();
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(count_of(ended.err, "not released"), 1) << ended.err;
}

TEST_F(after_the_work, with_a_lock_that_ends_with_its_session_is_stopped_when_that_is_lost)
{
    auto working = started({"1h", "--every", "1d", "--retry", "--ends-with-session"});
    EXPECT_TRUE(working.says("started"));
    EXPECT_EQ(state(), "held");
    network.cut();
    const auto ended = working.wait();
    EXPECT_EQ(ended.status, 124);
    EXPECT_EQ(count_of(ended.err, "\n"), 2) << ended.err;
    EXPECT_TRUE(comes_true([] { return state() == "free"; }));
    EXPECT_EQ(last_outcome(), "ran out");
    EXPECT_EQ(network.newcomers(), 1) << "it did not connect again";
}

TEST(outage, does_not_concern_a_lock_that_ends_with_its_session_and_is_released_before)
{
    proxy network;
    EXPECT_EQ(run(through(network, {"1h", "--ends-with-session", "--", "true"})).status, 0);
    EXPECT_EQ(last_outcome(), "done");
}

// ---- Not about outages: SHEDLOCK_TICK, local days, and the help ----

TEST(tick_test, is_in_the_commands_environment)
{
    const auto tick =
        run(under_lock({"printenv", "SHEDLOCK_TICK"}, {"--at-most", "1m", "--tick", "2026-01-02T03:04:05+01:00"}));
    EXPECT_EQ(tick.out, "2026-01-02T02:04:05Z\n") << tick.err;
    const auto fraction =
        run(under_lock({"printenv", "SHEDLOCK_TICK"}, {"--at-most", "1m", "--tick", "@1767319446.25"}));
    EXPECT_EQ(fraction.out, "2026-01-02T02:04:06.250000Z\n") << fraction.err;
}

TEST(tick_test, is_not_that_of_a_run_around_it)
{
    const auto inner = run({"env", "SHEDLOCK_TICK=2026-01-02T02:04:05Z", "shedlock", "run", name(), "--at-most", "1m",
                            "--", "printenv", "SHEDLOCK_TICK"});
    EXPECT_EQ(inner.out, "");
    EXPECT_EQ(inner.status, 1) << "printenv has not found it";
}

TEST(tick_test, may_be_a_local_day)
{
    const auto day = [](const std::string &zone) {
        return run({"shedlock", "run", name() + zone, "--at-most", "1m", "--every", "1d", "--zone", zone, "--",
                    "printenv", "SHEDLOCK_TICK"})
            .out;
    };
    EXPECT_NE(day("UTC").find("T00:00:00Z"), std::string::npos);
    EXPECT_NE(day("Asia/Tokyo").find("T15:00:00Z"), std::string::npos);
    EXPECT_EQ(day("Asia/Nowhere"), "");
}

TEST(tick_test, may_be_a_week_or_months)
{
    const auto run_of = [](const std::string &period) {
        return run({"shedlock", "run", name() + period, "--at-most", "1m", "--every", period, "--zone", "Asia/Tokyo",
                    "--", "printenv", "SHEDLOCK_TICK"});
    };
    for (const auto &[period, interval] :
         {std::pair{"1w", "7 days"}, std::pair{"1mon", "1 month"}, std::pair{"6mon", "6 months"}}) {
        const auto due = [&interval = interval] {
            return ask(std::string{"SELECT to_char(shedlock_tick('"} + interval +
                       "', zone => 'Asia/Tokyo') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')") +
                   '\n';
        };
        const auto before = due();
        const auto tick = run_of(period);
        EXPECT_TRUE(tick.out == before || tick.out == due()) << period << tick.out << tick.err; // it may end meanwhile
    }
}

TEST(help_test, shows_where_the_command_goes)
{
    const auto help = run({"shedlock", "run", "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("Usage: shedlock run [OPTIONS] NAME... -- COMMAND ARG...\n"), std::string::npos)
        << help.out;
}
