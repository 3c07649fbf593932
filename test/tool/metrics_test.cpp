#include "scene.hpp"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <sstream>
#include <unistd.h>

using namespace shedlock::test;

namespace {

using types = std::map<std::string, std::string>; // gauge or counter, by the metric's name

types types_in_the_query_file()
{
    std::ifstream file{SHEDLOCK_SOURCE "/docs/postgres_exporter.yaml"};
    const std::regex query{"(\\w+):"}, metric{" +- (\\w+): \\{usage: (GAUGE|COUNTER),.*"};
    types all;
    std::string prefix;
    std::smatch found;
    for (std::string line; std::getline(file, line);) {
        if (std::regex_match(line, found, query))
            prefix = found[1];
        else if (std::regex_match(line, found, metric))
            all[prefix + '_' + found[1].str()] = found[2] == "GAUGE" ? "gauge" : "counter";
    }
    return all;
}

struct exposition {
    types type_of;
    std::map<std::string, std::string> values; // by name and labels
    std::vector<std::string> remarks;
};

// Prometheus must be able to read every line; every sample comes after the type of its metric, and only once.
exposition read_metrics(const std::string &text)
{
    const std::regex help{"# HELP (\\w+) [^\\\\]+"}, type{"# TYPE (\\w+) (gauge|counter)"}, remark{"# .*"};
    const std::regex sample{
        R"re((([a-z_]+)(?:\{name="(?:[^"\\\n]|\\["\\n])*"(?:,outcome="[a-z ]+")?\})?) (-?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?|[-+]Inf))re"};
    exposition seen;
    std::string current;
    std::smatch found;
    std::istringstream stream{text};
    for (std::string line; std::getline(stream, line);) {
        if (std::regex_match(line, found, type)) {
            current = found[1];
            EXPECT_TRUE(seen.type_of.emplace(current, found[2]).second) << line;
        } else if (std::regex_match(line, found, sample)) {
            EXPECT_EQ(found[2], current) << line;
            EXPECT_TRUE(seen.values.emplace(found[1], found[3]).second) << line;
        } else if (!std::regex_match(line, help)) {
            EXPECT_TRUE(std::regex_match(line, remark)) << line;
            seen.remarks.push_back(line);
        }
    }
    return seen;
}

exposition metrics()
{
    const auto seen = run({"shedlock", "metrics"});
    EXPECT_EQ(seen.status, 0) << seen.err;
    EXPECT_TRUE(seen.out.ends_with('\n'));
    return read_metrics(seen.out);
}

} // namespace

TEST(metrics, are_those_of_the_query_file)
{
    if (is_portable())
        GTEST_SKIP() << "the portable edition has no counters";
    const auto expected = types_in_the_query_file();
    EXPECT_GT(expected.size(), 10U);
    EXPECT_EQ(metrics().type_of, expected);
}

TEST(metrics, report_states_and_counters)
{
    if (is_portable())
        GTEST_SKIP() << "the portable edition has no counters";
    const auto token = acquire();
    EXPECT_EQ(acquire() + acquire(), "");
    const auto of = [](const auto &seen, const char *metric) {
        return seen.values.at(metric + ("{name=\"" + name()) + "\"}");
    };
    const auto held = metrics();
    EXPECT_EQ(of(held, "shedlock_lock_held"), "1");
    EXPECT_EQ(of(held, "shedlock_lock_paused"), "0");
    EXPECT_GT(std::stod(of(held, "shedlock_lock_remaining_seconds")), 3000);
    EXPECT_EQ(of(held, "shedlock_attempts_total"), "3");
    EXPECT_EQ(of(held, "shedlock_refused_total"), "2");
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ", false)");
    EXPECT_EQ(run({"shedlock", "pause", name()}).status, 0);
    const auto paused = metrics();
    EXPECT_EQ(of(paused, "shedlock_lock_held"), "0");
    EXPECT_EQ(of(paused, "shedlock_lock_paused"), "1");
    EXPECT_EQ(of(paused, "shedlock_released_total"), "1");
    EXPECT_EQ(of(paused, "shedlock_failed_total"), "1");
    EXPECT_NEAR(std::stod(of(paused, "shedlock_lock_acquired_timestamp_seconds")), std::stod(token) / 1e6, 600);
}

