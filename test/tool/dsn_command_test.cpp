// The connection string from a command.
#include "scene.hpp"

#include "../client/proxy.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace shedlock::test;

namespace {

words with_dsn(const std::string &command, words more)
{
    return words{"shedlock", "--dsn-command", command} + more;
}

words running(const std::string &command, words more)
{
    return with_dsn(command, words{"run", name(), "--at-most", "1h"} + more);
}

std::string contents(const std::string &file)
{
    return run({"cat", file}).out;
}

auto lines(const std::string &text)
{
    return std::count(text.begin(), text.end(), '\n');
}

// Until this file exists.
words wait_for(const std::string &file)
{
    return sh("echo started; until [ -e " + file + " ]; do sleep 0.1; done");
}

} // namespace

TEST(dsn_command, prints_the_string_on_its_first_line)
{
    EXPECT_EQ(
        run(with_dsn("printf 'application_name=mine\ndbname=none'", {"acquire", name(), "--at-most", "1h"})).status, 0);
    EXPECT_EQ(run(with_dsn("echo dbname=none", {"version"})).status, 125);
    EXPECT_EQ(run(with_dsn("echo application_name=mine", {"check", name(), "--max-held", "1h"})).status, 0);
}

TEST(dsn_command, is_asked_for_each_connection_also_while_children_are_reaped)
{
    // It ends later than its output, so that the process that reaps all children is usually the first to notice.
    const auto command =
        running("echo asked >>asked; echo application_name=mine; exec >&-; sleep 0.1", words{"--"} + wait_for("go"));
    process working{command};
    EXPECT_TRUE(working.says("started"));
    EXPECT_EQ(lines(contents("asked")), 1);
    advance_clock(std::chrono::minutes{21}); // keep-alive opens a connection of its own
    ask("UPDATE shedlock SET lock_until = lock_until - interval '21 min' WHERE name = " + literal(name()));
    EXPECT_TRUE(comes_true(
        [] { return ask("SELECT remaining > '50 min' FROM shedlock_locks WHERE name = " + literal(name())) == "t"; }));
    EXPECT_EQ(lines(contents("asked")), 2);
    run({"touch", "go"});
    const auto ended = working.wait();
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.err, "");
}

TEST(dsn_command, gets_nothing_of_ours)
{
    EXPECT_EQ(run(under_lock(words{"shedlock", "--dsn-command",
                                   "cat >input; env >variables; ps -o pgid= $$ | tr -d ' ' >group; echo $$ >leader; "
                                   "echo application_name=mine",
                                   "version"}),
                  "input")
                  .status,
              0);
    EXPECT_EQ(contents("input"), "");
    EXPECT_NE(contents("variables").find("PATH="), std::string::npos);
    EXPECT_EQ(contents("variables").find("SHEDLOCK_"), std::string::npos);
    EXPECT_EQ(contents("group"), contents("leader"));
}

TEST(dsn_command, that_fails_is_like_a_server_that_cannot_be_reached)
{
    const std::string command = "echo asked >>asked; test -e ready && echo application_name=mine";
    const auto failed = run(running(command, {"--", "true"}));
    EXPECT_EQ(failed.status, 125);
    EXPECT_EQ(failed.err, "shedlock: there is no connection string: --dsn-command ended with status 1\n");
    process waiting{running(command, {"--wait-server", "1h", "--", "true"})};
    EXPECT_TRUE(comes_true([] { return lines(contents("asked")) > 2; }));
    run({"touch", "ready"});
    EXPECT_EQ(waiting.wait().status, 0);
    EXPECT_EQ(last_outcome(), "done");
    EXPECT_EQ(run(with_dsn("kill -9 $$", {"version"})).err,
              "shedlock: there is no connection string: --dsn-command was killed by signal 9\n");
}

TEST(dsn_command, is_never_quoted)
{
    for (const auto *const bad :
         {"secret", "", "postgresql://me:%zzsecret@localhost/x", "host=localhost secret", "password='secret",
          "\\000secret=", "postgresql://me:secret/x@localhost/db", "postgresql://me:x@secret@localhost/db",
          "host=localhost sslmode=secret", "host=secret.invalid"}) {
        const auto ended = run(with_dsn("printf '%b' \"" + std::string{bad} + "\"; echo more secret", {"version"}));
        EXPECT_EQ(ended.status, 125) << bad;
        EXPECT_EQ(lines(ended.err), 1) << ended.err;
        EXPECT_EQ(ended.err.find("secret"), std::string::npos) << ended.err;
    }
}

TEST(dsn_command, is_killed_with_its_group_when_the_time_is_over)
{
    process waiting{with_dsn("sleep 100000 & echo $$ $! >pids; wait", {"version"})};
    EXPECT_TRUE(comes_true([] { return lines(contents("pids")) == 1; }));
    EXPECT_TRUE(comes_true([&] {
        advance_clock(std::chrono::seconds{1});
        return !is_running(waiting.pid());
    }));
    EXPECT_EQ(waiting.wait().status, 125);
    std::istringstream pids{contents("pids")};
    for (pid_t one = 0; pids >> one;)
        EXPECT_TRUE(comes_true([one] { return !is_running(one); }));
}

TEST(dsn_command, must_not_be_empty)
{
    EXPECT_EQ(run(with_dsn("", {"version"})).status, 125) << "not the default database";
}

// As process 1, the tool also reaps what the command leaves behind, while it waits.
TEST(dsn_command, leaves_no_zombies)
{
    if (run({"unshare", "--pid", "--fork", "--mount-proc", "true"}).status != 0)
        GTEST_SKIP() << "no namespaces can be made here";
    const auto tool = running("ps -eo stat,comm >new; mv new seen; echo >>asked; sleep 0.01 & exit 1",
                              {"--wait", "1h", "--", "true"});
    process waiting{words{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"} + tool};
    EXPECT_TRUE(comes_true([] {
        return lines(contents("asked")) > 3 && contents("seen").find("Z") == std::string::npos;
    })) << contents("seen");
}

TEST(dsn_command, excludes_dsn)
{
    const auto ended = run({"shedlock", "--dsn", "dbname=x", "--dsn-command", "echo dbname=x", "version"});
    EXPECT_EQ(ended.status, 125);
    EXPECT_NE(ended.err.find("--dsn"), std::string::npos) << ended.err;
}
