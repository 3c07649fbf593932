// Checks for wrong answers: a call that was refused without a reason, succeeded for a caller that was not the holder,
// or failed with an unexpected SQLSTATE.
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::maker;
using history::result;

bool is_plain_refusal(const operation &op)
{
    return op.what == action::acquire && op.result == result::no && op.by != maker::java && op.names.size() == 1;
}

namespace {

// When the name became free before the refused call (monotonic clock): its last change and its last lease had ended.
microseconds free_since(const world &world, const biography &about, const operation &refused)
{
    auto since = beginning;
    for (const auto *const other : about.touched)
        if (const auto settled = world.settled_at(*other); !is_plain_refusal(*other) && settled <= refused.called.at)
            since = std::max(since, settled);
    for (const auto &one : about.acquisitions)
        if (one.fate.outcome != fates::undone && one.op->called.at < refused.called.at)
            since = std::max(since, world.lease_at(one, refused).until_high - refused.called.wall + refused.called.at);
    return since;
}

bool overlap(const world &world, const operation &one, const operation &other)
{
    return one.called.at <= world.settled_at(other) && other.called.at <= world.settled_at(one);
}

// Only one of our calls takes a name at a time, but a Java client or a fault may change the row before that call does.
bool was_overtaken(const world &world, const biography &about, const operation &taker, const operation &refused)
{
    return std::any_of(about.touched.begin(), about.touched.end(), [&](const auto *op) {
        return (op->by == maker::java || op->what == action::revoke || op->what == action::force) &&
               overlap(world, *op, taker) && world.settled_at(*op) >= refused.called.at;
    });
}

// Whether the other call overlapped the refused one and can explain the refusal. A call that was refused as well can do
// so only if it may have been about to take the name: it found the name free at an earlier time, or was overtaken. A
// call of the library may also have been granted the lock for a while, and its reply was lost.
bool is_in_the_way(const world &world, const biography &about, const operation &other, const operation &refused,
                   microseconds since)
{
    if (&other == &refused || !overlap(world, other, refused))
        return false;
    return !is_plain_refusal(other) || other.called.at <= since ||
           (world.loses_replies() && other.by == maker::library) || was_overtaken(world, about, other, refused);
}

bool may_be_held(const world &world, const biography &about, const operation &refused)
{
    if (std::any_of(about.unknown.begin(), about.unknown.end(),
                    [&](const auto *op) { return op->called.at <= refused.done.at; }))
        return true;
    const auto &all = about.acquisitions;
    return std::any_of(all.rbegin(), all.rend(), [&](const auto &one) {
        if (one.fate.outcome == fates::undone || one.op->called.at > refused.done.at)
            return false; // is_in_the_way() covers the time while its transaction was open
        if (may_still_be_extended(world, one, refused))
            return true;
        const auto until = world.lease_at(one, refused).until_high;
        return until == ever || until + world.tolerance >= world.earliest(refused);
    });
}

bool may_be_done(const acquisition &one)
{
    return std::any_of(one.changes.begin(), one.changes.end(), [](const auto &change) {
        return change.op->what == action::release && change.op->as != history::outcome::failed;
    });
}

// A run without a tick uses up the ticks that the clock has reached, if it is done, as every Java run is. With retry, a
// run of the same tick uses it up only if it is done. Pauses and releases by force use up no tick.
bool may_have_had_its_turn(const world &world, const biography &about, const operation &refused)
{
    if (refused.start_within && world.latest(refused) > *refused.tick + *refused.start_within)
        return true; // too late
    const auto &all = about.acquisitions;
    return std::any_of(all.begin(), all.end(), [&](const auto &one) {
        if (one.fate.outcome == fates::undone || one.op->called.at > refused.done.at)
            return false;
        const auto &tick = one.op->tick;
        if (!tick)
            return world.latest(*one.op) >= *refused.tick && (one.op->by == maker::java || may_be_done(one));
        return *tick > *refused.tick || (*tick == *refused.tick && (!refused.retry || may_be_done(one)));
    });
}

} // namespace

void refusals_have_reasons(const world &world, const std::string &, const biography &about, found &all)
{
    for (const auto *const op : about.touched) {
        if (!is_plain_refusal(*op) || (op->tick && may_have_had_its_turn(world, about, *op)))
            continue;
        if (may_be_held(world, about, *op) || may_be_out_of_date(world, *op))
            continue;
        const auto since = free_since(world, about, *op);
        if (std::any_of(about.touched.begin(), about.touched.end(),
                        [&](const auto *other) { return is_in_the_way(world, about, *other, *op, since); }))
            continue;
        std::vector<operation> proof{*op};
        for (const auto *const other : about.touched)
            if (other != op && overlap(world, *other, *op))
                proof.push_back(*other);
        all.push_back({"unexplained", "refused, although the lock was free all the time", proof});
    }
}

