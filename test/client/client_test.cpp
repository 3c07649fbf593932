#include "fixture.hpp"
#include "proxy.hpp"

#include <future>
#include <unistd.h>

using client_test = with_server;

static auto now()
{
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

TEST_F(client_test, acquires_what_is_free_and_skips_what_is_held)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1min});
    ASSERT_TRUE(mine);
    EXPECT_TRUE(mine->held());
    EXPECT_EQ(server::state(name), "held");
    EXPECT_EQ(server::token(name), number(mine->token()));
    EXPECT_FALSE(locks.try_acquire(name, {.at_most = 1min}));
    EXPECT_EQ(server::token(name), number(mine->token()));
}

TEST_F(client_test, treats_blanks_at_the_ends_of_a_name_as_part_of_it)
{
    const auto one = locks.try_acquire(name, {.at_most = 1min});
    const auto several = locks.try_acquire({name + ' ', "\t" + name}, {.at_most = 1min});
    EXPECT_TRUE(one && several);
    EXPECT_EQ(server::state(name + ' '), "held");
    EXPECT_FALSE(locks.try_acquire("\t" + name, {.at_most = 1min}));
}

TEST_F(client_test, acquires_several_all_or_none)
{
    {
        const auto both = locks.try_acquire({name + " a", name + " \"b\\"}, {.at_most = 1min});
        ASSERT_TRUE(both);
        EXPECT_EQ(server::token(name + " a"), number(both->token()));
        EXPECT_EQ(server::token(name + " \"b\\"), number(both->token()));
        EXPECT_FALSE(locks.try_acquire({name + " a", name + " c"}, {.at_most = 1min}));
        EXPECT_EQ(server::state(name + " c"), "");
    }
    EXPECT_EQ(server::state(name + " a"), "free");
    EXPECT_EQ(server::state(name + " \"b\\"), "free");
}

TEST_F(client_test, keeps_a_lock_for_at_least)
{
    EXPECT_TRUE(locks.run(name, {.at_most = 1h, .at_least = 30min}, [](shedlock::lock &) {}));
    EXPECT_EQ(server::state(name), "kept");
    EXPECT_FALSE(locks.try_acquire(name, {.at_most = 1min}));
}

TEST_F(client_test, acquires_once_per_tick)
{
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const auto ran = [&](std::chrono::sys_seconds tick) {
        return locks.run(name, {.at_most = 1min, .tick = tick}, [](shedlock::lock &) {});
    };
    EXPECT_TRUE(ran(now - 10s));
    EXPECT_FALSE(ran(now - 10s));
    EXPECT_TRUE(ran(now + 10s)) << "the tick of a host whose clock is ahead";
    EXPECT_FALSE(ran(now + 10s));
    EXPECT_THROW((void) ran(now + 1h), shedlock::usage_error);
}

TEST_F(client_test, does_not_wait_for_a_tick_that_has_had_its_run)
{
    const auto tick = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
    ASSERT_TRUE(locks.run(name, {.at_most = 1min, .tick = tick}, [](shedlock::lock &) {}));
    const frozen_clock clock; // so that a wait would never end
    EXPECT_FALSE(locks.acquire(name, {.at_most = 1min, .tick = tick}, 1h));
}

TEST_F(client_test, retries_a_tick_until_its_run_is_done)
{
    const shedlock::options once{.at_most = 1min, .tick = std::chrono::floor<std::chrono::hours>(now())};
    auto again = once;
    again.retry = true;
    EXPECT_THROW((void) locks.run(name, once, [](shedlock::lock &) { throw std::out_of_range{"work"}; }),
                 std::out_of_range);
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_FALSE(locks.try_acquire(name, once));
    EXPECT_TRUE(locks.run(name, again, [](shedlock::lock &lock) { lock.release(shedlock::outcome::failed); }));
    EXPECT_TRUE(locks.run(name, again, [](shedlock::lock &) {}));
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_FALSE(locks.try_acquire(name, again));
}

TEST_F(client_test, retries_a_tick_whose_lease_ran_out)
{
    shedlock::options how{.at_most = 100ms, .every = 720h, .retry = true};
    leave_to_end(how);
    how.at_most = 1min;
    EXPECT_TRUE(locks.acquire(name, how, 10min));
}

