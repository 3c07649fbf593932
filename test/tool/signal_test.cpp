#include "scene.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <pqxx/pqxx>
#include <unistd.h>

using namespace shedlock::test;

namespace {

// Prints which process got a signal: the command, or its child, for which it waits.
const words parent_and_child = sh("trap 'echo parent; exit 7' INT TERM HUP QUIT USR1\n"
                                  "sh -c 'trap \"echo child; exit\" INT TERM HUP QUIT USR1\n"
                                  "       echo ready; while :; do sleep 0.1; done'\n"
                                  "echo not reached");
// More than a third of a lease of an hour, so keep-alive extends it.
constexpr std::chrono::minutes past_a_third{21};
const std::string both_reported = "ready\nchild\nparent\n";

void lose_lock()
{
    EXPECT_EQ(ask("SELECT shedlock_force_release(" + literal(name()) + ')'), "t");
}

// The number that the command prints first.
pid_t printed_pid(process &tool)
{
    EXPECT_TRUE(tool.says("\n"));
    return std::stoi(tool.out());
}

words as_process_1(const words &command)
{
    return words{"unshare", "--pid", "--fork", "--mount-proc"} + command;
}

bool has_namespaces()
{
    return run(as_process_1({"true"})).status == 0;
}

// These end a process by default. Left out: KILL, faults of the process itself (SEGV and others), what its own writes
// cause (PIPE, XFSZ), and all but two of the real-time signals.
const int signals_that_end[] = {SIGHUP,    SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM,  SIGTERM, SIGSTKFLT,
                                SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR,  SIGXCPU, SIGRTMIN, SIGRTMAX};

pid_t child_of(pid_t pid)
{
    std::ifstream children{"/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"};
    pid_t child = 0;
    children >> child;
    return child;
}

} // namespace

TEST(signal, reaches_the_command_and_its_children_and_the_command_decides)
{
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1}) {
        process tool{under_lock(parent_and_child)};
        ASSERT_TRUE(tool.says("ready"));
        tool.signal(number);
        const auto seen = tool.wait();
        EXPECT_EQ(seen.status, 7) << number;
        EXPECT_EQ(seen.out, both_reported);
        EXPECT_EQ(state(), "free");
    }
}

TEST(signal, that_kills_the_command_is_reported)
{
    for (const int number : signals_that_end) {
        process tool{under_lock(sh("echo ready; exec sleep 3600"))};
        ASSERT_TRUE(tool.says("ready"));
        tool.signal(number);
        EXPECT_EQ(tool.wait().status, 128 + number);
        EXPECT_EQ(state(), "free") << number;
        EXPECT_EQ(last_outcome(), "failed") << number;
    }
}

TEST(signal, that_is_not_passed_on_changes_nothing)
{
    process tool{under_lock(sh("echo ready; until [ -e go ]; do sleep 0.1; done; exit 7"))};
    ASSERT_TRUE(tool.says("ready"));
    for (const int number : {SIGCONT, SIGURG, SIGWINCH, SIGCHLD, SIGPIPE, SIGXFSZ})
        tool.signal(number);
    std::ofstream{"go"};
    EXPECT_EQ(tool.wait().status, 7);
}

// The tool reports that the lease is about to end, but that message cannot be written.
TEST(signal, PIPE_from_its_own_message_does_not_prevent_the_release)
{
    process tool{
        sh("{ shedlock run \"$1\" --at-most 1h --no-keep-alive -- sh -c 'echo ready >started; exec sleep 3600'\n"
           "echo $? >status; } 2>&1 | { exec <&-; touch gone; }; cat status",
           {name()})};
    ASSERT_TRUE(comes_true([] { return std::filesystem::exists("started") && std::filesystem::exists("gone"); }));
    advance_clock(std::chrono::hours{1});
    EXPECT_EQ(tool.wait().out, "124\n");
    EXPECT_EQ(last_outcome(), "failed");
}

