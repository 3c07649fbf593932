#include "scene.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/inotify.h>
#include <thread>
#include <unistd.h>

using namespace shedlock::test;

namespace {

const words say_ran{"echo", "ran"};
// What the command itself sees of its lock.
const words ask_state = sh("psql -AtXc \"SELECT state FROM shedlock_locks WHERE name = '$SHEDLOCK_NAME'\"");

// The server's time at which its lease ends.
std::string until(const std::string &lock)
{
    return ask("SELECT lock_until FROM shedlock WHERE name = " + literal(lock));
}

std::string noise(std::size_t size)
{
    std::minstd_rand random{42};
    std::string bytes(size, '\0');
    for (auto &byte : bytes)
        byte = static_cast<char>(random() >> 8);
    return bytes;
}

} // namespace

// The command

TEST(run, passes_on_the_exit_status_of_the_command)
{
    for (const int status : {0, 3, 255})
        EXPECT_EQ(run(under_lock(sh("exit " + std::to_string(status)))).status, status);
}

TEST(run, says_128_plus_n_when_signal_n_killed_the_command)
{
    EXPECT_EQ(run(under_lock(sh("kill -KILL $$"))).status, 128 + 9);
    EXPECT_EQ(run(under_lock(sh("kill -SEGV $$"))).status, 128 + 11);
}

TEST(run, leaves_stdin_stdout_and_stderr_to_the_command)
{
    const auto bytes = noise(3'000'000);
    const auto seen = run(under_lock(sh("cat; echo trouble >&2")), bytes);
    EXPECT_EQ(seen.status, 0);
    EXPECT_TRUE(seen.out == bytes);
    EXPECT_EQ(seen.err, "trouble\n");
}

TEST(run, works_between_pipes)
{
    const auto bytes = noise(3'000'000);
    EXPECT_TRUE(run(sh("cat | shedlock run \"$1\" --at-most 1h -- cat | cat", {name()}), bytes).out == bytes);
}

TEST(run, leaves_the_arguments_to_the_command)
{
    const words odd{"[a,b]", "",           "--at-most", "list",  "--", "-v",  "--help",
                    "a  b",  "two\nlines", "*",         "$HOME", "\\", "\"'", "é"};
    std::string expected;
    for (const auto &word : odd)
        expected += word + '\0';
    EXPECT_EQ(run(under_lock(words{"printf", "%s\\0"} + odd)).out, expected);
}

TEST(run, is_not_misled_by_odd_names)
{
    for (const auto *lock :
         {"run", "list", "[a,b]", "two words", "'; DROP TABLE shedlock", "\"", "\\", "{a", "%s", "++"}) {
        const auto seen =
            run({"shedlock", "run", lock, "--at-most", "1h", "--", "sh", "-c", "printf %s \"$SHEDLOCK_NAME\""});
        EXPECT_EQ(seen.out, lock) << seen.err;
        EXPECT_EQ(state(lock), "free");
    }
}

TEST(run, is_not_misled_by_several_odd_names)
{
    const words odd{"run", "list", "[a,b]", "[[aa]]", "two words", "{,}{", "%%", "\1", "\1[", "@", "a=b", ":", "++"};
    std::string expected;
    for (const auto &one : odd)
        expected += one + '\n';
    const auto seen =
        run(words{"shedlock", "run"} + odd + an_hour({"--", "sh", "-c", "printf '%s\n' \"$SHEDLOCK_NAME\""}));
    EXPECT_EQ(seen.out, expected) << seen.err;
}

TEST(run, takes_a_name_that_begins_with_a_dash)
{
    const auto seen =
        run({"shedlock", "run", "--name=-v", "--at-most", "1h", "--", "sh", "-c", "printf %s \"$SHEDLOCK_NAME\""});
    EXPECT_EQ(seen.out, "-v") << seen.err;
    EXPECT_EQ(state("-v"), "free");
    const auto both =
        run({"shedlock", "run", "a", "--name=--", "--at-most", "1h", "--", "sh", "-c", "echo \"$SHEDLOCK_NAME\""});
    EXPECT_EQ(both.out, "a\n--\n") << both.err;
}

