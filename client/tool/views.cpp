#include "views.hpp"

#include "literal.hpp"
#include "table.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

namespace shedlock::tool {

namespace {

constexpr auto locks_query = R"(
    SELECT name, state, holder, token::pg_catalog.text,
           pg_catalog.to_char(pg_catalog.timezone(u.utc, locked_at), u.instant),
           COALESCE(pg_catalog.to_char(pg_catalog.timezone(u.utc, lock_until), u.instant),
                    pg_catalog.timezone(u.utc, lock_until)::pg_catalog.text),
           extract(epoch FROM remaining), extract(epoch FROM held_for), extract(epoch FROM last_duration),
           holder_pid, holder_alive, extract(epoch FROM locked_at), last_outcome,
           CASE WHEN pg_catalog.isfinite(last_done_at)
                THEN extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) last_done_at) END,
           pg_catalog.to_char(pg_catalog.timezone(u.utc, last_done_at), u.instant),
           pg_catalog.to_char(pg_catalog.timezone(u.utc, last_tick), u.instant),
           pg_catalog.to_char(pg_catalog.timezone(u.utc, last_done_tick), u.instant),
           extract(epoch FROM last_done_at), extract(epoch FROM last_tick)
      FROM @extschema@.shedlock_locks($1::pg_catalog.text[])
           -- by its name, PostgreSQL 18 would look UTC up in the session's TimeZone first
           CROSS JOIN (SELECT '0'::pg_catalog.interval AS utc, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' AS instant) u
     ORDER BY name COLLATE pg_catalog."C")";
enum column {
    name,
    state,
    holder,
    token,
    locked_at,
    lock_until,
    remaining,
    held_for,
    last_duration,
    holder_pid,
    holder_alive,
    acquired,
    last_outcome,
    since_done,
    last_done_at,
    last_tick,
    last_done_tick,
    done,
    tick
};

constexpr auto stats_query = R"(
    SELECT name, attempts, acquired, refused, released, failed, extended, expired, lost, extract(epoch FROM wait_time),
           extract(epoch FROM total_hold), extract(epoch FROM longest_hold)
      FROM @extschema@.shedlock_stats)";

using field = std::optional<std::string>;

std::string text(const field &given)
{
    return given.value_or("");
}

// Of all locks, if no names are given.
std::vector<internal::fields> locks(internal::session &session, const std::vector<std::string> &names = {})
{
    return session.ask(locks_query, {names.empty() ? std::nullopt : std::optional{internal::array_literal(names)}})
        .rows;
}

// The first rows in the order of their names. The last column of each is the number of all rows.
std::vector<internal::fields> first_rows(internal::session &session, const char *query, const internal::fields &values,
                                         std::int64_t most, const char *what)
{
    auto rows = session
                    .ask("SELECT q.*, pg_catalog.count(*) OVER () FROM (" + std::string{query} +
                             ") q ORDER BY name COLLATE pg_catalog.\"C\" LIMIT " + std::to_string(most),
                         values)
                    .rows;
    if (!rows.empty() && *rows.front().back() != std::to_string(rows.size()))
        say("there are " + *rows.front().back() + ' ' + what + "; the first " + std::to_string(rows.size()) +
            " are printed (--max-names)");
    return rows;
}

std::vector<std::string> missing(std::vector<std::string> names, const std::vector<internal::fields> &rows)
{
    for (const auto &row : rows)
        std::erase(names, text(row[name]));
    return names;
}

std::string time_taken(const field &seconds)
{
    return seconds ? duration(std::stod(*seconds)) : "-";
}

const char *colour(const columns &line)
{
    const auto &state = line[1];
    if (state == "held")
        return "\033[32m";
    if (state == "kept")
        return "\033[36m";
    return state == "paused" ? "\033[33m" : "\033[2m";
}