// Otherwise another thread may take it, and the tool would not know that a shell has continued it.
TEST(signal, that_continues_the_tool_is_blocked_in_all_its_threads)
{
    process tool{under_lock(sh("echo started; exec sleep 1000"), an_hour({"--ends-with-session"}))};
    EXPECT_TRUE(tool.says("started"));
    int threads = 0;
    for (const auto &one : std::filesystem::directory_iterator{"/proc/" + std::to_string(tool.pid()) + "/task"}) {
        std::ifstream status{one.path() / "status"};
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("SigBlk:"))
                threads += std::stoull(line.substr(7), nullptr, 16) >> (SIGCONT - 1) & 1U ? 1 : -100;
    }
    EXPECT_GE(threads, 2);
}

TEST(signal, reaches_a_command_that_is_stopped)
{
    process tool{under_lock(sh("trap 'exit 7' TERM; echo $$; while :; do sleep 0.1; done"))};
    const auto command = printed_pid(tool);
    ::kill(command, SIGSTOP);
    ASSERT_TRUE(comes_true([&] { return is_stopped(command); }));
    tool.signal(SIGTERM);
    EXPECT_EQ(tool.wait().status, 7);
}

// An administrator may stop the command for a while, to use the machine for something else.
TEST(signal, that_stops_and_continues_the_command_leaves_it_under_the_lock)
{
    process tool{under_lock(sh("echo $$; until [ -e go ]; do sleep 0.1; done; exit 7"))};
    const auto command = printed_pid(tool);
    ::kill(command, SIGSTOP);
    ASSERT_TRUE(comes_true([&] { return is_stopped(command); }));
    ::usleep(100'000); // time for the tool to notice
    EXPECT_EQ(state(), "held");
    ::kill(command, SIGCONT);
    std::ofstream{"go"};
    EXPECT_EQ(tool.wait().status, 7);
}

TEST(signal, that_stops_the_command_before_it_is_executed_leaves_the_tool_listening)
{
    const words preloaded{"env", std::string{"LD_PRELOAD="} + FROZEN_CLOCK + ':' + STOPPED_EXEC};
    EXPECT_EQ(run(preloaded + under_lock({"/bin/true"})).status, 0); // the tool has continued it
}

TEST(signal, that_the_command_ignores_leaves_the_tool_waiting_with_the_lock)
{
    process tool{under_lock(sh("trap '' TERM; echo ready; until [ -e go ]; do sleep 0.1; done; exit 7"))};
    ASSERT_TRUE(tool.says("ready"));
    tool.signal(SIGTERM);
    EXPECT_EQ(state(), "held");
    std::ofstream{"go"};
    EXPECT_EQ(tool.wait().status, 7);
}

TEST(signal, ends_the_waiting_and_leaves_no_lock)
{
    for (const int number : signals_that_end)
        for (const auto *command : {"run", "acquire"}) {
            const auto lock = name() + command + std::to_string(number);
            const auto token = acquire(lock);
            words waiting{"shedlock", command, lock, "--at-most", "1h", "--wait", "10m", "--", "echo", "ran"};
            waiting.resize(command == std::string{"run"} ? waiting.size() : 7);
            process tool{waiting};
            ASSERT_TRUE(comes_true([&] { return is_refused(lock); }));
            tool.signal(number);
            const auto seen = tool.wait();
            EXPECT_EQ(seen.status, 128 + number) << command;
            EXPECT_EQ(seen.out, "");
            ask("SELECT shedlock_release_token(" + literal(lock) + ", " + token + ')');
            EXPECT_EQ(state(lock), "free");
        }
}

TEST(signal, that_comes_before_the_grant_leaves_the_lock_to_others)
{
    const auto locked =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%acquire%'";
    const auto detail =
        "SELECT detail FROM shedlock_history WHERE name = " + literal(name()) + " ORDER BY token DESC LIMIT 1";
    ask("SELECT shedlock_keep_history()");
    const auto once_a_month = an_hour({"--every", "30d", "--retry"});
    const auto acquire = words{"shedlock", "acquire", name()} + once_a_month;
    const auto run_it = under_lock({"echo", "ran"}, once_a_month);
    for (const auto &command : {acquire, run_it}) {
        pqxx::connection other{""};
        pqxx::work table{other};
        table.exec("LOCK TABLE shedlock");
        process tool{command};
        EXPECT_TRUE(comes_true([&] { return ask(locked) != "0"; }));
        tool.signal(SIGTERM);
        EXPECT_TRUE(comes_true([&] { return !has_pending(tool.pid(), SIGTERM); })); // noticed before the grant
        table.commit();
        const auto seen = tool.wait();
        EXPECT_EQ(seen.status, 128 + SIGTERM);
        EXPECT_EQ(seen.out, "");
        EXPECT_EQ(last_outcome(), "failed");
        EXPECT_EQ(ask(detail), "signal 15 during the wait");
    }
    EXPECT_EQ(run(run_it).out, "ran\n");
}

TEST(signal, ends_the_waiting_for_a_server)
{
    process tool{sh("PGPORT=1 exec shedlock run \"$1\" --at-most 1h --wait 10m -- echo ran", {name()})};
    EXPECT_TRUE(comes_true([&] { return !tool.err().empty(); })); // the connection was refused, so the tool waits
    tool.signal(SIGTERM);
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 128 + SIGTERM) << seen.err;
    EXPECT_EQ(seen.out, "");
}

