// Callers wait on the server: they ask only when the lock may be free, and do not poll.
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>
#include <iostream>

namespace {

constexpr auto for_long = 10min;
// By the client's clock. In that time a client that polls asks 30 to 60 times, and one that waits does not ask. If a
// slice fails because the machine has stood still, the client polls for a second.
constexpr auto a_while = 3s;
constexpr int few = 20;

int attempts(const std::string &name)
{
    const auto count = server::ask("SELECT attempts FROM shedlock_stats WHERE name = '" + name + '\'');
    return count.empty() ? 0 : std::stoi(count);
}

// How many sessions wait now.
std::string sleepers(const std::string &application = "waits")
{
    return server::ask("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND application_name = '" +
                       application + "' AND query LIKE '%shedlock_wait_any%'");
}

std::string sleeper() // the pid of the only one
{
    return server::ask("SELECT pid FROM pg_stat_activity WHERE state = 'active' AND application_name = 'waits' AND "
                       "query LIKE '%shedlock_wait_any%'");
}

// How often the lock is asked for in that time.
int attempts_in_a_while(const std::string &name)
{
    const auto before = attempts(name);
    pass_time(a_while);
    return attempts(name) - before;
}

// Replaces the server's wait while this lives.
class other_wait {
public:
    explicit other_wait(const std::string &body)
    {
        server::ask(
            "CREATE OR REPLACE FUNCTION shedlock_wait_any(names text[], which integer[], wait interval, wait_id bigint)"
            " RETURNS integer[] LANGUAGE plpgsql AS $$ BEGIN " +
            body + " END $$");
    }
    ~other_wait() { server::ask(found_); }
    other_wait(const other_wait &) = delete;
    other_wait &operator=(const other_wait &) = delete;

private:
    std::string found_ = server::ask(
        "SELECT pg_get_functiondef('shedlock_wait_any(text[], integer[], interval, bigint)'::regprocedure)");
};

// The server's wait lasts an hour, whatever the client asks for, unless locks look free or shedlock_end_wait ends it.
class endless_wait {
public:
    endless_wait() = default;
    ~endless_wait()
    {
        server::terminate("shedlock_wait_any");
        server::ask("ALTER EXTENSION shedlock DROP FUNCTION real_wait_any; DROP FUNCTION real_wait_any");
    }
    endless_wait(const endless_wait &) = delete;
    endless_wait &operator=(const endless_wait &) = delete;

private:
    static std::string copied()
    {
        server::ask("DO $$ BEGIN EXECUTE replace(pg_get_functiondef("
                    "'shedlock_wait_any(text[], integer[], interval, bigint)'::regprocedure),"
                    " '.shedlock_wait_any(', '.real_wait_any('); END $$;"
                    " ALTER EXTENSION shedlock ADD FUNCTION real_wait_any"); // only its members lead to the lock table
        return "RETURN real_wait_any(names, which, '1 h', wait_id);";
    }

    const other_wait instead_{copied()};
};

} // namespace

class waiting_test : public with_server {
protected:
    void SetUp() override
    {
        if (!server::connection().empty())
            GTEST_SKIP() << "behind a pooler it polls, see polls_behind_a_pooler";
        ONLY_THE_EXTENSION("waiters are not woken, see asks_to_be_woken_once_a_second_at_most");
    }

    std::future<std::optional<shedlock::lock>> wait_for(const shedlock::names &what,
                                                        std::chrono::milliseconds wait = for_long)
    {
        return std::async(std::launch::async, [this, what, wait, end = stop.get_token()] {
            return own.acquire(what, {.at_most = 1min}, wait, end);
        });
    }

    // The connection of the callers, which is opened first, goes straight to the server.
    shedlock::client client_that_waits_over(const std::string &connection)
    {
        auto count = std::make_shared<std::atomic<int>>();
        return shedlock::client{[=] { return (*count)++ == 0 ? "" : connection; },
                                {.timeout = 1min, .on_event = heard.handler()}};
    }

    // How often they ask in all, once the lock may be free.
    int attempts_of_a_crowd()
    {
        auto held = locks.try_acquire(name, {.at_most = 1h});
        const auto before = attempts(name);
        std::vector<std::future<void>> crowd;
        for (int i = 0; i < 20; ++i)
            crowd.push_back(std::async(std::launch::async, [&] {
                const auto mine = own.acquire(name, {.at_most = 1h}, 24h);
                EXPECT_TRUE(mine);
                std::this_thread::sleep_for(10ms);
            }));
        EXPECT_TRUE(server::comes_true([&] { return attempts(name) >= before + 20; }));
        EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
        const auto asked = attempts(name);
        held->release();
        for (auto &one : crowd)
            one.get();
        return attempts(name) - asked;
    }

