#include "scene.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <unistd.h>

using namespace shedlock::test;

namespace {

void expect_failure(const words &command, int status, const std::string &message)
{
    const auto seen = run(command);
    EXPECT_EQ(seen.status, status) << testing::PrintToString(command);
    EXPECT_EQ(seen.out, "");
    EXPECT_NE(seen.err.find(message), std::string::npos) << seen.err;
    EXPECT_TRUE(std::regex_match(seen.err, std::regex{"(shedlock: .*\n)+"})) << seen.err;
}

words with(const words &variables, const words &command)
{
    return words{"env"} + variables + command;
}

// Names the command without its path, but the tool with its own, because this PATH would not find the tool.
words in_path(const std::string &path, const std::string &command)
{
    return sh("tool=$(command -v shedlock); PATH=$1 exec \"$tool\" run \"$2\" --at-most 1h -- \"$3\"",
              {path, name(), command});
}

// A role that may only log in.
class role {
public:
    role() { ask("CREATE ROLE " + name + " LOGIN PASSWORD 'secret'"); }
    ~role()
    {
        ask("DROP OWNED BY " + name);
        ask("DROP ROLE " + name);
    }
    role(const role &) = delete;
    role &operator=(const role &) = delete;

    [[nodiscard]] words runs(const words &command) const
    {
        return with({"PGUSER=" + name, "PGPASSWORD=secret"}, command);
    }

    const std::string name = "role_" + std::to_string(::getpid());
};

} // namespace

// The command

TEST(failure, a_command_that_is_not_there_is_127)
{
    for (const auto *command : {"no-such-command", "/no/such/command", "./true", ""})
        expect_failure(under_lock({command}), 127, std::string{"cannot run \""} + command + '"');
    expect_failure(in_path("/no/such/folder", "true"), 127, "true");
}

TEST(failure, a_command_that_cannot_run_is_released_although_nobody_reads_the_message)
{
    const auto tool = under_lock({bad_program()});
    EXPECT_EQ(run(sh("mkfifo full; exec 3<>full; head -c 65536 /dev/zero >&3; exec \"$@\" 2>&3", tool)).status, 127);
    EXPECT_EQ(last_outcome(), "failed");
}

TEST(failure, a_command_that_is_no_program_is_126)
{
    for (const auto *command : {"/etc/passwd", "/etc"})
        expect_failure(under_lock({command}), 126, command);
    for (const auto *command : {"passwd", "apt"})
        expect_failure(in_path("/etc:/no/such/folder", command), 126, command);
}

// Otherwise a host on which the program is missing would use up the tick of the whole fleet.
TEST(failure, a_command_that_is_not_there_costs_no_tick)
{
    const auto once_a_month = [](const words &command) { return under_lock(command, an_hour({"--every", "30d"})); };
    EXPECT_EQ(run(once_a_month({"/no/such/command"})).status, 127);
    EXPECT_EQ(run(once_a_month({"/etc/passwd"})).status, 126);
    EXPECT_EQ(state(), "") << "nothing was asked of the server";
    EXPECT_EQ(run(once_a_month({"echo", "ran"})).out, "ran\n");
}

TEST(failure, a_program_is_looked_for_as_the_shell_does)
{
    std::filesystem::create_directories("first/tool");
    std::filesystem::create_directory("second");
    std::ofstream{"second/tool"} << "no program";
    std::ofstream{"tool"} << "#!/bin/sh\necho ran\n";
    std::filesystem::permissions("tool", std::filesystem::perms::owner_all);
    for (const auto *path : {"first:second::/etc", "first:second:", ":", "", ".:first"})
        EXPECT_EQ(run(in_path(path, "tool")).out, "ran\n") << path;
}

TEST(failure, a_program_that_looks_executable_but_cannot_be_started_is_127_and_failed)
{
    expect_failure(under_lock({bad_program()}), 127, bad_program());
    EXPECT_EQ(state(), "free");
    EXPECT_EQ(last_outcome(), "failed");
}

// The options

TEST(failure, bad_options_are_125)
{
    const auto with_options = [](const words &options) { return under_lock({"echo", "ran"}, options); };
    expect_failure(with_options({}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "10"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "soon"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "10 weeks"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "99999999999999d"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "-1s"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "0s"}), 125, "at_most");
    expect_failure(with_options(an_hour({"--at-least", "2h"})), 125, "at_least");
    expect_failure(with_options(an_hour({"--wait", "-1s"})), 125, "--wait");
    expect_failure(with_options(an_hour({"-E", "300"})), 125, "255");
    expect_failure(with_options(an_hour({"--every", "0s"})), 125, "every");
    for (const auto *wrong : {"mon", "1 mon", "-1mon", "99999mon", "1mo", "1W", "-1w", "99999999999999w"})
        expect_failure(with_options(an_hour({"--every", wrong})), 125, "(ms, s, m, h, d, w, mon)");
    expect_failure(with_options(an_hour({"--every", "0mon"})), 125, "must be positive");
    for (const auto *period : {"1w", "1mon"})
        expect_failure(with_options(an_hour({"--wait", period})), 125, "(ms, s, m, h, d)");
    expect_failure(with_options(an_hour({"--retry"})), 125, "--retry needs --every, --cron or --tick");
    expect_failure(with_options(an_hour({"--zone", "UTC"})), 125, "--zone needs --every or --cron");
    for (const auto &two : {words{"--every", "1h", "--tick", "@1"}, words{"--every", "1mon", "--tick", "@1"},
                            words{"--cron", "@daily", "--tick", "@1"}, words{"--every", "1h", "--cron", "@daily"},
                            words{"--every", "1mon", "--cron", "@daily"}})
        expect_failure(with_options(an_hour(two)), 125, "--every, --cron or --tick, only one of them");
    expect_failure(with_options(an_hour({"--no-such-option"})), 125, "--no-such-option");
    EXPECT_EQ(state(), "");
}

