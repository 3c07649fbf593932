#include "check.hpp"

#include "literal.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace shedlock::tool {

namespace {

// Ages are numbers of seconds, because an interval cannot express the age of every instant that the row may contain.
//
// A Java client does not record whether its run was done. Such a run counts as done, and its tick is the time at which
// it began. The tick of a run of ours is at most a minute later than its last_done_at, so a last_done_tick that is
// later still is that of a Java run. A Java run ended before the next acquisition, or by lock_until if there was none.
// last_was_java: the row is that of a Java run. OFFSET 0 keeps the planner from computing a value once per use.
constexpr auto check_query = R"(
    SELECT l.name, l.state, l.last_outcome,
           c.now OPERATOR(pg_catalog.-) extract(epoch FROM l.last_done_at),
           CASE WHEN l.state OPERATOR(pg_catalog.=) 'held' THEN c.now OPERATOR(pg_catalog.-) extract(epoch FROM l.locked_at) END,
           c.now OPERATOR(pg_catalog.-)
           CASE WHEN j.last_was_java THEN LEAST(extract(epoch FROM l.lock_until), c.now)
                WHEN extract(epoch FROM l.last_done_tick) OPERATOR(pg_catalog.>)
                     (COALESCE(extract(epoch FROM l.last_done_at), '-Infinity') OPERATOR(pg_catalog.+) 60)
                THEN extract(epoch FROM l.locked_at)
           END
      FROM @extschema@.shedlock_locks($1::pg_catalog.text[]) l
           CROSS JOIN (SELECT extract(epoch FROM pg_catalog.clock_timestamp()) AS now OFFSET 0) c
           CROSS JOIN LATERAL (SELECT l.ends_with_session IS NULL AND l.last_done_tick OPERATOR(pg_catalog.=) l.locked_at
                                      AS last_was_java OFFSET 0) j)";

struct lock_row {
    std::string name, state, last_outcome;
    // Seconds since it was done or may have been done, or for which it has been held. nullopt: never, or not held.
    std::optional<double> done, held_for, java_may_have_done;
};

struct judgement {
    health is;
    std::string says;
};

double seconds(std::chrono::microseconds time)
{
    return std::chrono::duration<double>{time}.count();
}

std::string whole(double seconds)
{
    return std::to_string(std::llround(std::max(seconds, 0.0)));
}

bool is_worse(health a, health b)
{
    static const std::map<health, int> badness{
        {health::ok, 0}, {health::unknown, 1}, {health::warning, 2}, {health::critical, 3}};
    return badness.at(a) > badness.at(b);
}

lock_row to_lock_row(const internal::fields &row)
{
    const auto number = [](const auto &text) { return text ? std::optional{std::stod(*text)} : std::nullopt; };
    return {row[0].value_or(""), row[1].value_or(""), row[2].value_or(""),
            number(row[3]),      number(row[4]),      number(row[5])};
}

std::string when_done(const lock_row &lock)
{
    const bool never_done = !lock.done || *lock.done == std::numeric_limits<double>::infinity();
    return never_done ? "was never done" : "was done " + ago(*lock.done);
}

judgement judge_age(const lock_row &lock, double max_age)
{
    const bool has_failed = lock.last_outcome == "failed" || lock.last_outcome == "ran out";
    if (lock.last_outcome.empty() && lock.java_may_have_done && *lock.java_may_have_done <= max_age)
        return {health::unknown, "was last run by a Java client, which does not record whether it was done"};
    const bool is_paused = lock.state == "paused";
    const auto when = (is_paused ? "is paused, and " : "") + when_done(lock) +
                      (has_failed ? ", and the last run " + lock.last_outcome : "");
    if (!lock.done || *lock.done > max_age)
        return {health::critical, when};
    if (is_paused || has_failed)
        return {health::warning, when};
    return {is_in_the_future(*lock.done) ? health::unknown : health::ok, when};
}

judgement judge_hold(const lock_row &lock, double max_held)
{
    if (lock.state == "paused")
        return {health::warning, "is paused"};
    if (!lock.held_for)
        return {health::ok, "is not held"};
    if (!std::isfinite(*lock.held_for) || is_in_the_future(*lock.held_for))
        return {health::unknown, "is held, but it is not known since when"};
    return {*lock.held_for > max_held ? health::critical : health::ok,
            "has been held for " + duration(std::max(*lock.held_for, 0.0))};
}

judgement judge(const lock_row *lock, const thresholds &limits)
{
    if (!lock)
        return {health::critical, "has no row: never acquired, or forgotten"};
    std::optional<judgement> by_age, by_hold;
    if (limits.max_age)
        by_age = judge_age(*lock, seconds(*limits.max_age));
    if (limits.max_held)
        by_hold = judge_hold(*lock, seconds(*limits.max_held));
    if (!by_age || !by_hold)
        return by_age ? *by_age : *by_hold;
    return is_worse(by_hold->is, by_age->is) ? *by_hold : *by_age;
}

// Neither the text nor a label may contain the characters that separate them.
std::string plain(const std::string &text)
{
    std::string safe;
    for (const char letter : printable(text))
        safe += letter == '|' ? "\\x7C" : letter == '=' ? "\\x3D" : std::string{letter};
    return safe;
}

// Empty if there is no such value.
std::string measure(const std::string &label, std::optional<double> value, double limit)
{
    if (!value || !std::isfinite(*value) || is_in_the_future(*value))
        return "";
    std::string quoted;
    for (const char letter : plain(label))
        quoted += letter == '\'' ? "''" : std::string{letter};
    return " '" + quoted + "'=" + whole(*value) + "s;;" + whole(limit) + ";0";
}

std::string measures(const lock_row &lock, const thresholds &limits)
{
    std::string all;
    if (limits.max_age)
        all += measure(lock.name + "_age", lock.done, seconds(*limits.max_age));
    if (limits.max_held)
        all += measure(lock.name + "_held", lock.held_for.value_or(0), seconds(*limits.max_held));
    return all;
}

const char *word(health of)
{
    static constexpr const char *words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    return words[static_cast<int>(of)];
}

std::string headline(health of, const std::string &text)
{
    return std::string{"SHEDLOCK "} + word(of) + " - " + text;
}

} // namespace

diagnosis check(internal::session &session, const std::vector<std::string> &names, const thresholds &limits)
{
    std::map<std::string, lock_row> seen;
    for (const auto &row : session.ask(check_query, {internal::array_literal(names)}).rows)
        seen.emplace(row[0].value_or(""), to_lock_row(row));
    diagnosis all;
    std::string text, data;
    for (const auto &name : names) {
        const auto found = seen.find(name);
        const auto *const lock = found == seen.end() ? nullptr : &found->second;
        const auto one = judge(lock, limits);
        if (is_worse(one.is, all.worst))
            all.worst = one.is;
        text += (text.empty() ? "" : "; ") + plain(name) + ' ' + one.says;
        if (lock)
            data += measures(*lock, limits);
    }
    all.line = headline(all.worst, text) + (data.empty() ? "" : " |" + data);
    return all;
}

std::string unchecked(const std::string &why)
{
    return headline(health::unknown, plain(why));
}

} // namespace shedlock::tool
