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
//
// overdue is the latest tick that is older than the grace. The run of a later one still has time. So the tick to report
// is overdue unless its run is done, and then the latest tick of all. The texts are in the schedule's zone, and so is a
// `since` without an offset: TimeZone is set, for this statement only, before they are read and written.
constexpr auto check_query = R"(
    WITH c AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS now),
    s AS MATERIALIZED (
        SELECT CASE WHEN $2::pg_catalog.text IS NOT NULL THEN @extschema@.shedlock_tick($2::pg_catalog.text,
                    $3::pg_catalog.text, c.now OPERATOR(pg_catalog.-) $5::pg_catalog.interval) END AS latest,
               CASE WHEN $2::pg_catalog.text IS NOT NULL THEN @extschema@.shedlock_tick($2::pg_catalog.text,
                    $3::pg_catalog.text, c.now OPERATOR(pg_catalog.-) $4::pg_catalog.interval
                                         OPERATOR(pg_catalog.-) $5::pg_catalog.interval) END AS overdue
          FROM c),
    z AS MATERIALIZED (
        SELECT CASE WHEN s.latest IS NOT NULL THEN pg_catalog.set_config('TimeZone', $3::pg_catalog.text, true) END
               AS zone
          FROM s),
    f AS MATERIALIZED (
        SELECT COALESCE(CASE WHEN z.zone IS NOT NULL
                             THEN COALESCE(c.now OPERATOR(pg_catalog.-) $7::pg_catalog.interval,
                                           $6::pg_catalog.text::pg_catalog.timestamptz) END, '-infinity') AS since
          FROM c CROSS JOIN z)
    SELECT n.name, l.state, l.last_outcome,
           a.now OPERATOR(pg_catalog.-) extract(epoch FROM l.last_done_at),
           CASE WHEN l.state OPERATOR(pg_catalog.=) 'held'
                THEN a.now OPERATOR(pg_catalog.-) extract(epoch FROM l.locked_at) END,
           a.now OPERATOR(pg_catalog.-)
           CASE WHEN j.last_was_java THEN LEAST(extract(epoch FROM l.lock_until), a.now)
                WHEN j.java_was_done_last THEN extract(epoch FROM l.locked_at)
           END,
           l.holder,
           a.now OPERATOR(pg_catalog.-) extract(epoch FROM l.locked_at),
           CASE WHEN l.state OPERATOR(pg_catalog.=) 'free'
                THEN a.now OPERATOR(pg_catalog.-) extract(epoch FROM l.lock_until) END,
           j.last_was_java,
           t.tick OPERATOR(pg_catalog.<) f.since,
           l.last_done_tick OPERATOR(pg_catalog.>=) t.tick,
           t.is_overdue,
           t.is_overdue AND l.state OPERATOR(pg_catalog.=) 'held' AND l.run_tick OPERATOR(pg_catalog.=) t.tick,
           (j.last_was_java OR j.java_was_done_last) AND l.last_done_tick OPERATOR(pg_catalog.>=)
               (CASE WHEN s.overdue OPERATOR(pg_catalog.>=) f.since THEN s.overdue ELSE s.latest END
                OPERATOR(pg_catalog.-) $5::pg_catalog.interval),
           a.now OPERATOR(pg_catalog.-) extract(epoch FROM l.last_done_tick),
           a.now OPERATOR(pg_catalog.-) extract(epoch FROM t.tick),
           pg_catalog.to_char(t.tick, 'Dy YYYY-MM-DD ' OPERATOR(pg_catalog.||) w.clock OPERATOR(pg_catalog.||) ' TZ'),
           pg_catalog.to_char(d.deadline,
               CASE WHEN d.deadline::pg_catalog.date OPERATOR(pg_catalog.=) t.tick::pg_catalog.date THEN ''
                    ELSE 'Dy YYYY-MM-DD ' END OPERATOR(pg_catalog.||) w.clock),
           CASE WHEN pg_catalog.isfinite(l.last_done_tick)
                THEN pg_catalog.to_char(l.last_done_tick,
                    CASE WHEN l.last_done_tick OPERATOR(pg_catalog.>)
                              (t.tick OPERATOR(pg_catalog.-) '144:00:00'::pg_catalog.interval) THEN 'Dy '
                         ELSE 'Dy YYYY-MM-DD ' END OPERATOR(pg_catalog.||) w.clock)
           END,
           pg_catalog.date_trunc('second', f.since)::pg_catalog.text
      FROM c CROSS JOIN s CROSS JOIN f
           CROSS JOIN LATERAL (SELECT extract(epoch FROM c.now) AS now OFFSET 0) a
           CROSS JOIN pg_catalog.unnest($1::pg_catalog.text[]) n (name)
           LEFT JOIN @extschema@.shedlock_locks($1::pg_catalog.text[]) l
                  ON l.name COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) n.name COLLATE pg_catalog."C"
           CROSS JOIN LATERAL (
               SELECT l.ends_with_session IS NULL AND l.last_done_tick OPERATOR(pg_catalog.=) l.locked_at
                      AS last_was_java,
                      extract(epoch FROM l.last_done_tick) OPERATOR(pg_catalog.>)
                      (COALESCE(extract(epoch FROM l.last_done_at), '-Infinity') OPERATOR(pg_catalog.+) 60)
                      AS java_was_done_last
               OFFSET 0) j
           CROSS JOIN LATERAL (
               SELECT o.is_overdue, CASE WHEN o.is_overdue THEN s.overdue ELSE s.latest END AS tick
                 FROM (SELECT s.overdue OPERATOR(pg_catalog.>=) f.since
                              AND (l.last_done_tick OPERATOR(pg_catalog.>=) s.overdue) IS NOT TRUE AS is_overdue) o
               OFFSET 0) t
           CROSS JOIN LATERAL (SELECT t.tick OPERATOR(pg_catalog.+) $4::pg_catalog.interval AS deadline OFFSET 0) d
           CROSS JOIN LATERAL (
               SELECT CASE WHEN extract(second FROM t.tick) OPERATOR(pg_catalog.=) 0
                                AND extract(second FROM d.deadline) OPERATOR(pg_catalog.=) 0
                           THEN 'HH24:MI' ELSE 'HH24:MI:SS' END AS clock
               OFFSET 0) w)";

