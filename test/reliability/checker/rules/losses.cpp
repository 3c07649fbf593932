// No call reports that a lock was lost if its caller held it and the lease had not ended. A guard or a completion does
// not do so after the end of the lease either, unless there is another reason. No release by force reports that a lock
// was free while it was held.
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::maker;
using history::result;

namespace {

// Whether the grant was certain when the operation began, and had not been rolled back by then.
bool is_granted(const acquisition &mine, const operation &op)
{
    if (in_one_transaction(*mine.op, op))
        return mine.fate.until >= op.called.at;
    return mine.fate.by <= op.called.at;
}

// Throughout means from the call of that operation to its answer.
bool is_live_throughout(const world &world, const biography &about, const acquisition &mine, const operation &op)
{
    const auto lease = world.lease_at(mine, op);
    return is_granted(mine, op) && !lease.is_released && world.latest(op) + world.tolerance < lease.until_low &&
           !was_revoked_between(about, *mine.op, op);
}

// Whether the other acquire may have taken the lock after `mine` and before the end of the operation. Also true if it
// was refused or rolled back in the end, but may have had the row during the operation.
bool may_take_over(const world &world, const operation &other, const acquisition &mine, const operation &op)
{
    if (other.what != action::acquire || &other == mine.op || other.called.at > op.done.at)
        return false;
    const auto outcome = world.fate_of(other).outcome;
    if (other.result == result::yes && outcome != fates::undone)
        return other.done.at > mine.op->called.at;
    if (outcome == fates::unknown) // even then, the time by which a run had ended may be known
        return world.settled_at(other) > mine.op->called.at;
    const bool wrote_nothing = is_plain_refusal(other) && !(world.loses_replies() && other.by == maker::library);
    return !wrote_nothing && world.settled_at(other) >= op.called.at;
}

// A guard does not check whether the lease has ended.
bool is_latest_throughout(const world &world, const biography &about, const acquisition &mine, const operation &op)
{
    if (is_live_throughout(world, about, mine, op))
        return true;
    return is_granted(mine, op) && !was_revoked_between(about, *mine.op, op) &&
           std::none_of(about.touched.begin(), about.touched.end(),
                        [&](const auto *other) { return may_take_over(world, *other, mine, op); });
}

// A completion checks what a guard does, and that the lock has not been released.
bool is_completable_throughout(const world &world, const biography &about, const acquisition &mine, const operation &op)
{
    return is_latest_throughout(world, about, mine, op) && !world.lease_at(mine, op).is_released;
}

using judgement = bool(const world &, const biography &, const acquisition &, const operation &);

// Checks the locks of `asked` at the time of `op`. If there are several names, one lost lock is reason enough.
void must_be_lost(const world &world, const operation &asked, const operation &op, judgement *is_ours, found &all)
{
    std::vector<operation> proof;
    for (const auto &name : asked.names) {
        const auto *const mine = world.acquisition_of(asked, name);
        const auto &about = world.names.at(name);
        if (!mine || !is_ours(world, about, *mine, op))
            return;
        proof.push_back(*mine->op);
    }
    proof.push_back(op);
    all.push_back({"unexplained", "not done, although the caller held the lock", proof});
}

judgement *judgement_of(const operation &guard)
{
    return guard.is_of_completion ? is_completable_throughout : is_latest_throughout;
}

// One of the locks that the transaction guards must be lost.
void must_have_lost_a_guard(const world &world, const history::record &record, const operation &end, found &all)
{
    found none_lost;
    for (const auto &op : record.operations)
        if (op.what == action::guard && in_one_transaction(op, end) && op.result == result::yes &&
            world.fate_of(op).until >= end.called.at) {
            const auto before = none_lost.size();
            must_be_lost(world, op, end, judgement_of(op), none_lost);
            if (none_lost.size() == before)
                return;
        }
    if (none_lost.empty())
        all.push_back({"unexplained", "the transaction lost a lock, although it guards none", {end}});
    else
        all.push_back(none_lost.front());
}

// For a snapshot older than the DDL, a table that was rewritten (ALTER TABLE, REPACK CONCURRENTLY) is empty. Our
// functions do not use the transaction's snapshot, but Java clients do. A history with DDL allows 42P01, because
// meanwhile the table may be missing.
bool may_see_no_row(const world &world, const history::record &record, const operation &op)
{
    const auto &allowed = record.allowed;
    return op.by == maker::java && world.level_of(op) != history::level::committed &&
           std::find(allowed.begin(), allowed.end(), "42P01") != allowed.end();
}

void must_not_be_held(const world &world, const operation &forced, found &all)
{
    const auto &about = world.names.at(forced.names.front());
    for (const auto &one : about.acquisitions)
        if (is_live_throughout(world, about, one, forced))
            all.push_back({"unexplained", "reported as free, although it was held", {*one.op, forced}});
}

} // namespace

void losses_have_reasons(const world &world, const history::record &record, found &all)
{
    for (const auto &op : record.operations) {
        const bool is_lost = op.result == result::error && op.state == "SL001";
        if (may_see_no_row(world, record, op))
            continue;
        if (op.result == result::no && (op.what == action::extend || op.what == action::release))
            must_be_lost(world, op, op, is_live_throughout, all);
        else if (op.what == action::guard && (is_lost || op.result == result::no))
            must_be_lost(world, op, op, judgement_of(op), all);
        else if (is_lost && (op.what == action::commit || op.what == action::prepare))
            must_have_lost_a_guard(world, record, op, all);
        else if (op.result == result::no && op.what == action::force)
            must_not_be_held(world, op, all);
    }
}

} // namespace checker