// The outer run would count as done, although nothing was done.
TEST(run, refuses_a_lock_that_it_runs_under)
{
    const auto nested = [](const words &inner, const words &with = {}) {
        return with + words{"shedlock", "run"} + inner + an_hour({"--every", "1h", "--", "echo", "worked"});
    };
    const auto expect_refused = [](const outcome &seen) {
        EXPECT_EQ(seen.status, 125) << seen.err;
        EXPECT_EQ(seen.out, "");
        EXPECT_NE(seen.err.find("is held by the run that this command is part of"), std::string::npos) << seen.err;
    };
    expect_refused(run(under_lock(nested({name()}))));
    expect_refused(run(under_lock(nested({name(), "--wait", "1h"})))); // at once
    expect_refused(run(under_lock(nested({name() + " other", name()}))));
    EXPECT_EQ(state(name() + " other"), "");

    // An inner run of another lock replaces SHEDLOCK_TOKEN.
    const words outer{"shedlock", "run", name() + " between", "--at-most", "1h", "--", "sh", "-c", "exec \"$@\"", "sh"};
    expect_refused(run(outer + under_lock(nested({name() + " between"}))));

    // The environment of a run that is over does not matter, nor what somebody else has put there.
    EXPECT_EQ(run(nested({name() + " new"}, {"env", "SHEDLOCK_ANCESTORS=1795815614333293 x"})).out, "worked\n");
    const auto theirs = ask("SELECT shedlock_acquire_token('" + name() + " held', '1 h')");
    const auto refused =
        run(nested({name() + " held"}, {"env", "SHEDLOCK_ANCESTORS=" + std::to_string(std::stoll(theirs) + 1)}));
    EXPECT_EQ(refused.status, 0) << refused.err;
    EXPECT_EQ(refused.out, "");
}

TEST(run, gives_the_command_the_environment_of_the_tool_and_three_variables)
{
    auto command = under_lock(sh("printf '%s|' \"$OURS\" \"$SHEDLOCK_NAME\" \"$SHEDLOCK_TOKEN\" \"$SHEDLOCK_UNTIL\""),
                              {"--at-most", "10m"});
    command.insert(command.begin(), {"env", "OURS=yes", "SHEDLOCK_TOKEN=stale"});
    const auto out = run(command).out;
    const auto token = ask("SELECT token FROM shedlock_locks WHERE name = " + literal(name()));
    const auto expected = "yes|" + name() + '|' + token + '|';
    ASSERT_EQ(out.substr(0, expected.size()), expected);
    const auto until = out.substr(expected.size(), out.size() - expected.size() - 1);
    EXPECT_EQ(
        ask("SELECT timestamptz " + literal(until) + " BETWEEN now() + interval '9 min' AND now() + interval '10 min'"),
        "t");
}

TEST(run, gives_an_inner_command_the_variables_of_the_inner_lock_only)
{
    const auto inner = name() + ".inner";
    const auto out =
        run(under_lock({"shedlock", "run", inner, "--at-most", "1h", "--", "sh", "-c", "env | grep ^SHEDLOCK_NAME"}))
            .out;
    EXPECT_EQ(out, "SHEDLOCK_NAME=" + inner + '\n');
}

TEST(run, leaves_blocked_and_ignored_signals_as_they_were)
{
    // Only 1 to 31, because 32 and 33 are the C library's own.
    const words command = {"bash", "-c",
                           "while read key value; do case $key in SigBlk: | SigIgn:)"
                           " echo $key $((16#$value & 0x7fffffff));; esac; done </proc/self/status"};
    EXPECT_EQ(run(under_lock(command)).out, run(command).out);
}

TEST(run, leaves_a_full_stdout_to_the_command)
{
    EXPECT_EQ(run(sh("shedlock run \"$1\" --at-most 1h -- sh -c 'echo text; exit 7' >/dev/full", {name()})).status, 7);
}

TEST(run, does_not_wait_for_what_the_command_left_behind)
{
    process tool{under_lock(sh("setsid -f sh -c 'echo $$ left; exec sleep 3600'"))};
    EXPECT_EQ(tool.wait().status, 0);
    EXPECT_EQ(state(), "free");
    ASSERT_TRUE(tool.says(" left\n"));
    EXPECT_TRUE(is_running(std::stoi(tool.out())));
}

// As a crontab starts it

TEST(run, works_under_cron)
{
    EXPECT_EQ(
        run(sh("env -i PATH=/usr/bin:/bin $(env | grep ^PG) \"$(which shedlock)\" run \"$1\" --at-most 1h -- echo ran "
               "</dev/null",
               {name()}))
            .out,
        "ran\n");
}

TEST(run, works_with_stdin_closed)
{
    EXPECT_EQ(run(sh("exec shedlock run \"$1\" --at-most 1h -- echo ran <&-", {name()})).out, "ran\n");
}

