#include "rules.hpp"

namespace {

bool is_ours(const row &found, const call &made, const session &caller)
{
    const auto end = ending_of(found);
    return is_by_token(made.what) ? end.kind == kinds::token && token_of(found.locked_at) == *made.token
                                  : end.kind == kinds::session && end.session == caller.mark();
}

verdict is_ours_and_live(const row &found, const call &made, const session &caller, const outcome &seen)
{
    if (is_forever(found.lock_until) || !is_ours(found, made, caller) || is_released(found))
        return verdict::no;
    // If the lease has ended with its session, its at_least only keeps others away.
    const auto past = is_past(found.lock_until, seen), gone = is_abandoned(found);
    return past == verdict::yes || gone == verdict::yes ? verdict::no
           : past == verdict::no && gone == verdict::no ? verdict::yes
                                                        : verdict::either;
}

// Whether the row shows that the caller's acquisition was released as done: it is still that acquisition's row and has
// no lock_at_least_until, or it is a later one's and its last_done_tick is the caller's token.
bool is_known_to_be_done(const row &found, const call &made, const session &caller)
{
    if (is_by_token(made.what) && token_of(found.locked_at) > *made.token)
        return found.last_done_tick && token_of(*found.last_done_tick) == *made.token;
    return is_ours(found, made, caller) && !is_forever(found.lock_until) && !found.lock_at_least_until;
}

// Which warning a call that fails may give, considering all its names: that one is lost (SL001), or that one was
// released as done and none is lost (SL002).
struct complaint {
    verdict ours = verdict::yes; // and live
    bool is_lost = false, may_be_lost = false, is_done = false;

    bool allows(const std::string &sqlstate) const
    {
        return sqlstate == "SL001" ? may_be_lost : sqlstate == "SL002" && is_done && !is_lost;
    }
};

complaint complaint_of(const rows &known, const std::set<std::string> &names, const call &made, const session &caller,
                       const outcome &seen)
{
    complaint result;
    for (const auto &name : names) {
        const auto found = known.find(name);
        const auto ours = found == known.end() ? verdict::no : is_ours_and_live(found->second, made, caller, seen);
        const bool is_done = found != known.end() && is_known_to_be_done(found->second, made, caller);
        result.ours = both(result.ours, ours);
        result.is_done |= is_done;
        result.is_lost |= ours == verdict::no && !is_done;
        const bool is_no_token = made.token == INT64_MIN || made.token == INT64_MAX; // but an edited row may have it
        result.may_be_lost |= ours != verdict::yes && (!is_done || is_no_token);
    }
    return result;
}

// After a release as done, or a completion.
bool was_released_as_done(const row &now, const row &old, const outcome &seen)
{
    const auto keep = *old.lock_at_least_until;
    const bool same = (now.locked_at == old.locked_at || (is_forever(now.locked_at) && is_forever(old.locked_at))) &&
                      now.locked_by == old.locked_by;
    const bool is_free = is_within(now.lock_until, std::max(seen.before, keep), std::max(seen.after, keep)) ||
                         (is_forever(now.lock_until) && is_forever(keep));
    return same && is_free && !now.lock_at_least_until && was_done(now, stored_history(old), seen);
}

} // namespace

std::string oracle::judge_change(const call &made, const session &caller, const outcome &seen) const
{
    const auto expected = complaint_of(known, names_of(made), made, caller, seen);
    if (seen.error)
        return {};
    if (!allows(expected.ours, seen.is_true()))
        return seen.is_true() ? "done, although the lock was not ours and live"
                              : "not done, although the lock was ours and live";
    if (seen.is_true() ? !seen.warnings.empty() : seen.warnings.size() != 1 || !expected.allows(seen.warnings[0]))
        return "the warnings are wrong";
    if (!seen.is_true())
        return unchanged(made, seen);

    const bool is_extend = made.what == function::extend || made.what == function::extend_token;
    for (const auto &name : names_of(made)) {
        const auto &old = known.at(name), &now = seen.found.at(name);
        const auto lease = is_extend ? length_of(made.at_most ? *made.at_most : *caller.default_at_most) : length{0, 0};
        length keep{*old.lock_at_least_until, *old.lock_at_least_until};
        if (is_extend && made.at_least)
            keep = {seen.before + length_of(*made.at_least).least, seen.after + length_of(*made.at_least).most};
        if (!(now.locked_at == old.locked_at || (is_forever(now.locked_at) && is_forever(old.locked_at))) ||
            now.locked_by != old.locked_by)
            return "the acquisition has changed";
        const auto least = std::max(seen.before + lease.least, keep.least),
                   most = std::max(seen.after + lease.most, keep.most);
        if (!is_within(now.lock_until, least, most) &&
            !(is_forever(now.lock_until) && most > infinity - epoch_difference))
            return "lock_until is " + std::to_string(now.lock_until);
        if (is_extend ? !now.lock_at_least_until || !(is_within(*now.lock_at_least_until, keep.least, keep.most) ||
                                                      is_forever(*now.lock_at_least_until))
                      : now.lock_at_least_until != (*made.done ? std::nullopt : std::optional{minus_infinity}))
            return "lock_at_least_until is wrong";
        if (!is_extend && *made.done ? !was_done(now, stored_history(old), seen)
                                     : !has_history(now, stored_history(old)))
            return "the row's history of runs is wrong";
    }
    return {};
}