TEST_F(client_test, waits_for_a_run_that_may_fail_and_not_for_one_that_was_done)
{
    const shedlock::options how{.at_most = 10min, .every = 720h, .retry = true};
    auto other = client(server::connection());
    for (const auto end : {shedlock::outcome::failed, shedlock::outcome::done}) {
        auto running = other.try_acquire(name, how);
        ASSERT_TRUE(running);
        auto waiting = std::async(std::launch::async, [&] { return locks.acquire(name, how, 1h); });
        EXPECT_EQ(waiting.wait_for(500ms), std::future_status::timeout);
        running->release(end);
        EXPECT_EQ(waiting.wait_for(server::at_last), std::future_status::ready);
        auto mine = waiting.get();
        EXPECT_EQ(mine.has_value(), end == shedlock::outcome::failed);
        if (mine)
            mine->release(shedlock::outcome::failed);
    }
}

TEST_F(client_test, waits_for_the_end_of_a_pause_when_the_run_before_had_failed)
{
    const shedlock::options how{.at_most = 10min, .every = 720h, .retry = true};
    locks.try_acquire(name, how)->release(shedlock::outcome::failed);
    auto other = client(server::connection());
    EXPECT_TRUE(other.pause(name));
    auto waiting = std::async(std::launch::async, [&] { return locks.acquire(name, how, 1h).has_value(); });
    EXPECT_EQ(waiting.wait_for(500ms), std::future_status::timeout);
    EXPECT_TRUE(other.resume(name));
    EXPECT_TRUE(waiting.get());
}

// What the server has stored of the acquisition's tick.
std::chrono::sys_time<std::chrono::microseconds> stored_tick(const std::string &lock)
{
    return std::chrono::sys_time<std::chrono::microseconds>{std::chrono::microseconds{std::stoll(server::ask(
        "SELECT (extract(epoch FROM last_tick) * 1000000)::bigint FROM shedlock WHERE name = '" + lock + "'"))}};
}

TEST_F(client_test, takes_the_tick_of_a_period_from_the_server)
{
    ASSERT_TRUE(locks.run(name, {.at_most = 1min, .every = 720h}, [](shedlock::lock &) {}));
    EXPECT_EQ(server::ask("SELECT extract(epoch FROM shedlock_tick('720 h')) * 1000000 = " +
                          std::to_string(stored_tick(name).time_since_epoch().count())),
              "t");
    const frozen_clock clock; // so that a wait would never end
    EXPECT_FALSE(locks.acquire(name, {.at_most = 1min, .every = 720h}, 1min));
}

TEST_F(client_test, takes_the_tick_of_a_crontab_expression_from_the_server)
{
    const shedlock::options yearly{.at_most = 1min, .cron = "0 0 1 1 *", .zone = "Europe/Berlin"};
    ASSERT_TRUE(locks.run(name, yearly, [](shedlock::lock &) {}));
    EXPECT_EQ(
        server::ask("SELECT extract(epoch FROM shedlock_tick('0 0 1 1 *', zone => 'Europe/Berlin')) * 1000000 = " +
                    std::to_string(stored_tick(name).time_since_epoch().count())),
        "t");
    const frozen_clock clock; // so that a wait would never end
    EXPECT_FALSE(locks.acquire(name, yearly, 1min));
    const auto in_months = locks.try_acquire(name + "2", {.at_most = 1min, .cron = "12 months"});
    EXPECT_EQ(server::ask("SELECT extract(epoch FROM shedlock_tick('12 months')) * 1000000 = " +
                          std::to_string(in_months->tick()->time_since_epoch().count())),
              "t");
}

