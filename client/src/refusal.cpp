#include "refusal.hpp"

#include "literal.hpp"

#include <algorithm>
#include <ctime>

namespace shedlock {

namespace {

using namespace std::chrono_literals;

// In one unit, rounded down: 350 ms, 42 s, 4 min, 5 h, 3 d.
std::string duration(std::chrono::microseconds time)
{
    struct unit {
        std::chrono::microseconds size;
        const char *name;
    };
    for (const auto &one : {unit{24h, " d"}, unit{1h, " h"}, unit{1min, " min"}, unit{1s, " s"}})
        if (time >= 2 * one.size)
            return std::to_string(time / one.size) + one.name;
    return std::to_string(time / 1ms) + " ms";
}

std::string in_utc(instant time)
{
    const auto seconds = std::time_t{std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count()};
    tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[64];
    std::strftime(text, sizeof text, "%F %T UTC", &parts);
    return text;
}

} // namespace

std::string refusal::to_text() const
{
    const auto lock = names{name}.to_text();
    const auto who = details::printable(holder);
    const auto end = until ? ", until " + in_utc(*until) + " at the latest" : std::string{};
    switch (why) {
    case reason::held:
        return who + " has held " + lock + " for " + duration(held_for) + end;
    case reason::kept:
        return lock + " was last held by " + who + ", and is kept for its at_least" + end;
    case reason::paused:
        return lock + " is " + who; // it begins with "paused"
    case reason::had_run:
        return lock + " had its run" + (since ? " at " + in_utc(*since) : "") + ", by " + who;
    case reason::done_by_hand:
        return lock + " was done by a run without a tick" + (since ? " at " + in_utc(*since) : "") +
               (holder.empty() ? "" : ", by " + who);
    case reason::late:
        return "it is too late for this run of " + lock + (until ? ", which could begin until " + in_utc(*until) : "");
    case reason::undecided:
        break;
    }
    return "another transaction was about to acquire or release " + lock;
}

} // namespace shedlock

namespace shedlock::internal {

namespace {

std::optional<refusal::time> time_of(const std::optional<std::string> &field)
{
    return field ? std::optional{refusal::time{std::chrono::microseconds{to_number(*field)}}} : std::nullopt;
}

// If the tick is not due: whether it was later than the last run with a tick, so that only one without can have used it
// up.
bool is_done_by_hand(const fields &row)
{
    return time_of(row[seen::last_done_tick]) > time_of(row[seen::last_tick]);
}

// Returns nullopt if this lock was not the reason. If none of the names has a row, all columns are NULL.
std::optional<refusal::reason> reason_of(const fields &row)
{
    const auto &state = row[seen::state];
    if (row[seen::not_due] == "late")
        return refusal::reason::late;
    if (state == "held")
        return refusal::reason::held;
    if (state == "paused")
        return refusal::reason::paused;
    if (row[seen::not_due])
        return is_done_by_hand(row) ? refusal::reason::done_by_hand : refusal::reason::had_run;
    if (state == "kept")
        return refusal::reason::kept;
    return std::nullopt;
}

// What older functions do not tell, by their rule.
std::string had_run_query(const tick_asked &asked)
{
    const auto is = [&](const char *column, const char *how) {
        return std::string{column} + " OPERATOR(pg_catalog." + how + ") (" + asked.tick + ')';
    };
    return " CASE WHEN " + is("last_tick", ">") + " OR " + is("last_tick", "=") +
           (asked.retry ? " AND " + is("last_done_tick", ">=") : "") + " THEN 'had run' END";
}

} // namespace

std::string locks_query(const names &names, const tick_asked &asked, bool older)
{
    using sql = details::sql;
    const std::string list = names.list().size() == 1 ? "ARRAY[$1::pg_catalog.text]" : "$1::pg_catalog.text[]";
    const auto start_within = asked.start_within ? sql::constant(*asked.start_within) : "NULL::pg_catalog.interval";
    const auto microseconds = [](const std::string &column) { // or NULL, if they do not fit into int8
        return " CASE WHEN pg_catalog.isfinite(" + column + ") AND " + column +
               " OPERATOR(pg_catalog.<) '294247-01-01 UTC'::pg_catalog.timestamptz"
               " THEN (extract(epoch FROM " +
               column + ") OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 END,";
    };
    return "SELECT asked_for.name, COALESCE(state, 'free'), COALESCE(holder, ''), token," + microseconds("last_tick") +
           microseconds("last_done_tick") + microseconds("lock_until") +
           " (extract(epoch FROM held_for) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, " +
           (asked.tick.empty() ? "NULL, NULL"
            : older            ? had_run_query(asked) + ", NULL"
                               : "@extschema@.shedlock_not_due(asked_for.name, " + asked.tick +
                          (asked.retry ? ", true, " : ", false, ") + start_within + "), (extract(epoch FROM " +
                          asked.tick + " OPERATOR(pg_catalog.+) " + start_within +
                          " OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp())"
                          " OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8") +
           " FROM pg_catalog.unnest(" + list + ") AS asked_for (name) LEFT JOIN @extschema@.shedlock_locks" +
           (older ? "" : '(' + list + ')') + " AS locks ON locks.name OPERATOR(pg_catalog.=) asked_for.name";
}

refusal refusal_of(const std::vector<fields> &rows, const names &names)
{
    for (const auto &row : rows)
        if (const auto why = reason_of(row)) {
            refusal told{*why, row[seen::name].value(), row[seen::holder].value()};
            told.since = time_of(row[seen::token]);
            if (why == refusal::reason::done_by_hand && told.since != time_of(row[seen::last_done_tick])) {
                told.since = time_of(row[seen::last_done_tick]);
                told.holder.clear();
            }
            if (row[seen::state] != "free")
                told.until = time_of(row[seen::ends]);
            if (row[seen::held_for])
                told.held_for = std::chrono::microseconds{to_number(*row[seen::held_for])};
            return told;
        }
    return {refusal::reason::undecided, names.list().front()};
}

bool is_not_due(const std::vector<fields> &rows)
{
    return std::ranges::any_of(rows, [](const auto &row) { return row[seen::not_due].has_value(); });
}

bool had_run(const std::vector<fields> &rows)
{
    return std::ranges::any_of(rows, [](const auto &row) { return row[seen::not_due] == "had run"; });
}

std::optional<std::chrono::microseconds> late_in(const std::vector<fields> &rows)
{
    const auto &one = rows.at(0)[seen::late_in];
    return one ? std::optional{std::chrono::microseconds{to_number(*one)}} : std::nullopt;
}

const fields *row_with_mark(const std::vector<fields> &rows, std::string_view mark)
{
    const auto row =
        std::ranges::find_if(rows, [&](const auto &one) { return one[seen::holder].value().starts_with(mark); });
    return row == rows.end() ? nullptr : &*row;
}

} // namespace shedlock::internal