namespace {

// Another acquisition in between that was not rolled back.
const acquisition *successor(const biography &about, const acquisition &mine, const operation &change)
{
    const auto found = std::find_if(about.acquisitions.begin(), about.acquisitions.end(), [&](const auto &other) {
        return other.op != mine.op && other.op->called.at >= mine.op->done.at &&
               other.op->done.at <= change.called.at && other.fate.outcome == fates::kept;
    });
    return found == about.acquisitions.end() ? nullptr : &*found;
}

const operation *earlier_release(const world &world, const acquisition &mine, const operation &change)
{
    for (const auto &one : mine.changes) {
        const auto *const other = one.op;
        const auto &fate = world.fate_of(*other);
        const bool is_own = in_one_transaction(*other, change);
        const bool is_effective =
            is_own ? fate.until >= change.called.at : fate.outcome == fates::kept && fate.by <= change.called.at;
        if (other->what == action::release && other->result == result::yes && other != &change &&
            other->done.at <= change.called.at && is_effective)
            return other;
    }
    return nullptr;
}

// For a lock that was already released as done the library reports success. It does the same after a completion whose
// answer was lost.
bool may_have_been_completed(const world &world, const acquisition &mine, const operation &change)
{
    return change.by == maker::library && change.what == action::release &&
           std::any_of(mine.changes.begin(), mine.changes.end(), [&](const auto &one) {
               const auto &fate = world.fate_of(*one.op);
               return one.op->is_of_completion && fate.outcome == fates::unknown && fate.from <= change.done.at;
           });
}

void must_be_by_holder(const world &world, const biography &about, const acquisition *mine, const operation &change,
                       found &all)
{
    if (!mine) {
        if (change.of == 0)
            all.push_back({"I4", "done for a caller that never acquired the lock", {change}});
    } else if (may_have_been_completed(world, *mine, change)) {
        return;
    } else if (mine->fate.outcome == fates::undone && mine->fate.until <= change.called.at &&
               mine->fate.settled != ever) {
        all.push_back({"I12", "done for an acquisition that was rolled back", {*mine->op, change}});
    } else if (const auto *const other = successor(about, *mine, change)) {
        all.push_back(
            {"I4", "done, although another caller had acquired the lock since then", {*mine->op, *other->op, change}});
    } else if (const auto *const before = earlier_release(world, *mine, change)) {
        all.push_back({"I4", "done, although the lock had been released", {*mine->op, *before, change}});
    } else if (const auto until = world.lease_at(*mine, change).until_high;
               !change.is_of_completion && until != ever && until + world.tolerance < world.earliest(change)) {
        all.push_back({"I4", "done, although its lease had ended", {*mine->op, change}});
    }
}

} // namespace

void only_holders_change(const world &world, const std::string &name, const biography &about, found &all)
{
    for (const auto *const op : about.touched) {
        if ((op->what != action::extend && op->what != action::release) || op->by == maker::java || op->is_of_run)
            continue; // the guard of a run covers its release
        if (op->result == result::yes)
            must_be_by_holder(world, about, world.acquisition_of(*op, name), *op, all);
    }
}

namespace {

// In SERIALIZABLE, a Java client's statement may read the row that our function writes. If the Java client's
// transaction would have to fail for that, but is already prepared, the server lets our commit fail ("conflict in from
// prepared pivot").
bool may_meet_prepared_java(const history::record &record, const operation &op)
{
    return std::any_of(record.operations.begin(), record.operations.end(), [&](const auto &other) {
        return other.what == action::prepare && other.by == maker::java && other.called.at < op.done.at;
    });
}

// Java clients wait for other transactions, and fail at higher isolation levels. Our functions do not fail at those,
// and our acquire does not wait.
bool is_expected(const world &world, const history::record &record, const operation &op)
{
    if (world.is_portable() && is_expected_of_portable(world, op))
        return true;
    if (op.state == "22012") // a command that fails on purpose
        return op.is_of_run;
    if (op.state == "SL001")
        return op.what == action::guard || op.what == action::commit || op.what == action::prepare;
    if (op.by == maker::java && (op.state == "40001" || op.state == "40P01"))
        return true;
    if (op.state == "40001" && (op.what == action::commit || op.what == action::prepare))
        return may_meet_prepared_java(record, op);
    const bool never_waits = op.what == action::acquire && op.by != maker::java;
    // Release and extend wait for a transaction that is changing the same row, and a Java client may be waiting for
    // ours.
    if (op.state == "40P01" && op.tx && !never_waits)
        return true;
    if (op.state == "55P03" && never_waits)
        return false;
    return std::find(record.allowed.begin(), record.allowed.end(), op.state) != record.allowed.end();
}

} // namespace

void errors_are_expected(const world &world, const history::record &record, found &all)
{
    for (const auto &op : record.operations)
        if (op.result == result::error && !is_expected(world, record, op))
            all.push_back({op.what == action::acquire ? "I2" : "unexplained", "failed with " + op.state, {op}});
}

// If a reply was lost, the client may have repeated its request, and its lease may have begun later than the token
// says.
void clients_do_not_trust_too_long(const world &world, const history::record &record, found &all)
{
    if (world.loses_replies())
        return;
    for (const auto &op : record.operations) {
        if (op.what != action::acquire || !op.trust)
            continue;
        const auto last =
            op.keep_alive ? op.done.wall : world.latest(op); // keep-alive may have extended the lease by then
        const auto ends = last + op.at_most - (op.done.wall - op.done.at);
        if (*op.trust > ends + world.tolerance)
            all.push_back({"I1", "the client trusts its lease longer than it lasts", {op}});
    }
}

void nothing_is_acknowledged_without_standby(const history::record &record, found &all)
{
    if (!record.standby_missing)
        return;
    for (const auto &op : record.operations)
        if (op.what == action::acquire && op.result == result::yes)
            all.push_back({"I7", "acknowledged, although no standby has the change", {op}});
}

} // namespace checker