    void expect_a_crowd_to_ask_one_after_the_other()
    {
        int least = attempts_of_a_crowd();
        for (int i = 0; i < 10 && least > 20 + 20;
             ++i) { // a caller that is suspended for a second while it asks loses its place
            std::clog << least << " attempts, perhaps because the machine has stood still: once more\n";
            least = std::min(least, attempts_of_a_crowd());
        }
        EXPECT_LE(least, 20 + 20) << "if every waiter asked at each release, there would be about 200 attempts";
    }

    std::stop_source stop;
    shedlock::client own = client("application_name=waits");
};

TEST_F(waiting_test, asks_when_it_may_be_granted)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    EXPECT_LE(attempts_in_a_while(name), few);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    held->release();
    EXPECT_TRUE(waiting.get());
    EXPECT_GE(
        std::stod(server::ask("SELECT extract(epoch FROM wait_time) FROM shedlock_stats WHERE name = '" + name + '\'')),
        2);
}

TEST_F(waiting_test, asks_when_a_lease_has_ended)
{
    leave_to_end({.at_most = a_while});
    auto waiting = wait_for(name);
    EXPECT_LE(attempts_in_a_while(name), few);
    EXPECT_TRUE(waiting.get());
}

TEST_F(waiting_test, does_not_ask_for_several_while_one_is_held)
{
    auto held = locks.try_acquire(name + " b", {.at_most = 1h});
    auto waiting = wait_for({name + " a", name + " b"});
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    EXPECT_LE(attempts_in_a_while(name + " a"), few);
    held->release();
    EXPECT_TRUE(waiting.get());
}

TEST_F(waiting_test, many_callers_that_wait_for_one_name_use_one_session_and_ask_one_after_the_other)
{
    expect_a_crowd_to_ask_one_after_the_other();
}

TEST_F(waiting_test, many_callers_ask_one_after_the_other_even_without_the_servers_queue)
{
    const other_wait without_queue{
        "FOR i IN 1..100 LOOP"
        " IF EXISTS (SELECT FROM shedlock_locks l WHERE l.name = names[1] AND state = 'free') THEN"
        " RETURN (SELECT array_agg(one ORDER BY one) FROM unnest(which) AS one); END IF;"
        " PERFORM pg_sleep(0.01); END LOOP; RETURN '{}';"};
    expect_a_crowd_to_ask_one_after_the_other();
}

TEST_F(waiting_test, many_names_are_waited_for_in_one_session)
{
    const auto start = std::chrono::steady_clock::now();
    std::vector<shedlock::lock> held;
    std::vector<std::future<std::optional<shedlock::lock>>> crowd;
    const auto each = [&](int i) { return name + ' ' + std::to_string(i); };
    own = client("application_name=waits options='-c track_functions=all'");
    for (int i = 0; i < 20; ++i)
        held.push_back(*locks.try_acquire(each(i), {.at_most = 1h}));
    for (int i = 0; i < 20; ++i)
        crowd.push_back(wait_for(each(i)));
    EXPECT_TRUE(server::comes_true([&] { return attempts(each(19)) > 1 && sleepers() == "1"; }));
    const auto before = attempts(each(0));
    EXPECT_LE(attempts_in_a_while(each(19)), few);
    EXPECT_LE(attempts(each(0)) - before, few);
    for (int i = 19; i >= 0; --i) {
        held[i].release();
        EXPECT_TRUE(crowd[i].get());
    }
    const auto slices = std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
    own = client("application_name=waits"); // sessions report their statistics when they end
    const auto calls = [] {
        return std::stoi(server::ask("SELECT sum(calls) FROM pg_stat_user_functions"
                                     " WHERE funcname IN ('shedlock_wait_any', 'shedlock_end_wait')"));
    };
    EXPECT_TRUE(server::comes_true([&] { return calls() >= 20; }));
    EXPECT_LT(calls(), 100 + slices);
}

