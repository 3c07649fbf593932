#include "scene.hpp"

#include <gtest/gtest.h>
#include <regex>
#include <unistd.h>

using namespace shedlock::test;

namespace {

void edit(const std::string &set)
{
    ask("UPDATE shedlock SET " + set + " WHERE name = " + literal(name()));
}

// Makes the run that was done older.
void make_older()
{
    edit("last_done_at = last_done_at - interval '26 hours', last_done_tick = last_done_tick - interval '26 hours'");
}

void run_once(const std::string &lock = name(), const char *done = "true")
{
    ask("SELECT shedlock_release_token(" + literal(lock) + ", " + acquire(lock, "1h") + ", " + done + ')');
}

void let_java_run(const std::string &ago, const std::string &until)
{
    ask("INSERT INTO shedlock (name, locked_at, lock_until, locked_by) VALUES (" + literal(name()) +
        ", timezone('utc', now() - " + literal(ago) + "::interval), timezone('utc', now() - " + literal(until) +
        "::interval), 'app-1') ON CONFLICT (name) DO UPDATE SET locked_at = excluded.locked_at, lock_until = "
        "excluded.lock_until, locked_by = excluded.locked_by");
}

outcome check(const words &more)
{
    return run(words{"shedlock", "check"} + more);
}

void expect(const outcome &seen, int status, const std::string &line)
{
    EXPECT_EQ(seen.status, status);
    EXPECT_EQ(seen.err, "");
    EXPECT_TRUE(std::regex_match(seen.out, std::regex{line})) << seen.out;
}

const std::string times = "[0-9a-z. ]+";

class yearly {
public:
    std::string expression() const { return expression_; }
    // How the row's columns have it.
    std::string tick() const { return "timezone('utc', " + yearly_tick() + ')'; }
    std::string earlier_tick() const { return '(' + tick() + " - interval '1 year')"; }
    // How it is shown.
    static std::string shown(const std::string &tick)
    {
        return ask("SELECT to_char(" + tick + ", 'Dy YYYY-MM-DD HH24:MI') || ' UTC'");
    }

    // After an hour a run of the latest tick is late.
    outcome check(const words &more = {}) const { return check_with("1h", more); }
    // The latest tick is still in its grace; the one of a year earlier is not.
    outcome check_in_grace(const words &more = {}) const { return check_with("300d", more); }

private:
    outcome check_with(const char *grace, const words &more) const
    {
        return ::check(words{name(), "--cron", expression(), "--grace", grace} + more);
    }

    const std::string expression_ = yearly_schedule();
};

// Leaves a row whose last run was for this tick.
void run_for(const std::string &tick, const char *done = "true")
{
    ask("SELECT shedlock_release_token(" + literal(name()) + ", shedlock_acquire_token(" + literal(name()) +
        ", '1h', tick => timezone('utc', " + tick + "), holder => 'web-2'), " + done + ')');
}

// The run of this tick is still under way. It began on time.
void hold_for(const std::string &tick)
{
    ask("SELECT shedlock_acquire_token(" + literal(name()) + ", '1h', tick => timezone('utc', " + tick +
        "), retry => true, holder => 'web-2')");
    edit("locked_at = " + tick + ", locked_by = regexp_replace(locked_by, '[0-9]+$', (extract(epoch FROM " + tick +
         ") * 1000000)::bigint::text)");
}

} // namespace

TEST(check, is_0_when_it_was_done_in_time)
{
    run_once();
    expect(check({name(), "--max-age", "25h"}), 0,
           "SHEDLOCK OK - " + name() + " was done " + times + " ago \\| '" + name() + "_age'=[0-9]+s;;90000;0\n");
    acquire(); // while the next one runs
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 0);
}

