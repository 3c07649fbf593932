// The activities that are reported.
#include "fixture.hpp"

using shedlock::activity;
using kind = shedlock::activity::kind;

class activity_test : public with_server {
protected:
    struct seen {
        kind what;
        std::optional<shedlock::outcome> how;
        bool operator==(const seen &) const = default;
    };
    std::mutex mutex;
    std::vector<seen> all;
    std::vector<activity> last; // at most one; its reference is invalid after the callback
    shedlock::client counting{
        server::connection(),
        {.timeout = 1min, .on_event = heard.handler(), .on_activity = [this](const activity &one) {
             const std::lock_guard hold{mutex};
             EXPECT_EQ(one.lock.list().front(), name);
             all.push_back({one.what, one.how});
             last.clear();
             last.push_back(one);
         }}};
    std::vector<seen> log()
    {
        const std::lock_guard hold{mutex};
        return all;
    }
};

TEST_F(activity_test, reports_an_acquisition_from_its_beginning_to_its_end)
{
    const auto tick = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    auto lock = counting.try_acquire(name, {.at_most = 1min, .tick = tick});
    ASSERT_TRUE(lock);
    EXPECT_EQ(last.at(0).token, lock->token());
    EXPECT_EQ(last.at(0).tick, tick);
    EXPECT_GT(last.at(0).took, 0s);
    EXPECT_FALSE(counting.try_acquire(name, {.at_most = 1min}));
    EXPECT_EQ(last.at(0).token, std::nullopt);
    const auto token = lock->token();
    lock->extend(1min);
    EXPECT_GT(last.at(0).held_for, 0s);
    EXPECT_GT(last.at(0).took, 0s);
    lock->release(shedlock::outcome::failed);
    EXPECT_EQ(last.at(0).token, token) << "the lock itself is inert by now";
    EXPECT_EQ(last.at(0).tick, tick);
    EXPECT_EQ(log(), (std::vector<seen>{{kind::acquired, {}},
                                        {kind::refused, {}},
                                        {kind::extended, {}},
                                        {kind::released, shedlock::outcome::failed}}));
}

TEST_F(activity_test, reports_destructors_and_completions)
{
    (void) counting.try_acquire(name, {.at_most = 1min});
    auto lock = counting.try_acquire(name, {.at_most = 1min});
    server::ask(lock->complete_statement());
    lock->completed();
    lock = counting.try_acquire(name, {.at_most = 1min});
    server::ask(lock->complete_statement());
    lock->release(shedlock::outcome::failed);
    EXPECT_EQ(log(), (std::vector<seen>{{kind::acquired, {}},
                                        {kind::released, shedlock::outcome::failed},
                                        {kind::acquired, {}},
                                        {kind::completed, {}},
                                        {kind::acquired, {}},
                                        {kind::released, shedlock::outcome::done}}))
        << "the last one had been completed, and stays done";
}

TEST_F(activity_test, reports_tokens)
{
    const auto token = counting.try_acquire(name, {.at_most = 1min})->detach();
    counting.extend(name, token, 1min);
    EXPECT_EQ(last.at(0).held_for, 0s) << "not known";
    counting.release(name, token);
    EXPECT_EQ(log(), (std::vector<seen>{
                         {kind::acquired, {}}, {kind::extended, {}}, {kind::released, shedlock::outcome::done}}));
    EXPECT_EQ(last.at(0).token, token);
}

TEST_F(activity_test, reports_keep_alive)
{
    const auto lock = counting.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return log().back().what == kind::extended; }));
}

TEST_F(activity_test, does_not_report_failures)
{
    auto lock = counting.try_acquire(name, {.at_most = 1min});
    server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")");
    EXPECT_THROW(lock->extend(1min), shedlock::lock_lost);
    EXPECT_THROW(lock->release(), shedlock::lock_lost);
    EXPECT_EQ(log(), (std::vector<seen>{{kind::acquired, {}}}));
}

// Options of an acquire, and the escaping of texts. They have no test files of their own.

class options_test : public with_server {};