TEST_F(client_test, means_the_tick_of_the_call_however_long_it_waits)
{
    const auto tick_now = [] {
        return std::stoll(server::ask("SELECT (extract(epoch FROM shedlock_tick('1 s')) * 1000000)::bigint"));
    };
    server::ask("SELECT shedlock_acquire_token('" + name + "', '1 h', tick => now() - interval '1 day')");
    auto other = client(server::connection());
    const auto before = tick_now();
    auto acquiring = std::async(std::launch::async,
                                [&] { return other.acquire(name, {.at_most = 1h, .every = 1s}, 10h).has_value(); });
    EXPECT_TRUE(server::comes_true([&] { return server::was_refused(name); }));
    const auto refused = tick_now();
    EXPECT_TRUE(server::comes_true([&] { return tick_now() > refused + 1'000'000; }));
    server::ask("SELECT shedlock_force_release('" + name + "')");
    ASSERT_TRUE(acquiring.get());
    EXPECT_GE(stored_tick(name).time_since_epoch().count(), before);
    EXPECT_LE(stored_tick(name).time_since_epoch().count(), refused);
}

TEST_F(client_test, means_the_tick_of_the_call_however_long_no_server_answers)
{
    for (shedlock::options how : {shedlock::options{.every = 1min}, {.cron = "* * * * *"}}) {
        how.at_most = 1h;
        const auto lock = name + how.cron;
        proxy network;
        auto through = client(network.connection());
        network.refuse_newcomers();
        auto acquiring = std::async(std::launch::async, [&] { return through.acquire(lock, how, 10h).has_value(); });
        EXPECT_TRUE(server::comes_true([&] { return network.refused() > 0; }));
        advance_clock(2h);
        network.let_go();
        EXPECT_TRUE(acquiring.get());
        EXPECT_LT(stored_tick(lock), now() - 119min);
        EXPECT_GT(stored_tick(lock), now() - 3h);
    }
}

TEST_F(client_test, waits_for_the_holder_and_no_longer_than_asked)
{
    locks.try_acquire(name, {.at_most = 1h})->detach();
    EXPECT_FALSE(locks.acquire(name, {.at_most = 1min}, 200ms));
    server::ask("UPDATE shedlock SET lock_until = clock_timestamp() AT TIME ZONE 'UTC' + interval '300 ms'"
                " WHERE name = '" +
                name + "'");
    const auto mine = locks.acquire(name, {.at_most = 1min}, 1h);
    ASSERT_TRUE(mine);
    EXPECT_TRUE(mine->held());
}

TEST_F(client_test, waiting_leaves_the_client_to_others)
{
    const auto held = server::ask("SELECT shedlock_acquire_token('" + name + "', '1 h')");
    std::optional<shedlock::lock> mine;
    std::jthread waiting{[&] { mine = locks.acquire(name, {.at_most = 1min}, 1h); }};
    EXPECT_TRUE(server::comes_true([&] { return server::was_refused(name); }));
    locks.release(name, token{std::stoll(held)}); // over the connection by which the other call asks
    waiting.join();
    EXPECT_TRUE(mine);
}

TEST_F(client_test, waits_for_a_server_that_is_away)
{
    auto nowhere = client("host=127.0.0.1 port=1");
    const auto begin = shedlock::clock::now();
    EXPECT_THROW((void) nowhere.acquire(name, {.at_most = 1min}, 500ms), shedlock::connection_error);
    EXPECT_GE(shedlock::clock::now() - begin, 500ms);
}

TEST_F(client_test, says_who_holds_it)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1min, .holder = "reporting on höst"});
    EXPECT_EQ(server::holder(name).substr(9), "reporting on höst");
    const auto other = locks.try_acquire(name + " 2", {.at_most = 1min});
    EXPECT_NE(server::holder(name + " 2").find("client_test"), std::string::npos) << server::holder(name + " 2");
    EXPECT_NE(server::holder(name + " 2").find(':' + std::to_string(::getpid())), std::string::npos);
}