std::string oracle::judge_guard(const call &made, const session &caller, const outcome &seen,
                                expected_errors &errors) const
{
    const auto found = known.find(made.names.front().value());
    // A caller that knows the token may guard even a lock that a session acquired.
    const bool ours = found != known.end() &&
                      (is_by_token(made.what)
                           ? token_of(found->second.locked_at) == *made.token && ending_of(found->second).is_of_run()
                           : is_ours(found->second, made, caller));
    if (!ours)
        errors.must("SL001");
    return seen.error ? "" : unchanged(made, seen);
}

// The statement is a transaction of its own, so the commit has released what it completes.
std::string oracle::judge_complete(const call &made, const session &caller, const outcome &seen,
                                   expected_errors &errors) const
{
    std::size_t least = 0, most = 0; // how many leases have ended
    for (const auto &name : names_of(made)) {
        const auto found = known.find(name);
        if (found == known.end() || is_forever(found->second.lock_until) || is_released(found->second) ||
            !is_ours(found->second, made, caller)) {
            errors.must("SL001");
            continue;
        }
        const auto end = std::max(found->second.lock_until, found->second.locked_at);
        least += end < seen.before;
        most += end < seen.after;
    }
    if (seen.error)
        return {};
    if (errors.certain)
        return "completed, although the lock was not ours, or had been released";
    if (seen.warnings.size() < least || seen.warnings.size() > most ||
        std::any_of(seen.warnings.begin(), seen.warnings.end(), [](const auto &one) { return one != "01000"; }))
        return "the warnings are wrong";
    for (const auto &name : names_of(made))
        if (const auto now = seen.found.find(name);
            now == seen.found.end() || !was_released_as_done(now->second, known.at(name), seen))
            return "not released as done";
    return {};
}

std::string oracle::judge_force(const call &made, const outcome &seen) const
{
    const auto &name = made.names.front().value();
    const auto old = known.find(name);
    if (seen.error || old == known.end())
        return seen.error || !seen.is_true() ? unchanged(made, seen) : "freed a lock that does not exist";
    const auto past = is_over(old->second, seen);
    if (past != verdict::either && seen.is_true() != (past == verdict::no))
        return "the answer whether it was held is wrong";
    const auto &now = seen.found.at(name);
    const bool grew = is_forever(old->second.locked_at) || now.locked_at > old->second.locked_at;
    const auto end = "*" + std::to_string(token_of(now.locked_at));
    const auto holder = std::string{cut(about_.of_database, "released by force: " + about_.role, 255 - end.size())};
    return is_within(now.lock_until, seen.before, seen.after) && grew && now.locked_at >= seen.before &&
                   now.locked_by == holder + end && !now.lock_at_least_until &&
                   has_history(now, without_run(history_of(&old->second)))
               ? ""
               : "not freed";
}

std::string oracle::judge_resume(const call &made, const outcome &seen) const
{
    const auto &name = made.names.front().value();
    const auto old = known.find(name);
    const bool was_paused = old != known.end() && is_forever(old->second.lock_until);
    if (seen.error)
        return {};
    if (seen.is_true() != was_paused ||
        seen.warnings != (was_paused ? std::vector<std::string>{} : std::vector<std::string>{"01000"}))
        return "the answer whether it was paused is wrong";
    if (!was_paused)
        return unchanged(made, seen);
    const auto &now = seen.found.at(name);
    const bool same = now.locked_at == old->second.locked_at || is_forever(old->second.locked_at);
    return is_within(now.lock_until, seen.before, seen.after) && same && now.locked_by == old->second.locked_by &&
                   is_same(now.lock_at_least_until, old->second.lock_at_least_until) &&
                   has_history(now, stored_history(old->second))
               ? ""
               : "not resumed";
}
