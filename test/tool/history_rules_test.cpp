#include "history.hpp"

#include <gtest/gtest.h>

using namespace shedlock::tool;
using namespace std::chrono_literals;

namespace {

constexpr instant midnight{std::chrono::sys_days{std::chrono::year{2026} / 11 / 27}};

instant at(int hour, int minute = 0)
{
    return midnight + std::chrono::hours{hour} + std::chrono::minutes{minute};
}

// Acquired five minutes after its tick, for ten minutes.
past_run run_of(int tick, const char *outcome, int minute = 5)
{
    return {at(tick, minute).time_since_epoch().count(),
            at(tick),
            "web-1",
            at(tick, minute),
            at(tick, minute + 10),
            outcome,
            {}};
}

past_run without_tick(int hour, int minute, const char *outcome)
{
    auto run = run_of(hour, outcome, minute);
    run.tick.reset();
    return run;
}

past_run unended(past_run run, const char *state)
{
    run.ended_at.reset();
    run.outcome = state;
    return run;
}

// Every full hour from one to five; it is half past five.
timeline times_of_hours()
{
    return {at(5, 30), midnight, {at(1), at(2), at(3), at(4), at(5)}, 30s, {{instant::min(), instant::max()}}};
}

// "1 done, 2 not run": the hours of the ticks, or - if there is none, and the states.
std::string shown(const std::vector<entry> &lines)
{
    std::string text;
    for (const auto &line : lines) {
        text += text.empty() ? "" : ", ";
        text += line.tick ? std::to_string((*line.tick - midnight) / 1h) : "-";
        text += ' ' + line.state;
        if (line.runs.size() > 1)
            text += " by " + std::to_string(line.runs.size());
    }
    return text;
}

std::string by_hour(const job &of, const timeline &times = times_of_hours())
{
    return shown(by_tick(of, times));
}

std::string shown(const std::vector<period> &on)
{
    std::string text;
    for (const auto &one : on)
        text += (text.empty() ? "" : ", ") + std::to_string((one.from - midnight) / 1h) + '-' +
                (one.to == instant::max() ? "" : std::to_string((one.to - midnight) / 1h));
    return text;
}

} // namespace

// Since when it was on

TEST(history_rules, it_was_on_between_its_markers)
{
    EXPECT_EQ(shown(recorded({}, {})), "");
    EXPECT_EQ(shown(recorded({{at(2), true}}, {})), "2-");
    EXPECT_EQ(shown(recorded({{at(5), true}, {at(2), true}, {at(3), false}}, {})), "2-3, 5-");
    EXPECT_EQ(shown(recorded({{at(2), true}, {at(3), true}, {at(4), false}, {at(5), false}}, {})), "2-4");
}

TEST(history_rules, it_was_on_from_the_earliest_row_if_the_marker_before_it_is_gone)
{
    EXPECT_EQ(shown(recorded({}, at(1))), "1-");
    EXPECT_EQ(shown(recorded({{at(3), false}, {at(4), true}}, at(1))), "1-3, 4-");
    EXPECT_EQ(shown(recorded({{at(3), true}}, at(1))), "1-");
    EXPECT_EQ(shown(recorded({{at(3), true}}, at(4))), "3-");
    EXPECT_EQ(shown(recorded({{at(3), false}}, at(3))), ""); // the marker itself is the earliest row
}

// Runs

TEST(history_rules, without_a_schedule_there_is_a_line_for_each_run)
{
    const job of{.runs = {run_of(3, "failed", 7), run_of(3, "failed"), without_tick(2, 1, "done"), run_of(1, "done")}};
    EXPECT_EQ(shown(by_run(of, midnight)), "1 done, - done, 3 failed, 3 failed");
    EXPECT_EQ(shown(by_run(of, at(3, 16))), "3 failed");
    EXPECT_EQ(shown(by_run(of, at(3, 15))), "3 failed, 3 failed"); // ended then
}

TEST(history_rules, the_run_that_the_lock_shows_is_not_shown_twice)
{
    job of{.runs = {run_of(1, "done")}, .current = unended(run_of(2, ""), "running")};
    EXPECT_EQ(shown(by_run(of, at(4))), "2 running"); // however long ago it began
    EXPECT_EQ(by_hour(of), "1 done, 2 running, 3 not run, 4 not run, 5 due");
    of.runs.push_back(run_of(2, "done")); // it has ended after the lock was read
    EXPECT_EQ(shown(by_run(of, midnight)), "1 done, 2 done");
    EXPECT_EQ(by_hour(of), "1 done, 2 done, 3 not run, 4 not run, 5 due");
}

// Ticks

