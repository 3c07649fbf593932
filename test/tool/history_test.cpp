#include "scene.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pqxx/pqxx>
#include <regex>
#include <sstream>
#include <unistd.h>

using namespace shedlock::test;

namespace {

const std::string berlin = "Europe/Berlin";

// From now on there is a history, which has been on since the end of 2000.
void keep()
{
    ask("SELECT shedlock_keep_history()");
    ask("INSERT INTO shedlock_history (name, ended_at, outcome) SELECT '', '2000-12-15', 'on' "
        "WHERE NOT EXISTS (SELECT FROM shedlock_history WHERE name = '' AND ended_at = '2000-12-15')");
}

std::string years_ago(int years)
{
    return '(' + yearly_tick(berlin) + " - interval '" + std::to_string(years) + " years')";
}

// A run of five minutes that began at this instant.
void record(const std::string &tick, const std::string &began, const std::string &outcome,
            const std::string &detail = "NULL", const std::string &lock = name())
{
    ask("INSERT INTO shedlock_history (name, token, tick, holder, acquired_at, ended_at, outcome, detail) SELECT " +
        literal(lock) + ", extract(epoch FROM began) * 1000000, " + tick + ", 'web-2', began, began + '5 min', " +
        literal(outcome) + ", " + detail + " FROM (SELECT " + began + ") _ (began)");
}

// The run of this tick. It began five seconds later.
void record_tick(const std::string &tick, const std::string &outcome, const std::string &detail = "NULL")
{
    record(tick, tick + " + interval '5 s'", outcome, detail);
}

outcome history_of(const words &more)
{
    return run(words{"shedlock", "history"} + more);
}

// By the yearly schedule in Berlin, its last ticks.
words of_years(int ticks, const words &more = {})
{
    const words all{
        name(), "--cron", yearly_schedule(), "--zone", berlin, "--since", ask("SELECT " + years_ago(ticks - 1))};
    return all + more;
}

std::vector<std::string> table_of(const std::string &text)
{
    std::istringstream stream{text};
    std::vector<std::string> all;
    for (std::string line; std::getline(stream, line);)
        all.push_back(std::regex_replace(line, std::regex{"  +"}, ";"));
    return all;
}

std::string shown(const std::string &instant, const std::string &format, const std::string &zone = berlin)
{
    return ask("SELECT to_char((" + instant + ") AT TIME ZONE " + literal(zone) + ", " + literal(format) + ')');
}

std::string shown_tick(const std::string &tick)
{
    const auto names =
        ask("SELECT CASE (extract(epoch FROM " + tick + " AT TIME ZONE 'Europe/Berlin') - extract(epoch FROM " + tick +
            " AT TIME ZONE 'UTC')) / 3600 WHEN 1 THEN 'CET' ELSE 'CEST' END");
    return shown(tick, "Dy YYYY-MM-DD HH24:MI") + ' ' + names;
}

void expect_table(const outcome &seen, int status, const std::vector<std::string> &expected)
{
    EXPECT_EQ(seen.status, status) << seen.err;
    const auto all = table_of(seen.out);
    ASSERT_EQ(all.size(), expected.size()) << seen.out;
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_TRUE(std::regex_match(all[i], std::regex{expected[i]}))
            << "line " << i << " is " << all[i] << ", not " << expected[i];
}

const std::string header = "TICK;STARTED;TOOK;OUTCOME;TRIES;HOLDER;FAILURE";
const std::string time_taken = "[0-9]+ ms|[0-9.]+ s|[0-9]+m[0-9]+s";

void java_ran(const std::string &at)
{
    ask("INSERT INTO shedlock (name, locked_at, lock_until, locked_by) SELECT " + literal(name()) +
        ", at, at, 'app-1' FROM timezone('utc', " + at + ") at");
}

// A database of its own, where nobody keeps a history.
class own_database {
public:
    own_database()
    {
        ask("CREATE DATABASE " + name_);
        sql("CREATE EXTENSION shedlock");
    }
    ~own_database() { ask("DROP DATABASE " + name_ + " WITH (FORCE)"); }
    own_database(const own_database &) = delete;
    own_database &operator=(const own_database &) = delete;