// A file that is opened gets the number of one that was closed: a connection must not become stderr.
TEST(run, works_with_stdin_stdout_and_stderr_closed)
{
    const auto broken = "SELECT sum(sessions_fatal) FROM pg_stat_database";
    const auto before = ask(broken);
    const auto run_closed = [](const std::string &command) {
        return run(sh("exec shedlock run \"$1\" --at-most 1h -- " + command + " <&- >&- 2>&-", {name()})).status;
    };
    EXPECT_EQ(run_closed("sh -c 'test -e /proc/$$/fd/1 || exit 7'"), 7);
    EXPECT_EQ(state(), "free");
    EXPECT_EQ(run_closed(bad_program()), 127);
    EXPECT_EQ(state(), "free");
    EXPECT_EQ(ask(broken), before) << "the server was sent what was meant for stderr";
}

namespace {

// Whether the tool has OpenSSL read its configuration, which it does when it is initialised.
bool initialises_openssl(const std::string &dsn)
{
    std::ofstream{"openssl.cnf"} << "\n";
    const int watch = ::inotify_init1(IN_NONBLOCK);
    ::inotify_add_watch(watch, "openssl.cnf", IN_OPEN);
    run({"env", "OPENSSL_CONF=openssl.cnf", "shedlock", "--dsn", dsn, "run", name(), "--at-most", "1h", "--", "true"});
    char events[4096];
    const bool was_opened = ::read(watch, events, sizeof events) > 0;
    ::close(watch);
    return was_opened;
}

} // namespace

// Initialising OpenSSL takes about as long as connecting. The tool need not do it early, because none of its clients
// lives until OpenSSL's exit handler runs.
TEST(run, does_not_initialise_openssl_over_a_unix_socket)
{
    if (!initialises_openssl(""))
        GTEST_SKIP() << "this server asks for no password, or libpq is built without OpenSSL";
    EXPECT_FALSE(initialises_openssl("host=/no/such/folder"));
}

TEST(run, takes_the_database_from_dsn)
{
    const auto through = [](const std::string &dsn) {
        return run(sh("dsn=\"" + dsn + "\"; PGPORT=1 exec shedlock run \"$1\" --dsn \"$dsn\" --at-most 1h -- echo ran",
                      {name()}));
    };
    EXPECT_EQ(through("port=$PGPORT").out, "ran\n");
    EXPECT_EQ(through("postgresql://$PGHOST:$PGPORT/$PGDATABASE").out, "ran\n");
}

// The lock

TEST(run, holds_the_lock_while_the_command_runs_and_releases_it)
{
    EXPECT_EQ(run(under_lock(ask_state)).out, "held\n");
    EXPECT_EQ(state(), "free");
}

TEST(run, records_why_the_command_failed)
{
    const server::kept_history history;
    for (const auto *const script : {"exit 3", "kill -KILL $$", "exit 137", "exit 0"})
        run(under_lock(sh(script)));
    run(under_lock({bad_program()}));
    EXPECT_EQ(history.of(name()), "failed: exit status 3\n"
                                  "failed: signal 9 (Killed)\n"
                                  "failed: exit status 137\n"
                                  "done\n"
                                  "failed: cannot run \"./bad\": No such file or directory");
}

// The command completes the lock, in the transaction that does its work

namespace {

std::string psql(const std::string &sql)
{
    return "psql -qAtX -v ON_ERROR_STOP=1 -c \"" + sql + "\" >/dev/null || exit 99; ";
}
const auto complete = psql("SELECT shedlock_complete_token('$SHEDLOCK_NAME', $SHEDLOCK_TOKEN)");
const auto acquire_again = psql("SELECT shedlock_acquire_token('$SHEDLOCK_NAME', '1 min')");

} // namespace

TEST(run, passes_on_the_status_of_a_command_that_has_completed_the_lock)
{
    for (const int status : {0, 7}) {
        const auto seen = run(under_lock(sh(complete + "exit " + std::to_string(status))));
        EXPECT_EQ(seen.status, status);
        EXPECT_EQ(seen.err, "");
        EXPECT_EQ(state(), "free");
        EXPECT_EQ(last_outcome(), "done") << "by the commit, whatever the status";
    }
}

