// Why an acquire was refused.
#include "fixture.hpp"

#include <future>

using reason = shedlock::refusal::reason;

namespace {

// A time as the view shows it, in microseconds since 1970.
std::optional<shedlock::refusal::time> shown(const std::string &what, const std::string &lock)
{
    const auto text = server::ask("SELECT (extract(epoch FROM " + what +
                                  ") * 1000000)::bigint FROM shedlock_locks WHERE name = '" + lock + "'");
    if (text.empty())
        return std::nullopt;
    return shedlock::refusal::time{std::chrono::microseconds{std::stoll(text)}};
}

void expect_line(const std::string &line, std::initializer_list<std::string> parts)
{
    for (const auto &part : parts)
        EXPECT_NE(line.find(part), std::string::npos) << '"' << part << "\" in: " << line;
}

} // namespace

class refusal_test : public with_server {
protected:
    shedlock::client other = client(server::connection());

    shedlock::refusal refused(const shedlock::names &what, const shedlock::options &how = {.at_most = 1min})
    {
        shedlock::refusal why;
        EXPECT_FALSE(locks.try_acquire(what, how, &why));
        return why;
    }
};

TEST_F(refusal_test, names_the_holder)
{
    const auto held = other.try_acquire(name, {.at_most = 10min, .holder = "web-2"});
    std::this_thread::sleep_for(10ms);
    const auto why = refused(name);
    EXPECT_EQ(why.why, reason::held);
    EXPECT_EQ(why.name, name);
    EXPECT_TRUE(why.holder.ends_with(" web-2")) << why.holder;
    EXPECT_EQ(why.since, shown("locked_at", name));
    EXPECT_EQ(why.until, shown("lock_until", name));
    EXPECT_GT(why.held_for, 0s);
    EXPECT_LT(why.held_for, 10min);
    expect_line(why.to_text(), {name, "web-2", "held", "until"});
}

TEST_F(refusal_test, says_that_it_is_kept)
{
    EXPECT_TRUE(other.run(name, {.at_most = 10min, .at_least = 5min, .holder = "web-2"}, [](shedlock::lock &) {}));
    const auto why = refused(name);
    EXPECT_EQ(why.why, reason::kept);
    EXPECT_TRUE(why.holder.ends_with(" web-2")) << why.holder;
    EXPECT_EQ(why.since, shown("locked_at", name));
    EXPECT_EQ(why.until, shown("lock_until", name));
    expect_line(why.to_text(), {name, "last held by ", " web-2", "kept", "until"});
}

TEST_F(refusal_test, says_that_it_is_paused_and_why)
{
    EXPECT_TRUE(other.pause(name, "the disk is being replaced"));
    const auto why = refused(name);
    EXPECT_EQ(why.why, reason::paused);
    EXPECT_NE(why.holder.find("the disk is being replaced"), std::string::npos) << why.holder;
    EXPECT_EQ(why.since, shown("locked_at", name));
    EXPECT_FALSE(why.until) << "a pause has no end";
    expect_line(why.to_text(), {name, "paused", "the disk is being replaced"});
    other.resume(name);
}

TEST_F(refusal_test, says_that_the_tick_has_had_its_run)
{
    shedlock::options const every_30_days{.at_most = 10min, .every = 720h, .holder = "web-2"};
    EXPECT_TRUE(other.run(name, every_30_days, [](shedlock::lock &) {}));
    for (const auto &why : {refused(name, every_30_days), [&] {
                                shedlock::refusal waiting;
                                EXPECT_FALSE(locks.acquire(name, every_30_days, 1h, {}, &waiting));
                                return waiting;
                            }()}) {
        EXPECT_EQ(why.why, reason::had_run);
        EXPECT_TRUE(why.holder.ends_with(" web-2")) << why.holder;
        EXPECT_EQ(why.since, shown("locked_at", name));
        expect_line(why.to_text(), {name, "run"});
    }
}

TEST_F(refusal_test, says_that_a_run_without_a_tick_was_done)
{
    shedlock::options const every_30_days{.at_most = 10min, .every = 720h, .retry = true};
    EXPECT_TRUE(other.run(name, {.at_most = 10min, .holder = "alice"}, [](shedlock::lock &) {}));
    const auto done_at = shown("locked_at", name);
    auto why = refused(name, every_30_days);
    EXPECT_EQ(why.why, reason::done_by_hand);
    EXPECT_TRUE(why.holder.ends_with(" alice")) << why.holder;
    EXPECT_EQ(why.since, done_at);
    expect_line(why.to_text(), {name, "was done", "without a tick", "alice"});

    other.try_acquire(name, {.at_most = 10min, .holder = "bob"})->release(shedlock::outcome::failed);
    why = refused(name, every_30_days);
    EXPECT_EQ(why.why, reason::done_by_hand);
    EXPECT_EQ(why.holder, "") << "nothing records who did it";
    EXPECT_EQ(why.since, done_at);
}

TEST_F(refusal_test, a_tick_is_due_although_a_run_without_one_failed)
{
    other.try_acquire(name, {.at_most = 10min})->release(shedlock::outcome::failed);
    EXPECT_TRUE(locks.try_acquire(name, {.at_most = 10min, .every = 720h}));
}

