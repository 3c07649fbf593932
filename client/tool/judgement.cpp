#include "judgement.hpp"

#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shedlock::tool {

namespace {

double seconds(std::chrono::microseconds time)
{
    return std::chrono::duration<double>{time}.count();
}

std::string whole(double seconds)
{
    return std::to_string(std::llround(std::max(seconds, 0.0)));
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
        told +=
            (told.empty() ? "" : "; ") + (run.last_done.empty() ? "never done" : "last tick done: " + run.last_done);
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

// "failed 1, not run 2"
std::string by_state(const missed_ticks &found)
{
    std::string text;
    for (const auto &[state, number] : found.by_state)
        text += (text.empty() ? "" : ", ") + state + ' ' + std::to_string(number);
    return text;
}

// If Java clients may have done some of them, judge_run says that.
judgement judge_missed(const missed_ticks &found, std::int64_t most)
{
    const auto text = ": missed " + std::to_string(found.missed) + " of " + std::to_string(found.ticks) + " ticks";
    if (found.missed > most)
        return {health::critical, text + " (" + by_state(found) + ')'};
    return {health::ok, text};
}

// The value is one with its unit and the limit.
std::string measure(const std::string &label, const std::string &value)
{
    std::string quoted;
    for (const char letter : plain(label))
        quoted += letter == '\'' ? "''" : letter == '=' ? "\\x3D" : std::string{letter};
    return " '" + quoted + "'=" + value + ";0";
}

// Empty if there is no such value.
std::string measure(const std::string &label, std::optional<double> value, double limit)
{
    if (!value || !std::isfinite(*value) || is_in_the_future(*value))
        return "";
    return measure(label, whole(*value) + "s;;" + whole(limit));
}

} // namespace

bool is_worse(health a, health b)
{
    static const std::map<health, int> badness{
        {health::ok, 0}, {health::unknown, 1}, {health::warning, 2}, {health::critical, 3}};
    return badness.at(a) > badness.at(b);
}

std::string plain(const std::string &text)
{
    std::string safe;
    for (const char letter : printable(text))
        safe += letter == '|' ? "\\x7C" : std::string{letter};
    return safe;
}

judgement judge(const findings &known, const thresholds &limits)
{
    const auto &lock = known.lock;
    static const judgement has_no_row{health::critical, " has no row: never acquired, or forgotten"};
    std::vector<judgement> all;
    if (limits.runs.ticks)
        all.push_back(judge_run(lock, known.run));
    if (limits.max_age)
        all.push_back(lock.state.empty() ? has_no_row : judge_age(lock, seconds(*limits.max_age)));
    if (limits.max_held)
        all.push_back(lock.state.empty() ? has_no_row : judge_hold(lock, seconds(*limits.max_held)));
    if (limits.max_missed)
        all.push_back(judge_missed(known.missed, *limits.max_missed));
    auto worst =
        *std::max_element(all.begin(), all.end(), [](const auto &a, const auto &b) { return is_worse(b.is, a.is); });
    if (known.outlasts_its_schedule)
        worst.says += "; note: each of its last ten runs took longer than the time to the next tick";
    return worst;
}

std::string measures(const std::string &name, const findings &known, const thresholds &limits)
{
    const auto &lock = known.lock;
    const auto &run = known.run;
    std::string all;
    if (limits.max_age)
        all += measure(name + "_age", lock.done, seconds(*limits.max_age));
    if (limits.max_held && !lock.state.empty())
        all += measure(name + "_held", lock.held_for.value_or(0), seconds(*limits.max_held));
    if (limits.runs.ticks)
        all += measure(name + "_late", run.is_done || run.is_too_early ? 0 : run.late, seconds(limits.runs.grace));
    if (limits.max_missed)
        all +=
            measure(name + "_missed", std::to_string(known.missed.missed) + ";;" + std::to_string(*limits.max_missed));
    return all;
}

} // namespace shedlock::tool