TEST(check, is_2_when_it_was_not_done_in_time)
{
    run_once();
    make_older();
    expect(check({name(), "--max-age", "25h"}), 2,
           "SHEDLOCK CRITICAL - " + name() + " was done 1d02h ago \\| '" + name() + "_age'=93[67][0-9]{2}s;;90000;0\n");
    EXPECT_EQ(check({name(), "--max-age", "27h"}).status, 0);
}

// A job that fails at every tick looks healthy to a monitor that only sees that it is started.
TEST(check, is_1_when_the_last_run_failed_and_2_when_none_was_done_in_time)
{
    run_once();
    run_once(name(), "false");
    expect(check({name(), "--max-age", "25h"}), 1,
           "SHEDLOCK WARNING - " + name() + " was done " + times + " ago, and the last run failed \\|.*\n");
    make_older();
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 2);
}

TEST(check, is_1_when_the_last_run_ran_out)
{
    run_once();
    acquire();
    edit("lock_until = locked_at");
    expect(check({name(), "--max-age", "25h"}), 1,
           "SHEDLOCK WARNING - " + name() + " was done " + times + " ago, and the last run ran out \\|.*\n");
}

TEST(check, is_1_while_it_is_paused_and_2_when_it_was_not_done_in_time)
{
    run_once();
    EXPECT_EQ(run({"shedlock", "pause", name()}).status, 0);
    expect(check({name(), "--max-age", "25h"}), 1,
           "SHEDLOCK WARNING - " + name() + " is paused, and was done " + times + " ago \\|.*\n");
    EXPECT_EQ(check({name(), "--max-held", "1ms"}).status, 1);
    make_older();
    expect(check({name(), "--max-age", "25h"}), 2,
           "SHEDLOCK CRITICAL - " + name() + " is paused, and was done " + times + " ago \\|.*\n");
}

TEST(check, is_2_when_it_was_never_done_or_never_acquired)
{
    run_once(name(), "false");
    expect(check({name(), "--max-age", "25h"}), 2,
           "SHEDLOCK CRITICAL - " + name() + " was never done, and the last run failed\n");
    const auto other = name() + ".2";
    expect(check({other, "--max-age", "25h"}), 2,
           "SHEDLOCK CRITICAL - " + other + " has no row: never acquired, or forgotten\n");
    expect(check({other, "--max-held", "1h"}), 2,
           "SHEDLOCK CRITICAL - " + other + " has no row: never acquired, or forgotten\n");
}

TEST(check, is_2_when_it_is_held_for_too_long)
{
    run_once();
    expect(check({name(), "--max-held", "2h"}), 0,
           "SHEDLOCK OK - " + name() + " is not held \\| '" + name() + "_held'=0s;;7200;0\n");
    acquire(name(), "1d");
    expect(check({name(), "--max-held", "2h"}), 0,
           "SHEDLOCK OK - " + name() + " has been held for " + times + " \\| '" + name() + "_held'=[0-9]+s;;7200;0\n");
    let_java_run("3 hours", "-1 hour");
    expect(check({name(), "--max-held", "2h"}), 2,
           "SHEDLOCK CRITICAL - " + name() + " has been held for 3h00m \\|.*\n");
}

TEST(check, is_3_when_a_Java_client_ran_last_and_may_have_done_it)
{
    let_java_run("1 hour", "30 min");
    expect(check({name(), "--max-age", "25h"}), 3,
           "SHEDLOCK UNKNOWN - " + name() +
               " was last run by a Java client, which does not record whether it was done\n");
    let_java_run("1 hour", "-1 hour"); // it is still running
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 3);
    let_java_run("1 hour", "30 min");
    run_once();
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 0);
    edit("last_done_at = last_done_at - interval '2 min'"); // the clock stepped back during that run
    EXPECT_EQ(check({name(), "--every", "1d", "--grace", "1h"}).status, 0);
    let_java_run("0 s", "0 s");
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 3);
}

// Even if that run was done, it was too long ago.
TEST(check, is_2_when_a_Java_client_ran_last_and_too_long_ago)
{
    let_java_run("3 days", "2 days");
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 2);
}