TEST_F(refusal_test, says_that_it_is_too_late_even_if_nobody_ever_had_the_lock)
{
    const auto an_hour_ago =
        std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) - std::chrono::hours{1};
    const shedlock::options late{.at_most = 10min, .tick = an_hour_ago, .start_within = 50min};
    auto why = refused(name, late);
    EXPECT_EQ(why.why, reason::late);
    EXPECT_EQ(why.until, an_hour_ago + 50min);
    expect_line(why.to_text(), {name, "too late", "until"});

    const auto held = other.try_acquire(name, {.at_most = 10min});
    EXPECT_EQ(refused(name, late).why, reason::late);
    EXPECT_FALSE(locks.acquire({name, name + " b"}, late, 1h)) << "waiting is useless";
    EXPECT_EQ(refused(name, {.at_most = 10min, .tick = an_hour_ago, .start_within = 24h}).why, reason::held);
}

// The wait would last for an hour.
TEST_F(refusal_test, a_wait_ends_when_it_is_too_late)
{
    const auto held = other.try_acquire(name, {.at_most = 10min});
    shedlock::refusal why;
    EXPECT_FALSE(locks.acquire(name,
                               {.at_most = 10min,
                                .tick = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()),
                                .start_within = 300ms},
                               1h, {}, &why));
    EXPECT_EQ(why.why, reason::late);
}

TEST_F(refusal_test, of_several_names_one_that_was_in_the_way)
{
    const auto held = other.try_acquire(name + " b", {.at_most = 10min, .holder = "web-2"});
    const auto why = refused({name + " a", name + " b", name + " c"});
    EXPECT_EQ(why.why, reason::held);
    EXPECT_EQ(why.name, name + " b");
    EXPECT_TRUE(why.holder.ends_with(" web-2")) << why.holder;
    expect_line(why.to_text(), {name + " b", "web-2"});
}

TEST_F(refusal_test, says_that_it_is_not_decided)
{
    pqxx::connection connection;
    for (const bool is_new : {true, false}) {
        pqxx::work undecided{connection};
        undecided.exec("SELECT shedlock_acquire('" + name + "', '1 min')");
        const auto why = refused(name);
        EXPECT_EQ(why.why, reason::undecided) << is_new;
        EXPECT_EQ(why.name, name);
        EXPECT_FALSE(why.until);
        expect_line(why.to_text(), {name});
        undecided.abort();
        EXPECT_TRUE(locks.try_acquire(name, {.at_most = 1min})) << "afterwards there is a row, and it is free";
    }
}

TEST_F(refusal_test, is_given_when_the_wait_is_over_or_stopped)
{
    const auto held = other.try_acquire(name, {.at_most = 10min, .holder = "web-2"});
    std::stop_source stop;
    stop.request_stop();
    for (const auto &token : {std::stop_token{}, stop.get_token()}) {
        shedlock::refusal why;
        EXPECT_FALSE(locks.acquire(name, {.at_most = 1min}, token.stop_possible() ? 1h : 100ms, token, &why));
        EXPECT_EQ(why.why, reason::held);
        EXPECT_TRUE(why.holder.ends_with(" web-2")) << why.holder;
    }
}

TEST_F(refusal_test, reports_unusual_names_and_holders)
{
    const auto strange = name + " '\"ß\\\n{,}";
    const auto held = other.try_acquire(strange, {.at_most = 10min, .holder = "höst 'a' \\/tick1\nnext"});
    const auto why = refused(strange);
    EXPECT_EQ(why.name, strange);
    EXPECT_EQ(why.why, reason::held);
    expect_line(why.to_text(), {"höst"});
    server::ask("INSERT INTO shedlock VALUES ('" + name +
                " java', now() AT TIME ZONE 'UTC' + '1 h', now() AT TIME ZONE 'UTC', 'a java host')");
    const auto java = refused(name + " java");
    EXPECT_EQ(java.why, reason::held);
    EXPECT_EQ(java.holder, "a java host");
}

// A caller that does not ask why does not pay for it: the view, which scans the table, is not queried.
TEST_F(refusal_test, costs_nothing_unless_it_is_requested)
{
    const auto held = other.try_acquire(name, {.at_most = 10min});
    (void) locks.try_acquire(name, {.at_most = 1min});
    pqxx::connection connection;
    pqxx::work view{connection};
    view.exec("LOCK TABLE shedlock_locks"); // no session can use it until the transaction ends
    auto refused = std::async(std::launch::async, [&] { return !locks.try_acquire(name, {.at_most = 1min}); });
    EXPECT_EQ(refused.wait_for(server::at_last), std::future_status::ready);
    view.abort();
    EXPECT_TRUE(refused.get());
}

TEST_F(refusal_test, reports_any_time_that_fits)
{
    for (const auto *year : {"2400", "9999", "294200", "294276"}) {
        server::ask("INSERT INTO shedlock VALUES ('" + name + year + "', '" + year +
                    "-12-31', now() AT TIME ZONE 'UTC', 'by hand')");
        const auto why = refused(name + year);
        EXPECT_EQ(why.why, reason::held) << year;
        if (why.until)
            expect_line(why.to_text(), {std::string{"until "} + year + "-12-31 00:00:00 UTC"});
        EXPECT_EQ(why.until.has_value(), year != std::string_view{"294276"}) << year << ": only 294276 does not fit";
    }
}