TEST(history_rules, there_is_a_line_for_each_tick_also_if_nobody_ran_it)
{
    EXPECT_EQ(by_hour({}), "1 not run, 2 not run, 3 not run, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(2, "done"), run_of(4, "ran out"), run_of(5, "freed")}}),
              "1 not run, 2 done, 3 not run, 4 ran out, 5 freed");
}

TEST(history_rules, several_runs_of_a_tick_are_one_line)
{
    EXPECT_EQ(
        by_hour({.runs = {run_of(2, "done", 30), run_of(2, "failed"), run_of(3, "ran out", 30), run_of(3, "failed")}}),
        "1 not run, 2 done by 2, 3 ran out by 2, 4 not run, 5 due");
    EXPECT_EQ(
        by_tick({.runs = {run_of(2, "done", 30), run_of(2, "failed")}}, times_of_hours()).at(1).runs.at(0).outcome,
        "failed");
}

TEST(history_rules, the_lock_shows_what_is_running_or_abandoned)
{
    EXPECT_EQ(by_hour({.runs = {run_of(5, "failed")}, .current = unended(run_of(5, "", 20), "running")}),
              "1 not run, 2 not run, 3 not run, 4 not run, 5 running by 2");
    EXPECT_EQ(by_hour({.current = unended(run_of(3, ""), "abandoned")}),
              "1 not run, 2 not run, 3 abandoned, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.current = unended(without_tick(3, 1, ""), "running")}),
              "1 not run, 2 not run, 3 not run, - running, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.current = unended(run_of(-2, ""), "running")}).substr(0, 10), "-2 running");
}

TEST(history_rules, only_the_last_tick_is_due_and_only_until_it_is_tried)
{
    EXPECT_EQ(by_hour({.last_tick = at(4), .done_up_to = at(4, 59)}),
              "1 not run, 2 not run, 3 not run, 4 not run, 5 due");
    EXPECT_TRUE(by_hour({.last_tick = at(5)}).ends_with("5 not run"));
    EXPECT_TRUE(by_hour({.done_up_to = at(5)}).ends_with("5 not run"));
}

TEST(history_rules, a_run_without_a_tick_that_is_done_fulfils_the_latest_tick_before_it)
{
    EXPECT_EQ(by_hour({.runs = {without_tick(3, 59, "done")}}), "1 not run, 2 not run, 3 done, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {without_tick(3, 0, "done")}}), "1 not run, 2 not run, 3 done, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(3, "failed"), without_tick(3, 30, "done")}}),
              "1 not run, 2 not run, 3 done by 2, 4 not run, 5 due");
}

