#include "history_reader.hpp"

#include "literal.hpp"

#include <algorithm>
#include <charconv>

namespace shedlock::tool {

namespace {

using namespace std::chrono_literals;
using field = std::optional<std::string>;

// A `since` without an offset is in the zone: TimeZone is set, for this statement only, before it is read. Before that,
// shedlock_tick refuses what is not the name of a zone. shedlock_ticks leaves out a tick at its `since`.
constexpr auto times_query = R"(
    WITH c AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS now),
    t AS MATERIALIZED (
        SELECT @extschema@.shedlock_tick(COALESCE($1::pg_catalog.text, '1 day'), $2::pg_catalog.text, c.now) AS tick
          FROM c),
    z AS MATERIALIZED (
        SELECT CASE WHEN t.tick IS NOT NULL THEN pg_catalog.set_config('TimeZone', $2::pg_catalog.text, true) END
               AS zone
          FROM t),
    f AS MATERIALIZED (
        SELECT c.now, CASE WHEN z.zone IS NOT NULL
                           THEN COALESCE(c.now OPERATOR(pg_catalog.-) $4::pg_catalog.interval,
                                         $3::pg_catalog.text::pg_catalog.timestamptz) END AS since
          FROM c CROSS JOIN z)
    SELECT extract(epoch FROM f.now), extract(epoch FROM f.since), extract(epoch FROM k.tick)
      FROM f LEFT JOIN LATERAL (
               SELECT t.tick
                 FROM @extschema@.shedlock_ticks($1::pg_catalog.text,
                          f.since OPERATOR(pg_catalog.-) '1 microsecond'::pg_catalog.interval,
                          $2::pg_catalog.text) t (tick)
                WHERE $1::pg_catalog.text IS NOT NULL) k ON true
     ORDER BY k.tick)";

// As in check.cpp, last_done_tick is the time of a Java run if it is that of the row, or later than any of our ticks.
constexpr auto rows_query = R"(
    SELECT l.name, l.token, extract(epoch FROM CASE WHEN l.run_tick OPERATOR(pg_catalog.=) l.last_tick
                                                    THEN l.run_tick END),
           l.holder, extract(epoch FROM l.locked_at),
           CASE WHEN l.ends_with_session IS NULL THEN NULL
                WHEN l.state OPERATOR(pg_catalog.=) 'held' THEN 'running'
                WHEN l.last_outcome OPERATOR(pg_catalog.=) 'ran out' THEN 'abandoned' END,
           extract(epoch FROM l.last_tick), extract(epoch FROM l.last_done_tick),
           (l.ends_with_session IS NULL AND l.last_done_tick OPERATOR(pg_catalog.=) l.locked_at)
           OR extract(epoch FROM l.last_done_tick) OPERATOR(pg_catalog.>)
              (COALESCE(extract(epoch FROM l.last_done_at), '-Infinity') OPERATOR(pg_catalog.+) 60)
      FROM @extschema@.shedlock_locks($1::pg_catalog.text[]) l)";

// All markers, whose name is empty, however old they are. A run may end half a minute before its tick.
constexpr auto history_query = R"(
    SELECT h.name, h.token, extract(epoch FROM h.tick), h.holder, extract(epoch FROM h.acquired_at),
           extract(epoch FROM h.ended_at), h.outcome, h.detail
      FROM @extschema@.shedlock_history($1::pg_catalog.text[],
               pg_catalog.to_timestamp($2::pg_catalog.float8) OPERATOR(pg_catalog.-) '60 s'::pg_catalog.interval,
               NULL) h
     UNION ALL
    SELECT h.name, NULL, NULL, NULL, NULL, extract(epoch FROM h.ended_at), h.outcome, NULL
      FROM @extschema@.shedlock_history('{""}'::pg_catalog.text[], NULL, NULL) h)";

// What ran out is recorded later than it ended.
constexpr auto earliest_query = R"(
    SELECT extract(epoch FROM pg_catalog.min(h.ended_at)) FROM @extschema@.shedlock_history(NULL, NULL, NULL) h
     WHERE h.outcome OPERATOR(pg_catalog.<>) 'ran out')";

constexpr auto local_query = R"(
    WITH z AS MATERIALIZED (SELECT pg_catalog.set_config('TimeZone', $2::pg_catalog.text, true) AS zone)
    SELECT s.second, pg_catalog.to_char(l.at, 'Dy YYYY-MM-DD'), pg_catalog.to_char(l.at, 'HH24:MI:SS'),
           pg_catalog.to_char(l.at, 'TZ')
      FROM z CROSS JOIN pg_catalog.unnest($1::pg_catalog.int8[]) s (second)
           CROSS JOIN LATERAL (
               SELECT CASE WHEN z.zone IS NOT NULL THEN pg_catalog.to_timestamp(s.second::pg_catalog.float8) END AS at
               OFFSET 0) l)";

