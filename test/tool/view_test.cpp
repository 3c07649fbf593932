#include "scene.hpp"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pqxx/pqxx>
#include <regex>
#include <sstream>
#include <unistd.h>

using namespace shedlock::test;

namespace {

std::vector<std::string> lines(const std::string &text)
{
    std::istringstream stream{text};
    std::vector<std::string> all;
    for (std::string line; std::getline(stream, line);)
        all.push_back(line);
    return all;
}

// The line of this lock in the list, or "".
std::string line_of(const std::string &lock)
{
    for (const auto &line : lines(run({"shedlock", "list"}).out))
        if (line.starts_with(lock + ' '))
            return line;
    return {};
}

// Held under names that are chosen to deceive the reader.
std::vector<std::string> hostile_locks()
{
    std::vector<std::string> all;
    for (const auto *bad : {"\"quotes' \"", "'; DROP TABLE shedlock; --", "%s%n%99999d", "back\\slash", "new\nline",
                            "\ttab", "\r", "\033[31mred", "\033]0;title\a",
                            "\xC2\x9B"
                            "31mC1",
                            "\x7F", "emoji 🔒", "עברית", "é", "e\xCC\x81"}) {
        all.push_back(name() + ' ' + bad + '.');
        ask("SELECT shedlock_acquire_token(" + literal(all.back()) + ", '1m', holder => E'me\\n\\x1B[2J')");
    }
    return all;
}

// No control characters, of ASCII or of Latin-1.
bool is_harmless(const std::string &line)
{
    for (std::size_t i = 0; i < line.size(); ++i) {
        const auto byte = static_cast<unsigned char>(line[i]);
        if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && static_cast<unsigned char>(line[i + 1]) < 0xA0))
            return false;
    }
    return true;
}

nlohmann::json json_of(const std::string &lock)
{
    for (const auto &one : nlohmann::json::parse(run({"shedlock", "list", "--json"}).out))
        if (one.at("name") == lock)
            return one;
    return {};
}

} // namespace

// List

TEST(list, has_a_line_for_each_lock)
{
    EXPECT_EQ(run({"shedlock", "acquire", name(), "--at-most", "1h", "--holder", "me"}).status, 0);
    const auto header = lines(run({"shedlock", "list"}).out).at(0);
    EXPECT_TRUE(
        std::regex_match(header, std::regex{"NAME +STATE +HOLDER +SINCE +REMAINING +LAST RUN +OUTCOME +LAST DONE"}))
        << header;
    const auto held = line_of(name());
    EXPECT_TRUE(std::regex_match(
        held, std::regex{"[^ ]+ +held +[0-9a-f]{8} me +([0-9.]+ m?s|[0-9]+m[0-9]{2}s) +5[0-9]m[0-9]{2}s +- +- +-"}))
        << held;
    EXPECT_EQ(run({"shedlock", "release", name(), "--failed", "--token",
                   ask("SELECT token FROM shedlock_locks WHERE name = " + literal(name()))})
                  .status,
              0);
    const auto free = line_of(name());
    EXPECT_TRUE(std::regex_match(free, std::regex{"[^ ]+ +free +- +- +- +([0-9.]+ m?s|[0-9]+m[0-9]{2}s) +failed +-"}))
        << free;
}

TEST(list, shows_only_what_is_asked_for)
{
    const std::string one = name() + " \"one\"", other = "[" + name() + ',' + "other]";
    acquire(name());
    acquire(one);
    acquire(other);
    const auto table = run({"shedlock", "list", one, other});
    EXPECT_EQ(table.status, 0) << table.err;
    ASSERT_EQ(lines(table.out).size(), 3U) << table.out;
    EXPECT_NE(table.out.find(one + ' '), std::string::npos);
    EXPECT_NE(table.out.find(other + ' '), std::string::npos);
    const auto json = nlohmann::json::parse(run({"shedlock", "list", one, "--json"}).out);
    ASSERT_EQ(json.size(), 1U);
    EXPECT_EQ(json.at(0).at("name"), one);
}