// After the clock jumped forward, the alarm must not stay silent until the clock reaches that time again.
TEST(check, is_3_when_it_was_done_or_acquired_in_the_future)
{
    run_once();
    edit("last_done_at = last_done_at + interval '1 minute'"); // clocks of two servers may differ that much
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 0);
    for (const auto *instant : {"last_done_at + interval '1 year'", "'infinity'", "'294276-12-31 23:59:59.999999'"}) {
        edit(std::string{"last_done_at = "} + instant);
        expect(check({name(), "--max-age", "25h"}), 3, "SHEDLOCK UNKNOWN - " + name() + " was done in the future\n");
    }
    run_once(name(), "false");
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 1);
    for (const auto *instant : {"timezone('utc', now()) + interval '1 hour'", "'-infinity'"}) {
        acquire();
        edit(std::string{"locked_at = "} + instant);
        expect(check({name(), "--max-held", "2h"}), 3,
               "SHEDLOCK UNKNOWN - " + name() + " is held, but it is not known since when\n");
        edit("locked_at = '2026-01-01', lock_until = '2026-01-01'");
    }
}

TEST(check, accepts_rows_that_were_edited_by_hand)
{
    run_once();
    edit("last_done_at = '-infinity'");
    expect(check({name(), "--max-age", "25h"}), 2, "SHEDLOCK CRITICAL - " + name() + " was never done\n");
    edit("last_done_at = '4713-01-01 BC'");
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 2);
    edit("last_done_at = timezone('utc', now()), last_done_tick = 'infinity', last_tick = '-infinity'");
    EXPECT_EQ(check({name(), "--max-age", "106751991d"}).status, 0);
    acquire();
    edit("last_done_tick = NULL, lock_until = '-infinity'");
    const auto late = check({name(), "--every", "1d", "--grace", "0s"});
    EXPECT_NE(late.out.find("ran out an unknown time ago"), std::string::npos) << late.out;
}

// A Java run still counts after its row was overwritten.
TEST(check, is_3_while_a_run_or_a_pause_follows_a_Java_run_and_2_when_the_run_failed)
{
    run_once();
    make_older();
    let_java_run("1 hour", "30 min");
    const auto token = acquire();
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 3);
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ", false)");
    expect(check({name(), "--max-age", "25h"}), 2,
           "SHEDLOCK CRITICAL - " + name() + " was done 1d02h ago, and the last run failed \\|.*\n");
    EXPECT_EQ(run({"shedlock", "pause", name()}).status, 0);
    EXPECT_EQ(check({name(), "--max-age", "25h"}).status, 3);
}

TEST(check, ends_with_the_worst_of_several)
{
    const auto never = name() + ".never", failed = name() + ".failed", java = name();
    run_once(name() + ".good");
    run_once(failed);
    run_once(failed, "false");
    let_java_run("1 hour", "30 min");
    EXPECT_EQ(check({name() + ".good", java, "--max-age", "25h"}).status, 3);
    EXPECT_EQ(check({name() + ".good", failed, java, "--max-age", "25h"}).status, 1);
    const auto all = check({never, name() + ".good", failed, java, "--max-age", "25h"});
    expect(all, 2,
           "SHEDLOCK CRITICAL - " + never + " has no row: never acquired, or forgotten; " + name() +
               ".good was done .*; " + failed + " was done .*, and the last run failed; " + java +
               " was last run by .*_age'=.* '.*_age'=.*\n");
}

TEST(check, takes_both_limits)
{
    run_once();
    EXPECT_EQ(check({name(), "--max-age", "25h", "--max-held", "1h"}).status, 0);
    acquire();
    const auto held = check({name(), "--max-age", "25h", "--max-held", "1ms"});
    expect(held, 2, "SHEDLOCK CRITICAL - " + name() + " has been held for .* \\| '.*_age'=.* '.*_held'=.*\n");
}