TEST(run, lets_a_command_that_has_completed_the_lock_go_on)
{
    process tool{under_lock(sh(complete + "echo completed; until [ -e go ]; do sleep 0.1; done; echo over; exit 7"))};
    ASSERT_TRUE(tool.says("completed"));
    EXPECT_NE(acquire(), "") << "the next caller gets it without waiting for the command";
    advance_clock(std::chrono::minutes{21});
    ::usleep(1'500'000); // the tool looks at the clock every second
    advance_clock(std::chrono::hours{2});
    ::usleep(1'500'000);
    std::ofstream{"go"};
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 7);
    EXPECT_EQ(seen.out, "completed\nover\n");
    EXPECT_EQ(seen.err, "");
    EXPECT_EQ(state(), "held");
}

TEST(run, is_not_misled_when_a_completed_lock_was_acquired_again_before_the_command_ends)
{
    const auto seen = run(under_lock(sh(complete + acquire_again + "exit 7")));
    EXPECT_EQ(seen.status, 7);
    EXPECT_EQ(seen.err, "");
    EXPECT_EQ(state(), "held");
}

// The server does not know of the completion any more, and says that the lock was taken over.
TEST(run, cannot_know_of_a_completed_tick_when_a_later_one_was_acquired)
{
    const auto next = psql("SELECT shedlock_acquire_token('$SHEDLOCK_NAME', '1 min', tick => now())");
    const auto seen =
        run(under_lock(sh(complete + next), an_hour({"--tick", "2026-11-20T22:30:00Z", "--no-keep-alive"})));
    EXPECT_EQ(seen.status, 124);
    EXPECT_NE(seen.err.find("taken over"), std::string::npos) << seen.err;
    EXPECT_NE(seen.err.find("the command itself has completed or released it"), std::string::npos) << seen.err;
}

TEST(run, retries_no_tick_that_the_command_has_completed)
{
    const auto once = an_hour({"--tick", "2026-11-20T22:30:00Z", "--retry"});
    EXPECT_EQ(run(under_lock(sh("exit 3"), once)).status, 3);
    EXPECT_EQ(run(under_lock(sh(complete + "exit 3"), once)).status, 3);
    EXPECT_EQ(run(under_lock(say_ran, once)).out, "");
}

TEST(run, skips_in_silence_when_the_lock_is_held)
{
    const auto token = acquire();
    const auto seen = run(under_lock(say_ran));
    EXPECT_EQ(seen.status, 0);
    EXPECT_EQ(seen.out + seen.err, "");
    EXPECT_EQ(ask("SELECT token || state FROM shedlock_locks WHERE name = " + literal(name())), token + "held");
}

TEST(run, says_who_holds_it)
{
    const auto holder = "SELECT holder FROM shedlock_locks WHERE name = " + literal(name());
    EXPECT_EQ(run(under_lock({"true"}, an_hour({"--holder", "the night shift"}))).status, 0);
    EXPECT_NE(ask(holder).find("the night shift"), std::string::npos);
    EXPECT_EQ(run(under_lock({"true"})).status, 0);
    const auto user = run({"id", "-un"}).out;
    const auto usual = "^[0-9a-f]{8} " + user.substr(0, user.size() - 1) + "@[^ :]+:[0-9]+$";
    EXPECT_EQ(ask("SELECT (" + holder + ") ~ " + literal(usual)), "t") << ask(holder);
}

TEST(run, at_least_keeps_the_lock)
{
    EXPECT_EQ(run(under_lock(say_ran, an_hour({"--at-least", "30m"}))).out, "ran\n");
    EXPECT_EQ(state(), "kept");
    EXPECT_EQ(run(under_lock(say_ran)).out, "");
}

// Waiting

TEST(run, wait_gets_the_lock_when_it_is_free)
{
    acquire(name(), "1s");
    EXPECT_EQ(run(under_lock(say_ran, an_hour({"--wait", "1h"}))).out, "ran\n");
}

TEST(run, wait_gives_up)
{
    acquire();
    process tool{under_lock(say_ran, an_hour({"--wait", "1h", "-E", "9"}))};
    ASSERT_TRUE(comes_true([] { return is_refused(); }));
    EXPECT_TRUE(is_running(tool.pid()));
    advance_clock(std::chrono::hours{1});
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 9);
    EXPECT_EQ(seen.out, "");
}

// Once per period

TEST(run, every_skips_what_has_run_in_this_period_and_does_not_wait_for_the_next)
{
    EXPECT_EQ(run(under_lock(say_ran, an_hour({"--every", "30d"}))).out, "ran\n");
    EXPECT_EQ(state(), "free");
    const auto again = run(under_lock(say_ran, an_hour({"--every", "30d", "--wait", "10m", "-v", "-E", "9"})));
    EXPECT_EQ(again.status, 9);
    EXPECT_EQ(again.out, "");
    EXPECT_NE(again.err.find("shedlock: skipped: lock \"" + name() + "\" had its run at "), std::string::npos)
        << again.err;
}

