#include "rules.hpp"

namespace {

std::string state_of(row const &known, moment now)
{
    if (known.lock_until <= now)
        return "free";
    if (known.lock_until == infinity)
        return "paused";
    return !suffix_in(known).empty() && !known.lock_at_least_until ? "kept" : "held";
}

std::string holder_of(row const &known)
{
    return known.locked_by.substr(0, known.locked_by.size() - suffix_in(known).size());
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
                                 "holder_pid, holder_alive, last_duration FROM shedlock_locks");
    auto const after = std::stoll(any.query(clock)[0][0]);
    any.query("SELECT count(*), string_agg(finding, hint) FROM shedlock_doctor()");
    any.query("SELECT * FROM shedlock_stats");
    if (lines.size() != known.size())
        return "the view has " + std::to_string(lines.size()) + " rows of " + std::to_string(known.size());
    for (auto const &line : lines) {
        auto const found = known.find(line[0]);
        if (found == known.end())
            return "the view knows \"" + printable(line[0]) + "\"";
        if (line[1] != state_of(found->second, before) && line[1] != state_of(found->second, after))
            return "the view says that \"" + printable(line[0]) + "\" is " + line[1];
        if (line[2] != holder_of(found->second))
            return "the view says that \"" + printable(line[2]) + "\" holds \"" + printable(line[0]) + "\"";
        if (line[3] != shown_token_of(found->second))
            return "the view says that the token of \"" + printable(line[0]) + "\" is " + line[3];
    }
    return {};
}