TEST_F(client_test, works_with_a_token_from_elsewhere)
{
    const auto number = locks.try_acquire(name, {.at_most = 1h})->detach();
    EXPECT_EQ(server::state(name), "held");
    auto other = client(server::connection());
    other.extend(name, number, 10h, 5h);
    EXPECT_GT(server::remaining(name), 9h);
    other.release(name, number);
    EXPECT_EQ(server::state(name), "kept");
    EXPECT_NO_THROW(other.release(name, number)) << "it was released as done";
    EXPECT_THROW(other.extend(name, number, 1min), shedlock::lock_lost);
    const auto failed = locks.try_acquire(name + " 2", {.at_most = 1min})->detach();
    other.release(name + " 2", failed, shedlock::outcome::failed);
    EXPECT_THROW(other.release(name + " 2", failed), shedlock::lock_lost);
    EXPECT_THROW(other.extend(name + " 2", failed, 1min), shedlock::lock_lost);
}

TEST_F(client_test, pauses_resumes_and_frees_by_force)
{
    {
        const auto held = locks.try_acquire(name, {.at_most = 1min});
        EXPECT_FALSE(locks.pause(name, "maintenance"));
        EXPECT_FALSE(locks.resume(name));
        EXPECT_TRUE(locks.force_release(name));
        EXPECT_FALSE(locks.force_release(name));
    }
    EXPECT_NE(heard.texts().find("released by force"), std::string::npos) << heard.texts(); // the destructor's release
    EXPECT_TRUE(locks.pause(name, "maintenance"));
    EXPECT_NE(server::holder(name).find("maintenance"), std::string::npos);
    EXPECT_FALSE(locks.try_acquire(name, {.at_most = 1min}));
    EXPECT_TRUE(locks.resume(name));
    EXPECT_TRUE(locks.try_acquire(name, {.at_most = 1min}));
}

// All connection parameters come from PG* variables. That these constructors compile is part of the test.
TEST_F(client_test, may_be_made_from_settings_alone)
{
    shedlock::client ours{{}, {.timeout = 1min}};
    const shedlock::client of_defaults{{}, {}}, of_a_literal{"", {.timeout = 1min}}, of_nothing;
    const shedlock::client of_a_source{[] { return std::string{}; }, {.timeout = 1min}};
    EXPECT_TRUE(ours.try_acquire(name, {.at_most = 1min}));
}

TEST_F(client_test, is_of_no_use_when_moved_from)
{
    const auto moved = std::move(locks);
    const shedlock::options how{.at_most = 1min};
    EXPECT_THROW((void) locks.try_acquire(name, how), shedlock::usage_error);
    EXPECT_THROW((void) locks.acquire(name, how, 1h), shedlock::usage_error);
    EXPECT_THROW((void) locks.run(name, how, [](shedlock::lock &) {}), shedlock::usage_error);
    EXPECT_THROW(locks.extend(name, token{1}, 1min), shedlock::usage_error);
    EXPECT_THROW(locks.release(name, token{1}), shedlock::usage_error);
    EXPECT_THROW(locks.force_release(name), shedlock::usage_error);
    EXPECT_THROW(locks.pause(name), shedlock::usage_error);
    EXPECT_THROW(locks.resume(name), shedlock::usage_error);
    locks = client(server::connection());
    EXPECT_TRUE(locks.try_acquire(name, how));
}

// Errors: each names what is wrong, and what to do.

template <typename Error, typename Work> std::string message(const Work &work)
{
    try {
        work();
    } catch (const Error &failure) {
        return failure.what();
    }
    return "no error of that type";
}