std::vector<columns> table(const std::vector<internal::fields> &rows)
{
    std::vector<columns> lines{{"NAME", "STATE", "HOLDER", "SINCE", "REMAINING", "LAST RUN", "OUTCOME", "LAST DONE"}};
    for (const auto &row : rows) {
        const auto current = text(row[state]);
        const bool is_free = current == "free";
        lines.push_back({cut(printable(text(row[name]))), current, is_free ? "-" : cut(printable(text(row[holder]))),
                         time_taken(row[held_for]), current == "paused" ? "until resumed" : time_taken(row[remaining]),
                         time_taken(row[last_duration]), row[last_outcome].value_or("-"),
                         row[since_done] ? ago(std::stod(*row[since_done])) : "-"});
    }
    return lines;
}

// A label's value as Prometheus reads it. It knows no escape for control characters, so those are spelt out; no two
// names become the same label.
std::string label(const field &value)
{
    std::string quoted = "\"";
    for (const char letter : printable_uniquely(text(value))) {
        if (letter == '\\' || letter == '"')
            quoted += '\\';
        if (letter == '\n')
            quoted += "\\n";
        else
            quoted += letter;
    }
    return quoted + '"';
}

struct metric {
    const char *name;
    const char *type;
    const char *help;
    field (*value)(const internal::fields &); // nullopt: no sample
};

// nullopt for an infinite instant, because an alert on the time since then would never fire, or always.
template <int Column> field number_if_any(const internal::fields &row)
{
    const auto &value = row[Column];
    return value == "Infinity" || value == "-Infinity" ? std::nullopt : value;
}

template <int Column> field number(const internal::fields &row)
{
    return number_if_any<Column>(row).value_or("0");
}

template <auto &State> field is_in_state(const internal::fields &row)
{
    return text(row[state]) == State ? "1" : "0";
}

std::string head(const metric &one)
{
    return std::string{"# HELP "} + one.name + ' ' + one.help + "\n# TYPE " + one.name + ' ' + one.type + '\n';
}

void print(const std::vector<internal::fields> &rows, const metric &one, std::ostream &out)
{
    out << head(one);
    for (const auto &row : rows)
        if (const auto value = one.value(row))
            out << one.name << "{name=" << label(row[0]) << "} " << *value << '\n';
}

// A sample for each outcome, 1 or 0, so that a query sees when an outcome no longer applies. No sample while the
// outcome is not known.
void print_outcomes(const std::vector<internal::fields> &rows, std::ostream &out)
{
    constexpr metric one = {"shedlock_lock_last_outcome", "gauge", "1 if the last run ended in this way, 0 if not.",
                            nullptr};
    out << head(one);
    for (const auto &row : rows)
        for (const auto *const each : {"done", "failed", "ran out"})
            if (row[last_outcome])
                out << one.name << "{name=" << label(row[name]) << ",outcome=\"" << each << "\"} "
                    << (row[last_outcome] == each) << '\n';
}

constexpr char held_state[] = "held", paused_state[] = "paused";

constexpr metric of_locks[] = {
    {"shedlock_lock_held", "gauge", "1 while it is held.", is_in_state<held_state>},
    {"shedlock_lock_paused", "gauge", "1 while it is paused.", is_in_state<paused_state>},
    {"shedlock_lock_held_seconds", "gauge", "How long the holder has had it.", number<held_for>},
    {"shedlock_lock_remaining_seconds", "gauge", "How long the lease still runs.", number<remaining>},
    {"shedlock_lock_last_duration_seconds", "gauge", "How long the last holder had it.", number<last_duration>},
    {"shedlock_lock_acquired_timestamp_seconds", "gauge",
     "When it was last acquired, paused or released by force, as Unix time.", number<acquired>},
    {"shedlock_lock_last_done_timestamp_seconds", "gauge",
     "When a run was last released as done, as Unix time. Java clients do not report it.", number_if_any<done>},
    {"shedlock_lock_last_tick_timestamp_seconds", "gauge", "The tick of the last run that had one, as Unix time.",
     number_if_any<tick>},
};

