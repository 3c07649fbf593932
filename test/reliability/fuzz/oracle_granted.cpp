#include "rules.hpp"

namespace {

// Ticks are compared with ticks. With retry the last tick is due until it is done.
bool is_due(const history &past, moment tick, bool retry)
{
    const auto is_later_than = [&](std::optional<moment> last) {
        return !last || (tick > *last && !is_forever(*last));
    };
    return is_later_than(past.last_done_tick) && (is_later_than(past.last_tick) || (retry && tick == past.last_tick));
}

// Whether it is too late for the tick. The length of a month depends on the date.
verdict is_late(const call &made, const outcome &seen)
{
    if (!made.tick || !made.start_within)
        return verdict::no;
    const auto span = length_of(*made.start_within);
    return seen.before > *made.tick + span.most    ? verdict::yes
           : seen.after <= *made.tick + span.least ? verdict::no
                                                   : verdict::either;
}

bool is_explained(const outcome &seen, bool is_run, bool overran, moment lock_until)
{
    using warnings = std::vector<std::string>;
    if (overran)
        return lock_until <= seen.after && seen.warnings == (*seen.error == "SL001" ? warnings{} : warnings{"SL001"});
    return seen.warnings.empty() || (is_run && !seen.error && seen.warnings == warnings{"01000"});
}

} // namespace

std::string oracle::judge_acquire(const call &made, const session &caller, const outcome &seen,
                                  expected_errors &errors) const
{
    const bool takes_ticks = made.what != function::pause;
    const auto late = takes_ticks ? is_late(made, seen) : verdict::no;
    auto is_free = late == verdict::yes ? verdict::no : late == verdict::no ? verdict::yes : verdict::either;
    for (const auto &name : names_of(made)) {
        const auto found = known.find(name);
        if (found == known.end())
            continue;
        const bool had_a_turn =
            takes_ticks && made.tick && !is_due(history_of(&found->second), *made.tick, *made.retry);
        const auto free = had_a_turn ? verdict::no : is_over(found->second, seen);
        if (free != verdict::no && is_forever(found->second.locked_at))
            errors.may("55000"); // no token is greater
        is_free = both(is_free, free);
    }
    const bool is_endless = errors.possible.count("55000") > 0;
    if (made.what == function::run && is_free != verdict::no && sqlstate_of_command(*made.text, about_.is_portable))
        errors.may_or_must(is_free == verdict::yes && !is_endless, sqlstate_of_command(*made.text, about_.is_portable));
    if (seen.error)
        return {};
    const bool granted = made.what == function::acquire_token ? !seen.is_null : seen.is_true();
    if (!seen.warnings.empty() && !granted)
        return "a warning";
    if (!allows(is_free, granted) || (granted && is_endless))
        return granted ? "granted, although the lock is not free" : "refused, although the lock is free";
    return granted ? judge_taken(made, caller, seen) : unchanged(made, seen);
}

std::string oracle::expected_holder(const call &made, const session &caller, moment locked_at) const
{
    const auto number = std::to_string(token_of(locked_at));
    const bool is_token = made.what == function::acquire_token;
    const bool ends = made.what == function::run || made.ends_with_session.value_or(false);
    const auto end = made.what == function::pause ? "*" + number
                     : is_token && !ends          ? "#" + number
                                                  : caller.mark() +
                                               (is_token ? "&"
                                                : ends   ? "!"
                                                         : ":") +
                                               number;
    const auto text = made.text.value_or("");
    const auto holder = made.what == function::pause ? "paused: " + about_.role + (text.empty() ? "" : ": " + text)
                        : made.what != function::acquire_token || text.empty() ? about_.default_holder
                                                                               : text;
    return std::string{cut(about_.of_database, holder, 255 - end.size())} + end;
}