TEST_F(options_test, days_of_every_begin_at_midnight_in_the_zone)
{
    const auto day = [&](const std::string &zone) {
        const auto lock = locks.try_acquire(name + zone, {.at_most = 1min, .every = 24h, .zone = zone});
        return lock->tick().value().time_since_epoch().count();
    };
    const auto offset = [&](const std::string &zone) { return day(zone) / 1000000 % 86400 / 3600; };
    EXPECT_EQ(offset(""), 0);
    EXPECT_EQ(offset("UTC"), 0);
    EXPECT_EQ(offset("Asia/Tokyo"), 15) << "midnight there";
    EXPECT_THROW(day("Asia/No'where"), shedlock::usage_error);
    EXPECT_THROW((void) locks.try_acquire(name, {.at_most = 1min, .zone = "UTC"}), shedlock::usage_error);
}

TEST_F(options_test, times_of_cron_are_those_of_the_zone)
{
    const auto time = [&](const std::string &zone) {
        const auto lock = locks.try_acquire(name + zone, {.at_most = 1min, .cron = "30 2 1 1 *", .zone = zone});
        return lock->tick().value().time_since_epoch() % 24h;
    };
    EXPECT_EQ(time(""), 2h + 30min);
    EXPECT_EQ(time("Asia/Tokyo"), 17h + 30min);
    EXPECT_THROW((void) time("Asia/No'where"), shedlock::usage_error);
}

TEST_F(options_test, a_bad_crontab_expression_is_a_usage_error_of_the_server)
{
    const auto state = [&](const std::string &cron) -> std::string {
        try {
            (void) locks.try_acquire(name, {.at_most = 1min, .cron = cron});
        } catch (const shedlock::usage_error &failure) {
            EXPECT_NE(std::string{failure.what()}.find("schedule"), std::string::npos) << failure.what();
            return failure.sqlstate();
        }
        return "it was accepted";
    };
    EXPECT_EQ(state("60 * * * *"), "22023");
    EXPECT_EQ(state("0 0 31 2 *"), "22023") << "that day never comes";
    EXPECT_EQ(state("* * ' * *"), "22023");
    EXPECT_EQ(state("0 minutes"), "22023") << "an interval";
    EXPECT_EQ(server::state(name), "");
}

TEST_F(options_test, a_name_that_no_table_can_hold_is_not_sent)
{
    auto nowhere = client("host=/nowhere");
    const std::string huge((1 << 20) + 1, 'x');
    try {
        (void) nowhere.try_acquire(huge, {.at_most = 1min});
        FAIL() << "it was accepted";
    } catch (const shedlock::usage_error &failure) {
        EXPECT_EQ(failure.sqlstate(), "22001");
    }
    EXPECT_THROW(nowhere.release({"a", huge}, token{1}), shedlock::usage_error);
    EXPECT_THROW((void) nowhere.pause(huge), shedlock::usage_error);
}

TEST(text_test, chosen_by_others_is_escaped)
{
    using shedlock::names;
    EXPECT_EQ((names{"a\x1b[31m", "b\nc"}.to_text()), "lock \"a\\x1B[31m\", \"b\\x0Ac\"");
    const shedlock::refusal refused{shedlock::refusal::reason::had_run, "n\u202e", "who\u009b\u2066", {}, {}, {}};
    EXPECT_EQ(refused.to_text(), "lock \"n\\xE2\\x80\\xAE\" had its run, by who\\xC2\\x9B\\xE2\\x81\\xA6");
    EXPECT_EQ(names{"Gr\u00fc\u00dfe \u65e5\u672c"}.to_text(), "lock \"Gr\u00fc\u00dfe \u65e5\u672c\"");
}

TEST_F(options_test, the_servers_words_are_escaped)
{
    const auto odd = name + "\x1b]0;\u202e";
    try {
        locks.extend(odd, token{1}, 1min);
        FAIL() << "it is lost";
    } catch (const shedlock::lock_lost &failure) {
        EXPECT_EQ(std::string{failure.what()}.find('\x1b'), std::string::npos) << failure.what();
        EXPECT_NE(std::string{failure.what()}.find("\\x1B]0;\\xE2\\x80\\xAE"), std::string::npos) << failure.what();
    }
}

TEST_F(options_test, an_event_is_an_escaped_line_on_stderr_by_default)
{
    testing::internal::CaptureStderr();
    {
        shedlock::client quiet{server::connection(), {.timeout = 1min}};
        const auto lock = quiet.try_acquire(name + "\x1b[2J", {.at_most = 1min});
        server::ask("SELECT shedlock_force_release(" + server::literal(name + "\x1b[2J") + ")");
    }
    const auto said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(said.starts_with("shedlock: ")) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find("\\x1B[2J"), std::string::npos) << said;
    EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
}