TEST(check, is_3_with_bad_options)
{
    run_once();
    for (const auto &options : std::vector<words>{{name()},
                                                  {"--max-age", "1h"},
                                                  {name(), "--max-age", "soon"},
                                                  {name(), "--max-age", "1h", "--bogus"},
                                                  {name(), "--max-age"}})
        expect(check(options), 3, "SHEDLOCK UNKNOWN - .*\n");
}

TEST(check, is_3_without_a_server_and_without_shedlock)
{
    expect(run({"env", "PGHOST=127.0.0.1", "PGPORT=1", "shedlock", "check", name(), "--max-age", "1h"}), 3,
           "SHEDLOCK UNKNOWN - .*\n");
    expect(run({"env", "PGDATABASE=template1", "shedlock", "check", name(), "--max-age", "1h"}), 3,
           "SHEDLOCK UNKNOWN - .*not installed.*\n");
}

TEST(check, is_3_when_it_cannot_say_anything)
{
    run_once();
    for (const auto *const asked : {"\"$1\" --max-age 1h", "\"$1\" --max-age soon", "--help"})
        for (const auto *const out : {">/dev/full", ">&-"})
            EXPECT_EQ(run(sh(std::string{"shedlock check "} + asked + out, {name()})).status, 3) << asked << out;
}

// A line break would begin another line, and | the performance data; a quote or = would end the label.
TEST(check, keeps_its_line_in_one_piece)
{
    const auto lock = name() + " a|b=c'd\ne";
    run_once(lock);
    expect(check({lock, "--max-age", "25h"}), 0,
           "SHEDLOCK OK - " + name() + " a\\\\x7Cb=c'd\\\\x0Ae was done " + times + " ago \\| '" + name() +
               " a\\\\x7Cb\\\\x3Dc''d\\\\x0Ae_age'=[0-9]+s;;90000;0\n");
}

TEST(check, is_3_without_the_privilege_to_read_and_needs_no_other)
{
    run_once();
    const auto role = "reader_" + std::to_string(::getpid());
    ask("CREATE ROLE " + role + " LOGIN PASSWORD 'reader'");
    const words as_role{"env", "PGUSER=" + role, "PGPASSWORD=reader"};
    const words asked{"shedlock", "check", name(), "--max-age", "25h"};
    const auto before = run(as_role + asked);
    ask("SELECT shedlock_grant('" + role + "', read_only => true)");
    const auto after = run(as_role + asked);
    const auto list = run(as_role + words{"shedlock", "list", name()});
    const auto metrics = run(as_role + words{"shedlock", "metrics"});
    const auto late = run(as_role + words{"shedlock", "check", name(), "--every", "1d", "--grace", "0s"});
    const auto refused = run(as_role + words{"shedlock", "acquire", name(), "--at-most", "1m"});
    ask("SELECT shedlock_keep_history()");
    const auto history = run(as_role + words{"shedlock", "history", name(), "--every", "1d"});
    ask("SELECT shedlock_keep_history(false)");
    ask("SELECT shedlock_revoke('" + role + "')");
    ask("DROP ROLE " + role);
    expect(before, 3, "SHEDLOCK UNKNOWN - permission denied.*\n");
    EXPECT_EQ(after.status, 0) << after.out;
    EXPECT_EQ(late.status, 0) << late.out;
    EXPECT_EQ(list.status, 0) << list.err;
    EXPECT_EQ(metrics.status, 0) << metrics.err;
    EXPECT_EQ(history.status, 0) << history.err;
    EXPECT_EQ(refused.status, 125) << refused.err;
}

