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

// The end of locked_by, if one of ours wrote it: a process id and when it started, or # and the row's own token.
inline std::string suffix_in(row const &r)
{
    static std::regex const of_session{"/[0-9]{1,9}[.][0-9]{1,18}$"};
    std::smatch found;
    if (std::regex_search(r.locked_by, found, of_session))
        return found.str();
    bool const has_token = r.locked_at != minus_infinity && !is_forever(r.locked_at);
    return has_token && r.locked_by.ends_with(suffix_of(r.locked_at)) ? suffix_of(r.locked_at) : "";
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

inline bool is_by_token(function what)
{
    return what == function::acquire_token || what == function::extend_token || what == function::release_token ||
           what == function::guard_token;
}