TEST(signal, HUP_is_ignored_under_nohup)
{
    auto command = under_lock(sh("grep SigIgn /proc/self/status; exec env --default-signal=HUP sh -c 'echo ready; "
                                 "until [ -e go ]; do sleep 0.1; done; exit 7'"));
    command.insert(command.begin(), "nohup");
    process tool{command};
    ASSERT_TRUE(tool.says("ready"));
    tool.signal(SIGHUP);
    EXPECT_TRUE(comes_true([&] { return !has_pending(tool.pid(), SIGHUP); }));
    std::ofstream{"go"};
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 7);
    EXPECT_NE(seen.out.find("0001\n"), std::string::npos) << "the command ignores it, too: " << seen.out;
}

// A lost lease

TEST(lost_lease, ends_the_command_and_its_children)
{
    process tool{under_lock(parent_and_child)};
    ASSERT_TRUE(tool.says("ready"));
    lose_lock();
    advance_clock(past_a_third);
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 124);
    EXPECT_EQ(seen.out, both_reported);
    EXPECT_NE(seen.err.find(name()), std::string::npos) << seen.err;
}

TEST(lost_lease, is_reported_when_the_command_has_ended_by_itself)
{
    process tool{
        under_lock(sh("echo ready; until [ -e go ]; do sleep 0.1; done"), {"--at-most", "1h", "--no-keep-alive"})};
    ASSERT_TRUE(tool.says("ready"));
    lose_lock();
    std::ofstream{"go"};
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 124);
    EXPECT_NE(seen.err.find(name()), std::string::npos) << seen.err;
}