TEST(check, is_0_when_the_run_of_the_latest_tick_is_done)
{
    const yearly schedule;
    run_for(schedule.tick());
    const auto is_done = "SHEDLOCK OK - " + name() + ": the run of " + yearly::shown(schedule.tick()) +
                         " is done \\| '" + name() + "_late'=0s;;3600;0\n";
    expect(schedule.check(), 0, is_done);
    EXPECT_EQ(schedule.check_in_grace().status, 0);
    run_once(name(), "false"); // a run without a tick uses up none if it fails
    expect(schedule.check(), 0, is_done);
}

TEST(check, is_0_when_a_run_without_a_tick_is_done_after_the_tick)
{
    const yearly schedule;
    run_for(schedule.tick(), "false");
    EXPECT_EQ(schedule.check().status, 2);
    run_once();
    EXPECT_EQ(schedule.check().status, 0);
}

// In the words of whoever is called at night: which run, what became of it, and when the job was last done.
TEST(check, is_2_when_the_run_of_a_tick_is_not_done_after_the_grace)
{
    const yearly schedule;
    const auto is_not_done =
        "SHEDLOCK CRITICAL - " + name() + ": the run of " + yearly::shown(schedule.tick()) + " is not done ";
    run_for(schedule.earlier_tick());
    const auto last_done =
        "last tick done: " + ask("SELECT to_char(" + schedule.earlier_tick() + ", 'Dy YYYY-MM-DD HH24:MI')");
    expect(schedule.check(), 2, is_not_done + "\\(" + last_done + "\\) \\| '" + name() + "_late'=[0-9]{8}s;;3600;0\n");
    run_for(schedule.tick(), "false");
    expect(schedule.check(), 2, is_not_done + "\\(failed " + times + " ago on web-2; " + last_done + "\\) .*\n");
    edit("lock_at_least_until = locked_at, lock_until = locked_at");
    expect(schedule.check(), 2, is_not_done + "\\(ran out " + times + " ago on web-2; " + last_done + "\\) .*\n");
    edit("last_done_tick = " + schedule.tick() + " - interval '1 day'");
    expect(schedule.check(), 2, is_not_done + "\\(.*; last tick done: [A-Z][a-z]{2} 00:00\\) .*\n");
    edit("last_done_tick = NULL");
    expect(schedule.check(), 2, is_not_done + "\\(.*; never done\\) .*\n");
    ask("SELECT shedlock_force_release(" + literal(name()) + ')');
    expect(schedule.check(), 2, is_not_done + "\\(released by force: .*, " + times + " ago; never done\\) .*\n");
}

TEST(check, is_2_while_at_least_keeps_a_run_that_failed)
{
    const yearly schedule;
    ask("SELECT shedlock_release_token(" + literal(name()) + ", shedlock_acquire_token(" + literal(name()) +
        ", '1h', at_least => '1h', holder => 'web-2'), false)");
    EXPECT_EQ(state(), "kept");
    expect(schedule.check(), 2, ".*\\(failed after it began " + times + " ago on web-2; never done\\) .*\n");
}

TEST(check, is_0_until_the_grace_is_over)
{
    const yearly schedule;
    const auto deadline =
        ask("SELECT to_char(" + schedule.tick() + " + interval '7200 hours', 'Dy YYYY-MM-DD HH24:MI')");
    run_for(schedule.earlier_tick());
    expect(schedule.check_in_grace(), 0,
           "SHEDLOCK OK - " + name() + ": the run of " + yearly::shown(schedule.tick()) + " has until " + deadline +
               " \\(last tick done: .*\\) \\| '" + name() + "_late'=[0-9]{8}s;;25920000;0\n");
    run_for(schedule.tick(), "false");
    EXPECT_EQ(schedule.check_in_grace().status, 0);
    hold_for(schedule.tick());
    EXPECT_EQ(schedule.check_in_grace().status, 0);
}