constexpr metric of_stats[] = {
    {"shedlock_attempts_total", "counter", "Calls of acquire.", number<1>},
    {"shedlock_acquired_total", "counter", "Calls that got the lock.", number<2>},
    {"shedlock_refused_total", "counter", "Calls that were refused.", number<3>},
    {"shedlock_released_total", "counter", "Releases.", number<4>},
    {"shedlock_failed_total", "counter", "Releases of work that was not done.", number<5>},
    {"shedlock_extended_total", "counter", "Extends.", number<6>},
    {"shedlock_expired_total", "counter",
     "Leases that another caller found to have run out, because the holder died or overran.", number<7>},
    {"shedlock_lost_total", "counter",
     "Releases, extends, guards and completions that came too late, or from a session that did not hold the lock.",
     number<8>},
    {"shedlock_wait_seconds_total", "counter", "Time spent in acquires with a wait.", number<9>},
    {"shedlock_hold_seconds_total", "counter", "Time from acquire to release.", number<10>},
    {"shedlock_longest_hold_seconds", "gauge", "The longest time from acquire to release.", number<11>},
};

} // namespace

std::vector<std::string> list_as_table(internal::session &session, const std::vector<std::string> &names,
                                       std::ostream &out, bool with_colours)
{
    const auto rows = locks(session, names);
    print_table(table(rows), with_colours ? colour : nullptr, out);
    return missing(names, rows);
}

std::vector<std::string> list_as_json(internal::session &session, const std::vector<std::string> &names,
                                      std::ostream &out)
{
    using json = nlohmann::ordered_json;
    const auto number_or_null = [](const field &value) { return value ? json(std::stod(*value)) : json{}; };
    const auto text_or_null = [](const field &value) { return value ? json(*value) : json{}; };
    auto list = json::array();
    const auto rows = locks(session, names);
    for (const auto &row : rows)
        list.push_back({{"name", text(row[name])},
                        {"state", text(row[state])},
                        {"holder", text(row[holder])},
                        {"token", row[token] ? json(std::stoll(*row[token])) : json{}},
                        {"locked_at", text_or_null(row[locked_at])},
                        {"lock_until", text_or_null(row[lock_until])},
                        {"remaining_seconds", number_or_null(row[remaining])},
                        {"held_for_seconds", number_or_null(row[held_for])},
                        {"last_duration_seconds", number_or_null(row[last_duration])},
                        {"last_outcome", text_or_null(row[last_outcome])},
                        {"last_done_at", text_or_null(row[last_done_at])},
                        {"last_tick", text_or_null(row[last_tick])},
                        {"last_done_tick", text_or_null(row[last_done_tick])},
                        {"holder_pid", row[holder_pid] ? json(std::stoi(*row[holder_pid])) : json{}},
                        {"holder_alive", row[holder_alive] ? json(row[holder_alive] == "t") : json{}}});
    // A SQL_ASCII database may have names that are not valid UTF-8, which JSON cannot express.
    out << escaped_in_json(list.dump(2, ' ', false, json::error_handler_t::replace)) << '\n';
    return missing(names, rows);
}

void metrics(internal::session &session, std::int64_t max_names, std::ostream &out)
{
    const auto rows = first_rows(session, locks_query, {std::nullopt}, max_names, "locks");
    out << head({"shedlock_table_locks", "gauge", "How many locks there are.", nullptr}) << "shedlock_table_locks "
        << (rows.empty() ? "0" : *rows.front().back()) << '\n';
    for (const auto &one : of_locks)
        print(rows, one, out);
    print_outcomes(rows, out);
    try {
        const auto counters = first_rows(session, stats_query, {}, max_names, "names with counters");
        for (const auto &one : of_stats)
            print(counters, one, out);
    } catch (const error &failure) {
        // 55000: no shared memory (up to PostgreSQL 16 it needs shared_preload_libraries); 0A000: the portable edition
        if (failure.sqlstate() != "55000" && failure.sqlstate() != "0A000")
            throw;
        out << "# No counters: " << failure.what() << '\n';
    }
}

bool doctor(internal::session &session, std::ostream &out)
{
    bool is_ill = false;
    for (const auto &row : session.ask("SELECT severity, finding, hint FROM @extschema@.shedlock_doctor()", {}).rows) {
        is_ill = is_ill || text(row[0]) != "notice";
        out << text(row[0]) << ": " << printable(text(row[1])) << "\n    " << printable(text(row[2])) << '\n';
    }
    return is_ill;
}

} // namespace shedlock::tool