TEST(run, by_hand_without_every_uses_up_the_ticks_before_it_only_if_it_is_done)
{
    const auto by_schedule = [] { return run(under_lock(say_ran, an_hour({"--every", "30d", "--retry", "-v"}))); };
    EXPECT_EQ(run(under_lock({"false"}, an_hour({}))).status, 1);
    EXPECT_EQ(by_schedule().out, "ran\n");
    EXPECT_EQ(run({"shedlock", "forget", name()}).status, 0);
    EXPECT_EQ(run(under_lock({"true"}, an_hour({}))).status, 0);
    const auto skipped = by_schedule();
    EXPECT_EQ(skipped.out, "");
    EXPECT_NE(skipped.err.find("shedlock: skipped: lock \"" + name() + "\" was done by a run without a tick at "),
              std::string::npos)
        << skipped.err;
}

TEST(run, start_within_skips_what_is_too_late)
{
    const auto an_hour_ago =
        ask("SELECT to_char(timezone('UTC', now() - interval '1 h'), 'YYYY-MM-DD\"T\"HH24:MI:SSZ')");
    const auto late = run(under_lock(say_ran, an_hour({"--tick", an_hour_ago, "--start-within", "50m", "-v"})));
    EXPECT_EQ(late.status, 0);
    EXPECT_EQ(late.out, "");
    EXPECT_NE(late.err.find("shedlock: skipped: it is too late for this run of lock \"" + name()), std::string::npos)
        << late.err;
    EXPECT_EQ(run(under_lock(say_ran, an_hour({"--tick", an_hour_ago, "--start-within", "2h"}))).out, "ran\n");
    EXPECT_EQ(run(under_lock(say_ran, an_hour({"--start-within", "2h"}))).status, 125);
}

TEST(run, every_counts_a_run_that_failed)
{
    EXPECT_EQ(run(under_lock({"false"}, an_hour({"--every", "30d"}))).status, 1);
    EXPECT_EQ(run(under_lock(say_ran, an_hour({"--every", "30d"}))).out, "");
}

TEST(run, retry_runs_again_in_this_period_until_it_is_done)
{
    const auto once_a_month = an_hour({"--every", "30d", "--retry"});
    EXPECT_EQ(run(under_lock(sh("exit 3"), once_a_month)).status, 3);
    EXPECT_EQ(run(under_lock({"no-such-command"}, once_a_month)).status, 127);
    EXPECT_EQ(run(under_lock(say_ran, once_a_month)).out, "ran\n");
    EXPECT_EQ(run(under_lock(say_ran, once_a_month)).out, "");
}

TEST(run, every_means_the_servers_time_not_the_hosts)
{
    const auto by_a_clock = [](const char *ahead) {
        auto command = under_lock(say_ran, an_hour({"--every", "30d"}));
        command.insert(command.begin(), {"faketime", "-m", "--exclude-monotonic", "-f", ahead});
        return run(command);
    };
    EXPECT_EQ(by_a_clock("-31d").out, "ran\n");
    for (const auto *ahead : {"+0", "+31d", "-1s"}) {
        const auto seen = by_a_clock(ahead);
        EXPECT_EQ(seen.status, 0) << ahead << seen.err;
        EXPECT_EQ(seen.out, "") << ahead;
    }
}

TEST(run, every_runs_again_in_the_next_period)
{
    const auto runs = [] { return run(under_lock(say_ran, an_hour({"--every", "1s"}))).out == "ran\n"; };
    EXPECT_TRUE(runs());
    EXPECT_TRUE(comes_true(runs));
}

// Once per instant of a crontab expression

TEST(run, cron_skips_what_has_run_at_this_instant_and_does_not_wait_for_the_next)
{
    const auto yearly = [](const words &more) {
        return run(under_lock(say_ran, an_hour({"--cron", "30 2 1 1 *", "--zone", "Europe/Berlin"}) + more));
    };
    EXPECT_EQ(yearly({}).out, "ran\n");
    EXPECT_EQ(state(), "free");
    const auto again = yearly({"--wait", "10m", "-v", "-E", "9"});
    EXPECT_EQ(again.status, 9);
    EXPECT_EQ(again.out, "");
    EXPECT_NE(again.err.find("shedlock: skipped: lock \"" + name() + "\" had its run at "), std::string::npos)
        << again.err;
}

