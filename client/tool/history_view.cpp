#include "history_view.hpp"

#include "history_reader.hpp"
#include "instant.hpp"
#include "table.hpp"
#include "text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace shedlock::tool {

namespace {

using clocks = std::map<std::chrono::sys_seconds, local_time>;

std::vector<entry> lines_of(const known_past &past, const std::string &name, const schedule &runs)
{
    const auto &job = past.jobs.at(name);
    return runs.ticks ? by_tick(job, past.times) : by_run(job, past.times.since);
}

std::vector<std::string> unknown_names(const std::vector<std::string> &names, const known_past &past)
{
    std::vector<std::string> unknown;
    std::copy_if(names.begin(), names.end(), std::back_inserter(unknown), [&](const auto &name) {
        const auto &job = past.jobs.at(name);
        return !job.has_row && job.runs.empty();
    });
    return unknown;
}

std::chrono::sys_seconds second(instant at)
{
    return std::chrono::floor<std::chrono::seconds>(at);
}

clocks times_in(internal::session &session, const std::vector<std::vector<entry>> &blocks, const std::string &zone)
{
    std::set<std::chrono::sys_seconds> seconds;
    for (const auto &lines : blocks)
        for (const auto &line : lines) {
            if (line.tick)
                seconds.insert(second(*line.tick));
            for (const auto &run : line.runs)
                seconds.insert(second(run.acquired_at));
        }
    return local_times(session, seconds, zone);
}

std::string tick_text(const entry &line, const clocks &local)
{
    if (!line.tick)
        return "-";
    const auto &at = local.at(second(*line.tick));
    return at.date + ' ' + (at.clock.ends_with(":00") ? at.clock.substr(0, at.clock.size() - 3) : at.clock) + ' ' +
           at.zone;
}

// The date is left out if it is that of the tick.
std::string start_text(const entry &line, const past_run &run, const clocks &local)
{
    const auto &at = local.at(second(run.acquired_at));
    if (!line.tick)
        return at.date + ' ' + at.clock + ' ' + at.zone;
    return local.at(second(*line.tick)).date == at.date ? at.clock : at.date + ' ' + at.clock;
}

std::string time_taken(const past_run &run, instant now)
{
    if (!run.ended_at && run.outcome != "running")
        return "-";
    const std::chrono::duration<double> took = run.ended_at.value_or(now) - run.acquired_at;
    return duration(std::max(took.count(), 0.0));
}

// Of several runs, the last one, and the last reason of a failure.
columns columns_of(const entry &line, const clocks &local, instant now, bool by_tick)
{
    const auto *const run = line.runs.empty() ? nullptr : &line.runs.back();
    std::string failure = "-";
    for (const auto &each : line.runs)
        failure = each.detail ? printable(*each.detail) : failure;
    columns all{tick_text(line, local),
                run ? start_text(line, *run, local) : "-",
                run ? time_taken(*run, now) : "-",
                line.state,
                run ? std::to_string(line.runs.size()) : "-",
                run ? cut(printable(run->holder)) : "-",
                failure};
    if (!by_tick)
        all.erase(all.begin() + 4);
    return all;
}

const char *colour_of(const columns &line)
{
    const auto &state = line[3];
    if (state == "running")
        return "\033[32m";
    return state == "failed" || state == "ran out" || state == "abandoned" || state == "not run" ? "\033[31m" : "";
}

nlohmann::ordered_json json_of(const past_run &run)
{
    using json = nlohmann::ordered_json;
    return {{"token", run.token},
            {"holder", run.holder},
            {"acquired_at", to_text(run.acquired_at)},
            {"ended_at", run.ended_at ? json(to_text(*run.ended_at)) : json{}},
            {"outcome", run.ended_at ? json(run.outcome) : json{}},
            {"detail", run.detail ? json(*run.detail) : json{}}};
}

} // namespace

std::vector<std::string> history_as_table(internal::session &session, const std::vector<std::string> &names,
                                          const schedule &runs, std::ostream &out, bool with_colours)
{
    const auto past = read_past(session, names, runs);
    const bool by_tick = runs.ticks.has_value();
    std::vector<std::vector<entry>> blocks;
    for (const auto &name : names)
        blocks.push_back(lines_of(past, name, runs));
    const auto local = times_in(session, blocks, runs.zone);
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names.size() > 1)
            out << (i > 0 ? "\n" : "") << printable(names[i]) << '\n';
        std::vector<columns> table{{"TICK", "STARTED", "TOOK", "OUTCOME", "TRIES", "HOLDER", "FAILURE"}};
        if (!by_tick)
            table[0].erase(table[0].begin() + 4);
        for (const auto &line : blocks[i])
            table.push_back(columns_of(line, local, past.times.now, by_tick));
        print_table(table, with_colours ? colour_of : nullptr, out);
        out << summary(blocks[i], by_tick) << '\n';
    }
    return unknown_names(names, past);
}

std::vector<std::string> history_as_json(internal::session &session, const std::vector<std::string> &names,
                                         const schedule &runs, std::ostream &out)
{
    using json = nlohmann::ordered_json;
    const auto past = read_past(session, names, runs);
    auto list = json::array();
    for (const auto &name : names)
        for (const auto &line : lines_of(past, name, runs)) {
            auto tried = json::array();
            std::transform(line.runs.begin(), line.runs.end(), std::back_inserter(tried), json_of);
            list.push_back({{"name", name},
                            {"tick", line.tick ? json(to_text(*line.tick)) : json{}},
                            {"state", line.state},
                            {"runs", tried}});
        }
    // As in `list`, names that are not valid UTF-8 are replaced.
    out << escaped_in_json(list.dump(2, ' ', false, json::error_handler_t::replace)) << '\n';
    return unknown_names(names, past);
}

} // namespace shedlock::tool