    void sql(const std::string &statement) const
    {
        const auto seen = run({"psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", name_, "-c", statement});
        EXPECT_EQ(seen.status, 0) << seen.err;
    }
    outcome tool(words arguments) const
    {
        arguments.insert(arguments.begin(), {"env", "PGDATABASE=" + name_, "shedlock"});
        return run(arguments);
    }

private:
    const std::string name_ = "history_" + std::to_string(::getpid());
};

} // namespace

TEST(history, has_a_line_for_each_tick_in_local_time)
{
    keep();
    record(years_ago(3), years_ago(3) + " + interval '1 hour 5 s'", "done");
    record(years_ago(3), years_ago(3) + " + interval '30 min'", "failed", "'exit status 3'");
    record_tick(years_ago(3), "failed", "'exit status 2'");
    record(years_ago(1), years_ago(1) + " + interval '1 day'", "ran out");
    expect_table(history_of(of_years(4)), 0,
                 {header, shown_tick(years_ago(3)) + ";01:00:05;5m00s;done;3;web-2;exit status 3",
                  shown_tick(years_ago(2)) + ";-;-;not run;-;-;-",
                  shown_tick(years_ago(1)) + ';' +
                      shown(years_ago(1) + " + interval '1 day'", "Dy YYYY-MM-DD HH24:MI:SS") +
                      ";5m00s;ran out;1;web-2;-",
                  shown_tick(years_ago(0)) + ";-;-;due;-;-;-", "done 1, failed 0, ran out 1, not run 1, due 1"});
}

// A tick is due from half a minute before it on.
TEST(history, shows_a_run_that_ended_before_its_tick)
{
    keep();
    record_tick(years_ago(0), "done");
    ask("UPDATE shedlock_history SET acquired_at = tick - interval '25 s', ended_at = tick - interval '20 s' "
        "WHERE name = " +
        literal(name()));
    EXPECT_EQ(table_of(history_of(of_years(1)).out).at(1),
              shown_tick(years_ago(0)) + ';' + shown(years_ago(0) + " - interval '25 s'", "Dy YYYY-MM-DD HH24:MI:SS") +
                  ";5.0 s;done;1;web-2;-");
}

TEST(history, has_without_a_schedule_a_line_for_each_run)
{
    keep();
    record("NULL", "timestamptz '2026-03-02 20:00:07Z'", "done");
    record("timestamptz '2026-03-01 15:00:30Z'", "timestamptz '2026-03-01 15:00:31Z'", "failed", "'no'");
    const words asked{name(), "--since", "2026-01-01", "--zone", "Asia/Tokyo"};
    expect_table(history_of(asked), 0,
                 {"TICK;STARTED;TOOK;OUTCOME;HOLDER;FAILURE",
                  "Mon 2026-03-02 00:00:30 JST;00:00:31;5m00s;failed;web-2;no",
                  "-;Tue 2026-03-03 05:00:07 JST;5m00s;done;web-2;-", "done 1, failed 1, ran out 0"});
    EXPECT_EQ(table_of(history_of({name(), "--since", "2026-01-01"}).out).at(1).substr(0, 24),
              "Sun 2026-03-01 15:00:30 ");
}

TEST(history, has_the_runs_of_a_tick_as_JSON_in_UTC)
{
    keep();
    record("NULL", years_ago(1) + " + interval '1.5 s'", "done");
    record_tick(years_ago(1), "failed", "E'no\\n'");
    const auto utc = [](const std::string &instant) { return shown(instant, "YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"", "UTC"); };
    const auto seen = history_of(of_years(2, {"--json"}));
    EXPECT_EQ(seen.status, 0);
    const auto all = nlohmann::json::parse(seen.out);
    ASSERT_EQ(all.size(), 2U);
    const auto &runs = all[0].at("runs");
    EXPECT_EQ(all[0].at("name"), name());
    EXPECT_EQ(all[0].at("tick"), utc(years_ago(1)));
    EXPECT_EQ(all[0].at("state"), "done");
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0].at("acquired_at"),
              std::regex_replace(utc(years_ago(1) + " + interval '1 s'"), std::regex{"Z"}, ".500000Z"));
    EXPECT_TRUE(runs[0].at("detail").is_null());
    EXPECT_EQ(runs[1],
              nlohmann::json(
                  {{"token", std::stoll(ask("SELECT extract(epoch FROM " + years_ago(1) + ")::bigint + 5")) * 1000000},
                   {"holder", "web-2"},
                   {"acquired_at", utc(years_ago(1) + " + interval '5 s'")},
                   {"ended_at", utc(years_ago(1) + " + interval '305 s'")},
                   {"outcome", "failed"},
                   {"detail", "no\n"}}));
    EXPECT_EQ(all[1].at("state"), "due");
    EXPECT_TRUE(all[1].at("runs").empty());
    const auto without = nlohmann::json::parse(history_of({name(), "--json", "--since", "2001-01-01"}).out);
    ASSERT_EQ(without.size(), 2U);
    EXPECT_TRUE(without[0].at("tick").is_null());
    EXPECT_EQ(without[1].at("tick"), utc(years_ago(1)));
    EXPECT_EQ(without[1].at("runs"), nlohmann::json::array({runs[1]}));
}

