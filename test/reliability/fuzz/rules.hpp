// The common part of the oracle: who owns a row, its history of runs, and when a time has passed.
#pragma once

#include "oracle.hpp"

#include <algorithm>
#include <regex>
#include <string>

// Tokens count from 1970, so the last thirty years of the range of timestamp are treated like infinity.
inline bool is_forever(moment t)
{
    return t > infinity - epoch_difference;
}

inline std::int64_t token_of(moment locked_at)
{
    return locked_at == minus_infinity ? INT64_MIN : is_forever(locked_at) ? INT64_MAX : locked_at + epoch_difference;
}

// Instants between which the extension does not distinguish.
inline bool is_same(std::optional<moment> a, std::optional<moment> b)
{
    return a == b || (a && b && is_forever(*a) && is_forever(*b));
}

enum class kinds { java, token, session, administrator };

// The end of locked_by if the row is one of ours: its session, if any, its kind's mark, and the row's own locked_at.
struct ending {
    kinds kind = kinds::java;
    bool ends_with_session = false;
    std::string session{}; // "/pid.start.server"
    std::size_t length = 0;

    bool is_ours() const { return kind != kinds::java; }
    bool is_of_run() const { return is_ours() && kind != kinds::administrator; }
};

inline const char *to_text(const ending &end)
{
    return end.kind == kinds::java            ? "Java"
           : end.kind == kinds::administrator ? "administrators"
           : end.kind == kinds::token         ? end.ends_with_session ? "tokens that end with a session" : "tokens"
           : end.ends_with_session            ? "sessions whose locks end with them"
                                              : "sessions";
}

inline ending ending_of(const row &r)
{
    static const std::regex end{"(?:(/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8})([:!&])|([#*]))(-?[0-9]+)$"};
    std::smatch found;
    if (r.locked_at == minus_infinity || is_forever(r.locked_at) || !std::regex_search(r.locked_by, found, end) ||
        found[4].str() != std::to_string(token_of(r.locked_at)))
        return {};
    const auto mark = found[2].matched ? found[2].str() : found[3].str();
    const auto kind = mark == "#" || mark == "&" ? kinds::token : mark == "*" ? kinds::administrator : kinds::session;
    return {kind, mark == "!" || mark == "&", found[1].str(), static_cast<std::size_t>(found[0].length())};
}

inline bool is_released(const row &r)
{
    return r.lock_at_least_until.value_or(minus_infinity) == minus_infinity;
}

// What is known about the runs of a lock. A Java run counts as done, for every tick up to its acquisition.
struct history {
    std::optional<moment> last_tick{}, last_done_tick{}, last_done_at{}, run_tick{};
};

inline std::optional<moment> later(std::optional<moment> a, std::optional<moment> b)
{
    return is_same(a, b) ? a : std::max(a, b);
}

inline history stored_history(const row &r)
{
    return {r.last_tick, r.last_done_tick, r.last_done_at, r.run_tick};
}

inline history history_of(const row *r)
{
    if (!r)
        return {};
    const auto stored = stored_history(*r);
    if (ending_of(*r).is_ours() || r->locked_at == minus_infinity || is_forever(r->locked_at))
        return stored;
    return {stored.last_tick, later(stored.last_done_tick, r->locked_at), stored.last_done_at};
}

// After a pause or a release by force.
inline history without_run(history past)
{
    past.run_tick.reset();
    return past;
}

inline bool has_history(const row &r, const history &expected)
{
    return is_same(r.last_tick, expected.last_tick) && is_same(r.last_done_tick, expected.last_done_tick) &&
           is_same(r.last_done_at, expected.last_done_at) && is_same(r.run_tick, expected.run_tick);
}

inline bool is_within(moment t, __int128 low, __int128 high)
{
    return t >= low && t <= high;
}

// Whether the row looks as it does after a run with that history was released as done.
inline bool was_done(const row &r, history past, const outcome &seen)
{
    past.last_done_tick = later(past.last_done_tick, past.run_tick ? past.run_tick : past.last_tick);
    past.last_done_at = r.last_done_at;
    return has_history(r, past) && r.last_done_at && is_within(*r.last_done_at, seen.before, seen.after);
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

// The server reads the clock at some moment between seen.before and seen.after.
inline verdict is_past(moment t, const outcome &seen)
{
    return t <= seen.before ? verdict::yes : t <= seen.after && !is_forever(t) ? verdict::either : verdict::no;
}

inline std::string process_of(const std::string &session)
{
    return session.substr(1, session.find('.') - 1);
}

// Whether the session, written as in locked_by, is gone. Leading zeros make no difference. A session of another server
// counts as alive, and one whose start is unknown counts as alive while some session has its process id.
inline verdict is_gone(const std::string &session)
{
    static const std::regex leading_zeros{"([/.])0+([0-9])"};
    const auto server = session.size() - 9; // including the separator before it
    const auto asked = std::regex_replace(session.substr(0, server), leading_zeros, "$1$2") + session.substr(server);
    const auto &all = session::sessions();
    const auto dot = asked.size() - 9;
    if (asked.substr(dot + 1) != all.begin()->first.substr(all.begin()->first.rfind('.') + 1))
        return verdict::no;
    if (asked[dot] == '.') {
        const auto known = all.find(asked);
        return known == all.end() ? verdict::yes : known->second ? verdict::no : verdict::either;
    }
    const auto pid = process_of(asked);
    const bool is_open = std::any_of(all.begin(), all.end(),
                                     [&](const auto &one) { return one.second && process_of(one.first) == pid; });
    constexpr int most = 4'194'304; // the limit of Linux
    return is_open ? verdict::no : pid == "0" || pid == "1" || std::stoi(pid) > most ? verdict::yes : verdict::either;
}

// Whether the lock should have ended with a session that is gone, and was not released.
inline verdict is_abandoned(const row &r)
{
    const auto end = ending_of(r);
    return end.ends_with_session && !is_released(r) ? is_gone(end.session) : verdict::no;
}

inline verdict is_over(const row &r, const outcome &seen)
{
    const auto lease = is_past(r.lock_until, seen);
    const auto dead = is_abandoned(r);
    if (dead == verdict::no)
        return lease;
    const auto rest = is_past(std::min(r.lock_until, *r.lock_at_least_until), seen);
    return dead == verdict::yes || rest == lease ? rest : verdict::either;
}

inline bool is_by_token(function what)
{
    return what == function::acquire_token || what == function::extend_token || what == function::release_token ||
           what == function::guard_token || what == function::complete_token;
}
