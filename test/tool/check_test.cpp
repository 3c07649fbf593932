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
    words all{"shedlock", "check"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
}

void expect(const outcome &seen, int status, const std::string &line)
{
    EXPECT_EQ(seen.status, status);
    EXPECT_EQ(seen.err, "");
    EXPECT_TRUE(std::regex_match(seen.out, std::regex{line})) << seen.out;
}

const std::string times = "[0-9a-z. ]+";

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

// A line break would begin another line, and | the performance data; a quote would end the label.
TEST(check, keeps_its_line_in_one_piece)
{
    const auto lock = name() + " a|b=c'd\ne";
    run_once(lock);
    expect(check({lock, "--max-age", "25h"}), 0,
           "SHEDLOCK OK - " + name() + " a\\\\x7Cb\\\\x3Dc'd\\\\x0Ae was done " + times + " ago \\| '" + name() +
               " a\\\\x7Cb\\\\x3Dc''d\\\\x0Ae_age'=[0-9]+s;;90000;0\n");
}

TEST(check, is_3_without_the_privilege_to_read_and_needs_no_other)
{
    run_once();
    const auto role = "reader_" + std::to_string(::getpid());
    ask("CREATE ROLE " + role + " LOGIN PASSWORD 'reader'");
    const words as_role{"env", "PGUSER=" + role, "PGPASSWORD=reader"};
    const auto with = [&](words all, const words &more) {
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    const words asked{"shedlock", "check", name(), "--max-age", "25h"};
    const auto before = run(with(as_role, asked));
    ask("SELECT shedlock_grant('" + role + "', read_only => true)");
    const auto after = run(with(as_role, asked));
    const auto list = run(with(as_role, {"shedlock", "list", name()}));
    const auto metrics = run(with(as_role, {"shedlock", "metrics"}));
    const auto refused = run(with(as_role, {"shedlock", "acquire", name(), "--at-most", "1m"}));
    ask("SELECT shedlock_revoke('" + role + "')");
    ask("DROP ROLE " + role);
    expect(before, 3, "SHEDLOCK UNKNOWN - permission denied.*\n");
    EXPECT_EQ(after.status, 0) << after.out;
    EXPECT_EQ(list.status, 0) << list.err;
    EXPECT_EQ(metrics.status, 0) << metrics.err;
    EXPECT_EQ(refused.status, 125) << refused.err;
}
