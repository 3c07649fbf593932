#include "scene.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace shedlock::test;

namespace {

constexpr auto ctrl_c = "\003";
constexpr auto ctrl_z = "\032";

const words interactive_shell{"env", "HISTFILE=/dev/null", "bash", "--norc", "--noprofile", "-i"};

// The line that a user types. It must not contain what the command prints, because the terminal also shows what is
// typed.
std::string line(const std::string &command)
{
    return "shedlock run " + name() + " --at-most 1h -- " + command + '\n';
}

} // namespace

TEST(terminal, is_read_by_the_command)
{
    process tool{terminal, under_lock(sh("read line; echo \"got $line\"; exit 7"))};
    tool.type("something\n");
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 7);
    EXPECT_NE(seen.out.find("got something"), std::string::npos) << seen.out;
}

TEST(terminal, is_given_back)
{
    process script{terminal, sh("shedlock run \"$1\" --at-most 1h -- true; shedlock run \"$1\" --at-most 1h -- \"$2\"\n"
                                "read line; echo \"got $line\"",
                                {name(), bad_program()})};
    script.type("something\n");
    EXPECT_TRUE(script.says("got something"));
    EXPECT_EQ(script.wait().status, 0);
}

TEST(terminal, sends_ctrl_c_to_the_command)
{
    process tool{terminal,
                 under_lock(sh("trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.1; done"))};
    ASSERT_TRUE(tool.says("ready"));
    tool.type(ctrl_c);
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 7);
    EXPECT_NE(seen.out.find("interrupted"), std::string::npos);
    EXPECT_EQ(state(), "free");
}

TEST(terminal, ctrl_c_ends_the_waiting_and_the_script)
{
    acquire();
    for (const auto *one : {"run", "acquire"}) {
        process script{terminal,
                       {"bash", "-c",
                        "shedlock " + std::string{one} + ' ' + name() + " --at-most 1h --wait 10m" +
                            (one == std::string{"run"} ? " -- echo ran" : "") + "; echo next"}};
        ASSERT_TRUE(comes_true([] { return is_refused(); }));
        script.type(ctrl_c);
        const auto seen = script.wait();
        EXPECT_EQ(seen.status, 128 + SIGINT) << one;
        EXPECT_EQ(seen.out.find("next"), std::string::npos) << one;
    }
}

TEST(terminal, ctrl_z_and_fg_stop_and_continue_tool_and_command)
{
    std::ofstream{"job"} << "trap 'echo continued' CONT; echo ready; until [ -e go ]; do sleep 0.1; done\n"
                            "read line; echo \"got $line\"; exit 7\n";
    process shell{terminal, interactive_shell};
    shell.type(line("bash job")); // not sh: dash cannot stop while a child that it made by vfork() is stopped
    ASSERT_TRUE(shell.says("ready"));
    shell.type(ctrl_z);
    ASSERT_TRUE(shell.says("Stopped"));
    EXPECT_EQ(state(), "held");
    shell.type("fg\n");
    ASSERT_TRUE(shell.says("continued"));
    std::ofstream{"go"};
    shell.type("something\n"); // to the command, which is in the foreground again
    ASSERT_TRUE(shell.says("got something"));
    shell.type("echo status $?\n");
    EXPECT_TRUE(shell.says("status 7"));
    shell.type("exit\n");
    shell.wait();
}

// The tool and the script are one process group, the command another. The shell waits for the script.
TEST(terminal, ctrl_z_stops_a_script_and_ctrl_c_ends_it)
{
    std::ofstream{"job"} << "trap 'echo continued' CONT; echo ready $1; while :; do sleep 0.1; done\n";
    std::ofstream{"script"} << "for i in 1 2; do shedlock run " << name() << " --at-most 1h -- bash job $i; done\n";
    process shell{terminal, interactive_shell};
    shell.type("bash script\n");
    ASSERT_TRUE(shell.says("ready 1"));
    shell.type(ctrl_z);
    ASSERT_TRUE(shell.says("Stopped"));
    shell.type("fg\n");
    ASSERT_TRUE(shell.says("continued"));
    shell.type(ctrl_c);
    shell.type("echo status $?\n");
    EXPECT_TRUE(shell.says("status 130"));
    EXPECT_EQ(shell.out().find("ready 2"), std::string::npos) << shell.out();
    EXPECT_EQ(state(), "free");
    shell.type("exit\n");
    shell.wait();
}

// Ctrl-C reaches the tool and the script, and the tool passes it on.
TEST(terminal, ctrl_c_ends_a_script_whose_command_has_no_terminal)
{
    std::ofstream{"script"} << "for i in 1 2; do shedlock run " << name()
                            << " --at-most 1h -- sh -c 'touch ready.$0; exec sleep 3600' $i >out; done\n";
    process shell{terminal, interactive_shell};
    shell.type("bash script\n");
    ASSERT_TRUE(comes_true([] { return std::filesystem::exists("ready.1"); }));
    shell.type(ctrl_c);
    shell.type("echo status $?\n");
    EXPECT_TRUE(shell.says("status 130"));
    EXPECT_FALSE(std::filesystem::exists("ready.2"));
    EXPECT_EQ(state(), "free");
    shell.type("exit\n");
    shell.wait();
}

