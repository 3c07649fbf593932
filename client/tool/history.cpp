#include "history.hpp"

#include <algorithm>
#include <iterator>

namespace shedlock::tool {

namespace {

bool began_earlier(const past_run &one, const past_run &other)
{
    return one.acquired_at < other.acquired_at;
}

instant when(const past_run &run)
{
    return run.tick.value_or(run.acquired_at);
}

instant when(const entry &line)
{
    return line.tick ? *line.tick : line.runs.front().acquired_at;
}

bool is_done(const entry &line)
{
    return std::any_of(line.runs.begin(), line.runs.end(), [](const auto &run) { return run.outcome == "done"; });
}

// The lock is read first. If its run has ended since, it is in the history.
template <typename Wanted> std::vector<past_run> runs_of(const job &of, Wanted wanted)
{
    std::vector<past_run> runs;
    std::copy_if(of.runs.begin(), of.runs.end(), std::back_inserter(runs), wanted);
    if (of.current &&
        std::none_of(of.runs.begin(), of.runs.end(), [&](const auto &run) { return run.token == of.current->token; }))
        runs.push_back(*of.current);
    std::stable_sort(runs.begin(), runs.end(), began_earlier);
    return runs;
}

std::optional<instant> latest_tick(const std::vector<instant> &ticks, instant until)
{
    const auto after = std::upper_bound(ticks.begin(), ticks.end(), until);
    return after == ticks.begin() ? std::nullopt : std::optional{*std::prev(after)};
}

std::optional<period> time_of_java(const job &of, const timeline &times)
{
    if (!of.java_ran_at)
        return std::nullopt;
    auto from = instant::min();
    for (const auto &run : of.runs)
        if (run.acquired_at < *of.java_ran_at)
            from = std::max(from, run.acquired_at + times.looks_ahead);
    return period{latest_tick(times.ticks, from).value_or(instant::min()), *of.java_ran_at + times.looks_ahead};
}

bool is_recorded(const timeline &times, instant tick)
{
    const auto next = std::upper_bound(times.ticks.begin(), times.ticks.end(), tick);
    const auto end = next == times.ticks.end() ? times.now : *next;
    return std::any_of(times.recorded.begin(), times.recorded.end(),
                       [&](const auto &on) { return on.from <= tick && end <= on.to; });
}

bool is_due(const job &of, const timeline &times, instant tick)
{
    return tick == times.ticks.back() && (!of.last_tick || *of.last_tick < tick) &&
           (!of.done_up_to || *of.done_up_to < tick);
}

std::string state_of(const entry &line, const job &of, const timeline &times, const std::optional<period> &java)
{
    if (is_done(line))
        return "done";
    const auto last = line.runs.empty() ? "" : line.runs.back().outcome;
    if (line.is_scheduled && java && java->from <= *line.tick && *line.tick <= java->to &&
        (line.runs.empty() || line.runs.back().acquired_at < *of.java_ran_at))
        return "unknown";
    if (!last.empty())
        return last;
    if (is_due(of, times, *line.tick))
        return "due";
    return is_recorded(times, *line.tick) ? "not run" : "no record";
}

bool counts_as_missed(const std::string &state)
{
    return state != "done" && state != "running" && state != "unknown" && state != "no record";
}

} // namespace

std::vector<period> recorded(std::vector<marker> markers, std::optional<instant> earliest)
{
    std::sort(markers.begin(), markers.end(), [](const auto &one, const auto &other) { return one.at < other.at; });
    // A row that is earlier than the first marker left: an older marker, which switched it on, has been deleted.
    std::optional<instant> on_since;
    if (earliest && (markers.empty() || *earliest < markers.front().at))
        on_since = earliest;
    std::vector<period> on;
    for (const auto &marker : markers) {
        if (marker.is_on && !on_since)
            on_since = marker.at;
        if (!marker.is_on && on_since) {
            on.push_back({*on_since, marker.at});
            on_since.reset();
        }
    }
    if (on_since)
        on.push_back({*on_since, instant::max()});
    return on;
}

std::vector<entry> by_run(const job &of, instant since)
{
    std::vector<entry> lines;
    for (auto &run : runs_of(of, [&](const auto &one) { return one.ended_at >= since; }))
        lines.push_back({run.tick, false, run.outcome, {run}});
    return lines;
}

std::vector<entry> by_tick(const job &of, const timeline &times)
{
    std::map<instant, entry> ticks;
    for (const auto tick : times.ticks)
        ticks[tick] = {tick, true, "", {}};
    std::vector<past_run> without_tick;
    for (auto &run : runs_of(of, [&](const auto &one) { return when(one) >= times.since; }))
        if (run.tick)
            ticks.try_emplace(*run.tick, entry{run.tick, false, "", {}}).first->second.runs.push_back(run);
        else
            without_tick.push_back(run);
    std::vector<entry> lines;
    for (auto &run : without_tick) {
        const auto tick = latest_tick(times.ticks, run.acquired_at);
        if (run.outcome == "done" && tick && !is_done(ticks[*tick]))
            ticks[*tick].runs.push_back(run);
        else
            lines.push_back({std::nullopt, false, run.outcome, {run}});
    }
    const auto java = time_of_java(of, times);
    for (auto &[tick, line] : ticks) {
        std::stable_sort(line.runs.begin(), line.runs.end(), began_earlier);
        line.state = state_of(line, of, times, java);
        lines.push_back(line);
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto &one, const auto &other) { return when(one) < when(other); });
    return lines;
}

std::string summary(const std::vector<entry> &lines, bool by_tick)
{
    std::map<std::string, int> numbers{{"done", 0}, {"failed", 0}, {"ran out", 0}};
    if (by_tick)
        numbers["not run"] = 0;
    for (const auto &line : lines)
        ++numbers[line.state];
    std::string text;
    for (const auto *const state :
         {"done", "failed", "ran out", "not run", "freed", "abandoned", "running", "due", "unknown", "no record"})
        if (numbers.contains(state))
            text += (text.empty() ? "" : ", ") + std::string{state} + ' ' + std::to_string(numbers.at(state));
    return text;
}

missed_ticks count_missed(const std::vector<entry> &lines, instant until)
{
    missed_ticks found;
    for (const auto &line : lines) {
        if (!line.is_scheduled || *line.tick > until)
            continue;
        ++found.ticks;
        if (counts_as_missed(line.state)) {
            ++found.missed;
            ++found.by_state[line.state];
        }
    }
    return found;
}

bool outlasts_its_schedule(const job &of, const std::vector<instant> &ticks)
{
    constexpr std::ptrdiff_t enough = 10;
    std::vector<past_run> runs;
    std::copy_if(of.runs.begin(), of.runs.end(), std::back_inserter(runs),
                 [](const auto &run) { return run.tick && run.ended_at; });
    if (std::ssize(runs) < enough)
        return false;
    std::stable_sort(runs.begin(), runs.end(), began_earlier);
    return std::all_of(runs.end() - enough, runs.end(), [&](const auto &run) {
        const auto next = std::upper_bound(ticks.begin(), ticks.end(), *run.tick);
        return next != ticks.begin() && next != ticks.end() && *run.ended_at - run.acquired_at > *next - *run.tick;
    });
}

} // namespace shedlock::tool
