#include "scene.hpp"

#include <gtest/gtest.h>
#include <pqxx/pqxx>

using namespace shedlock::test;

namespace {

// shedlock COMMAND NAME OPTIONS
outcome tool(const std::string &command, const words &options = {})
{
    return run(words{"shedlock", command, name()} + options);
}

std::string column(const std::string &expression)
{
    return ask("SELECT " + expression + " FROM shedlock_locks WHERE name = " + literal(name()));
}

std::string acquired(const words &options = {"--at-most", "1m"})
{
    const auto seen = tool("acquire", options);
    EXPECT_EQ(seen.status, 0) << seen.err;
    return seen.out.substr(0, seen.out.find('\n'));
}

void expect_lost(const outcome &seen)
{
    EXPECT_EQ(seen.status, 1);
    EXPECT_EQ(seen.out, "");
    EXPECT_NE(seen.err.find(name()), std::string::npos) << seen.err;
}

} // namespace

// Acquire

TEST(acquire, treats_blanks_at_the_ends_of_a_name_as_part_of_it)
{
    const auto other = " " + name() + "\t ";
    acquire();
    const auto seen = run({"shedlock", "acquire", other, "--at-most", "1m"});
    EXPECT_EQ(seen.status, 0) << seen.err;
    EXPECT_EQ(state(other), "held");
    EXPECT_EQ(run({"shedlock", "release", other, "--token", seen.out.substr(0, seen.out.find('\n'))}).status, 0);
    EXPECT_EQ(state(other), "free");
    EXPECT_EQ(state(), "held");
}

TEST(acquire, prints_the_token_and_leaves_the_lock_held)
{
    const auto seen = tool("acquire", {"--at-most", "1m"});
    EXPECT_EQ(seen.status, 0);
    EXPECT_EQ(seen.out, column("token") + '\n');
    EXPECT_EQ(state(), "held");
    EXPECT_EQ(column("lock_until - locked_at"), "00:01:00");
}

TEST(acquire, refused_is_1_and_says_who_has_it)
{
    const auto token = acquire();
    const auto seen = tool("acquire", {"--at-most", "1m"});
    EXPECT_EQ(seen.status, 1);
    EXPECT_EQ(seen.out, "");
    EXPECT_NE(seen.err.find(" has held lock \"" + name() + "\" for "), std::string::npos) << seen.err;
    EXPECT_EQ(column("token"), token);
}

TEST(acquire, takes_the_options_of_run)
{
    const auto token = acquired(an_hour({"--at-least", "30m", "--every", "30d", "--holder", "the night shift"}));
    EXPECT_NE(column("holder").find("the night shift"), std::string::npos);
    EXPECT_EQ(tool("release", {"--token", token}).status, 0);
    EXPECT_EQ(state(), "kept");
    EXPECT_EQ(tool("acquire", {"--at-most", "1m", "--every", "30d", "--wait", "10m"}).status, 1);
}

TEST(acquire, retry_gets_a_period_again_after_a_release_as_failed)
{
    const auto once_a_month = an_hour({"--every", "30d", "--retry"});
    EXPECT_EQ(tool("release", {"--token", acquired(once_a_month), "--failed"}).status, 0);
    EXPECT_EQ(last_outcome(), "failed");
    EXPECT_EQ(tool("release", {"--failed", "--token", acquired(once_a_month)}).status, 0);
    EXPECT_EQ(tool("release", {"--token", acquired(once_a_month)}).status, 0);
    EXPECT_EQ(last_outcome(), "done");
    EXPECT_EQ(tool("acquire", once_a_month).status, 1);
}

TEST(acquire, takes_a_crontab_expression)
{
    const auto yearly = an_hour({"--cron", "0 0 1 1 *", "--zone", "Asia/Tokyo", "--retry"});
    EXPECT_EQ(tool("release", {"--token", acquired(yearly), "--failed"}).status, 0);
    EXPECT_EQ(tool("release", {"--token", acquired(yearly)}).status, 0);
    EXPECT_EQ(tool("acquire", yearly).status, 1);
    EXPECT_EQ(ask("SELECT to_char(last_tick, 'MM-DD HH24:MI') FROM shedlock WHERE name = " + literal(name())),
              "12-31 15:00");
}