// A new tick must not end the alarm of the one before.
TEST(check, is_2_while_a_tick_is_not_done_and_the_next_one_still_has_time)
{
    const yearly schedule;
    run_for(schedule.earlier_tick(), "false");
    const auto is_not_done = "SHEDLOCK CRITICAL - " + name() + ": the run of " +
                             yearly::shown(schedule.earlier_tick()) + " is not done \\(.*\n";
    expect(schedule.check_in_grace(), 2, is_not_done);
    hold_for(schedule.tick());
    expect(schedule.check_in_grace(), 2, is_not_done);
    edit("last_done_at = " + schedule.tick() + ", last_done_tick = " + schedule.tick());
    EXPECT_EQ(schedule.check_in_grace().status, 0);
}

// The schedule of an acquire looks ahead by half a minute. That of a check must not: the grace has not even begun.
TEST(check, judges_no_tick_before_its_time)
{
    const yearly schedule;
    run_for(schedule.earlier_tick());
    const auto age = "floor(extract(epoch FROM timezone('utc', clock_timestamp()) - " + schedule.tick() + "))";
    for (;;) {
        const auto grace = ask("SELECT " + age + " + 25"); // in 25 seconds it is over
        const auto status = check({name(), "--cron", schedule.expression(), "--grace", grace + 's'}).status;
        if (ask("SELECT " + age + " < " + grace) != "t")
            continue; // we came too late
        EXPECT_EQ(status, 0);
        break;
    }
    EXPECT_EQ(check({name(), "--cron", schedule.expression(), "--grace", ask("SELECT " + age) + 's'}).status, 2);
}

TEST(check, is_1_while_the_run_of_the_tick_is_under_way_and_2_after_the_next_tick_and_its_grace)
{
    const yearly schedule;
    run_for(schedule.earlier_tick());
    hold_for(schedule.tick());
    expect(schedule.check(), 1,
           "SHEDLOCK WARNING - " + name() + ": the run of " + yearly::shown(schedule.tick()) +
               " is still under way \\(held for " + times + " on web-2; last tick done: .*\\) \\| .*\n");
    EXPECT_EQ(schedule.check({"--max-held", "1h"}).status, 2);
    edit("last_tick = " + schedule.earlier_tick() + ", run_tick = " + schedule.earlier_tick() +
         ", last_done_tick = NULL");
    expect(schedule.check(), 2, ".* is not done \\(held for " + times + " on web-2; never done\\) .*\n");
}

TEST(check, is_2_while_a_run_without_a_tick_is_under_way)
{
    const yearly schedule;
    acquire();
    EXPECT_EQ(schedule.check().status, 2); // there was never a tick
    edit("locked_at = '2026-01-01', lock_until = '2026-01-01', lock_at_least_until = '-infinity'");
    run_for(schedule.tick(), "false");
    EXPECT_NE(acquire(), "");
    EXPECT_EQ(schedule.check().status, 2); // it is for no tick, though the last one was
    ask("SELECT shedlock_force_release(" + literal(name()) + ")");
    ask("SELECT shedlock_acquire(" + literal(name()) + ", '1 h', tick => timezone('UTC', " + schedule.tick() +
        "), retry => true)");
    EXPECT_EQ(schedule.check().status, 1); // another attempt at the tick, which began long after the grace
}

TEST(check, is_2_when_it_is_paused_and_the_grace_is_over)
{
    const yearly schedule;
    run_for(schedule.earlier_tick());
    EXPECT_EQ(run({"shedlock", "pause", name(), "--reason", "year end"}).status, 0);
    expect(schedule.check(), 2,
           "SHEDLOCK CRITICAL - " + name() + ": the run of .* is not done \\(paused: .*: year end, " + times +
               " ago; last tick done: .*\\) \\| .*\n");
    EXPECT_EQ(schedule.check_in_grace().status, 0);
    EXPECT_EQ(schedule.check_in_grace({"--max-held", "1h"}).status, 1);
}