TEST(failure, a_bad_crontab_expression_is_125)
{
    for (const auto &[expression, message] : std::vector<std::pair<std::string, std::string>>{
             {"60 * * * *", "minute in schedule must be 0 to 59, not \"60\""},
             {"0 0 31 2 *", "never comes"},
             {"@reboot", "is none of @yearly"},
             {"a b c d e", "interval"},
             {"", "--cron: \"\" is not"},
             {"@", "\"@\""},
             {"[1] 2 * * *", "\"[1] 2 * * *\""},
             {"30", "--cron: \"30\" is not a crontab expression in quotes"}}) {
        const auto command = under_lock({"true"}, an_hour({"--cron", expression}));
        expect_failure(command, 125, message);
        EXPECT_EQ(std::ranges::count(run(command).err, '\n'), 1) << run(command).err;
    }
    expect_failure(under_lock({"true"}, an_hour({"--cron", "30", "2", "*", "*", "1-5"})), 125, "in quotes");
    expect_failure(under_lock({"true"}, an_hour({"--cron", "@daily", "--zone", "Asia/Nowhere"})), 125, "Asia/Nowhere");
    EXPECT_EQ(state(), "");
}

TEST(failure, a_bad_tick_is_125)
{
    for (const auto *tick : {"", "2026-11-22T10:00:00", "[a,b]"})
        expect_failure(under_lock({"true"}, an_hour({"--tick", tick})), 125, std::string{"--tick: \""} + tick + '"');
    for (const auto *tick : {"9999-12-31T23:59:59Z", "@99999999999"})
        expect_failure(under_lock({"true"}, an_hour({"--tick", tick})), 125,
                       "tick must not be more than one minute ahead");
    EXPECT_EQ(state(), "");
}

TEST(failure, misspelt_words_are_125_and_reported_before_missing_ones)
{
    expect_failure({"shedlock", "walk"}, 125, "\"walk\" is not a command");
    expect_failure({"shedlock", "[a,b]"}, 125, "\"[a,b]\" is not a command");
    expect_failure({"shedlock", "--dns", "x", "list"}, 125, "no option --dns");
    expect_failure({"shedlock", "list", "--joson"}, 125, "no option --joson; see shedlock list --help");
    expect_failure({"shedlock", "run", name(), "--at-mots", "1m", "--", "true"}, 125, "no option --at-mots");
    expect_failure({"shedlock", "resume", name(), "other"}, 125, "\"other\" is one word too many");
    expect_failure({"shedlock", "pause", name(), "other"}, 125, "\"other\" is one word too many");
    expect_failure({"shedlock", "release", name(), "other", "--force"}, 125, "one name");
}

TEST(failure, missing_words_are_125)
{
    expect_failure({"shedlock"}, 125, "A subcommand");
    expect_failure({"shedlock", "run"}, 125, "NAME");
    expect_failure({"shedlock", "run", name(), "--at-most", "1h"}, 125, "command");
    expect_failure(under_lock({}), 125, "command");
    expect_failure({"shedlock", "run", name(), "--at-most", "1h", "echo", "ran"}, 125, "-- COMMAND");
    expect_failure({"shedlock", "run", "", "--at-most", "1h", "--", "echo", "ran"}, 125, "name");
    expect_failure({"shedlock", "run", std::string(256, 'x'), "--at-most", "1h", "--", "echo", "ran"}, 125, "255");
}

// The server

TEST(failure, no_server_is_125)
{
    expect_failure(with({"PGPORT=1"}, under_lock({"echo", "ran"})), 125, "cannot connect to PostgreSQL");
    expect_failure(with({"PGPORT=1"}, {"shedlock", "list"}), 125, "cannot connect to PostgreSQL");
}

TEST(failure, no_extension_is_125_and_says_how_to_create_it)
{
    expect_failure(with({"PGDATABASE=template1"}, under_lock({"echo", "ran"})), 125, "CREATE EXTENSION shedlock");
}

TEST(failure, no_privilege_is_125_and_says_how_to_grant_it)
{
    const role user;
    const auto command = user.runs(under_lock({"echo", "ran"}));
    expect_failure(command, 125, "shedlock_grant");
    ask("SELECT shedlock_grant(" + literal(user.name) + ')');
    EXPECT_EQ(run(command).out, "ran\n");
    expect_failure(user.runs({"shedlock", "pause", name()}), 125, "admin => true");
}

TEST(failure, a_server_that_takes_no_writes_is_125_and_can_be_looked_at)
{
    const std::string read_only = "PGOPTIONS=-c default_transaction_read_only=on";
    expect_failure(with({read_only}, under_lock({"echo", "ran"})), 125, "read-only");
    expect_failure(with({read_only, "PGTARGETSESSIONATTRS=any"}, under_lock({"echo", "ran"})), 125,
                   "target_session_attrs=read-write");
    EXPECT_EQ(state(), "");
    EXPECT_EQ(run(with({read_only}, {"shedlock", "list"})).status, 0);
    EXPECT_EQ(run(with({read_only}, {"shedlock", "metrics"})).status, 0);
}

TEST(failure, a_refused_connection_is_125_after_the_wait)
{
    const role user;
    ask("ALTER ROLE " + user.name + " CONNECTION LIMIT 0");
    const auto start = std::chrono::steady_clock::now();
    expect_failure(user.runs(under_lock({"echo", "ran"}, an_hour({"--wait", "50ms"}))), 125, "too many connections");
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds{50});
}