TEST(acquire, takes_several_names_which_have_one_token)
{
    const auto other = name() + ".2";
    const auto token = acquired({other, "--at-most", "1m"});
    EXPECT_EQ(column("token"), token);
    EXPECT_EQ(state(other), "held");
    EXPECT_EQ(tool("acquire", {"--at-most", "1m"}).status, 1);
    EXPECT_EQ(tool("extend", {other, "--token", token, "--at-most", "1h"}).status, 0);
    EXPECT_EQ(column("remaining > '50 min'"), "t");
    EXPECT_EQ(tool("release", {other, "--token", token, "--failed"}).status, 0);
    EXPECT_EQ(state() + state(other), "freefree");
    EXPECT_EQ(last_outcome(other), "failed");
    expect_lost(tool("release", {other, "--token", token}));
    EXPECT_EQ(tool("acquire", {name(), "--at-most", "1m"}).status, 125) << "the same name twice";
}

TEST(acquire, tick_gets_the_lock_once_for_each_instant)
{
    const auto in_seconds = [](const char *seconds) {
        return an_hour({"--tick", '@' + ask(std::string{"SELECT extract(epoch FROM now()) + "} + seconds)});
    };
    const auto soon = in_seconds("-300");
    EXPECT_EQ(tool("release", {"--token", acquired(soon)}).status, 0);
    EXPECT_EQ(tool("acquire", soon).status, 1);
    acquired(in_seconds("-290"));
}

TEST(acquire, waits)
{
    acquire(name(), "1s");
    acquired(an_hour({"--wait", "1h"}));
}

// No program got the token, so none could release the lock.
TEST(acquire, that_cannot_print_the_token_is_125_and_releases)
{
    const auto seen = run(sh("shedlock acquire \"$1\" --at-most 1h >/dev/full", {name()}));
    EXPECT_EQ(seen.status, 125);
    EXPECT_NE(seen.err, "");
    EXPECT_EQ(state(), "free");
    EXPECT_EQ(last_outcome(), "failed");
}

TEST(acquire, whose_output_nobody_reads_is_125_and_releases)
{
    EXPECT_EQ(run(sh("{ until [ -e gone ]; do sleep 0.1; done; shedlock acquire \"$1\" --at-most 1h; echo $? >status; }"
                     " | { exec <&-; touch gone; }; cat status",
                     {name()}))
                  .out,
              "125\n");
    EXPECT_EQ(state(), "free");
}

TEST(acquire, that_has_no_stdout_for_the_token_is_125)
{
    EXPECT_EQ(run(sh("shedlock acquire \"$1\" --at-most 1h >&-", {name()})).status, 125);
}

// Extend

TEST(extend, can_keep_the_lock)
{
    const auto token = acquired();
    EXPECT_EQ(tool("extend", {"--token", token, "--at-most", "1h", "--at-least", "30m"}).status, 0);
    EXPECT_EQ(tool("release", {"--token", token}).status, 0);
    EXPECT_EQ(state(), "kept");
    EXPECT_EQ(column("remaining BETWEEN '20 min' AND '30 min'"), "t");
}

TEST(extend, I4_by_another_token_is_1_and_says_why)
{
    const auto token = acquired();
    expect_lost(tool("extend", {"--token", "42", "--at-most", "1h"}));
    EXPECT_EQ(column("remaining <= '1 min'"), "t");
    EXPECT_EQ(tool("extend", {"--at-most", "1h"}).status, 125);
    EXPECT_EQ(tool("extend", {"--token", token}).status, 125);
}

// Release

TEST(release, by_the_token_in_another_process)
{
    const auto token = acquired();
    EXPECT_EQ(tool("release", {"--token", token}).status, 0);
    EXPECT_EQ(state(), "free");
    const auto again = tool("release", {"--token", token});
    EXPECT_EQ(again.status, 0) << "it was released as done";
    EXPECT_EQ(again.err, "");
    const auto failed = acquired();
    EXPECT_EQ(tool("release", {"--token", failed, "--failed"}).status, 0);
    expect_lost(tool("release", {"--token", failed}));
}

TEST(release, takes_a_detail)
{
    const server::kept_history history;
    EXPECT_EQ(tool("release", {"--token", acquired(), "--failed", "--detail", "the disk is full"}).status, 0);
    EXPECT_EQ(tool("release", {"--token", acquired(), "--detail", "[2 of 3]"}).status, 0);
    EXPECT_EQ(tool("release", {"--token", acquired()}).status, 0);
    EXPECT_EQ(history.of(name()), "failed: the disk is full\ndone: [2 of 3]\ndone");
    EXPECT_EQ(tool("release", {"--force", "--detail", "x"}).status, 125);
}

