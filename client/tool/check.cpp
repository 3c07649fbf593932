#include "check.hpp"

#include "history_reader.hpp"
#include "literal.hpp"

namespace shedlock::tool {

namespace {

// Ages are numbers of seconds, because an interval cannot express the age of every instant that the row may contain.
//
// A Java client does not record whether its run was done. Such a run counts as done, and its tick is the time at which
// it began. The tick of a run of ours is at most a minute later than its last_done_at, so a last_done_tick that is
// later still is that of a Java run, unless the row says that it is our last run's, during which the clock stepped
// back. A Java run ended before the next acquisition, or by lock_until if there was none. last_was_java: the row is
// that of a Java run. OFFSET 0 keeps the planner from computing a value once per use.
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
                      AND (l.last_outcome OPERATOR(pg_catalog.=) 'done'
                           AND l.run_tick OPERATOR(pg_catalog.=) l.last_done_tick) IS NOT TRUE AS java_was_done_last
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

const char *word(health of)
{
    static constexpr const char *words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    return words[static_cast<int>(of)];
}

std::string headline(health of, const std::string &text)
{
    return std::string{"SHEDLOCK "} + word(of) + " - " + text;
}

// What the history knows of the jobs. By default of the last week.
void add_past(internal::session &session, const std::vector<std::string> &names, schedule runs,
              std::map<std::string, findings> &known)
{
    if (!runs.since && !runs.since_ago)
        runs.since_ago = std::chrono::hours{24 * 7};
    const auto past = read_past(session, names, runs);
    for (auto &[name, about] : known) {
        const auto &job = past.jobs.at(name);
        about.missed = count_missed(by_tick(job, past.times), past.times.now - runs.grace);
        about.outlasts_its_schedule = outlasts_its_schedule(job, past.times.ticks);
    }
}

} // namespace

diagnosis check(internal::session &session, const std::vector<std::string> &names, const thresholds &limits)
{
    const auto &runs = limits.runs;
    const auto ago = runs.since_ago ? std::optional{internal::interval_literal(*runs.since_ago)} : std::nullopt;
    std::map<std::string, findings> known;
    for (const auto &row : session
                               .ask(check_query, {internal::array_literal(names), runs.ticks, runs.zone,
                                                  internal::interval_literal(runs.grace),
                                                  internal::interval_literal(runs.looks_ahead), runs.since, ago})
                               .rows)
        known[row[0].value_or("")] = {to_lock_row(row), to_due_run(row), {}, false};
    if (limits.max_missed)
        add_past(session, names, runs, known);
    diagnosis all;
    std::string text, data;
    for (const auto &name : names) {
        const auto &about = known.at(name);
        const auto one = judge(about, limits);
        if (is_worse(one.is, all.worst))
            all.worst = one.is;
        text += (text.empty() ? "" : "; ") + plain(name) + one.says;
        data += measures(name, about, limits);
    }
    all.line = headline(all.worst, text) + (data.empty() ? "" : " |" + data);
    return all;
}

std::string unchecked(const std::string &why)
{
    return headline(health::unknown, plain(why));
}

} // namespace shedlock::tool
