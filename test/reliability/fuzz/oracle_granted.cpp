#include "rules.hpp"

namespace {

// Its last run was for this tick or an earlier one, and was not done.
bool is_due_again(row const &found, moment tick)
{
    auto const end = ending_of(found);
    return !end.suffix.empty() && found.lock_at_least_until && end.tick &&
           *end.tick <= std::max<std::int64_t>(tick + epoch_difference, 0);
}

bool is_explained(outcome const &seen, bool is_run, bool overran, moment lock_until)
{
    using warnings = std::vector<std::string>;
    if (overran)
        return lock_until <= seen.after && seen.warnings == (*seen.error == "SL001" ? warnings{} : warnings{"SL001"});
    return seen.warnings.empty() || (is_run && !seen.error && seen.warnings == warnings{"01000"});
}

} // namespace

std::string oracle::judge_acquire(call const &made, session const &caller, outcome const &seen,
                                  expected_errors &errors) const
{
    auto is_free = verdict::yes;
    bool const takes_ticks = made.what != function::pause;
    for (auto const &name : names_of(made)) {
        auto const found = known.find(name);
        if (found == known.end())
            continue;
        bool const had_a_turn = takes_ticks && made.tick && found->second.locked_at >= *made.tick &&
                                !(*made.retry && is_due_again(found->second, *made.tick));
        auto const free = had_a_turn ? verdict::no : is_over(found->second, seen);
        if (free != verdict::no && is_forever(found->second.locked_at))
            errors.may("55000"); // no token is greater
        is_free = both(is_free, free);
    }
    bool const is_endless = errors.possible.count("55000") > 0;
    if (made.what == function::run && is_free != verdict::no && sqlstate_of_command(*made.text))
        errors.may_or_must(is_free == verdict::yes && !is_endless, sqlstate_of_command(*made.text));
    if (seen.error)
        return {};
    bool const granted = made.what == function::acquire_token ? !seen.is_null : seen.is_true();
    if (!seen.warnings.empty() && !granted)
        return "a warning";
    if (!allows(is_free, granted) || (granted && is_endless))
        return granted ? "granted, though it is not free" : "refused, though it is free";
    return granted ? judge_taken(made, caller, seen) : unchanged(made, seen);
}

std::string oracle::expected_holder(call const &made, session const &caller, moment locked_at, row const *old) const
{
    auto const tick = made.what == function::pause ? last_tick_mark(old)
                      : made.tick                  ? tick_mark(*made.tick + epoch_difference)
                                                   : "";
    if (made.what == function::acquire || made.what == function::run)
        return about_.default_holder + tick + (made.what == function::run ? "/run" : "") + caller.suffix();
    auto const suffix = tick + suffix_of(locked_at);
    auto const text = made.text.value_or("");
    auto const holder = made.what == function::pause ? "paused: " + about_.role + (text.empty() ? "" : ": " + text)
                        : text.empty()               ? about_.default_holder
                                                     : text;
    return std::string{cut(about_.of_database, holder, 255 - suffix.size())} + suffix;
}

// The rows after an acquisition, or after a run.
std::string oracle::judge_taken(call const &made, session const &caller, outcome const &seen) const
{
    std::optional<moment> token;
    moment newest_before = minus_infinity;
    for (auto const &name : names_of(made))
        if (auto const found = known.find(name); found != known.end())
            newest_before = std::max(newest_before, found->second.locked_at);
    for (auto const &name : names_of(made)) {
        auto const after = seen.found.find(name);
        if (after == seen.found.end())
            return "granted, but there is no row";
        auto const &[lock_until, locked_at, locked_by, lock_at_least_until] = after->second;
        auto const old = known.find(name);
        if (old != known.end() && locked_at <= old->second.locked_at)
            return "the token did not grow";
        bool const has_tick = made.tick && made.what != function::pause;
        auto const latest = std::max({seen.after, has_tick ? *made.tick : minus_infinity,
                                      newest_before == infinity ? infinity : newest_before + 1});
        if (!is_within(locked_at, seen.before, latest) || (has_tick && locked_at < *made.tick) ||
            locked_at != token.value_or(locked_at))
            return "locked_at is " + std::to_string(locked_at);
        token = locked_at;
        if (made.what == function::acquire_token && token_of(locked_at) != seen.number())
            return "the token is not the row's";
        auto const *const before = old == known.end() ? nullptr : &old->second;
        if (locked_by != expected_holder(made, caller, locked_at, before))
            return "locked_by is \"" + printable(locked_by) + "\"";

        // A run may have overrun a short lease. It says so; if it failed, the release does, unless the error is that.
        bool const failed = seen.error.has_value(), is_pause = made.what == function::pause;
        bool const overran = failed && !is_released(after->second), is_run = made.what == function::run && !overran;
        if (!is_explained(seen, made.what == function::run, overran, lock_until))
            return "the warnings are wrong";
        auto const keep = is_pause ? length{0, 0} : length_of(*made.at_least);
        auto const lease = is_pause ? length{0, 0}
                           : is_run ? keep
                                    : length_of(made.at_most ? *made.at_most : *caller.default_at_most);
        if (is_pause ? lock_until != infinity
                     : !is_within(lock_until, seen.before + lease.least, seen.after + lease.most))
            return "lock_until is " + std::to_string(lock_until);
        auto const ended = is_pause ? last_outcome(before) : failed ? std::optional{minus_infinity} : std::nullopt;
        if (is_run || is_pause ? lock_at_least_until != ended
                               : !lock_at_least_until ||
                                     !is_within(*lock_at_least_until, seen.before + keep.least, seen.after + keep.most))
            return "lock_at_least_until is not what at_least says, or the end of the run";
    }
    return {};
}