TEST(metrics, report_how_the_last_run_ended_and_when_one_was_done)
{
    const auto sample = [](const char *metric, const std::string &labels = "") {
        const auto seen = metrics();
        const auto found = seen.values.find(metric + ("{name=\"" + name()) + '"' + labels + '}');
        return found == seen.values.end() ? "none" : found->second;
    };
    const auto is_that_of_the_view = [&](const char *metric, const std::string &column) {
        return ask("SELECT " + sample(metric) + " = extract(epoch FROM " + column +
                   ") FROM shedlock_locks WHERE name = " + literal(name()));
    };
    const auto release = [](const std::string &token, const char *done) {
        ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ", " + done + ')');
    };
    const auto first = acquire();
    EXPECT_EQ(sample("shedlock_lock_last_done_timestamp_seconds"), "none");
    EXPECT_EQ(sample("shedlock_lock_last_outcome", ",outcome=\"done\""), "none");
    release(first, "true");
    EXPECT_EQ(is_that_of_the_view("shedlock_lock_last_done_timestamp_seconds", "last_done_at"), "t");
    EXPECT_EQ(sample("shedlock_lock_last_tick_timestamp_seconds"), "none");
    EXPECT_EQ(sample("shedlock_lock_last_outcome", ",outcome=\"done\""), "1");
    EXPECT_EQ(sample("shedlock_lock_last_outcome", ",outcome=\"failed\""), "0");
    release(acquire(), "false");
    EXPECT_EQ(is_that_of_the_view("shedlock_lock_last_done_timestamp_seconds", "last_done_at"), "t");
    EXPECT_EQ(sample("shedlock_lock_last_outcome", ",outcome=\"done\""), "0");
    EXPECT_EQ(sample("shedlock_lock_last_outcome", ",outcome=\"failed\""), "1");
    EXPECT_EQ(sample("shedlock_lock_last_outcome", ",outcome=\"ran out\""), "0");
    ask("SELECT shedlock_acquire(" + literal(name()) + ", '1 h', tick => now())");
    EXPECT_EQ(is_that_of_the_view("shedlock_lock_last_tick_timestamp_seconds", "last_tick"), "t");
}

TEST(metrics, of_too_many_names_are_left_out_and_that_is_said)
{
    const auto total = static_cast<std::size_t>(std::stoul(metrics().values.at("shedlock_table_locks")));
    for (const auto *const more : {" a", " b", " c"})
        ask("SELECT shedlock_acquire(" + literal(name() + more) + ", '1 h')");
    const auto names = [](const auto &seen) {
        const auto shown = read_metrics(seen.out);
        EXPECT_EQ(seen.status, 0);
        return std::ranges::count_if(shown.values,
                                     [](const auto &one) { return one.first.starts_with("shedlock_lock_held{"); });
    };
    const auto some = run({"shedlock", "metrics", "--max-names", "2"});
    EXPECT_EQ(names(some), 2);
    EXPECT_EQ(read_metrics(some.out).values.at("shedlock_table_locks"), std::to_string(total + 3));
    EXPECT_TRUE(some.err.starts_with("shedlock: there are " + std::to_string(total + 3) +
                                     " locks; the first 2 are printed (--max-names)\n"))
        << some.err;
    const auto all = run({"shedlock", "metrics", "--max-names", std::to_string(total + 3)});
    EXPECT_EQ(names(all), static_cast<std::ptrdiff_t>(total) + 3);
    EXPECT_EQ(run({"shedlock", "metrics", "--max-names", "0"}).status, 125);
}

// An alert on the time since an infinite instant would never fire, or always.
TEST(metrics, have_no_instant_that_is_infinite)
{
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + acquire() + ')');
    ask("UPDATE shedlock SET last_done_at = 'infinity', last_tick = '-infinity', locked_at = 'infinity' WHERE name = " +
        literal(name()));
    const auto seen = metrics().values;
    const auto of = "{name=\"" + name() + "\"}";
    EXPECT_EQ(seen.count("shedlock_lock_last_done_timestamp_seconds" + of), 0U);
    EXPECT_EQ(seen.count("shedlock_lock_last_tick_timestamp_seconds" + of), 0U);
    EXPECT_EQ(seen.at("shedlock_lock_acquired_timestamp_seconds" + of), "0");
}

