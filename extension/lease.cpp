#include "lease.hpp"

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

availability availability_of(const lease &current, instant now, std::optional<instant> tick)
{
    if (tick && current.locked_at >= *tick)
        return availability::had_a_turn;
    return current.lock_until > now ? availability::held : availability::free;
}

instant new_token(instant now, std::optional<instant> tick, std::optional<instant> latest_previous, duration unit)
{
    auto token = round_down(now, unit);
    // Rounded down, it could fall before a tick that it belongs to, and the tick would get a second acquisition.
    if (tick && token < *tick)
        token = round_up(*tick, unit);
    // The clock may have stepped back, or two acquisitions may meet in one unit of a coarse column.
    if (latest_previous && token <= *latest_previous)
        token = round_down(*latest_previous, unit) + unit;
    return token;
}

lease granted(instant now, instant token, duration at_most, duration at_least, duration unit)
{
    const auto lock_until = at_most == without_end ? forever : round_up(now + at_most, unit);
    return {lock_until, token, kept_until(now, at_least, unit)};
}

standing standing_of(const row &current, const claim &who, instant now)
{
    if (is_paused(current.times) || !current.locked_by.ends_with(who.suffix) ||
        (who.token && current.times.locked_at != *who.token))
        return standing::foreign;
    if (!current.times.lock_at_least_until)
        return standing::released;
    return current.times.lock_until > now ? standing::ours : standing::expired;
}

lease extended(const lease &current, instant now, duration at_most, std::optional<duration> at_least, duration unit)
{
    const auto keep = at_least ? kept_until(now, *at_least, unit) : *current.lock_at_least_until;
    return {std::max(round_up(now + at_most, unit), keep), current.locked_at, keep};
}

lease released(const lease &current, instant now, duration unit)
{
    const auto keep = *current.lock_at_least_until;
    return {std::max(round_down(now, unit), keep), current.locked_at, std::nullopt};
}

lease freed(const lease &current, instant now, duration unit)
{
    // An infinite locked_at is nobody's token; whoever edited the row by hand gets it repaired.
    const auto previous = current.locked_at == forever ? std::nullopt : std::optional{current.locked_at};
    return {round_down(now, unit), new_token(now, {}, previous, unit), std::nullopt};
}

bool is_paused(const lease &current)
{
    return current.lock_until == forever;
}

lease resumed(const lease &current, instant now, duration unit)
{
    return {round_down(now, unit), current.locked_at, std::nullopt};
}

} // namespace shedlock