TEST(terminal, interrupt_that_was_sent_to_the_tool_alone_does_not_end_the_script)
{
    process script{
        terminal,
        sh("shedlock run \"$1\" --at-most 1h -- sh -c 'kill -INT $PPID; exec sleep 3600'; echo status $?", {name()})};
    EXPECT_TRUE(script.says("status 130"));
    EXPECT_EQ(script.wait().status, 0);
}

// As with ssh -t: the tool leads the session, so no shell would continue it.
TEST(terminal, ctrl_z_without_a_shell_does_not_stop_for_ever)
{
    const auto token = acquire();
    process tool{terminal,
                 under_lock(sh("exec bash -c 'trap \"echo continued\" CONT; echo ready; while :; do sleep 0.1; done'"),
                            an_hour({"--wait", "10m"}))};
    ASSERT_TRUE(comes_true([] { return is_refused(); }));
    tool.type(ctrl_z);
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ')');
    ASSERT_TRUE(tool.says("ready"));
    tool.type(ctrl_z);
    ASSERT_TRUE(tool.says("continued"));
    tool.type(ctrl_c);
    EXPECT_EQ(tool.wait().status, 128 + SIGINT);
}

// The lease is not extended while the command is stopped, because the tool is stopped, too.
TEST(terminal, ctrl_z_for_too_long_ends_the_command_on_fg)
{
    std::ofstream{"job"} << "trap 'echo terminated; exit 0' TERM; echo ready; while :; do sleep 0.1; done\n";
    process shell{terminal, interactive_shell};
    shell.type("shedlock run " + name() + " --at-most 1h -- bash job\n");
    ASSERT_TRUE(shell.says("ready"));
    shell.type(ctrl_z);
    ASSERT_TRUE(shell.says("Stopped"));
    end_lease(name());
    ASSERT_NE(acquire(), "");
    advance_clock(std::chrono::hours{1});
    shell.type("fg\n");
    ASSERT_TRUE(shell.says("terminated"));
    shell.type("echo status $?\n");
    EXPECT_TRUE(shell.says("status 124"));
    shell.type("exit\n");
    shell.wait();
}

// Other programs of the pipeline need the terminal, so the command cannot have it for itself.
TEST(terminal, ctrl_z_and_ctrl_c_work_in_a_pipeline)
{
    std::ofstream{"job"} << "trap 'echo continued' CONT; trap 'touch interrupted; exit 7' INT; echo ready\n"
                            "while :; do sleep 0.1; done\n";
    process shell{terminal, interactive_shell};
    shell.type("shedlock run " + name() + " --at-most 1h -- bash job | cat\n");
    ASSERT_TRUE(shell.says("ready"));
    shell.type(ctrl_z);
    ASSERT_TRUE(shell.says("Stopped"));
    shell.type("fg\n");
    ASSERT_TRUE(shell.says("continued"));
    shell.type(ctrl_c);
    EXPECT_TRUE(comes_true([] { return std::filesystem::exists("interrupted"); }));
    EXPECT_TRUE(comes_true([] { return state() == "free"; }));
    shell.type("exit\n");
    shell.wait();
}

// As with ssh -t: there is no shell that could give it the terminal later.
TEST(terminal, hangs_up_a_command_that_needs_it_and_can_never_get_it)
{
    for (const std::string ignored : {"", "trap '' HUP; "}) {
        process tool{terminal, sh("exec shedlock run \"$1\" --at-most 1h -- sh -c \"$2\" >out",
                                  {name(), ignored + "read line </dev/tty; echo $line"})};
        EXPECT_EQ(tool.wait().status, 128 + (ignored.empty() ? SIGHUP : SIGKILL));
        EXPECT_EQ(last_outcome(), "failed");
    }
}

TEST(terminal, ctrl_z_stops_the_waiting_and_fg_continues_it)
{
    const auto token = acquire();
    process shell{terminal, interactive_shell};
    shell.type("shedlock run " + name() + " --at-most 1h --wait 10m -- sh -c 'echo this $((40 + 2))'\n");
    ASSERT_TRUE(comes_true([] { return is_refused(); }));
    shell.type(ctrl_z);
    ASSERT_TRUE(shell.says("Stopped"));
    shell.type("fg\n");
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ')');
    EXPECT_TRUE(shell.says("this 42"));
    shell.type("exit\n");
    shell.wait();
}

TEST(terminal, stays_with_the_shell_when_the_tool_is_in_the_background)
{
    process shell{terminal, interactive_shell};
    shell.type("shedlock run " + name() + " --at-most 1h -- sleep 3600 &\n");
    ASSERT_TRUE(comes_true([] { return state() == "held"; }));
    shell.type("kill %1; wait %1; echo status $?\n");
    EXPECT_TRUE(shell.says("status 143"));
    EXPECT_EQ(state(), "free");
    shell.type("exit\n");
    shell.wait();
}