// A statement names at most a thousand locks, and each list of names once. Callers beyond that poll, until there is
// room.
TEST_F(waiting_test, asks_for_no_more_names_than_an_array_may_have)
{
    server::ask("DROP TABLE IF EXISTS slices; CREATE TABLE slices (number serial, names int)");
    server::ask("SELECT shedlock_stats_reset()"); // there are counters for only a thousand names
    const other_wait records{
        "INSERT INTO slices (names) VALUES (cardinality(names)); PERFORM pg_sleep(0.1); RETURN '{}';"};
    const auto last_slice = [] { return std::stoi(server::ask("SELECT COALESCE(max(number), 0) FROM slices")); };
    const auto comes_slice_of = [](int names) {
        return server::comes_true([&] {
            return server::ask("SELECT EXISTS (SELECT FROM slices WHERE names = " + std::to_string(names) + ")") == "t";
        });
    };
    std::vector<std::string> many;
    for (int i = 0; i < 998; ++i)
        many.push_back(name + ' ' + std::to_string(i));
    auto held = locks.try_acquire(many, {.at_most = 10min});

    auto first = wait_for(many);
    EXPECT_TRUE(comes_slice_of(998));
    auto same = wait_for(many);
    EXPECT_TRUE(server::comes_true([&] { return attempts(many[997]) >= 3; }));
    auto stop_many = std::exchange(stop, {});
    auto three = wait_for(std::vector(many.begin(), many.begin() + 3));
    EXPECT_TRUE(server::comes_true([&] { return attempts(many[0]) > few; }))
        << "there is no room for these, so it asks";
    auto one = wait_for(many[3]);
    EXPECT_TRUE(comes_slice_of(999)) << "there is room for this one";
    const auto now = last_slice();
    EXPECT_TRUE(server::comes_true([&] { return last_slice() > now + 2; }));
    EXPECT_EQ(server::ask("SELECT max(names) FROM slices"), "999");

    stop_many.request_stop();
    EXPECT_FALSE(first.get());
    EXPECT_FALSE(same.get());
    EXPECT_TRUE(comes_slice_of(4)) << "there is room";
    stop.request_stop();
    EXPECT_FALSE(three.get());
    EXPECT_FALSE(one.get());
    server::ask("DROP TABLE slices");
}

TEST_F(with_server, more_names_than_an_array_may_have_are_refused)
{
    std::vector<std::string> many;
    for (int i = 0; i < 1001; ++i)
        many.push_back(name + ' ' + std::to_string(i));
    for (const auto wait : {0ms, 60'000ms})
        try {
            (void) locks.acquire(many, {.at_most = 1min}, wait);
            FAIL();
        } catch (const shedlock::usage_error &failure) {
            EXPECT_EQ(failure.sqlstate(), "54000");
            EXPECT_NE(std::string{failure.what()}.find("name must not have more than 1000 elements"),
                      std::string::npos);
        }
}

// A later caller ends the server's wait, which does not include its locks. Otherwise it would have to wait for as
// long as the server was asked to wait for the first caller.
TEST_F(waiting_test, a_caller_that_comes_later_is_woken_as_well)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    const endless_wait endless;
    const frozen_clock clock; // otherwise a caller asks after ten seconds in any case
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    for (int i = 0; i < 5; ++i) {
        const auto other = name + std::to_string(i);
        auto others = locks.try_acquire(other, {.at_most = 1h});
        auto later = wait_for(other);
        EXPECT_TRUE(server::comes_true([&] { return attempts(other) == 2; }));
        std::this_thread::sleep_for(50ms);
        others->release();
        EXPECT_TRUE(later.get());
    }
    stop.request_stop();
    EXPECT_FALSE(waiting.get());
}

TEST_F(waiting_test, keeps_no_other_calls_waiting)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    const endless_wait endless;
    const frozen_clock clock;
    std::vector<std::future<std::optional<shedlock::lock>>> crowd;
    for (int i = 0; i < 20; ++i)
        crowd.push_back(wait_for(name, 24h));
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    EXPECT_TRUE(own.try_acquire(name + " other", {.at_most = 1h}));
    EXPECT_EQ(sleepers(), "1") << "still";
    stop.request_stop();
    for (auto &one : crowd)
        EXPECT_FALSE(one.get());
}

// Neither a stop nor the end of the client has to wait for the end of the server's wait.
TEST_F(waiting_test, ends_at_once_when_a_stop_is_requested)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    const endless_wait endless;
    for (const auto *const application : {"a", "b"}) {
        own = client(std::string{"application_name="} + application);
        stop = {};
        const frozen_clock clock; // otherwise a caller asks after ten seconds in any case
        auto waiting = wait_for(name, 24h);
        EXPECT_TRUE(server::comes_true([&] { return sleepers(application) == "1"; }));
        stop.request_stop();
        EXPECT_EQ(waiting.wait_for(server::at_last), std::future_status::ready);
        EXPECT_EQ(sleepers(application), "1") << "still";
        own = client(""); // while its thread is still waiting
    }
}