TEST_F(client_test, refuses_bad_arguments_with_a_reason)
{
    const auto attempt = [&](const shedlock::names &what, const shedlock::options &how) {
        return message<shedlock::usage_error>([&] { (void) locks.try_acquire(what, how); });
    };
    EXPECT_NE(attempt(name, {}).find("at_most must be at least 1 millisecond"), std::string::npos);
    EXPECT_NE(attempt(name, {.at_most = 1s, .at_least = 2s}).find("at_least"), std::string::npos);
    EXPECT_NE(attempt(name, {.at_most = 1s, .retry = true}).find("retry"), std::string::npos);
    for (const auto &two : {shedlock::options{.at_most = 1s, .tick = now(), .every = 1h},
                            {.at_most = 1s, .tick = now(), .cron = "@daily"},
                            {.at_most = 1s, .every = 1h, .cron = "@daily"}})
        EXPECT_EQ(attempt(name, two), "give only one of tick, every and cron");
    EXPECT_EQ(attempt(name, {.at_most = 1s, .zone = "UTC"}),
              "zone applies only to every and cron, and neither was given");
    EXPECT_NE(attempt(name, {.at_most = 1s, .every = -1h}).find("every"), std::string::npos);
    EXPECT_NE(attempt("", {.at_most = 1s}).find("must not be empty"), std::string::npos);
    EXPECT_NE(attempt(std::vector<std::string>{}, {.at_most = 1s}).find("name"), std::string::npos);
    EXPECT_NE(attempt(std::string{"a\0b", 3}, {.at_most = 1s}).find("NUL"), std::string::npos);
    EXPECT_NE(attempt({name, name}, {.at_most = 1s}).find(name), std::string::npos);
    EXPECT_NE(attempt("\xff", {.at_most = 1s}).find("0xff"), std::string::npos);
    EXPECT_NE(attempt(std::string(256, 'x'), {.at_most = 1s}).find("255"), std::string::npos);
    EXPECT_TRUE(locks.try_acquire(name, {.at_most = 1h})) << "and the connection is still good";
}

TEST_F(client_test, says_that_there_is_no_server_or_no_such_database)
{
    auto nowhere = client("host=127.0.0.1 port=1");
    const auto text = message<shedlock::connection_error>([&] { (void) nowhere.try_acquire(name, {.at_most = 1s}); });
    EXPECT_NE(text.find("cannot connect"), std::string::npos) << text;
    EXPECT_NE(text.find("Is the server running"), std::string::npos) << text;
    auto misnamed = client("no such database");
    EXPECT_THROW((void) misnamed.try_acquire(name, {.at_most = 1s}), shedlock::usage_error)
        << "there is no such database";
}

TEST_F(client_test, says_that_the_extension_is_missing)
{
    auto elsewhere = client("dbname=template1");
    const auto text = message<shedlock::usage_error>([&] { (void) elsewhere.try_acquire(name, {.at_most = 1s}); });
    EXPECT_NE(text.find("database \"template1\""), std::string::npos) << text;
    EXPECT_NE(text.find("CREATE EXTENSION shedlock"), std::string::npos) << text;
    EXPECT_THROW((void) elsewhere.try_acquire(name, {.at_most = 1s}), shedlock::usage_error)
        << "the second time as well";
}

TEST_F(client_test, says_that_the_extension_is_of_another_version)
{
    ONLY_THE_EXTENSION("see edition_test");
    for (const auto &[version, advice] :
         {std::pair{"0.9", "ALTER EXTENSION shedlock UPDATE"}, {"2.0", "install a newer client"}}) {
        server::ask("UPDATE pg_extension SET extversion = '" + std::string{version} + "' WHERE extname = 'shedlock'");
        auto other = client(server::connection());
        const auto text = message<shedlock::usage_error>([&] { (void) other.try_acquire(name, {.at_most = 1s}); });
        EXPECT_NE(text.find(advice), std::string::npos) << text;
    }
    server::ask("UPDATE pg_extension SET extversion = '1.0' WHERE extname = 'shedlock'");
}

TEST_F(client_test, says_what_privilege_is_missing)
{
    server::ask("SELECT 1 FROM pg_roles WHERE rolname = 'nobody'") == "1"
        ? ""
        : server::ask("CREATE ROLE nobody LOGIN PASSWORD 'n'");
    auto poor = client("user=nobody password=n");
    const auto text = message<shedlock::usage_error>([&] { (void) poor.try_acquire(name, {.at_most = 1s}); });
    EXPECT_NE(text.find("permission denied"), std::string::npos) << text;
    EXPECT_NE(text.find("SELECT shedlock_grant("), std::string::npos) << text;
}

TEST_F(client_test, says_that_the_server_takes_no_writes)
{
    auto reader = client("options='-c default_transaction_read_only=on' target_session_attrs=any");
    const auto text = message<shedlock::connection_error>([&] { (void) reader.try_acquire(name, {.at_most = 1s}); });
    EXPECT_NE(text.find("target_session_attrs=read-write"), std::string::npos) << text;
}

