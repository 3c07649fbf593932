#include "rules.hpp"

#include <algorithm>

namespace shedlock {

namespace {

// std::chrono::floor wants the unit as a type; a column's resolution is known only at run time.
constexpr instant round_down(instant t, duration unit)
{
    const auto rest = t.time_since_epoch() % unit;
    return t - (rest < duration::zero() ? rest + unit : rest);
}

constexpr instant round_up(instant t, duration unit)
{
    const auto below = round_down(t, unit);
    return below == t ? t : below + unit;
}

// An at_least of zero promises nothing, so rounding it up would only keep a released lock from the next holder.
constexpr instant kept_until(instant now, duration at_least, duration unit)
{
    return at_least == duration::zero() ? round_down(now, unit) : round_up(now + at_least, unit);
}

} // namespace

// Where optional instants are compared, here and by std::max below, an absent one is less than any other.
availability availability_of(const lease &current, instant now, const tick_request &asked, const history &past)
{
    if (asked.tick) {
        const bool is_done = asked.tick <= past.last_done_tick;
        const bool is_past = asked.tick < past.last_tick || (asked.tick == past.last_tick && !asked.retry);
        if (is_done || is_past)
            return availability::not_due;
        if (asked.start_within && now > *asked.tick + *asked.start_within)
            return availability::late;
    }
    return current.lock_until > now ? availability::taken : availability::free;
}

history history_of(const history &stored, const lease &current, const origin &from)
{
    const bool has_run = current.locked_at != never && current.locked_at != forever;
    if (!from.is_java() || !has_run)
        return stored;
    auto past = without_run(stored);
    past.last_done_tick = std::max(stored.last_done_tick, std::optional{current.locked_at});
    return past;
}

history begun(const history &past, std::optional<instant> tick, instant now, duration unit)
{
    if (tick)
        return {tick, past.last_done_tick, past.last_done_at, tick};
    const auto start = round_down(now, unit);
    return {past.last_tick, past.last_done_tick, past.last_done_at, start == past.last_tick ? start - unit : start};
}

history without_run(const history &past)
{
    return {past.last_tick, past.last_done_tick, past.last_done_at, std::nullopt};
}

// Rows that were written before the column run_tick existed have none. There last_tick had its meaning.
history done(const history &past, instant now)
{
    const auto tick = past.run_tick ? past.run_tick : past.last_tick;
    return {past.last_tick, std::max(past.last_done_tick, tick), now, past.run_tick};
}

std::optional<instant> tick_of_run(const history &past)
{
    return past.run_tick == past.last_tick ? past.last_tick : std::nullopt;
}

bool has_ticks(const history &past)
{
    return past.last_tick.has_value();
}

lease ended(const lease &current)
{
    if (is_released(current))
        return current;
    return {std::min(current.lock_until, *current.lock_at_least_until), current.locked_at, current.lock_at_least_until};
}

instant new_token(instant now, std::optional<instant> latest_previous, duration unit)
{
    auto token = round_down(now, unit);
    // The clock may have stepped back, or two acquisitions may meet in one unit of a coarse column.
    if (latest_previous && token <= *latest_previous)
        token = round_down(*latest_previous, unit) + unit;
    return token;
}

bool is_tick_of(const history &past, instant token)
{
    return past.last_tick == token || past.last_done_tick == token;
}

lease granted(instant now, instant token, std::optional<duration> at_most, duration at_least, duration unit)
{
    const auto lock_until = at_most ? round_up(now + *at_most, unit) : forever;
    return {lock_until, token, kept_until(now, at_least, unit)};
}

bool is_owner(const row &current, const identity &who)
{
    if (who.token && current.times.locked_at != *who.token)
        return false;
    return who.session.empty() ? current.from.kind == origin::kinds::token
                               : current.from.kind == origin::kinds::session && current.from.session == who.session;
}

acquisition_state state_of(const row &current, const identity &who, instant now, const history &past)
{
    if (who.session.empty() && current.times.locked_at > *who.token && past.last_done_tick == who.token)
        return acquisition_state::done;
    if (is_paused(current.times) || !is_owner(current, who))
        return acquisition_state::foreign;
    if (is_released(current.times))
        return current.times.lock_at_least_until ? acquisition_state::failed : acquisition_state::done;
    return current.times.lock_until > now ? acquisition_state::live : acquisition_state::expired;
}

lease extended(const lease &current, instant now, duration at_most, std::optional<duration> at_least, duration unit)
{
    const auto keep = at_least ? kept_until(now, *at_least, unit) : *current.lock_at_least_until;
    return {std::max(round_up(now + at_most, unit), keep), current.locked_at, keep};
}

bool is_released(const lease &current)
{
    return current.lock_at_least_until.value_or(never) == never;
}

lease released(const lease &current, instant now, bool done, duration unit)
{
    const auto keep = *current.lock_at_least_until;
    return {std::max(round_down(now, unit), keep), current.locked_at, done ? std::nullopt : std::optional{never}};
}

lease freed(const lease &current, instant now, duration unit)
{
    // An infinite locked_at was set by hand and is not a token, so this repairs it.
    const auto previous = current.locked_at == forever ? std::nullopt : std::optional{current.locked_at};
    return {round_down(now, unit), new_token(now, previous, unit), std::nullopt};
}

bool is_paused(const lease &current)
{
    return current.lock_until == forever;
}

lease resumed(const lease &current, instant now, duration unit)
{
    return {round_down(now, unit), current.locked_at, current.lock_at_least_until};
}

bool is_past(const lease &current, const history &past, instant now, duration unit)
{
    return current.lock_until <= now && current.locked_at < round_down(now, unit) &&
           past.last_tick < std::optional{now} && past.last_done_tick < std::optional{now};
}

} // namespace shedlock
