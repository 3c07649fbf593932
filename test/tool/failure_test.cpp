#include "scene.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace shedlock::test;

namespace {

void expect_failure(words const &command, int status, std::string const &message)
{
    auto const seen = run(command);
    EXPECT_EQ(seen.status, status) << testing::PrintToString(command);
    EXPECT_EQ(seen.out, "");
    EXPECT_NE(seen.err.find(message), std::string::npos) << seen.err;
}

words with(words const &variables, words const &command)
{
    words all{"env"};
    all.insert(all.end(), variables.begin(), variables.end());
    all.insert(all.end(), command.begin(), command.end());
    return all;
}

// Somebody who may log in, and no more.
class role {
public:
    role() { sql("CREATE ROLE " + name + " LOGIN PASSWORD 'secret'"); }
    ~role()
    {
        sql("DROP OWNED BY " + name);
        sql("DROP ROLE " + name);
    }
    role(role const &) = delete;
    role &operator=(role const &) = delete;

    [[nodiscard]] words runs(words const &command) const
    {
        return with({"PGUSER=" + name, "PGPASSWORD=secret"}, command);
    }

    std::string const name = "role_" + std::to_string(::getpid());
};

} // namespace

// The command

TEST(failure, a_command_that_is_not_there_is_127)
{
    expect_failure(under_lock({"no-such-command"}), 127, "no-such-command");
    EXPECT_EQ(state(), "free");
}

TEST(failure, a_command_that_is_no_program_is_126)
{
    expect_failure(under_lock({"/etc/passwd"}), 126, "/etc/passwd");
    expect_failure(under_lock({"/etc"}), 126, "/etc");
    EXPECT_EQ(state(), "free");
}

// The options

TEST(failure, bad_options_are_125)
{
    auto const with_options = [](words const &options) { return under_lock({"echo", "ran"}, options); };
    expect_failure(with_options({}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "10"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "soon"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "10 weeks"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "99999999999999d"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "-1s"}), 125, "--at-most");
    expect_failure(with_options({"--at-most", "0s"}), 125, "at_most");
    expect_failure(with_options(a_minute({"--at-least", "2m"})), 125, "at_least");
    expect_failure(with_options(a_minute({"--wait", "-1s"})), 125, "--wait");
    expect_failure(with_options(a_minute({"-E", "300"})), 125, "255");
    expect_failure(with_options(a_minute({"--every", "0s"})), 125, "every");
    expect_failure(with_options(a_minute({"--retry"})), 125, "--every");
    expect_failure(with_options(a_minute({"--no-such-option"})), 125, "--no-such-option");
    EXPECT_EQ(state(), "");
}

TEST(failure, missing_words_are_125)
{
    expect_failure({"shedlock"}, 125, "A subcommand");
    expect_failure({"shedlock", "walk"}, 125, "A subcommand");
    expect_failure({"shedlock", "run"}, 125, "NAME");
    expect_failure({"shedlock", "run", name(), "--at-most", "1m"}, 125, "command");
    expect_failure(under_lock({}), 125, "command");
    expect_failure({"shedlock", "run", name(), "--at-most", "1m", "echo", "ran"}, 125, "echo");
    expect_failure({"shedlock", "run", "", "--at-most", "1m", "--", "echo", "ran"}, 125, "name");
    expect_failure({"shedlock", "run", std::string(256, 'x'), "--at-most", "1m", "--", "echo", "ran"}, 125, "255");
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
    role const somebody;
    auto const command = somebody.runs(under_lock({"echo", "ran"}));
    expect_failure(command, 125, "shedlock_grant");
    sql("SELECT shedlock_grant(" + literal(somebody.name) + ')');
    EXPECT_EQ(run(command).out, "ran\n");
    expect_failure(somebody.runs({"shedlock", "pause", name()}), 125, "admin => true");
}

TEST(failure, a_server_that_takes_no_writes_is_125_and_can_be_looked_at)
{
    std::string const read_only = "PGOPTIONS=-c default_transaction_read_only=on";
    expect_failure(with({read_only}, under_lock({"echo", "ran"})), 125, "read-only");
    expect_failure(with({read_only, "PGTARGETSESSIONATTRS=any"}, under_lock({"echo", "ran"})), 125,
                   "target_session_attrs=read-write");
    EXPECT_EQ(state(), "");
    EXPECT_EQ(run(with({read_only}, {"shedlock", "list"})).status, 0);
    EXPECT_EQ(run(with({read_only}, {"shedlock", "metrics"})).status, 0);
}

TEST(failure, no_connection_to_be_had_is_125_after_the_wait)
{
    role const somebody;
    sql("ALTER ROLE " + somebody.name + " CONNECTION LIMIT 0");
    auto const start = std::chrono::steady_clock::now();
    expect_failure(somebody.runs(under_lock({"echo", "ran"}, a_minute({"--wait", "400ms"}))), 125,
                   "too many connections");
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds{400});
}

TEST(failure, wait_also_waits_for_a_connection)
{
    role const somebody;
    sql("SELECT shedlock_grant(" + literal(somebody.name) + ')');
    sql("ALTER ROLE " + somebody.name + " CONNECTION LIMIT 0");
    process tool{somebody.runs(under_lock({"echo", "ran"}, a_minute({"--wait", "25s"})))};
    usleep(300'000); // time to be refused
    sql("ALTER ROLE " + somebody.name + " CONNECTION LIMIT -1");
    EXPECT_EQ(tool.wait().out, "ran\n");
}

TEST(failure, renewals_continue_when_no_more_connections_are_to_be_had)
{
    role const somebody;
    sql("SELECT shedlock_grant(" + literal(somebody.name) + ')');
    process tool{somebody.runs(under_lock(sh("sleep 2.5; echo over"), {"--at-most", "1s"}))};
    auto const connections =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND usename = " + literal(somebody.name);
    ASSERT_TRUE(eventually([&] { return sql(connections) == "2"; }));
    sql("ALTER ROLE " + somebody.name + " CONNECTION LIMIT 0");
    auto const seen = tool.wait();
    EXPECT_EQ(seen.status, 0);
    EXPECT_EQ(seen.out, "over\n");
}