TEST(list, is_1_when_one_is_not_there_and_says_which)
{
    acquire();
    const auto table = run({"shedlock", "list", name() + ".2", name()});
    EXPECT_EQ(table.status, 1);
    EXPECT_EQ(lines(table.out).size(), 2U);
    EXPECT_EQ(table.err, "shedlock: there is no lock \"" + name() + ".2\"\n");
    const auto json = run({"shedlock", "list", "--json", name() + ".2"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(json.out, "[]\n");
    EXPECT_EQ(run({"shedlock", "list", ""}).status, 1);
}

TEST(list, watch_shows_a_lock_as_soon_as_it_is_there)
{
    process tool{{"shedlock", "list", "--watch", name()}};
    ASSERT_TRUE(tool.says("NAME"));
    acquire(name() + ".2");
    acquire();
    EXPECT_TRUE(tool.says(name() + "  held"));
    EXPECT_EQ(tool.out().find(name() + ".2"), std::string::npos);
}

TEST(list, shows_when_each_was_last_done)
{
    ask("SELECT shedlock_acquire(n, '1 h', tick => now()), shedlock_release(n) FROM (VALUES (" + literal(name()) +
        ")) v (n)");
    ask("UPDATE shedlock SET last_done_at = last_done_at - interval '3 h' WHERE name = " + literal(name()));
    EXPECT_TRUE(line_of(name()).ends_with(" done     3h00m ago")) << line_of(name());
    const auto one = json_of(name());
    for (const auto *time : {"last_done_at", "last_tick", "last_done_tick"})
        EXPECT_EQ(ask("SELECT timestamptz " + literal(one.at(time)) + " = " + time +
                      " FROM shedlock_locks WHERE name = " + literal(name())),
                  "t");
    ask("UPDATE shedlock SET last_done_at = 'infinity' WHERE name = " + literal(name()));
    EXPECT_TRUE(line_of(name()).ends_with(" done     -")) << line_of(name());
    ask("UPDATE shedlock SET last_done_at = timezone('utc', now()) + interval '1 year' WHERE name = " +
        literal(name()));
    EXPECT_TRUE(line_of(name()).ends_with(" done     in the future")) << line_of(name());
}

TEST(list, tells_a_pause_from_a_row_edited_by_hand)
{
    run({"shedlock", "pause", name()});
    EXPECT_EQ(json_of(name()).at("lock_until"), "infinity");
    ask("UPDATE shedlock SET lock_until = '-infinity' WHERE name = " + literal(name()));
    EXPECT_EQ(json_of(name()).at("lock_until"), "-infinity");
}

TEST(list, cuts_what_is_too_long_for_a_table)
{
    const auto lock = name() + std::string(200, 'x');
    ask("SELECT shedlock_acquire_token(" + literal(lock) + ", '1m', holder => repeat('ä', 150))");
    const auto shown = line_of(lock.substr(0, 63) + "…");
    EXPECT_NE(shown.find("  held  "), std::string::npos) << shown;
    EXPECT_NE(shown.find("  ääääää"), std::string::npos) << shown;
    EXPECT_NE(shown.find("ä…  "), std::string::npos) << shown;
    EXPECT_EQ(json_of(lock).at("name"), lock);
}

TEST(list, is_harmless_on_a_terminal)
{
    const auto locks = hostile_locks();
    const auto shown = run({"shedlock", "list"}).out;
    EXPECT_EQ(std::to_string(lines(shown).size()), ask("SELECT count(*) + 1 FROM shedlock_locks"));
    for (const auto &line : lines(shown))
        EXPECT_TRUE(is_harmless(line)) << testing::PrintToString(line);
    for (const auto &lock : locks) {
        if (is_harmless(lock)) {
            EXPECT_NE(shown.find(lock), std::string::npos) << lock;
        }
    }
}

// U+202E and U+2066 in a name would change the order in which the next columns are shown.
TEST(list, lets_no_name_turn_the_line_around)
{
    acquire(name() + " \u202Eabc");
    acquire(name() + " \u2066abc");
    const auto shown = run({"shedlock", "list"}).out;
    EXPECT_EQ(shown.find("\u202E"), std::string::npos);
    EXPECT_EQ(shown.find("\u2066"), std::string::npos);
    const auto json = run({"shedlock", "list", "--json"}).out;
    EXPECT_EQ(json.find("\u202E"), std::string::npos);
    EXPECT_NE(json.find(" \\u202eabc"), std::string::npos);
    EXPECT_EQ(json_of(name() + " \u202Eabc").at("state"), "held");
}

TEST(list, as_JSON_is_exact)
{
    const auto token = acquire();
    const auto one = json_of(name());
    EXPECT_EQ(one.at("state"), "held");
    EXPECT_EQ(one.at("token"), std::stoll(token));
    EXPECT_TRUE(one.at("token").is_number_integer());
    EXPECT_GT(one.at("remaining_seconds").get<double>(), 3000);
    EXPECT_LE(one.at("remaining_seconds").get<double>(), 3600);
    EXPECT_GE(one.at("held_for_seconds").get<double>(), 0);
    EXPECT_TRUE(one.at("last_duration_seconds").is_null());
    EXPECT_TRUE(one.at("last_outcome").is_null());
    EXPECT_TRUE(one.at("holder_pid").is_null());
    EXPECT_EQ(ask("SELECT timestamptz " + literal(one.at("lock_until")) + " = lock_until AND timestamptz " +
                  literal(one.at("locked_at")) + " = locked_at FROM shedlock_locks WHERE name = " + literal(name())),
              "t");
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ')');
    EXPECT_EQ(json_of(name()).at("last_outcome"), "done");
}

TEST(list, as_JSON_shows_the_session_that_holds_it)
{
    pqxx::connection session{""};
    pqxx::nontransaction{session}.exec("SELECT shedlock_acquire(" + literal(name()) + ", '1m')");
    const auto one = json_of(name());
    EXPECT_EQ(one.at("holder_alive"), true);
    EXPECT_EQ(one.at("holder_pid").dump(), std::to_string(session.backendpid()));
}

TEST(list, as_JSON_has_every_name_as_it_is)
{
    const auto locks = hostile_locks();
    const auto list = nlohmann::json::parse(run({"shedlock", "list", "--json"}).out);
    EXPECT_EQ(std::to_string(list.size()), ask("SELECT count(*) FROM shedlock_locks"));
    for (const auto &lock : locks)
        EXPECT_EQ(std::count_if(list.begin(), list.end(), [&](const auto &one) { return one.at("name") == lock; }), 1)
            << lock;
}

TEST(list, is_coloured_on_a_terminal_only)
{
    acquire();
    EXPECT_EQ(run({"shedlock", "list"}).out.find('\033'), std::string::npos);
    process tool{terminal, {"shedlock", "list"}};
    const auto out = tool.wait().out;
    EXPECT_NE(out.find("\033[32m" + name()), std::string::npos) << testing::PrintToString(out);
    EXPECT_NE(out.find("\033[0m"), std::string::npos);
}

TEST(list, watch_shows_what_changes_in_place_until_ctrl_c)
{
    const auto lock = name();
    process tool{terminal, sh("stty rows 60000; PGAPPNAME=watching exec shedlock list --watch")};
    ASSERT_TRUE(tool.says("NAME"));
    EXPECT_EQ(tool.out().find(lock), std::string::npos);
    acquire(lock);
    ASSERT_TRUE(tool.says("\033[32m" + lock));
    ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'watching'");
    ask("SELECT shedlock_force_release(" + literal(lock) + ')');
    ASSERT_TRUE(tool.says("\033[2m" + lock)); // connected again
    tool.type("\003");
    EXPECT_EQ(tool.wait().status, 128 + 2);
}

// The terminal has 24 lines and 80 columns. With more output it would scroll, and the next list would begin in the
// wrong place.
TEST(list, watch_fits_the_terminal)
{
    ask("SELECT shedlock_acquire_token(" + literal(name()) + " || i, '1m') FROM generate_series(1, 30) i");
    process tool{terminal, {"shedlock", "list", "--watch"}};
    ASSERT_TRUE(tool.says("\033[J"));
    const auto out = tool.out();
    ASSERT_TRUE(out.starts_with("\033[H"));
    const auto frame =
        lines(std::regex_replace(out.substr(0, out.find("\033[J")), std::regex{"\033\\[[0-9]*[A-Za-z]|\r"}, ""));
    EXPECT_LE(frame.size(), 23U);
    const bool is_narrow = std::all_of(frame.begin(), frame.end(), [](const auto &line) { return line.size() <= 80; });
    EXPECT_TRUE(is_narrow || out.find("\033[?7l") != std::string::npos) << "the terminal would wrap long lines";
}

TEST(list, that_cannot_be_written_is_125)
{
    EXPECT_EQ(run(sh("shedlock list >/dev/full")).status, 125);
    EXPECT_EQ(run(sh("shedlock --help >/dev/full")).status, 125);
    EXPECT_EQ(run(sh("shedlock list >&-")).status, 125);
}

// Messages

TEST(message, lets_no_holder_control_the_terminal)
{
    const auto token = acquire();
    ask("SELECT shedlock_force_release(" + literal(name()) + ')');
    ask("SELECT shedlock_acquire_token(" + literal(name()) + ", '1m', holder => E'\\x1B[2Jme')");
    const auto seen = run({"shedlock", "release", name(), "--token", token});
    EXPECT_EQ(seen.status, 1);
    EXPECT_NE(seen.err.find("[2Jme"), std::string::npos) << seen.err;
    EXPECT_EQ(seen.err.find('\033'), std::string::npos) << testing::PrintToString(seen.err);
}

// Doctor

TEST(doctor, reports_what_is_wrong_with_status_1)
{
    const auto seen = run({"shedlock", "doctor"}); // the server of the tests trades safety for speed
    EXPECT_EQ(seen.status, 1);
    EXPECT_NE(seen.out.find("error: fsync is off"), std::string::npos) << seen.out;
    EXPECT_NE(seen.out.find("ALTER SYSTEM SET fsync = on"), std::string::npos) << seen.out;
}

TEST(doctor, is_content_with_notices)
{
    const auto healthy = "healthy_" + std::to_string(::getpid());
    ask("CREATE DATABASE " + healthy);
    run({"psql", "-Xq", "-d", healthy, "-c", "CREATE EXTENSION shedlock", "-c",
         "CREATE OR REPLACE FUNCTION shedlock_doctor(OUT severity text, OUT finding text, OUT hint text) RETURNS SETOF "
         "record"
         " LANGUAGE sql AS $$ SELECT 'notice', 'a lock is paused', 'resume it' $$"});
    const auto seen = run({"env", "PGDATABASE=" + healthy, "shedlock", "doctor"});
    ask("DROP DATABASE " + healthy + " WITH (FORCE)");
    EXPECT_EQ(seen.status, 0) << seen.err;
    EXPECT_EQ(seen.out, "notice: a lock is paused\n    resume it\n");
}

// Help

TEST(help, fits_a_screen)
{
    for (const auto *command : {"", "run", "list", "history", "acquire", "extend", "release", "pause", "resume",
                                "check", "forget", "doctor", "metrics", "version"}) {
        const auto seen = run(sh(std::string{"shedlock "} + command + " --help"));
        EXPECT_EQ(seen.status, 0);
        EXPECT_EQ(seen.err, "");
        EXPECT_NE(seen.out.find(std::string{"shedlock "} + command + (*command ? " [OPTIONS]" : "[OPTIONS]")),
                  std::string::npos);
        EXPECT_LE(lines(seen.out).size(), 40U) << command;
        for (const auto &line : lines(seen.out))
            EXPECT_LE(line.size(), 120U) << line;
    }
}

TEST(version, is_that_of_the_extension)
{
    std::ifstream file{SHEDLOCK_SOURCE "/extension/shedlock.control"};
    const std::string control{std::istreambuf_iterator<char>{file}, {}};
    std::smatch found;
    ASSERT_TRUE(std::regex_search(control, found, std::regex{"default_version = '([^']+)'"}));
    EXPECT_EQ(run({"shedlock", "--version"}).out, "shedlock " + found[1].str() + '\n');
    EXPECT_EQ(run({"shedlock", "version"}).out, "client " + found[1].str() + "\nserver " + found[1].str() +
                                                    (is_portable() ? " (portable edition)\n" : " (extension)\n"));
}