TEST_F(client_test, looks_for_another_server_when_this_one_takes_no_writes)
{
    server::ask("ALTER ROLE postgres SET default_transaction_read_only = on");
    auto reader = client("target_session_attrs=any");
    EXPECT_THROW((void) reader.try_acquire(name, {.at_most = 1s}), shedlock::connection_error);
    server::ask("ALTER ROLE postgres RESET default_transaction_read_only");
    EXPECT_TRUE(reader.try_acquire(name, {.at_most = 1h})) << "over a new connection";
}

// The extension may be in any schema, and the role may have any settings.

TEST_F(client_test, finds_the_extension_in_any_schema_and_when_it_moves)
{
    ONLY_THE_EXTENSION("it stays where it was put");
    const auto mine = locks.try_acquire(name, {.at_most = 1min});
    server::ask("CREATE SCHEMA \"else where\"");
    server::ask("ALTER EXTENSION shedlock SET SCHEMA \"else where\"");
    EXPECT_FALSE(locks.try_acquire(name, {.at_most = 1min})) << "the same connection as before";
    EXPECT_TRUE(client(server::connection()).try_acquire(name + " 2", {.at_most = 1min}));
    server::ask("ALTER EXTENSION shedlock SET SCHEMA public");
    server::ask("DROP SCHEMA \"else where\"");
}

TEST_F(client_test, is_not_fooled_by_functions_of_the_same_name)
{
    server::ask("CREATE SCHEMA evil");
    server::ask("CREATE FUNCTION evil.shedlock_acquire_token(name text[], at_most interval, at_least interval, tick "
                "timestamptz, retry boolean, holder text)"
                " RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'");
    server::ask(
        "CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'");
    server::ask("ALTER ROLE postgres SET search_path = evil, pg_catalog, public");
    auto other = client(server::connection());
    const auto mine = other.try_acquire(name, {.at_most = 1min});
    server::ask("ALTER ROLE postgres RESET search_path");
    server::ask("DROP SCHEMA evil CASCADE");
    ASSERT_TRUE(mine);
    EXPECT_NE(number(mine->token()), 1);
}

TEST_F(client_test, works_with_unusual_settings_of_the_role)
{
    for (const auto *const setting :
         {"synchronous_commit = off", "default_transaction_isolation = serializable", "client_min_messages = error",
          "intervalstyle = sql_standard", "datestyle = 'SQL, DMY'", "timezone = 'Asia/Kathmandu'",
          "standard_conforming_strings = off", "client_encoding = LATIN1", "lc_messages = 'de_DE.UTF-8'"}) {
        try {
            server::ask(std::string{"ALTER ROLE postgres SET "} + setting);
        } catch (const pqxx::sql_error &) {
            continue; // the locale is missing here, or PostgreSQL 19 refuses standard_conforming_strings = off
        }
        auto other = client(server::connection());
        const auto tick = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
        auto mine = other.try_acquire(name + " ß " + setting, {.at_most = 1min, .tick = tick});
        EXPECT_TRUE(mine) << setting;
        if (mine) {
            mine->extend(2h);
            EXPECT_GT(server::remaining(name + " ß " + setting), 1h) << setting;
            mine->release();
            const auto why = message<shedlock::lock_lost>([&] { other.release(name + " ß " + setting, token{1}); });
            EXPECT_NE(why.find("was not released"), std::string::npos) << setting << ": " << why;
        }
        server::ask("ALTER ROLE postgres RESET ALL");
    }
}

// Tests the promise itself.
TEST_F(client_test, one_at_a_time_among_many)
{
    std::atomic<int> inside = 0, overlaps = 0, done = 0;
    {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < 8; ++i)
            crowd.emplace_back([&] {
                auto own = client(server::connection());
                for (int j = 0; j < 5; ++j) {
                    const auto mine = own.acquire(name, {.at_most = 1h}, 24h);
                    EXPECT_TRUE(mine);
                    overlaps += ++inside > 1;
                    std::this_thread::sleep_for(2ms);
                    --inside;
                    ++done;
                }
            });
    }
    EXPECT_EQ(done, 40);
    EXPECT_EQ(overlaps, 0);
}
