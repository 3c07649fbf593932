#include "oracle.hpp"

namespace {

std::size_t trailing(std::string_view text, std::string_view characters)
{
    auto const last_other = text.find_last_not_of(characters);
    return last_other == std::string_view::npos ? text.size() : text.size() - last_other - 1;
}

constexpr std::string_view digits = "0123456789";

// #digits, or /digits.digits with as many as a process id and a time may have.
bool is_ours(std::string_view locked_by)
{
    auto const last = trailing(locked_by, digits);
    locked_by.remove_suffix(last);
    if (last == 0 || locked_by.empty())
        return false;
    if (locked_by.back() == '#')
        return true;
    if (locked_by.back() != '.' || last > 18)
        return false;
    locked_by.remove_suffix(1);
    auto const first = trailing(locked_by, digits);
    locked_by.remove_suffix(first);
    return first >= 1 && first <= 9 && !locked_by.empty() && locked_by.back() == '/';
}

std::string_view holder_of(std::string_view locked_by)
{
    auto const end = trailing(locked_by, "0123456789.");
    auto const rest = locked_by.substr(0, locked_by.size() - end);
    return end > 0 && !rest.empty() && (rest.back() == '#' || rest.back() == '/') ? rest.substr(0, rest.size() - 1)
                                                                                  : locked_by;
}

std::string state_of(row const &known, moment now)
{
    if (known.lock_until <= now)
        return "free";
    if (known.lock_until == infinity)
        return "paused";
    return is_ours(known.locked_by) && !known.lock_at_least_until ? "kept" : "held";
}

// None where it would be beyond bigint.
std::string token_of(row const &known)
{
    bool const has_one = known.locked_at != minus_infinity && known.locked_at < infinity - epoch_difference;
    return has_one ? std::to_string(known.locked_at + epoch_difference) : "";
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
        if (line[2] != holder_of(found->second.locked_by))
            return "the view says that \"" + printable(line[2]) + "\" holds \"" + printable(line[0]) + "\"";
        if (line[3] != token_of(found->second))
            return "the view says that the token of \"" + printable(line[0]) + "\" is " + line[3];
    }
    return {};
}