TEST(check, is_3_when_a_Java_client_ran_after_the_tick_and_2_when_it_ran_before)
{
    const yearly schedule;
    let_java_run("1 hour", "30 min");
    const auto is_unknown = "SHEDLOCK UNKNOWN - " + name() + ": the run of " + yearly::shown(schedule.tick()) +
                            " was last run by a Java client, which does not record whether it was done \\| .*\n";
    expect(schedule.check(), 3, is_unknown);
    let_java_run("1 hour", "-1 hour"); // it is still running
    expect(schedule.check(), 3, is_unknown);
    edit("locked_at = " + schedule.tick() + " - interval '15 seconds'"); // its clock was a little ahead
    expect(schedule.check(), 3, is_unknown);
    edit("locked_at = " + schedule.tick() + " - interval '1 hour'");
    EXPECT_EQ(schedule.check().status, 2);
    EXPECT_EQ(schedule.check_in_grace().status, 3);
    edit("lock_until = locked_at");
    expect(schedule.check(), 2, ".* is not done \\(last tick done: .*\\) .*\n");
    run_for(schedule.tick());
    EXPECT_EQ(schedule.check().status, 0);
}

TEST(check, is_3_when_a_tick_was_done_in_the_future)
{
    const yearly schedule;
    run_for(schedule.tick());
    edit("last_done_tick = timezone('utc', now()) + interval '30 seconds'"); // that much is allowed
    EXPECT_EQ(schedule.check().status, 0);
    for (const auto *const instant : {"timezone('utc', now()) + interval '1 year'", "'infinity'"}) {
        edit("last_done_at = timezone('utc', now()), last_done_tick = " + std::string{instant});
        expect(schedule.check(), 3, "SHEDLOCK UNKNOWN - .* because the last one that was done is in the future.*\n");
    }
    edit("last_done_tick = '-infinity'");
    EXPECT_EQ(schedule.check().status, 2);
}

TEST(check, is_2_without_a_row_unless_the_job_is_newer_than_the_tick)
{
    const yearly schedule;
    const auto is_not_done = "SHEDLOCK CRITICAL - " + name() + ": the run of " + yearly::shown(schedule.tick()) +
                             " is not done \\(there is no row: never acquired, or forgotten\\) \\| '" + name() +
                             "_late'=[0-9]+s;;3600;0\n";
    const auto tick = ask("SELECT " + schedule.tick() + "::text || 'Z'");
    expect(schedule.check(), 2, is_not_done);
    expect(schedule.check({"--since", tick}), 2, is_not_done);
    expect(schedule.check({"--since", "2001-01-01"}), 2, is_not_done);
    expect(schedule.check({"--since", "@978307200"}), 2, is_not_done);
    const auto after = ask("SELECT (" + schedule.tick() + " + interval '1 second')::text || 'Z'");
    expect(schedule.check({"--since", after}), 0,
           "SHEDLOCK OK - " + name() + ": no run has been due since .* \\| '" + name() + "_late'=0s;;3600;0\n");
    expect(schedule.check_in_grace({"--since", tick}), 0, "SHEDLOCK OK - .* has until .*\n");
    EXPECT_EQ(schedule.check({"--since", after, "--max-age", "1h"}).status, 2);
    run_for(schedule.earlier_tick(), "false");
    EXPECT_EQ(schedule.check().status, 2);
    EXPECT_EQ(schedule.check({"--since", after}).status, 0);
}

TEST(check, takes_an_interval_and_reports_ticks_and_instants_in_the_zone)
{
    // Of these periods since 2001, the second has begun, and is not half over.
    const auto days = ask("SELECT (now()::date - '2001-01-01'::date) * 2 / 3");
    const auto tick = ask("SELECT shedlock_tick(" + literal(days + " days") + ", 'Asia/Tokyo')");
    run_for("timezone('utc', " + literal(tick) + "::timestamptz)");
    const words asked{name(), "--every", days + "d", "--grace", "1h", "--zone", "Asia/Tokyo"};
    const auto shown = ask("SELECT to_char(timezone('Asia/Tokyo', " + literal(tick) + "), 'Dy YYYY-MM-DD HH24:MI')");
    expect(check(asked), 0, "SHEDLOCK OK - .*: the run of " + shown + " JST is done .*\n");
    const auto in_tokyo = ask("SELECT timezone('Asia/Tokyo', " + literal(tick) + ") + interval '1 second'");
    expect(check(asked + words{"--since", in_tokyo}), 0, "SHEDLOCK OK - .*: no run has been due since .*\n");
    expect(check(asked + words{"--since", shown.substr(4)}), 0, "SHEDLOCK OK - .* is done .*\n");
}