// Seconds since 1970, with six digits after the point. nullopt for infinity, and for what a row edited by hand may have
// beyond our range.
std::optional<instant> to_instant(const field &epoch)
{
    std::int64_t number = 0;
    if (!epoch)
        return std::nullopt;
    std::string digits = *epoch;
    std::erase(digits, '.');
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (failure != std::errc{} || end != digits.data() + digits.size())
        return std::nullopt;
    return instant{std::chrono::microseconds{digits.size() == epoch->size() ? number * 1000000 : number}};
}

past_run to_run(const internal::fields &row)
{
    return {row[1] ? std::stoll(*row[1]) : 0,
            to_instant(row[2]),
            row[3].value_or(""),
            to_instant(row[4]).value_or(instant{}),
            {},
            row[5].value_or(""),
            {}};
}

void read_times(internal::session &session, const schedule &runs, timeline &times)
{
    const auto ago = runs.since_ago ? std::optional{internal::interval_literal(*runs.since_ago)} : std::nullopt;
    const auto rows = session.ask(times_query, {runs.ticks, runs.zone, runs.since, ago}).rows;
    times.now = to_instant(rows.at(0)[0]).value();
    times.since = to_instant(rows.at(0)[1]).value_or(instant::min());
    times.looks_ahead = runs.looks_ahead;
    for (const auto &row : rows)
        if (const auto tick = to_instant(row[2]))
            times.ticks.push_back(*tick);
}

void read_locks(internal::session &session, const std::vector<std::string> &names, std::map<std::string, job> &jobs)
{
    for (const auto &row : session.ask(rows_query, {internal::array_literal(names)}).rows) {
        auto &found = jobs[row[0].value_or("")];
        found.has_row = true;
        if (row[5])
            found.current = to_run(row);
        found.last_tick = to_instant(row[6]);
        found.done_up_to = to_instant(row[7]);
        if (row[8] == "t")
            found.java_ran_at = found.done_up_to;
    }
}

// Returns the markers, and when the earliest row was written (see earliest_query).
std::pair<std::vector<marker>, std::optional<instant>> read_history(internal::session &session,
                                                                    const std::vector<std::string> &names,
                                                                    instant since, std::map<std::string, job> &jobs)
{
    std::vector<marker> markers;
    std::optional<instant> earliest;
    const auto from = since == instant::min() ? "-Infinity" : std::to_string(since.time_since_epoch() / 1s);
    for (const auto &row : session.ask(history_query, {internal::array_literal(names), from}).rows) {
        const auto ended_at = to_instant(row[5]).value_or(instant{});
        if (row[0] == "") {
            markers.push_back({ended_at, row[6] == "on"});
            continue;
        }
        auto run = to_run(row);
        run.ended_at = ended_at;
        run.outcome = row[6].value_or("");
        run.detail = row[7];
        jobs[row[0].value_or("")].runs.push_back(run);
        if (run.outcome != "ran out")
            earliest = std::min(earliest.value_or(ended_at), ended_at);
    }
    return {markers, earliest};
}

// The clock may have stepped back during a run of ours.
void forget_java_if_ours(job &of)
{
    if (std::any_of(of.runs.begin(), of.runs.end(), [&](const auto &run) {
            return run.outcome == "done" && run.tick.value_or(run.acquired_at) == of.done_up_to;
        }))
        of.java_ran_at.reset();
}

// Reads the whole history only if it was on before the first marker that is left.
std::vector<period> read_recorded(internal::session &session, const std::vector<marker> &markers,
                                  std::optional<instant> earliest)
{
    const auto first = std::min_element(markers.begin(), markers.end(),
                                        [](const auto &one, const auto &other) { return one.at < other.at; });
    if (first == markers.end() || !first->is_on)
        earliest = to_instant(session.ask(earliest_query, {}).rows.at(0)[0]);
    return recorded(markers, earliest);
}

} // namespace

known_past read_past(internal::session &session, const std::vector<std::string> &names, const schedule &runs)
{
    known_past all;
    for (const auto &name : names)
        all.jobs[name];
    read_times(session, runs, all.times);
    read_locks(session, names, all.jobs); // before the history: a run that ends meanwhile must not be missed
    const auto [markers, earliest] = read_history(session, names, all.times.since, all.jobs);
    for (auto &[name, found] : all.jobs)
        forget_java_if_ours(found);
    all.times.recorded = read_recorded(session, markers, earliest);
    return all;
}

std::map<std::chrono::sys_seconds, local_time>
local_times(internal::session &session, const std::set<std::chrono::sys_seconds> &seconds, const std::string &zone)
{
    std::string numbers;
    for (const auto second : seconds)
        numbers += (numbers.empty() ? "" : ",") + std::to_string(second.time_since_epoch().count());
    std::map<std::chrono::sys_seconds, local_time> found;
    for (const auto &row : session.ask(local_query, {'{' + numbers + '}', zone}).rows)
        found[std::chrono::sys_seconds{std::chrono::seconds{std::stoll(row[0].value())}}] = {
            row[1].value(), row[2].value(), row[3].value()};
    return found;
}

} // namespace shedlock::tool