TEST(history_rules, a_run_that_fulfils_no_tick_has_a_line_of_its_own)
{
    EXPECT_EQ(by_hour({.runs = {without_tick(3, 30, "failed")}}),
              "1 not run, 2 not run, 3 not run, - failed, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(3, "done"), without_tick(3, 30, "done")}}),
              "1 not run, 2 not run, 3 done, - done, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {without_tick(0, 30, "done")}}).substr(0, 8), "- done, ");
    auto other = run_of(3, "done");
    other.tick = at(3, 1);
    EXPECT_EQ(by_hour({.runs = {other}}), "1 not run, 2 not run, 3 not run, 3 done, 4 not run, 5 due");
}

TEST(history_rules, runs_of_earlier_ticks_are_left_out)
{
    auto times = times_of_hours();
    times.since = at(0, 30);
    job of{.runs = {run_of(0, "done", 90), without_tick(0, 29, "failed")}};
    EXPECT_EQ(by_hour(of, times), "1 not run, 2 not run, 3 not run, 4 not run, 5 due");
    times.since = at(1);
    of.runs.push_back(run_of(1, "done"));
    EXPECT_EQ(by_hour(of, times), "1 done, 2 not run, 3 not run, 4 not run, 5 due");
}

TEST(history_rules, nothing_is_known_of_a_tick_while_the_history_was_off)
{
    auto times = times_of_hours();
    times.recorded = {{at(2), at(3, 30)}, {at(3, 40), instant::max()}};
    EXPECT_EQ(by_hour({}, times), "1 no record, 2 not run, 3 no record, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(3, "failed")}}, times), "1 no record, 2 not run, 3 failed, 4 not run, 5 due");
    times.recorded = {};
    EXPECT_EQ(by_hour({.last_tick = at(5)}, times), "1 no record, 2 no record, 3 no record, 4 no record, 5 no record");
}

// Java clients

TEST(history_rules, a_Java_client_may_have_done_what_nobody_else_did_since_our_last_run)
{
    EXPECT_EQ(by_hour({.done_up_to = at(3, 20), .java_ran_at = at(3, 20)}),
              "1 unknown, 2 unknown, 3 unknown, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(2, "done")}, .java_ran_at = at(4)}),
              "1 not run, 2 done, 3 unknown, 4 unknown, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(2, "failed")}, .java_ran_at = at(3, 1)}),
              "1 not run, 2 unknown, 3 unknown, 4 not run, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(3, "failed")}, .java_ran_at = at(3, 1)}),
              "1 unknown, 2 unknown, 3 failed, 4 not run, 5 due"); // ours came after it
}

TEST(history_rules, a_Java_client_may_have_begun_a_little_before_the_tick)
{
    EXPECT_EQ(by_hour({.runs = {run_of(3, "done")}, .java_ran_at = at(4) - 30s}),
              "1 not run, 2 not run, 3 done, 4 unknown, 5 due");
    EXPECT_EQ(by_hour({.runs = {run_of(3, "done")}, .java_ran_at = at(4) - 31s}),
              "1 not run, 2 not run, 3 done, 4 not run, 5 due");
    EXPECT_TRUE(by_hour({.done_up_to = at(5) - 1s, .java_ran_at = at(5) - 1s}).ends_with("5 unknown"));
}

// Numbers

TEST(history_rules, the_summary_counts_the_lines)
{
    const job of{.runs = {run_of(1, "done"), run_of(2, "failed"), without_tick(2, 30, "failed"), run_of(3, "freed")}};
    EXPECT_EQ(summary(by_tick(of, times_of_hours()), true), "done 1, failed 2, ran out 0, not run 1, freed 1, due 1");
    EXPECT_EQ(summary(by_run(of, midnight), false), "done 1, failed 2, ran out 0, freed 1");
    EXPECT_EQ(summary({}, true), "done 0, failed 0, ran out 0, not run 0");
}

TEST(history_rules, missed_is_what_is_not_done_after_its_grace)
{
    job of{.runs = {run_of(1, "done"), run_of(2, "failed"), run_of(4, "ran out"), without_tick(4, 20, "failed"),
                    run_of(0, "failed")}}; // the last two are for no tick of the schedule
    const auto found = count_missed(by_tick(of, times_of_hours()), at(5, 30));
    EXPECT_EQ(found.ticks, 5);
    EXPECT_EQ(found.missed, 4);
    EXPECT_EQ(found.by_state,
              (std::map<std::string, std::int64_t>{{"failed", 1}, {"not run", 1}, {"ran out", 1}, {"due", 1}}));
    EXPECT_EQ(count_missed(by_tick(of, times_of_hours()), at(4, 59)).missed, 3);
    EXPECT_EQ(count_missed(by_tick(of, times_of_hours()), at(5)).missed, 4);
    of.current = unended(run_of(3, ""), "running");
    EXPECT_EQ(count_missed(by_tick(of, times_of_hours()), at(4, 59)).missed, 2);
    of.current = unended(run_of(3, ""), "abandoned");
    EXPECT_EQ(count_missed(by_tick(of, times_of_hours()), at(4, 59)).missed, 3);
}

TEST(history_rules, what_is_not_known_is_not_missed)
{
    auto times = times_of_hours();
    const auto java = count_missed(by_tick({.java_ran_at = at(3)}, times), at(5, 30));
    EXPECT_EQ(java.missed, 2);
    times.recorded = {{at(4), instant::max()}};
    const auto off = count_missed(by_tick({}, times), at(5, 30));
    EXPECT_EQ(off.missed, 2);
    EXPECT_EQ(off.ticks, 5);
}

// A job that takes two and a half hours runs at every third tick.
TEST(history_rules, a_job_outlasts_its_schedule_if_its_last_ten_runs_did)
{
    std::vector<instant> ticks;
    for (int hour = 1; hour <= 40; ++hour)
        ticks.push_back(at(hour));
    job of;
    const auto add = [&](int tick, std::chrono::minutes takes) {
        auto run = run_of(tick, "done");
        run.ended_at = run.acquired_at + takes;
        of.runs.insert(of.runs.begin(), run); // in no order
    };
    add(1, 10min);
    for (int tick = 4; tick <= 28; tick += 3)
        add(tick, 150min);
    EXPECT_FALSE(outlasts_its_schedule(of, ticks)); // the first of ten did not
    add(31, 150min);
    of.runs.push_back(without_tick(30, 0, "done"));
    EXPECT_TRUE(outlasts_its_schedule(of, ticks));
    EXPECT_FALSE(outlasts_its_schedule(of, {ticks.begin() + 4, ticks.end()})); // the earlier ones are not known
    add(34, 60min);                                                            // just in time
    EXPECT_FALSE(outlasts_its_schedule(of, ticks));
    of.runs.front().ended_at = *of.runs.front().ended_at + 1us;
    EXPECT_TRUE(outlasts_its_schedule(of, ticks));
    of.runs.erase(of.runs.begin() + 9, of.runs.end());
    EXPECT_FALSE(outlasts_its_schedule(of, ticks)); // nine are not enough
}