namespace {

// Checks the history that our acquisition, or a run, has written.
bool is_history_after(const row &now, const row *before, const call &made, const outcome &seen, bool is_done,
                      bool is_raised)
{
    auto past = without_run(history_of(before));
    if (made.what == function::pause)
        return has_history(now, past);
    if (made.tick) {
        past.last_tick = past.run_tick = *made.tick;
    } else if (!is_raised) {
        past.run_tick = now.locked_at;
    } else { // the time of the clock, which the token does not show, or a microsecond less
        if (!now.run_tick || !is_within(*now.run_tick, seen.before - 1, seen.after) || now.run_tick == past.last_tick)
            return false;
        past.run_tick = now.run_tick;
    }
    return is_done ? was_done(now, past, seen) : has_history(now, past);
}

// The instants that a token must not equal.
std::set<moment> ticks_of(const rows &known, const std::set<std::string> &names, const call &made)
{
    std::set<moment> ticks;
    if (made.tick && made.what != function::pause)
        ticks.insert(*made.tick);
    for (const auto &name : names)
        if (const auto found = known.find(name); found != known.end())
            for (const auto &tick : {found->second.last_tick, found->second.last_done_tick})
                if (tick)
                    ticks.insert(*tick);
    return ticks;
}

} // namespace

// The rows after an acquisition, or after a run.
std::string oracle::judge_taken(const call &made, const session &caller, const outcome &seen) const
{
    std::optional<moment> token;
    moment newest_before = minus_infinity;
    for (const auto &name : names_of(made))
        if (const auto found = known.find(name); found != known.end())
            newest_before = std::max(newest_before, found->second.locked_at);
    const auto ticks = ticks_of(known, names_of(made), made);
    for (const auto &name : names_of(made)) {
        const auto after = seen.found.find(name);
        if (after == seen.found.end())
            return "granted, but there is no row";
        const auto lock_until = after->second.lock_until, locked_at = after->second.locked_at;
        const auto &lock_at_least_until = after->second.lock_at_least_until;
        const auto old = known.find(name);
        if (old != known.end() && locked_at <= old->second.locked_at)
            return "the token did not grow";
        const auto raised = static_cast<__int128>(newest_before) + 1;
        auto clock = locked_at; // or later, if it follows ticks
        while (ticks.count(clock - 1))
            clock--;
        if (!is_within(locked_at, std::max<__int128>(seen.before, raised), infinity) ||
            !is_within(clock, minus_infinity, std::max<__int128>(seen.after, raised)) || ticks.count(locked_at) ||
            locked_at != token.value_or(locked_at))
            return "locked_at is " + std::to_string(locked_at);
        token = locked_at;
        if (made.what == function::acquire_token && token_of(locked_at) != seen.number())
            return "the token is not that of the row";
        const auto *const before = old == known.end() ? nullptr : &old->second;
        if (after->second.locked_by != expected_holder(made, caller, locked_at))
            return "locked_by is \"" + printable(after->second.locked_by) + "\"";

        // A run may have outlived a short lease. Then it warns; if it failed, the release warns, unless the error is
        // SL001.
        const bool failed = seen.error.has_value(), is_pause = made.what == function::pause;
        const bool overran = failed && !is_released(after->second), is_run = made.what == function::run && !overran;
        if (!is_explained(seen, made.what == function::run, overran, lock_until))
            return "the warnings are wrong";
        const auto keep = is_pause ? length{0, 0} : length_of(*made.at_least);
        const auto lease = is_pause ? length{0, 0}
                           : is_run ? keep
                                    : length_of(made.at_most ? *made.at_most : *caller.default_at_most);
        if (is_pause ? lock_until != infinity
                     : !is_within(lock_until, seen.before + lease.least, seen.after + lease.most))
            return "lock_until is " + std::to_string(lock_until);
        const auto ended = failed ? std::optional{minus_infinity} : std::nullopt;
        if (is_run || is_pause ? lock_at_least_until != ended
                               : !lock_at_least_until ||
                                     !is_within(*lock_at_least_until, seen.before + keep.least, seen.after + keep.most))
            return "lock_at_least_until fits neither at_least nor the end of the run";
        if (!is_history_after(after->second, before, made, seen, is_run && !failed,
                              locked_at == raised || clock != locked_at))
            return "the row's history of runs is wrong";
    }
    return {};
}