TEST(metrics, quote_the_names)
{
    acquire(name() + " \"a\" \\ \n z");
    EXPECT_EQ(metrics().values.count("shedlock_lock_held{name=\"" + name() + " \\\"a\\\" \\\\ \\n z\"}"), 1U);
}

// Prometheus has no escape for characters that change the direction of a line or clear a screen.
TEST(metrics, spell_control_characters_out_and_keep_names_apart)
{
    acquire(name() + " \u202Ea\t");
    acquire(name() + " \\xE2\\x80\\xAEa\\x09");
    const auto seen = metrics();
    const auto sample = "shedlock_lock_held{name=\"" + name();
    EXPECT_EQ(seen.values.count(sample + " \\\\xE2\\\\x80\\\\xAEa\\\\x09\"}"), 1U);
    EXPECT_EQ(seen.values.count(sample + " \\\\x5CxE2\\\\x5Cx80\\\\x5CxAEa\\\\x5Cx09\"}"), 1U);
}

// Prometheus reads none of the lines if one of them is not UTF-8.
TEST(metrics, spell_out_what_is_not_UTF_8)
{
    const auto raw = "raw_" + std::to_string(::getpid());
    ask("CREATE DATABASE " + raw + " TEMPLATE template0 LOCALE 'C' ENCODING SQL_ASCII");
    run({"psql", "-Xq", "-d", raw, "-c", "CREATE EXTENSION shedlock", "-c",
         R"(SELECT shedlock_acquire(E'm\374ll\303', '1 m'), shedlock_acquire('m\xFCll', '1 m'),)"
         R"( shedlock_acquire(E'\303\274', '1 m'))"});
    const auto seen = read_metrics(run({"env", "PGDATABASE=" + raw, "shedlock", "metrics"}).out);
    ask("DROP DATABASE " + raw + " WITH (FORCE)");
    for (const std::string label : {R"(m\\xFCll\\xC3)", R"(m\\x5CxFCll)", "\u00FC"})
        EXPECT_EQ(seen.values.count("shedlock_lock_held{name=\"" + label + "\"}"), 1U) << label;
}

// There are no counters: the library was not loaded when the server started, or this is the portable edition.
TEST(metrics, without_counters_have_a_remark_instead)
{
    for (const auto *code : {"55000", "0A000"}) {
        const auto bare = "bare_" + std::to_string(::getpid());
        ask("CREATE DATABASE " + bare);
        run({"psql", "-Xq", "-d", bare, "-c", "CREATE EXTENSION shedlock", "-c", "SELECT shedlock_acquire('one', '1m')",
             "-c", "CREATE OR REPLACE VIEW shedlock_stats AS SELECT s.* FROM shedlock_stats_rows() s", "-c",
             "CREATE OR REPLACE FUNCTION shedlock_stats_rows(OUT name text, OUT attempts bigint, OUT acquired bigint,"
             " OUT refused bigint, OUT released bigint, OUT failed bigint, OUT extended bigint, OUT expired bigint,"
             " OUT lost bigint, OUT wait_time interval, OUT longest_hold interval, OUT total_hold interval)"
             " RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN RAISE 'no counters here' USING ERRCODE = '" +
                 std::string{code} + "'; END $$"});
        const auto seen = run({"env", "PGDATABASE=" + bare, "shedlock", "metrics"});
        ask("DROP DATABASE " + bare + " WITH (FORCE)");
        EXPECT_EQ(seen.status, 0) << seen.err;
        const auto shown = read_metrics(seen.out);
        EXPECT_EQ(shown.values.at("shedlock_lock_held{name=\"one\"}"), "1");
        ASSERT_EQ(shown.remarks.size(), 1U);
        EXPECT_NE(shown.remarks[0].find("no counters here"), std::string::npos);
        EXPECT_EQ(shown.type_of.count("shedlock_attempts_total"), 0U);
    }
}