TEST(history, has_a_block_for_each_name_in_the_order_given)
{
    keep();
    const auto other = name() + ".a";
    record_tick(years_ago(0), "done");
    record(years_ago(0), years_ago(0), "failed", "NULL", other);
    expect_table(history_of(of_years(1, {other})), 0,
                 {name(), header, ".*;done;.*", "done 1, failed 0, ran out 0, not run 0", "", other, header,
                  ".*;failed;.*", "done 0, failed 1, ran out 0, not run 0"});
    const auto json = nlohmann::json::parse(history_of(of_years(1, {other, "--json"})).out);
    EXPECT_EQ(json.at(0).at("name"), name());
    EXPECT_EQ(json.at(1).at("name"), other);
}

TEST(history, shows_what_is_running_or_abandoned)
{
    keep();
    ask("SELECT shedlock_acquire_token(" + literal(name()) + ", '1h', tick => " + years_ago(0) +
        ", holder => 'web-1')");
    const auto is = [](const std::string &how) {
        return shown_tick(years_ago(0)) + ";[A-Z][a-z]+ [0-9-]+ [0-9:]+;" + how;
    };
    expect_table(
        history_of(of_years(1)), 0,
        {header, is("(" + time_taken + ");running;1;web-1;-"), "done 0, failed 0, ran out 0, not run 0, running 1"});
    const auto json = nlohmann::json::parse(history_of(of_years(1, {"--json"})).out).at(0);
    EXPECT_EQ(json.at("state"), "running");
    EXPECT_TRUE(json.at("runs").at(0).at("ended_at").is_null());
    EXPECT_TRUE(json.at("runs").at(0).at("outcome").is_null());
    end_lease(name());
    expect_table(history_of(of_years(1)), 0,
                 {header, is("-;abandoned;1;web-1;-"), "done 0, failed 0, ran out 0, not run 0, abandoned 1"});
}

TEST(history, shows_a_run_without_a_tick_that_is_running)
{
    keep();
    acquire();
    expect_table(history_of(of_years(1)), 0,
                 {header, shown_tick(years_ago(0)) + ";-;-;due;-;-;-",
                  "-;[A-Z][a-z]+ [0-9-]+ [0-9:]+ CES?T;(" + time_taken + ");running;1;.*;-",
                  "done 0, failed 0, ran out 0, not run 0, running 1, due 1"});
    ask("SELECT shedlock_force_release(" + literal(name()) + ')');
    EXPECT_EQ(run({"shedlock", "pause", name()}).status, 0); // a pause is no run
    EXPECT_EQ(history_of(of_years(1)).out.find("running"), std::string::npos);
}

TEST(history, a_tick_is_not_due_any_more_once_it_was_tried)
{
    keep();
    ask("SELECT shedlock_release_token(" + literal(name()) + ", shedlock_acquire_token(" + literal(name()) +
        ", '1h', tick => " + years_ago(0) + "), false)");
    ask("DELETE FROM shedlock_history WHERE name = " + literal(name()));
    EXPECT_EQ(table_of(history_of(of_years(1)).out).at(1), shown_tick(years_ago(0)) + ";-;-;not run;-;-;-");
}