TEST(check, takes_periods_in_weeks_and_months)
{
    for (const auto &[unit, units, since_2001] :
         {std::tuple{"w", " weeks", "SELECT (now()::date - '2001-01-01'::date) / 7 * 2 / 3"},
          std::tuple{"mon", " months", "SELECT (extract(year FROM now())::int - 2001) * 12 * 2 / 3"}}) {
        const auto number = ask(since_2001); // of these periods, the second has begun, and is not half over
        const auto tick = ask("SELECT shedlock_tick(" + literal(number + units) + ", 'UTC')");
        run_for("timezone('utc', " + literal(tick) + "::timestamptz)");
        expect(check({name(), "--every", number + unit, "--grace", "1h"}), 0,
               "SHEDLOCK OK - .*: the run of " +
                   ask("SELECT to_char(timezone('UTC', " + literal(tick) + "), 'Dy YYYY-MM-DD HH24:MI')") +
                   " UTC is done .*\n");
        EXPECT_EQ(run({"shedlock", "forget", name()}).status, 0);
    }
}

TEST(check, takes_a_schedule_with_the_other_limits_and_several_names)
{
    const yearly schedule;
    run_for(schedule.tick());
    const auto all = schedule.check({"--max-age", "1d", "--max-held", "1h"});
    expect(all, 0, "SHEDLOCK OK - .*: the run of .* is done \\| '.*_age'=.* '.*_held'=.* '.*_late'=.*\n");
    make_older();
    EXPECT_EQ(schedule.check({"--max-age", "1d"}).status, 2);
    expect(schedule.check({name() + ".2", name() + ".3"}), 2,
           "SHEDLOCK CRITICAL - .*; " + name() + "\\.2: the run of .*; " + name() +
               "\\.3: the run of .* \\| .*_late'=.*\\.2_late'=.*\\.3_late'=.*\n");
}

TEST(check, is_3_with_a_bad_schedule_or_options_that_do_not_fit)
{
    run_once();
    for (const auto &options : std::vector<words>{{"--cron", "0 0 31 2 *", "--grace", "1h"},
                                                  {"--cron", "0 0 * 13 *", "--grace", "1h"},
                                                  {"--cron", "daily", "--grace", "1h"},
                                                  {"--cron", "", "--grace", "1h"},
                                                  {"--cron", "30", "--grace", "1h"},
                                                  {"--every", "1mo", "--grace", "1h"},
                                                  {"--every", "0s", "--grace", "1h"},
                                                  {"--every", "1d", "--grace", "1h", "--zone", "Berlin1"},
                                                  {"--every", "1d", "--grace", "1h", "--zone", "Nowhere"},
                                                  {"--every", "1d", "--grace", "1h", "--since", "then"},
                                                  {"--every", "1d", "--grace", "106751991d"},
                                                  {"--every", "1d", "--cron", "@daily", "--grace", "1h"},
                                                  {"--every", "1d"},
                                                  {"--cron", "@daily"},
                                                  {"--grace", "1h"},
                                                  {"--max-age", "1h", "--grace", "1h"},
                                                  {"--max-age", "1h", "--zone", "UTC"},
                                                  {"--max-age", "1h", "--since", "2026-01-01"}}) {
        expect(check(words{name()} + options), 3, "SHEDLOCK UNKNOWN - .*\n");
    }
}