// Times are in seconds before now.
struct lock_row {
    std::string state, last_outcome; // no state: there is no such row
    // Since it was done or may have been done, or for which it has been held. nullopt: never, or not held.
    std::optional<double> done, held_for, java_may_have_done;
    std::string holder;
    std::optional<double> begun, ended; // the last acquisition; its end is known only if the lock is free
    bool last_was_java = false;
};

// The tick of a job that is to be reported: the latest, or an earlier one whose run should be done by now.
struct due_run {
    bool is_too_early = false; // before `since`
    bool is_done = false;
    bool is_overdue = false; // not done, and older than the grace
    bool is_under_way = false;
    bool java_may_have_done = false;
    std::optional<double> last_done_tick; // seconds ago
    double late = 0;                      // seconds since the tick
    std::string tick, deadline, last_done, since;
};

struct judgement {
    health is;
    std::string says; // what follows the name: " was done ...", or ": the run of ..."
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

std::optional<double> number(const std::optional<std::string> &text)
{
    return text ? std::optional{std::stod(*text)} : std::nullopt;
}

lock_row to_lock_row(const internal::fields &row)
{
    return {row[1].value_or(""), row[2].value_or(""), number(row[3]), number(row[4]), number(row[5]),
            row[6].value_or(""), number(row[7]),      number(row[8]), row[9] == "t"};
}

due_run to_due_run(const internal::fields &row)
{
    return {row[10] == "t",
            row[11] == "t",
            row[12] == "t",
            row[13] == "t",
            row[14] == "t",
            number(row[15]),
            number(row[16]).value_or(0),
            row[17].value_or(""),
            row[18].value_or(""),
            row[19].value_or(""),
            row[20].value_or("")};
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
        return {health::unknown, " was last run by a Java client, which does not record whether it was done"};
    const bool is_paused = lock.state == "paused";
    const auto when = std::string{is_paused ? " is paused, and " : " "} + when_done(lock) +
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
        return {health::warning, " is paused"};
    if (!lock.held_for)
        return {health::ok, " is not held"};
    if (!std::isfinite(*lock.held_for) || is_in_the_future(*lock.held_for))
        return {health::unknown, " is held, but it is not known since when"};
    return {*lock.held_for > max_held ? health::critical : health::ok,
            " has been held for " + duration(std::max(*lock.held_for, 0.0))};
}

// Neither the text nor a label may contain the characters that separate them.
std::string plain(const std::string &text)
{
    std::string safe;
    for (const char letter : printable(text))
        safe += letter == '|' ? "\\x7C" : letter == '=' ? "\\x3D" : std::string{letter};
    return safe;
}

// What happened last, as far as the row shows it. An administrator's text says what was done, and by whom.
std::string last_event(const lock_row &lock)
{
    const auto holder = plain(lock.holder);
    const auto begun = lock.begun ? ago(*lock.begun) : "";
    if (lock.state.empty())
        return "there is no row: never acquired, or forgotten";
    if (lock.state == "held")
        return "held" + (lock.held_for ? " for " + duration(std::max(*lock.held_for, 0.0)) : "") + " on " + holder;
    if (lock.last_outcome == "failed" || lock.last_outcome == "ran out")
        return lock.last_outcome + ' ' + (lock.ended ? ago(*lock.ended) : "after it began " + begun) + " on " + holder;
    if (lock.state == "paused" || (lock.last_outcome.empty() && !lock.last_was_java))
        return holder + ", " + begun;
    return "";
}

std::string history(const lock_row &lock, const due_run &run)
{
    auto told = last_event(lock);
    if (!lock.state.empty())
        told += (told.empty() ? "" : "; ") + (run.last_done.empty() ? "never done" : "last done " + run.last_done);
    return " (" + told + ')';
}

judgement judge_run(const lock_row &lock, const due_run &run)
{
    const auto tick = ": the run of " + run.tick;
    if (run.is_too_early)
        return {health::ok, ": no run has been due since " + run.since};
    if (run.last_done_tick && is_in_the_future(*run.last_done_tick))
        return {health::unknown, tick + " may not be done, because the last one that was done is in the future"};
    if (run.java_may_have_done)
        return {health::unknown, tick + " was last run by a Java client, which does not record whether it was done"};
    if (run.is_done)
        return {health::ok, tick + " is done"};
    if (!run.is_overdue)
        return {health::ok, tick + " has until " + run.deadline + history(lock, run)};
    if (run.is_under_way)
        return {health::warning, tick + " is still under way" + history(lock, run)};
    return {health::critical, tick + " is not done" + history(lock, run)};
}

// The worst; of equally bad ones the first.
judgement judge(const lock_row &lock, const due_run &run, const thresholds &limits)
{
    static const judgement has_no_row{health::critical, " has no row: never acquired, or forgotten"};
    std::vector<judgement> all;
    if (limits.runs.ticks)
        all.push_back(judge_run(lock, run));
    if (limits.max_age)
        all.push_back(lock.state.empty() ? has_no_row : judge_age(lock, seconds(*limits.max_age)));
    if (limits.max_held)
        all.push_back(lock.state.empty() ? has_no_row : judge_hold(lock, seconds(*limits.max_held)));
    return *std::max_element(all.begin(), all.end(), [](const auto &a, const auto &b) { return is_worse(b.is, a.is); });
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

std::string measures(const std::string &name, const lock_row &lock, const due_run &run, const thresholds &limits)
{
    std::string all;
    if (limits.max_age)
        all += measure(name + "_age", lock.done, seconds(*limits.max_age));
    if (limits.max_held && !lock.state.empty())
        all += measure(name + "_held", lock.held_for.value_or(0), seconds(*limits.max_held));
    if (limits.runs.ticks)
        all += measure(name + "_late", run.is_done || run.is_too_early ? 0 : run.late, seconds(limits.runs.grace));
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
    const auto &runs = limits.runs;
    const auto ago = runs.since_ago ? std::optional{internal::interval_literal(*runs.since_ago)} : std::nullopt;
    const auto rows = session
                          .ask(check_query, {internal::array_literal(names), runs.ticks, runs.zone,
                                             internal::interval_literal(runs.grace),
                                             internal::interval_literal(runs.looks_ahead), runs.since, ago})
                          .rows;
    std::map<std::string, const internal::fields *> found;
    for (const auto &row : rows)
        found.emplace(row[0].value_or(""), &row);
    diagnosis all;
    std::string text, data;
    for (const auto &name : names) {
        const auto &row = *found.at(name);
        const auto lock = to_lock_row(row);
        const auto run = to_due_run(row);
        const auto one = judge(lock, run, limits);
        if (is_worse(one.is, all.worst))
            all.worst = one.is;
        text += (text.empty() ? "" : "; ") + plain(name) + one.says;
        data += measures(name, lock, run, limits);
    }
    all.line = headline(all.worst, text) + (data.empty() ? "" : " |" + data);
    return all;
}

std::string unchecked(const std::string &why)
{
    return headline(health::unknown, plain(why));
}

} // namespace shedlock::tool