TEST_F(waiting_test, ends_when_its_time_is_over)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto other = locks.try_acquire(name + " other", {.at_most = 1h});
    const endless_wait endless;
    auto longer = wait_for(name + " other", 24h);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    const frozen_clock clock;
    auto waiting = wait_for(name, 1s);
    EXPECT_TRUE(server::comes_true([&] { return attempts(name) == 2; }));
    EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
    advance_clock(1s);
    EXPECT_FALSE(waiting.get());
    EXPECT_LE(attempts(name), few);
    stop.request_stop();
    EXPECT_FALSE(longer.get());
}

TEST_F(waiting_test, gives_its_connection_back)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    stop.request_stop();
    EXPECT_FALSE(waiting.get());
    EXPECT_TRUE(server::comes_true(
        [] { return server::ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits'") == "1"; }));
}

TEST_F(waiting_test, pause_waits_on_the_server_too)
{
    auto held = locks.try_acquire(name, {.at_most = 1min});
    auto pausing = std::async(std::launch::async, [&] { return own.pause(name, std::nullopt, for_long); });
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    held->release();
    EXPECT_TRUE(pausing.get());
    EXPECT_TRUE(locks.resume(name));
}

// Whatever happens to the session that waits, the caller gets the lock.

TEST_F(waiting_test, survives_the_end_of_its_session)
{
    for (const auto &end : {server::cancel, server::terminate}) {
        auto held = locks.try_acquire(name, {.at_most = 1h});
        auto waiting = wait_for(name);
        EXPECT_TRUE(server::comes_true([&] { return end("shedlock_wait_any") >= 1; }));
        held->release();
        EXPECT_TRUE(waiting.get());
        stop = {};
    }
}

TEST_F(waiting_test, waits_again_after_the_end_of_its_session)
{
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    const auto before = sleeper();
    server::terminate("shedlock_wait_any");
    EXPECT_TRUE(server::comes_true([&] { return !sleeper().empty() && sleeper() != before; })) << "another session";
    held->release();
    EXPECT_TRUE(waiting.get());
}

TEST_F(waiting_test, survives_a_connection_that_cannot_be_opened)
{
    proxy network;
    network.hold_newcomers();
    own = client_that_waits_over(network.connection() + " connect_timeout=600");
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([&] { return attempts(name) > 5; })) << "it asks";
    held->release();
    EXPECT_TRUE(waiting.get());
    network.let_go();
}

// Otherwise 200 clients that cannot open another connection in time keep the server so busy that they never can.
TEST_F(waiting_test, asks_less_often_while_one_wait_after_another_fails)
{
    std::mutex mutex;
    std::vector<shedlock::clock::time_point> opened;
    const auto openings = [&] {
        const std::lock_guard hold{mutex};
        return opened;
    };
    own = shedlock::client{[&] {
                               const std::lock_guard hold{mutex};
                               opened.push_back(shedlock::clock::now());
                               return opened.size() == 1 ? "" : "host=/nowhere";
                           },
                           {.on_event = heard.handler()}};
    auto held = locks.try_acquire(name, {.at_most = 1h});
    const auto began = shedlock::clock::now();
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([&] { return openings().size() >= 5; }));
    const auto asked = attempts(name);
    const std::chrono::duration<double> took = shedlock::clock::now() - began;
    EXPECT_LE(asked, 6 + 2 * took.count()) << "four short pauses, then at least half a second each";
    EXPECT_GE(openings().at(4) - openings().at(3), 4s);
    held->release();
    EXPECT_TRUE(waiting.get());
    own = client("");
}

TEST_F(waiting_test, survives_a_connection_that_falls_silent)
{
    proxy network;
    own = client_that_waits_over(network.connection() + " application_name=waits");
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto waiting = wait_for(name, 24h);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    network.hold_replies();
    held->release();
    const frozen_clock clock;
    advance_clock(6s + 1ms); // after a slice there is a second for the reply
    std::chrono::milliseconds patience = 1s;
    for (; waiting.wait_for(patience) != std::future_status::ready && patience < server::at_last; patience *= 2)
        pass_time(100ms); // it pauses before it asks
    EXPECT_LT(patience, server::at_last) << "it did not ask before the ten seconds after which it asks in any case";
    network.let_go();
    advance_clock(1h);
    EXPECT_TRUE(waiting.get());
}

TEST_F(waiting_test, survives_a_server_that_is_away_for_a_while)
{
    proxy network;
    own = client(network.connection() + " application_name=waits");
    auto held = locks.try_acquire(name, {.at_most = 1min});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    network.cut();
    network.refuse_newcomers();
    EXPECT_TRUE(server::comes_true([&] { return network.refused() > 3; }));
    network.let_go();
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; })) << "waits again";
    held->release();
    EXPECT_TRUE(waiting.get());
}

