#include "rules.hpp"

namespace {

std::string state_of(row const &known, moment now)
{
    bool const is_dead = is_of_dead_run(known) == verdict::yes;
    auto const until = is_dead ? std::min(known.lock_until, *known.lock_at_least_until) : known.lock_until;
    if (until <= now)
        return "free";
    if (until == infinity)
        return "paused";
    return !ending_of(known).suffix.empty() && (is_released(known) || is_dead) ? "kept" : "held";
}

std::string outcome_of(row const &known, std::string const &state)
{
    auto const &by = known.locked_by;
    if (ending_of(known).suffix.empty() || state == "held" || state == "paused" || by.starts_with("paused: ") ||
        by.starts_with("released by force: "))
        return "";
    return !known.lock_at_least_until ? "done" : is_released(known) ? "failed" : "ran out";
}

std::string holder_of(row const &known)
{
    return known.locked_by.substr(0, known.locked_by.size() - ending_of(known).length);
}

// None where it would be beyond bigint.
std::string shown_token_of(row const &known)
{
    bool const has_one = known.locked_at != minus_infinity && !is_forever(known.locked_at);
    return has_one ? std::to_string(token_of(known.locked_at)) : "";
}

} // namespace

std::string judge_view(session &any, rows const &known)
{
    static std::string const clock = "SELECT ((extract(epoch FROM clock_timestamp()) - 946684800) * 1000000)::bigint";
    auto const before = std::stoll(any.query(clock)[0][0]);
    auto const lines = any.query("SELECT name, state, holder, token, locked_at, lock_until, remaining, held_for, "
                                 "holder_pid, holder_alive, last_duration, last_outcome FROM shedlock_locks");
    auto const after = std::stoll(any.query(clock)[0][0]);
    any.query("SELECT count(*), string_agg(finding, hint) FROM shedlock_doctor()");
    any.query("SELECT * FROM shedlock_stats");
    if (lines.size() != known.size())
        return "the view has " + std::to_string(lines.size()) + " rows of " + std::to_string(known.size());
    for (auto const &line : lines) {
        auto const found = known.find(line[0]);
        if (found == known.end())
            return "the view knows \"" + printable(line[0]) + "\"";
        if (is_of_dead_run(found->second) == verdict::either)
            continue;
        if (line[11] != outcome_of(found->second, line[1]))
            return "the view says that \"" + printable(line[0]) + "\" was last " + line[11];
        if (line[1] != state_of(found->second, before) && line[1] != state_of(found->second, after))
            return "the view says that \"" + printable(line[0]) + "\" is " + line[1];
        if (line[2] != holder_of(found->second))
            return "the view says that \"" + printable(line[2]) + "\" holds \"" + printable(line[0]) + "\"";
        if (line[3] != shown_token_of(found->second))
            return "the view says that the token of \"" + printable(line[0]) + "\" is " + line[3];
    }
    return {};
}