TEST(run, cron_with_retry_runs_again_until_it_is_done)
{
    const auto yearly = an_hour({"--cron", "@yearly", "--retry"});
    EXPECT_EQ(run(under_lock({"false"}, yearly)).status, 1);
    EXPECT_EQ(run(under_lock(say_ran, yearly)).out, "ran\n");
    EXPECT_EQ(run(under_lock(say_ran, yearly)).out, "");
}

// At an instant

TEST(run, tick_runs_once_for_an_instant_however_it_is_written)
{
    const auto recent = "SELECT extract(epoch FROM date_trunc('second', now())) - 300 + ";
    const auto tick = '@' + ask(std::string{recent} + "0"), same = tick + "0009",
               next = '@' + ask(std::string{recent} + "0.000001");
    const auto at = [](const std::string &instant) { return run(under_lock(say_ran, an_hour({"--tick", instant}))); };
    EXPECT_EQ(at(tick).out, "ran\n");
    EXPECT_EQ(at(same).out, "");
    EXPECT_EQ(at(run({"date", "--iso-8601=ns", "-d", tick}).out.substr(0, 35)).out, "");
    EXPECT_EQ(at(next).out, "ran\n");
}

// Several locks

TEST(run, several_names_are_acquired_all_or_none)
{
    const auto other = name() + " and blanks";
    const auto both = words{"shedlock", "run", name(), other} + an_hour({"-v", "-E", "9", "--"}) +
                      sh("printf %s \"$SHEDLOCK_NAME\"; shedlock list --json \"$1\" \"$2\" >states", {name(), other});
    const auto token = acquire(other);
    const auto refused = run(both);
    EXPECT_EQ(refused.status, 9);
    EXPECT_NE(refused.err.find(other), std::string::npos) << refused.err;
    EXPECT_EQ(state(), "") << "none is acquired";
    ask("SELECT shedlock_release_token(" + literal(other) + ", " + token + ')');
    EXPECT_EQ(run(both).out, name() + '\n' + other);
    const auto states = run({"grep", "-c", "\"held\"", "states"}).out;
    EXPECT_EQ(states, "2\n");
    EXPECT_EQ(state() + state(other), "freefree");
    EXPECT_EQ(last_outcome() + last_outcome(other), "donedone");
}

TEST(run, several_names_are_extended_and_lost_together)
{
    const auto other = name() + ".2";
    process tool{{"shedlock", "run", name(), other, "--at-most", "1h", "--", "sh", "-c", "echo ready; sleep 3600"}};
    ASSERT_TRUE(tool.says("ready"));
    const auto before = until(name());
    advance_clock(std::chrono::minutes{21});
    EXPECT_TRUE(comes_true([&] { return until(name()) > before && until(name()) == until(other); }));
    ask("SELECT shedlock_force_release(" + literal(other) + ')');
    advance_clock(std::chrono::minutes{21});
    EXPECT_EQ(tool.wait().status, 124);
}

// Keeping alive

TEST(run, keeps_the_lease_of_a_command_that_runs_longer)
{
    process tool{under_lock(sh("echo started; until [ -e go ]; do sleep 0.1; done; echo over"))};
    ASSERT_TRUE(tool.says("started"));
    for (int i = 0; i < 4; ++i) {
        const auto before = until(name());
        advance_clock(std::chrono::minutes{21});
        EXPECT_TRUE(comes_true([&] { return until(name()) > before; })) << "when a third of it is over";
    }
    EXPECT_EQ(acquire(), "");
    std::ofstream{"go"};
    EXPECT_TRUE(tool.says("over"));
    EXPECT_EQ(tool.wait().status, 0);
}

TEST(run, without_keep_alive_stops_the_command_before_its_lease_ends)
{
    const server::kept_history history;
    const frozen_clock clock;
    process tool{under_lock(sh("trap 'echo terminated; exit 0' TERM; echo started; sleep 3600 & wait"),
                            an_hour({"--no-keep-alive"}))};
    ASSERT_TRUE(tool.says("started"));
    advance_clock(std::chrono::minutes{59} + std::chrono::seconds{51}); // nine seconds are left
    const auto seen = tool.wait();
    EXPECT_EQ(seen.status, 124);
    EXPECT_EQ(seen.out, "started\nterminated\n");
    EXPECT_NE(seen.err, "") << "a lost lease is reported";
    EXPECT_EQ(history.of(name()), "failed: stopped because its lease was about to end") << "although it exited with 0";
}