TEST(release, accepts_a_lock_that_was_completed)
{
    const auto token = acquired();
    ask("SELECT shedlock_complete_token(" + literal(name()) + ", " + token + ')');
    expect_lost(tool("extend", {"--token", token, "--at-most", "1m"}));
    for (const auto &how : {words{}, words{"--failed"}}) {
        EXPECT_EQ(tool("release", words{"--token", token} + how).status, 0);
        EXPECT_EQ(last_outcome(), "done");
    }
}

TEST(release, I4_by_another_token_is_1_and_says_why)
{
    acquired();
    expect_lost(tool("release", {"--token", "42"}));
    EXPECT_EQ(state(), "held");
}

TEST(release, force_releases_any_holder)
{
    const auto token = acquired();
    EXPECT_EQ(tool("release", {"--force"}).status, 0);
    EXPECT_EQ(state(), "free");
    expect_lost(tool("extend", {"--token", token, "--at-most", "1m"}));
    EXPECT_EQ(tool("release", {"--force"}).status, 1);
}

TEST(release, needs_either_a_token_or_force)
{
    const auto token = acquired();
    EXPECT_EQ(tool("release").status, 125);
    EXPECT_EQ(tool("release", {"--token", token, "--force"}).status, 125);
    EXPECT_EQ(tool("release", {"--failed"}).status, 125);
    EXPECT_EQ(tool("release", {"--failed", "--force"}).status, 125);
    EXPECT_EQ(tool("release", {"--token", "abc"}).status, 125);
    EXPECT_EQ(state(), "held");
}

// Pause and resume

TEST(pause, keeps_a_job_from_running_until_it_is_resumed)
{
    EXPECT_EQ(tool("pause", {"--reason", "moving house"}).status, 0);
    EXPECT_EQ(state(), "paused");
    EXPECT_EQ(run(under_lock({"echo", "ran"}, an_hour({"-E", "9"}))).status, 9);
    EXPECT_NE(run({"shedlock", "list"}).out.find("moving house"), std::string::npos);
    EXPECT_EQ(tool("resume").status, 0);
    EXPECT_EQ(run(under_lock({"echo", "ran"})).out, "ran\n");
}

TEST(pause, takes_an_empty_name_that_is_in_the_table)
{
    const words pause{"shedlock", "pause", ""}, resume{"shedlock", "resume", ""},
        force{"shedlock", "release", "", "--force"};
    EXPECT_EQ(run(pause).status, 125);
    ask("INSERT INTO shedlock VALUES ('', '2026-01-01', '2026-01-01', 'host')");
    EXPECT_EQ(run(pause).status, 0);
    EXPECT_EQ(state(""), "paused");
    EXPECT_EQ(run(resume).status, 0);
    EXPECT_EQ(run(force).status, 1) << "it was free";
    ask("DELETE FROM shedlock WHERE name = ''");
}

TEST(pause, is_refused_while_somebody_holds_it)
{
    acquire();
    EXPECT_EQ(tool("pause").status, 1);
    EXPECT_EQ(tool("pause", {"--wait", "50ms"}).status, 1);
    EXPECT_EQ(state(), "held");
}

TEST(pause, is_refused_while_a_transaction_has_the_row_and_says_so)
{
    acquire();
    EXPECT_EQ(tool("release", {"--force"}).status, 0);
    {
        pqxx::connection other{""};
        pqxx::work row{other};
        row.exec("SELECT FROM shedlock WHERE name = " + literal(name()) + " FOR UPDATE");
        const auto refused = tool("pause");
        EXPECT_EQ(refused.status, 1);
        EXPECT_NE(refused.err.find("another transaction has its row"), std::string::npos) << refused.err;
    }
    EXPECT_EQ(tool("pause").status, 0);
}

TEST(pause, waits_for_the_holder)
{
    acquire(name(), "1s");
    EXPECT_EQ(tool("pause", {"--wait", "1h"}).status, 0);
    EXPECT_EQ(state(), "paused");
}

TEST(resume, is_1_when_it_was_not_paused)
{
    EXPECT_EQ(tool("resume").status, 1);
    acquire();
    EXPECT_EQ(tool("resume").status, 1);
    EXPECT_EQ(state(), "held");
}
