// What the oracle's parts have in common: when a time has passed, and how tokens count.
#pragma once

#include "oracle.hpp"

#include <algorithm>
#include <regex>
#include <string>

// Tokens count from 1970, so the last thirty years of timestamp's range are no different from infinity.
inline bool is_forever(moment t)
{
    return t > infinity - epoch_difference;
}

inline std::int64_t token_of(moment locked_at)
{
    return locked_at == minus_infinity ? INT64_MIN : is_forever(locked_at) ? INT64_MAX : locked_at + epoch_difference;
}

inline std::string suffix_of(moment locked_at)
{
    return "#" + std::to_string(token_of(locked_at));
}

// What stands at the end of locked_by, if one of ours wrote it: the tick, whether it is a run's, and a process id and
// when it started, or # and the row's own token.
struct ending {
    std::string suffix{}; // empty: not one of ours
    std::size_t length = 0;
    bool is_run = false;
    std::optional<std::int64_t> tick{}; // from 1970
};

inline ending ending_of(row const &r)
{
    static std::regex const of_session{"(/run)?(/[0-9]{1,9}[.][0-9]{1,18})$"};
    static std::regex const of_tick{"/tick([0-9]{1,18})$"};
    ending made;
    std::smatch found;
    if (std::regex_search(r.locked_by, found, of_session))
        made = {found[2].str(), static_cast<std::size_t>(found[0].length()), found[1].matched};
    else if (r.locked_at != minus_infinity && !is_forever(r.locked_at) && r.locked_by.ends_with(suffix_of(r.locked_at)))
        made = {suffix_of(r.locked_at), suffix_of(r.locked_at).size()};
    auto const rest = r.locked_by.substr(0, r.locked_by.size() - made.length);
    if (!made.suffix.empty() && std::regex_search(rest, found, of_tick)) {
        made.tick = std::stoll(found[1].str());
        made.length += static_cast<std::size_t>(found[0].length());
    }
    return made;
}

inline bool is_released(row const &r)
{
    return r.lock_at_least_until.value_or(minus_infinity) == minus_infinity;
}

// How the last run ended: absent for done, and for all that is not one of ours.
inline std::optional<moment> last_outcome(row const *r)
{
    bool const nothing_ran = !r || r->locked_at == minus_infinity;
    return nothing_ran || (!ending_of(*r).suffix.empty() && r->lock_at_least_until) ? std::optional{minus_infinity}
                                                                                    : std::nullopt;
}

inline std::string tick_mark(std::optional<std::int64_t> since_1970)
{
    return since_1970 ? "/tick" + std::to_string(std::max<std::int64_t>(*since_1970, 0)) : "";
}

// That of the last run, as a pause and a release by force keep it.
inline std::string last_tick_mark(row const *r)
{
    return tick_mark(!r || r->locked_at == minus_infinity ? std::optional<std::int64_t>{0} : ending_of(*r).tick);
}

inline bool is_within(moment t, __int128 low, __int128 high)
{
    return t >= low && t <= high;
}

enum class verdict { yes, no, either };

inline bool allows(verdict expected, bool happened)
{
    return expected == verdict::either || (expected == verdict::yes) == happened;
}

inline verdict both(verdict a, verdict b)
{
    return a == verdict::no || b == verdict::no     ? verdict::no
           : a == verdict::yes && b == verdict::yes ? verdict::yes
                                                    : verdict::either;
}

// The clock is read at some moment in between.
inline verdict is_past(moment t, outcome const &seen)
{
    return t <= seen.before ? verdict::yes : t <= seen.after && !is_forever(t) ? verdict::either : verdict::no;
}

// Whether it is the lock of a run that was not released and whose session is gone.
inline verdict is_of_dead_run(row const &r)
{
    auto const end = ending_of(r);
    if (!end.is_run || is_released(r))
        return verdict::no;
    auto const known = session::sessions().find(end.suffix);
    return known == session::sessions().end() ? verdict::yes : known->second ? verdict::no : verdict::either;
}

inline verdict is_over(row const &r, outcome const &seen)
{
    auto const lease = is_past(r.lock_until, seen);
    auto const dead = is_of_dead_run(r);
    if (dead == verdict::no)
        return lease;
    auto const rest = is_past(std::min(r.lock_until, *r.lock_at_least_until), seen);
    return dead == verdict::yes || rest == lease ? rest : verdict::either;
}

inline bool is_by_token(function what)
{
    return what == function::acquire_token || what == function::extend_token || what == function::release_token ||
           what == function::guard_token;
}
