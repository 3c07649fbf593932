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

// Done, for all that is known.
constexpr bool was_done(const lease &current, const origin &from)
{
    return !from.is_ours || !current.lock_at_least_until;
}

// The run of a later tick says nothing about this one; nor does one without a tick.
constexpr bool may_be_due_again(const lease &current, const origin &from, instant tick)
{
    return !was_done(current, from) && from.tick && *from.tick <= std::max(tick, instant{});
}

} // namespace

availability availability_of(const lease &current, instant now, const turn &asked, const origin &from)
{
    if (asked.tick && current.locked_at >= *asked.tick &&
        !(asked.retry && may_be_due_again(current, from, *asked.tick)))
        return availability::had_a_turn;
    return current.lock_until > now ? availability::held : availability::free;
}

lease ended(const lease &current)
{
    if (is_released(current))
        return current;
    return {std::min(current.lock_until, *current.lock_at_least_until), current.locked_at, current.lock_at_least_until};
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
    if (is_released(current.times))
        return standing::released;
    return current.times.lock_until > now ? standing::ours : standing::expired;
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

last_run last_run_of(const lease &current, const origin &from)
{
    if (current.locked_at == never) // a new row: nothing ran, so every tick is due
        return {never, instant{}};
    return {was_done(current, from) ? std::nullopt : std::optional{never}, from.tick};
}

lease freed(const lease &current, const origin &from, instant now, duration unit)
{
    // An infinite locked_at is nobody's token; whoever edited the row by hand gets it repaired.
    const auto previous = current.locked_at == forever ? std::nullopt : std::optional{current.locked_at};
    return {round_down(now, unit), new_token(now, {}, previous, unit), last_run_of(current, from).outcome};
}

bool is_paused(const lease &current)
{
    return current.lock_until == forever;
}

lease resumed(const lease &current, instant now, duration unit)
{
    return {round_down(now, unit), current.locked_at, current.lock_at_least_until};
}

} // namespace shedlock