TEST(history, shows_the_runs_that_were_made)
{
    keep();
    EXPECT_EQ(run(under_lock({"false"}, an_hour({"--holder", "web-1"}))).status, 1);
    EXPECT_EQ(run(under_lock({"true"}, an_hour({"--holder", "web-2"}))).status, 0);
    const auto lines = table_of(history_of({name()}).out);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_TRUE(std::regex_match(lines[1], std::regex{"-;.*;(" + time_taken + ");failed;.*web-1;exit status 1"}))
        << lines[1];
    EXPECT_TRUE(std::regex_match(lines[2], std::regex{"-;.*;(" + time_taken + ");done;.*web-2;-"})) << lines[2];
    EXPECT_EQ(lines[3], "done 1, failed 1, ran out 0");
}

TEST(history, does_not_know_what_a_Java_client_did)
{
    keep();
    record_tick(years_ago(3), "done");
    java_ran(years_ago(1) + " + interval '1 hour'");
    const std::vector<std::string> unknown{header,
                                           shown_tick(years_ago(3)) + ";00:00:05;5m00s;done;1;web-2;-",
                                           shown_tick(years_ago(2)) + ";-;-;unknown;-;-;-",
                                           shown_tick(years_ago(1)) + ";-;-;unknown;-;-;-",
                                           shown_tick(years_ago(0)) + ";-;-;due;-;-;-",
                                           "done 1, failed 0, ran out 0, not run 0, due 1, unknown 2"};
    expect_table(history_of(of_years(4)), 0, unknown);
    ask("UPDATE shedlock SET last_done_at = locked_at - interval '20 s' WHERE name = " + literal(name()));
    expect_table(history_of(of_years(4)), 0, unknown); // it began soon after our last run
    ask("UPDATE shedlock SET last_done_at = last_done_at - interval '1 hour' WHERE name = " + literal(name()));
    acquire(); // the row of the Java run is overwritten
    auto still = unknown;
    still.insert(still.end() - 1, "-;.*;running;.*");
    still.back() = "done 1, failed 0, ran out 0, not run 0, running 1, due 1, unknown 2";
    expect_table(history_of(of_years(4)), 0, still);
}

TEST(history, knows_its_own_run_during_which_the_clock_stepped_back)
{
    keep();
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + acquire() + ')');
    ask("UPDATE shedlock SET last_done_at = last_done_at - interval '2 min' WHERE name = " + literal(name()));
    for (const auto *const what : {"it is free", "it is held again"}) {
        EXPECT_EQ(history_of(of_years(3)).out.find("unknown"), std::string::npos) << what;
        acquire();
    }
}

TEST(history, takes_since_as_an_instant_or_as_a_time_back_from_now)
{
    keep();
    for (const auto *const ago : {"31 days", "29 days", "2 hours"})
        record("NULL", "now() - interval " + literal(ago), "done");
    const auto runs = [](const words &since) {
        return table_of('\n' + history_of(words{name(), "--zone", "Asia/Tokyo"} + since).out).back();
    };
    EXPECT_EQ(runs({}), "done 2, failed 0, ran out 0");
    EXPECT_EQ(runs({"--since", "32d"}), "done 3, failed 0, ran out 0");
    EXPECT_EQ(runs({"--since", "20010101"}), "done 3, failed 0, ran out 0");
    EXPECT_EQ(runs({"--since", "3h"}), "done 1, failed 0, ran out 0");
    EXPECT_EQ(runs({"--since", "1m"}), "done 0, failed 0, ran out 0");
    EXPECT_EQ(runs({"--since", ask("SELECT now() - interval '3 hours'")}), "done 1, failed 0, ran out 0");
    const auto in_tokyo = ask("SELECT now() AT TIME ZONE 'Asia/Tokyo' - interval '3 hours'");
    EXPECT_EQ(runs({"--since", in_tokyo}), "done 1, failed 0, ran out 0");
}

TEST(history, is_1_when_a_name_has_neither_a_row_nor_a_run)
{
    keep();
    record_tick(years_ago(0), "done");
    EXPECT_EQ(history_of(of_years(1)).status, 0); // forgotten
    const auto other = name() + ".2";
    const auto seen = history_of(of_years(1, {other}));
    EXPECT_EQ(seen.status, 1);
    EXPECT_EQ(seen.err, "shedlock: there is no lock \"" + other + "\"\n");
    EXPECT_TRUE(seen.out.ends_with("done 0, failed 0, ran out 0, not run 0, due 1\n")) << seen.out;
    EXPECT_EQ(history_of({other, "--json"}).out, "[]\n");
    acquire(other);
    EXPECT_EQ(history_of({other}).status, 0);
}