TEST_F(waiting_test, finds_out_that_it_waits_on_another_server)
{
    const other_wait forgotten{"PERFORM pg_sleep(extract(epoch FROM wait)); RETURN '{}';"};
    auto held = locks.try_acquire(name, {.at_most = 1min});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    held->release();
    EXPECT_TRUE(waiting.get());
}

// When the server's wait cannot be used.

// A caller asks in any case after ten seconds, and the server's wait is to end by then. So when little of that time is
// left, the last body sleeps for longer than it is asked to.
TEST_F(waiting_test, asks_where_the_servers_wait_cannot_be_used)
{
    for (const auto *const body :
         {"RETURN NULL;", "RAISE insufficient_privilege;", "RETURN '{}';", "PERFORM pg_sleep(2.7); RETURN '{}';"}) {
        const other_wait server_wait{body};
        auto held = locks.try_acquire(name, {.at_most = 1h});
        const auto before = attempts(name);
        auto waiting = wait_for(name);
        EXPECT_TRUE(server::comes_true([&] { return attempts(name) > before + 3; })) << body;
        held->release();
        EXPECT_TRUE(waiting.get()) << body;
    }
}

TEST_F(waiting_test, pauses_between_requests_if_it_is_woken_in_vain)
{
    const other_wait always{"RETURN array_agg(DISTINCT one ORDER BY one) FROM unnest(which) AS one;"};
    auto held = locks.try_acquire(name, {.at_most = 1h});
    EXPECT_FALSE(wait_for(name, a_while).get());
    EXPECT_LT(attempts(name), 100);
}

TEST_F(waiting_test, waits_in_spite_of_a_statement_timeout)
{
    own = client_that_waits_over("application_name=waits options='-c statement_timeout=400ms'");
    auto held = locks.try_acquire(name, {.at_most = 1h});
    auto waiting = wait_for(name);
    EXPECT_TRUE(server::comes_true([] { return sleepers() == "1"; }));
    auto least = attempts_in_a_while(name);
    for (int i = 0; i < 10 && least > few;
         ++i) // on a busy machine the timeout may end a wait, and then it polls for a while
        least = std::min(least, attempts_in_a_while(name));
    EXPECT_LE(least, few);
    held->release();
    EXPECT_TRUE(waiting.get());
}

// The server's wait returns NULL here, as it does on the portable edition, and up to PostgreSQL 16 if the extension
// was not loaded when the server started.
TEST_F(with_server, asks_to_be_woken_once_a_second_at_most)
{
    if (!server::connection().empty())
        GTEST_SKIP() << "the sessions are the pooler's";
    const auto calls = [](const std::string &function) {
        const auto count =
            server::ask("SELECT sum(calls) FROM pg_stat_user_functions WHERE funcname = '" + function + '\'');
        return count.empty() ? 0 : std::stoi(count);
    };
    const other_wait of_no_use{"RETURN NULL;"};
    auto held = locks.try_acquire(name, {.at_most = 1min});
    const auto asked = calls("shedlock_acquire_token"), slept = calls("shedlock_wait_any");
    const auto start = std::chrono::steady_clock::now();
    {
        auto own = client("options='-c track_functions=all'");
        auto waiting = std::async(std::launch::async, [&] { return own.acquire(name, {.at_most = 1min}, for_long); });
        EXPECT_TRUE(server::comes_true([&] { return calls("shedlock_acquire_token") > asked + few; }));
        held->release();
        EXPECT_TRUE(waiting.get());
    } // a session reports its statistics when it ends
    const auto lasted = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(server::comes_true([&] { return calls("shedlock_wait_any") > slept; }));
    EXPECT_LE(calls("shedlock_wait_any"), slept + 1 + lasted / 1s);
}

// A wait must not occupy a server session behind a pooler.
TEST_F(with_server, polls_behind_a_pooler)
{
    if (server::connection().empty())
        GTEST_SKIP();
    auto held = locks.try_acquire(name, {.at_most = 1min});
    auto waiting = std::async(std::launch::async, [&] { return locks.acquire(name, {.at_most = 1min}, for_long); });
    EXPECT_TRUE(server::comes_true([&] { return attempts(name) > few; }));
    EXPECT_EQ(server::ask("SELECT count(*) FROM pg_stat_activity"
                          " WHERE pid <> pg_backend_pid() AND query LIKE '%shedlock_wait_any%'"),
              "0");
    held->release();
    EXPECT_TRUE(waiting.get());
}
