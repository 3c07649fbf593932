#include "view.hpp"

#include <algorithm>
#include <regex>

namespace {

// Tokens count from 1970, so the last thirty years of the range of timestamp are treated like infinity.
bool is_forever(moment t)
{
    return t > infinity - epoch_difference;
}

// The end of locked_by if the row is one of ours: its session, if any, its kind's mark, and the row's own locked_at.
struct ending {
    char mark = 0; // 0: of a Java client
    std::string session{};
    std::size_t length = 0;

    [[nodiscard]] bool is_ours() const { return mark != 0; }
    [[nodiscard]] bool is_of_run() const { return is_ours() && mark != '*'; }
    [[nodiscard]] bool ends_with_session() const { return mark == '!' || mark == '&'; }
};

ending ending_of(const row &r)
{
    static const std::regex end{"(?:(/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8})([:!&])|([#*]))(-?[0-9]+)$"};
    std::smatch found;
    if (r.locked_at == minus_infinity || is_forever(r.locked_at) || !std::regex_search(r.locked_by, found, end) ||
        found[4].str() != std::to_string(r.locked_at + epoch_difference))
        return {};
    return {(found[2].matched ? found[2] : found[3]).str()[0], found[1].str(),
            static_cast<std::size_t>(found[0].length())};
}

bool is_released(const row &r)
{
    return r.lock_at_least_until.value_or(minus_infinity) == minus_infinity;
}

// Whether the session, written as in locked_by, is gone, as the view says it: empty if it is one of another server.
// Leading zeros make no difference. One whose start is unknown counts as alive while a session has its process id.
std::string alive_text(const std::string &session)
{
    static const std::regex leading_zeros{"([/.])0+([0-9])"};
    const auto &all = session::sessions();
    const auto server_of = [](const std::string &mark) { return mark.substr(mark.size() - 8); };
    if (session.empty() || server_of(session) != server_of(all.begin()->first))
        return "";
    const auto dot = session.size() - 9;
    const auto asked = std::regex_replace(session.substr(0, dot), leading_zeros, "$1$2");
    return std::any_of(all.begin(), all.end(),
                       [&](const auto &one) {
                           const auto &[mark, is_open] = one;
                           const auto pid_and_start = mark.substr(0, mark.size() - 9);
                           const auto pid = [](const std::string &of) { return of.substr(0, of.find('.')); };
                           return is_open &&
                                  (session[dot] == '.' ? pid_and_start == asked : pid(pid_and_start) == pid(asked));
                       })
               ? "t"
               : "f";
}

bool has_lost_its_session(const row &r)
{
    const auto end = ending_of(r);
    return end.ends_with_session() && !is_released(r) && alive_text(end.session) == "f";
}

std::string state_of(const row &r, moment now)
{
    const bool is_dead = has_lost_its_session(r);
    const auto until = is_dead ? std::min(r.lock_until, *r.lock_at_least_until) : r.lock_until;
    if (until <= now)
        return "free";
    if (until == infinity)
        return "paused";
    return ending_of(r).is_ours() && (is_released(r) || is_dead) ? "kept" : "held";
}

std::string outcome_of(const row &r, const std::string &state)
{
    if (!ending_of(r).is_of_run() || state == "held" || state == "paused")
        return "";
    return !r.lock_at_least_until ? "done" : is_released(r) ? "failed" : "ran out";
}

// A Java run counts as done, for every tick up to its acquisition.
std::optional<moment> last_done_tick_of(const row &r)
{
    const bool is_java = !ending_of(r).is_ours() && r.locked_at != minus_infinity && !is_forever(r.locked_at);
    return is_java ? std::max(r.last_done_tick, std::optional{r.locked_at}) : r.last_done_tick;
}

// Whether the view shows the instant correctly. The last thirty years may be shown as they are, or as infinity.
bool is_shown(std::optional<moment> known, const std::string &shown)
{
    return known && is_forever(*known) ? shown == "Infinity" || (!shown.empty() && is_forever(std::stoll(shown)))
           : !known                    ? shown.empty()
           : *known == minus_infinity  ? shown == "-Infinity"
                                       : shown == std::to_string(*known);
}

std::string moment_of(const std::string &column)
{
    return "trunc((extract(epoch FROM " + column + ") - 946684800) * 1000000)";
}

} // namespace

std::string kind_of(const row &r)
{
    switch (ending_of(r).mark) {
    case 0:
        return "Java";
    case '*':
        return "administrators";
    case '#':
        return "tokens";
    case '&':
        return "tokens that end with a session";
    case '!':
        return "sessions whose locks end with them";
    default:
        return "sessions";
    }
}

std::string judge_view(session &any, const std::string &schema, const rows &known)
{
    const auto lines =
        any.query("SELECT name, state, holder, token, holder_pid, holder_alive, last_outcome, ends_with_session, " +
                  moment_of("last_done_at") + ", " + moment_of("last_tick") + ", " + moment_of("last_done_tick") +
                  " FROM " + schema + ".shedlock_locks");
    if (lines.size() != known.size())
        return "the view has " + std::to_string(lines.size()) + " rows of " + std::to_string(known.size());
    for (const auto &line : lines) {
        const auto found = known.find(line[0]);
        if (found == known.end())
            return "the view shows \"" + printable(line[0]) + "\", which is not in the table";
        const auto &[name, row] = *found;
        const auto end = ending_of(row);
        const auto state = state_of(row, any.clock());
        const bool has_token = row.locked_at != minus_infinity && !is_forever(row.locked_at);
        const std::vector<std::string> expected{name,
                                                state,
                                                row.locked_by.substr(0, row.locked_by.size() - end.length),
                                                has_token ? std::to_string(row.locked_at + epoch_difference) : "",
                                                end.session.empty() ? ""
                                                                    : std::to_string(std::stoi(end.session.substr(1))),
                                                alive_text(end.session),
                                                outcome_of(row, state),
                                                end.is_of_run() ? end.ends_with_session() ? "t" : "f" : ""};
        for (std::size_t i = 0; i < expected.size(); i++)
            if (line[i] != expected[i])
                return "column " + std::to_string(i) + " of the view is \"" + printable(line[i]) + "\" for \"" +
                       printable(name) + "\", not \"" + printable(expected[i]) + "\"";
        const bool is_endless = row.locked_at != infinity && is_forever(row.locked_at);
        if (!is_shown(row.last_done_at, line[8]) ||
            (!is_endless && (!is_shown(row.last_tick, line[9]) || !is_shown(last_done_tick_of(row), line[10]))))
            return "the view says about the runs of \"" + printable(name) + "\": " + line[8] + ", " + line[9] + ", " +
                   line[10];
    }
    return {};
}

std::string judge_protection(session &any, const std::string &schema, const rows &known)
{
    any.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    any.query("SELECT " + schema + ".shedlock_protect()");
    std::vector<std::string> changed;
    for (const auto &line : any.query("UPDATE " + schema + ".shedlock SET lock_until = lock_until RETURNING name"))
        changed.push_back(line[0]);
    any.query("ROLLBACK");
    std::sort(changed.begin(), changed.end());
    for (const auto &[name, row] : known) {
        const bool is_protected = ending_of(row).is_ours() && row.lock_until > any.clock();
        if (std::binary_search(changed.begin(), changed.end(), name) == is_protected)
            return "the row of \"" + printable(name) + "\" was " + (is_protected ? "not " : "") + "protected";
    }
    return {};
}