TEST(history, is_125_with_options_that_do_not_fit)
{
    keep();
    for (const auto &options : std::vector<words>{{},
                                                  {name(), "--every", "1d", "--cron", "@daily"},
                                                  {name(), "--cron", "0 0 31 2 *"},
                                                  {name(), "--since", "3x"},
                                                  {name(), "--since", "then"},
                                                  {name(), "--zone", "Berlin1"},
                                                  {name(), "--every", "1s", "--since", "2d"}}) {
        const auto seen = history_of(options);
        EXPECT_EQ(seen.status, 125);
        EXPECT_EQ(seen.out, "");
        EXPECT_TRUE(seen.err.starts_with("shedlock: ")) << seen.err;
    }
}

TEST(history, is_harmless_on_a_terminal)
{
    keep();
    const auto lock = name() + "\033[31m\u202E";
    record("NULL", "now()", "failed", "E'\\x1B[2J' || repeat('x', 100)", lock);
    ask("UPDATE shedlock_history SET holder = E'\\x1B]0;' || repeat('y', 100) WHERE name = " + literal(lock));
    const auto seen = history_of({lock, name()});
    EXPECT_EQ(seen.out.find('\033'), std::string::npos) << seen.out;
    EXPECT_EQ(seen.out.find("\u202E"), std::string::npos);
    EXPECT_NE(seen.out.find("yyy…"), std::string::npos);
    EXPECT_NE(seen.out.find(std::string(100, 'x')), std::string::npos); // the last column is not cut
    const auto json = history_of({lock, "--json"}).out;
    EXPECT_EQ(json.find("\u202E"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(json).at(0).at("name"), lock);
}

TEST(history, is_coloured_on_a_terminal_only)
{
    keep();
    record("NULL", "now()", "failed");
    EXPECT_EQ(history_of({name()}).out.find('\033'), std::string::npos);
    process tool{terminal, {"shedlock", "history", name()}};
    const auto out = tool.wait().out;
    EXPECT_NE(out.find("\033[1mTICK"), std::string::npos) << testing::PrintToString(out);
    EXPECT_NE(out.find("\033[31m- "), std::string::npos) << testing::PrintToString(out);
}

// Without a history, or with one that was off

TEST(history_database, without_a_history_it_is_125_and_check_is_3)
{
    const own_database there;
    const auto seen = there.tool({"history", "nightly", "--every", "1d"});
    EXPECT_EQ(seen.status, 125);
    EXPECT_EQ(seen.out, "");
    EXPECT_NE(seen.err.find("shedlock_keep_history()"), std::string::npos) << seen.err;
    const auto check = there.tool({"check", "nightly", "--every", "1d", "--grace", "1h", "--max-missed", "9"});
    EXPECT_EQ(check.status, 3);
    EXPECT_TRUE(check.out.starts_with("SHEDLOCK UNKNOWN - ")) << check.out;
    EXPECT_NE(check.out.find("shedlock_keep_history()"), std::string::npos) << check.out;
}

TEST(history_database, has_no_record_of_the_ticks_while_it_was_off)
{
    const own_database there;
    const auto states = [&] {
        std::string all;
        words asked = of_years(6, {"--json"});
        asked.insert(asked.begin(), "history");
        for (const auto &line : nlohmann::json::parse(there.tool(asked).out))
            all += line.at("state").get<std::string>() + ' ';
        return all;
    };
    there.sql("SELECT shedlock_keep_history()");
    EXPECT_EQ(states(), "no record no record no record no record no record due ");
    const auto quoted = [](const std::string &instant) { return ask("SELECT quote_literal(" + instant + ")"); };
    const auto marker = [&](const std::string &instant, const char *what) {
        return "INSERT INTO shedlock_history (name, ended_at, outcome) VALUES ('', " + quoted(instant) + ", '" + what +
               "')";
    };
    there.sql("DELETE FROM shedlock_history");
    there.sql(marker(years_ago(4), "on"));
    there.sql(marker(years_ago(3) + " + interval '9 months'", "off"));
    there.sql(marker(years_ago(2) + " + interval '9 months'", "on"));
    EXPECT_EQ(states(), "no record not run no record no record not run due ");
    // What ran out was recorded later than it ended.
    const auto ended_at = quoted(years_ago(5) + " - interval '30 s'");
    for (const auto &lock : {std::string{"other"}, name()})
        there.sql("INSERT INTO shedlock_history (name, token, holder, ended_at, outcome) VALUES (" + literal(lock) +
                  ", 1, 'web-2', " + ended_at + ", 'ran out')");
    EXPECT_EQ(states(), "no record not run no record no record not run due ");
    // Markers have been deleted as too old. Then the earliest row that is left decides, whatever its name.
    there.sql("UPDATE shedlock_history SET ended_at = " + quoted(years_ago(5) + " + interval '1 hour'") +
              ", name = 'other' WHERE ended_at = " + quoted(years_ago(4)));
    there.sql("DELETE FROM shedlock_history WHERE name = '' AND outcome = 'on'");
    EXPECT_EQ(states(), "no record not run no record no record no record due ");
    there.sql("DELETE FROM shedlock_history WHERE name = ''");
    EXPECT_EQ(states(), "no record not run not run not run not run due ");
}

// What `check` makes of it

namespace {

outcome check_ticks(int ticks, const words &more, const std::string &grace = "1h")
{
    return run(words{"shedlock", "check"} + of_years(ticks) + words{"--grace", grace} + more);
}

void expect_line(const outcome &seen, int status, const std::string &line)
{
    EXPECT_EQ(seen.status, status);
    EXPECT_EQ(seen.err, "");
    EXPECT_TRUE(std::regex_match(seen.out, std::regex{line})) << seen.out;
}

// The row of the lock: this tick is done.
void is_done_up_to(const std::string &tick)
{
    ask("SELECT shedlock_release_token(" + literal(name()) + ", shedlock_acquire_token(" + literal(name()) +
        ", '1h', tick => " + tick + "))");
    ask("DELETE FROM shedlock_history WHERE name = " + literal(name()));
}

} // namespace

TEST(check_history, is_2_when_more_ticks_are_missed_than_allowed)
{
    keep();
    is_done_up_to(years_ago(0));
    record_tick(years_ago(0), "done");
    record_tick(years_ago(2), "failed");
    record_tick(years_ago(3), "ran out");
    record_tick(years_ago(4), "done");
    expect_line(check_ticks(5, {"--max-missed", "2"}), 2,
                "SHEDLOCK CRITICAL - " + name() + ": missed 3 of 5 ticks \\(failed 1, not run 1, ran out 1\\) \\| '" +
                    name() + "_late'=0s;;3600;0 '" + name() + "_missed'=3;;2;0\n");
    expect_line(check_ticks(5, {"--max-missed", "3"}), 0, "SHEDLOCK OK - .* is done \\| .*_missed'=3;;3;0\n");
    expect_line(check_ticks(1, {"--max-missed", "0"}), 0, "SHEDLOCK OK - .* is done \\| .*_missed'=0;;0;0\n");
    EXPECT_EQ(check_ticks(5, {}).status, 0); // without the limit
    EXPECT_EQ(check_ticks(5, {"--max-missed", "3", "--max-age", "1ms"}).status, 2);
}

TEST(check_history, does_not_count_what_is_within_its_grace_or_running)
{
    keep();
    record_tick(years_ago(1), "done");
    is_done_up_to(years_ago(1));
    record_tick(years_ago(1), "done");
    EXPECT_EQ(check_ticks(2, {"--max-missed", "0"}).status, 2);
    EXPECT_EQ(check_ticks(2, {"--max-missed", "0"}, "300d").status, 0);
    ask("SELECT shedlock_acquire_token(" + literal(name()) + ", '1h', tick => " + years_ago(0) + ')');
    expect_line(check_ticks(2, {"--max-missed", "0"}), 1, "SHEDLOCK WARNING - .* still under way .*_missed'=0;;0;0\n");
    end_lease(name());
    expect_line(check_ticks(2, {"--max-missed", "0"}), 2, "SHEDLOCK CRITICAL - .*_missed'=1;;0;0\n");
}

TEST(check_history, does_not_count_what_a_Java_client_may_have_done)
{
    keep();
    record_tick(years_ago(3), "done");
    java_ran(years_ago(0) + " + interval '1 hour'");
    expect_line(check_ticks(5, {"--max-missed", "1"}), 3, "SHEDLOCK UNKNOWN - .* Java client.*_missed'=1;;1;0\n");
}

TEST(check_history, does_not_count_what_has_no_record)
{
    keep();
    is_done_up_to(years_ago(0));
    record_tick(years_ago(0), "done");
    const auto ticks = std::stoi(ask("SELECT extract(year FROM " + years_ago(0) + ")")) - 1999;
    EXPECT_EQ(check_ticks(ticks, {"--max-missed", "0"}).out.substr(0, 17), "SHEDLOCK CRITICAL");
    expect_line(check_ticks(ticks, {"--max-missed", std::to_string(ticks - 2)}), 0, "SHEDLOCK OK - .*\n");
    expect_line(check_ticks(ticks, {"--max-missed", std::to_string(ticks - 3)}), 2, "SHEDLOCK CRITICAL - .*\n");
}

// One option for the tick that is judged, and for those that are counted.
TEST(check_history, counts_the_ticks_of_a_week_or_since_then)
{
    keep();
    ask("SELECT shedlock_acquire(" + literal(name()) + ", '1h') AND shedlock_release(" + literal(name()) + ')');
    ask("DELETE FROM shedlock_history WHERE name = " + literal(name()));
    const auto missed = [](const words &more) {
        const words all{"shedlock", "check", name(), "--every", "1d", "--grace", "1d", "--max-missed", "100"};
        std::smatch found;
        const auto out = run(all + more).out;
        return std::regex_search(out, found, std::regex{"_missed'=([0-9]+);"}) ? found[1].str() : out;
    };
    EXPECT_EQ(missed({}), "6"); // of the seven the last one has its grace
    EXPECT_EQ(missed({"--since", "3d"}), "2");
    const auto since = [](const std::string &ago) {
        return run({"shedlock", "check", name() + ".2", "--cron", yearly_schedule(), "--grace", "1h", "--since", ago});
    };
    expect_line(since("1m"), 0, "SHEDLOCK OK - .*: no run has been due since [0-9-]+ [0-9:]+[+]00 .*\n");
    EXPECT_EQ(since("800d").status, 2);
}

TEST(check_history, notes_a_job_that_takes_longer_than_its_schedule_allows)
{
    keep();
    is_done_up_to(years_ago(0));
    for (int years = 11; years > 0; --years)
        record_tick(years_ago(years), "done");
    record_tick(years_ago(0), "done");
    const auto is_noted = [] {
        return check_ticks(12, {"--max-missed", "0"}).out.find("last ten runs took longer") != std::string::npos;
    };
    const auto take = [](const char *time, const std::string &until) {
        ask("UPDATE shedlock_history SET ended_at = acquired_at + " + literal(time) +
            "::interval WHERE name = " + literal(name()) + " AND tick <= " + until);
    };
    EXPECT_FALSE(is_noted());
    take("400 days", years_ago(1));
    EXPECT_FALSE(is_noted()); // the last one was quick
    ask("DELETE FROM shedlock_history WHERE name = " + literal(name()) + " AND tick = " + years_ago(0));
    EXPECT_TRUE(is_noted());
    expect_line(check_ticks(12, {"--max-missed", "1"}), 0,
                "SHEDLOCK OK - .* is done; note: each of its last ten runs took longer than the time to the next tick "
                "\\| .*\n");
    EXPECT_EQ(check_ticks(12, {}).out.find("; note"), std::string::npos); // the history is not read
}

TEST(check_history, is_3_with_options_that_do_not_fit)
{
    keep();
    for (const auto &options : std::vector<words>{{"--max-age", "1d", "--max-missed", "1"},
                                                  {"--max-missed", "1"},
                                                  {"--every", "1d", "--max-missed", "1"},
                                                  {"--every", "1d", "--grace", "1h", "--max-missed", "-1"},
                                                  {"--every", "1d", "--grace", "1h", "--max-missed", "few"},
                                                  {"--every", "1d", "--grace", "1h", "--since", "3x"}}) {
        expect_line(run(words{"shedlock", "check", name()} + options), 3, "SHEDLOCK UNKNOWN - .*\n");
    }
}