TEST(lost_lease, kills_a_command_that_ignores_TERM_five_seconds_later)
{
    bool is_killed = false;
    for (int i = 0; i < 3 && !is_killed; ++i) {
        const frozen_clock clock;
        process tool{under_lock(sh("trap 'echo told' TERM; echo $$; while :; do sleep 0.1; done"),
                                an_hour({"--no-keep-alive"}))};
        const auto command = printed_pid(tool);
        // Less than the margin of 9.6 s before the lease ends.
        advance_clock(std::chrono::minutes{59} + std::chrono::seconds{51});
        ASSERT_TRUE(tool.says("told"));
        ::usleep(200'000);
        EXPECT_TRUE(is_running(command));
        advance_clock(std::chrono::seconds{5});
        for (int tenths = 0; tenths < 600 && is_running(tool.pid()); ++tenths)
            ::usleep(100'000);
        is_killed = !is_running(tool.pid());
        if (!is_killed) {
            std::clog << "the tool may have read its clock only after we had moved it; trying again\n";
            ask("SELECT shedlock_force_release(" + literal(name()) + ')');
            continue;
        }
        EXPECT_EQ(tool.wait().status, 124);
        EXPECT_FALSE(is_running(command));
    }
    EXPECT_TRUE(is_killed);
}

TEST(lost_lease, leaves_nothing_of_the_group_behind)
{
    process tool{under_lock(sh("sh -c \"trap '' TERM; echo \\$\\$; sleep 3600; sleep 3600\" & wait"))};
    const auto child = printed_pid(tool);
    lose_lock();
    advance_clock(past_a_third);
    EXPECT_EQ(tool.wait().status, 124);
    EXPECT_TRUE(comes_true([&] { return !is_running(child); }));
}

TEST(lost_lease, ends_a_command_that_is_stopped)
{
    process tool{under_lock(sh("trap 'echo terminated; exit 0' TERM; echo $$; kill -STOP $$; sleep 3600 & wait"),
                            an_hour({"--no-keep-alive"}))};
    const auto command = printed_pid(tool);
    ASSERT_TRUE(comes_true([&] { return is_stopped(command); }));
    advance_clock(std::chrono::hours{1});
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 124);
    EXPECT_EQ(seen.out, std::to_string(command) + "\nterminated\n");
}

TEST(lost_lease, ends_the_command_of_a_tool_that_was_stopped_for_too_long)
{
    process tool{under_lock(parent_and_child)};
    ASSERT_TRUE(tool.says("ready"));
    tool.signal(SIGSTOP);
    end_lease(name());
    ASSERT_NE(acquire(), "");
    advance_clock(std::chrono::hours{1});
    tool.signal(SIGCONT);
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 124);
    EXPECT_EQ(seen.out, both_reported);
    EXPECT_EQ(state(), "held") << "by the successor";
}

// The death of the tool

TEST(killed_tool, takes_the_command_with_it)
{
    process tool{under_lock(sh("echo $$; exec sleep 3600"))};
    const auto command = printed_pid(tool);
    tool.signal(SIGKILL);
    EXPECT_EQ(tool.wait().status, 128 + SIGKILL);
    EXPECT_EQ(state(), "held");
    EXPECT_TRUE(comes_true([&] { return !is_running(command); }));
}

// A daemon that works on one host, while the others wait.
TEST(killed_tool, is_followed_by_one_that_waits)
{
    const auto leader = under_lock(sh("echo $$; exec sleep 3600"), an_hour({"--wait", "1d"}));
    process first{leader};
    const auto old = printed_pid(first);
    process second{leader}, third{leader};
    first.signal(SIGKILL);
    EXPECT_TRUE(comes_true([&] { return !is_running(old); }));
    EXPECT_TRUE(comes_true([] { return is_refused(); }));
    EXPECT_EQ(second.out() + third.out(), "") << "not before the lease has ended";
    end_lease(name());
    EXPECT_TRUE(comes_true([&] { return !second.out().empty() || !third.out().empty(); }));
    EXPECT_TRUE(second.out().empty() || third.out().empty());
    auto &next = second.out().empty() ? third : second, &last = second.out().empty() ? second : third;
    next.signal(SIGTERM); // as when its host is shut down: the others need not wait for the lease to end
    EXPECT_EQ(next.wait().status, 128 + SIGTERM);
    EXPECT_TRUE(last.says("\n"));
}

// In a container

TEST(process_1, passes_signals_and_the_status_on)
{
    if (!has_namespaces())
        GTEST_SKIP() << "no namespaces here";
    process container{as_process_1(under_lock(parent_and_child))};
    ASSERT_TRUE(container.says("ready"));
    ::kill(child_of(container.pid()), SIGTERM);
    const auto seen = container.wait();
    EXPECT_EQ(seen.status, 7);
    EXPECT_EQ(seen.out, both_reported);
    EXPECT_EQ(state(), "free");
}

TEST(process_1, reaps_orphans)
{
    if (!has_namespaces())
        GTEST_SKIP() << "no namespaces here";
    const auto seen = run(as_process_1(under_lock(sh("(sleep 0.1; exit 9) &\n"
                                                     "(sleep 0.2 &)\n"
                                                     "sleep 0.5\n"
                                                     "for i in $(seq 600); do\n"
                                                     "  cat /proc/[0-9]*/stat | grep -q '(sleep) Z 1 ' || exit 7\n"
                                                     "  sleep 0.5\n"
                                                     "done"))));
    EXPECT_EQ(seen.status, 7);
}
