// What the oracle's parts have in common: whose a row is, what it tells of its runs, and when a time has passed.
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

// Instants that are no different for the extension.
inline bool is_same(std::optional<moment> a, std::optional<moment> b)
{
    return a == b || (a && b && is_forever(*a) && is_forever(*b));
}

enum class kinds { java, token, session, run, administrator };

inline char const *to_text(kinds kind)
{
    constexpr char const *texts[] = {"Java", "tokens", "sessions", "runs", "administrators"};
    return texts[static_cast<int>(kind)];
}

// How locked_by ends, if the row is one of ours: with the row's own locked_at, behind what tells the kind.
struct ending {
    kinds kind = kinds::java;
    std::string session{}; // "/pid.start"
    std::size_t length = 0;

    bool is_ours() const { return kind != kinds::java; }
    bool is_of_run() const { return is_ours() && kind != kinds::administrator; }
    bool is_of_session() const { return kind == kinds::session || kind == kinds::run; }
};

inline ending ending_of(row const &r)
{
    static std::regex const end{"(?:(/[0-9]{1,9}[.][0-9]{1,18})([:!])|([#*]))(-?[0-9]+)$"};
    std::smatch found;
    if (r.locked_at == minus_infinity || is_forever(r.locked_at) || !std::regex_search(r.locked_by, found, end) ||
        found[4].str() != std::to_string(token_of(r.locked_at)))
        return {};
    auto const mark = found[2].matched ? found[2].str() : found[3].str();
    auto const kind = mark == "#"   ? kinds::token
                      : mark == "*" ? kinds::administrator
                      : mark == ":" ? kinds::session
                                    : kinds::run;
    return {kind, found[1].str(), static_cast<std::size_t>(found[0].length())};
}

inline bool is_released(row const &r)
{
    return r.lock_at_least_until.value_or(minus_infinity) == minus_infinity;
}

// What is known of the runs of a lock. A Java run counts as done, for a tick at the instant of its acquisition.
struct history {
    std::optional<moment> last_tick{}, last_done_tick{}, last_done_at{};
};

inline std::optional<moment> later(std::optional<moment> a, std::optional<moment> b)
{
    return is_same(a, b) ? a : std::max(a, b);
}

inline history history_of(row const *r)
{
    if (!r)
        return {};
    history const stored{r->last_tick, r->last_done_tick, r->last_done_at};
    if (ending_of(*r).is_ours() || r->locked_at == minus_infinity || is_forever(r->locked_at))
        return stored;
    return {later(stored.last_tick, r->locked_at), later(stored.last_done_tick, r->locked_at), stored.last_done_at};
}

inline bool has_history(row const &r, history const &expected)
{
    return is_same(r.last_tick, expected.last_tick) && is_same(r.last_done_tick, expected.last_done_tick) &&
           is_same(r.last_done_at, expected.last_done_at);
}

inline bool is_within(moment t, __int128 low, __int128 high)
{
    return t >= low && t <= high;
}

// After a release as done of a run of that tick.
inline bool was_done(row const &r, std::optional<moment> tick, outcome const &seen)
{
    return is_same(r.last_tick, tick) && is_same(r.last_done_tick, tick) && r.last_done_at &&
           is_within(*r.last_done_at, seen.before, seen.after);
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

// Whether it is the lock of a run that was not released and whose session is gone. Leading zeros make no other session.
inline verdict is_of_dead_run(row const &r)
{
    static std::regex const leading_zeros{"([/.])0+([0-9])"};
    auto const end = ending_of(r);
    if (end.kind != kinds::run || is_released(r))
        return verdict::no;
    auto const known = session::sessions().find(std::regex_replace(end.session, leading_zeros, "$1$2"));
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
