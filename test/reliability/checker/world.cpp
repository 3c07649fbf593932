#include "world.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::maker;
using history::result;

namespace {

bool is_answered(const operation &op)
{
    return op.result == result::yes || op.result == result::no || op.result == result::error;
}

microseconds done_at(const operation &op)
{
    return is_answered(op) ? op.done.at : ever;
}

fate alone(const operation &op)
{
    if (op.result == result::yes)
        return {fates::kept, op.called.at, op.done.at, ever, op.done.at};
    if (is_answered(op))
        return {fates::undone, ever, ever, op.called.at, op.done.at};
    // Even if the outcome of a run is unknown, the time by which it had ended may be known.
    const auto settled = op.is_of_run && op.done.at ? op.done.at : ever;
    return {fates::unknown, op.called.at, ever, op.called.at, settled};
}

// The fate of all operations in a transaction with this end. If it has no end, the connection was lost some time after
// its last answer. Then the server rolls back, or a prepared transaction remains.
fate within(const operation *end, microseconds last_alive)
{
    if (!end)
        return {fates::undone, ever, ever, last_alive, ever};
    const auto settled = done_at(*end);
    if (end->what == action::commit && end->result == result::yes)
        return {fates::kept, end->called.at, end->done.at, ever, settled};
    if (end->what == action::commit && !is_answered(*end))
        return {fates::unknown, end->called.at, ever, end->called.at, ever};
    return {fates::undone, ever, ever, end->called.at, settled};
}

} // namespace

bool in_one_transaction(const operation &one, const operation &other)
{
    return one.tx && one.tx == other.tx && one.client == other.client;
}

microseconds drift(const history::record &record)
{
    auto low = ever, high = beginning;
    for (const auto &op : record.operations)
        for (const auto &when : {op.called, op.done})
            if (when.at) {
                low = std::min(low, when.wall - when.at);
                high = std::max(high, when.wall - when.at);
            }
    return high > low ? high - low : 0;
}

world::world(const history::record &record) : tolerance{drift(record)}, record_{record}
{
    for (std::size_t i = 0; i < record.operations.size(); ++i)
        index_of_[record.operations[i].number] = i;
    find_fates();
    fill_names();
}

void world::find_fates()
{
    fates_.resize(record_.operations.size());
    commits_.assign(record_.operations.size(), nullptr);
    std::map<std::pair<int, int>, std::vector<const operation *>> transactions;
    for (const auto &op : record_.operations) {
        const auto index = index_of_[op.number];
        fates_[index] = alone(op);
        commits_[index] = &op;
        if (op.tx)
            transactions[{op.client, op.tx}].push_back(&op);
        if (op.tx && op.what == action::start)
            begun_[{op.client, op.tx}] = &op;
    }
    for (const auto &[key, operations] : transactions)
        close_transaction(operations);
    // For other clients the release may never take effect.
    for (const auto &op : record_.operations)
        if (record_.has_crashes && op.what == action::release && may_be_lost_in_a_crash(op))
            fates_[index_of_[op.number]].by = ever;
}

// A release as done is flushed if its row has a tick, and so is the work of a run or a completion. If a run failed, its
// session is gone after the crash anyway.
bool world::may_be_lost_in_a_crash(const operation &release) const
{
    return !release.is_of_run && !release.is_of_completion &&
           !(release.as == history::outcome::done && had_a_tick(release));
}

// Whether an acquisition with a tick certainly came before, and its row has not been deleted since. If its own had one,
// its answer may have been lost.
bool world::had_a_tick(const operation &release) const
{
    const auto acquire = index_of_.find(release.of);
    if (acquire != index_of_.end() && record_.operations[acquire->second].tick)
        return true;
    const auto came_before = [&](const operation &op) { return op.done.at <= release.called.at; };
    const auto is_of_it = [&](const operation &op) {
        return std::any_of(op.names.begin(), op.names.end(), [&](const auto &name) {
            return std::find(release.names.begin(), release.names.end(), name) != release.names.end();
        });
    };
    return std::any_of(record_.operations.begin(), record_.operations.end(),
                       [&](const operation &op) {
                           return op.what == action::acquire && op.tick && !op.tx &&
                                  op.result == history::result::yes && came_before(op) && is_of_it(op);
                       }) &&
           std::none_of(record_.operations.begin(), record_.operations.end(), [&](const operation &op) {
               return op.what == action::revoke && op.called.at <= release.done.at && is_of_it(op);
           });
}

void world::close_transaction(const std::vector<const operation *> &operations)
{
    const operation *end = nullptr;
    microseconds last_alive = 0;
    for (const auto *const op : operations) {
        if (op->what == action::commit || op->what == action::rollback)
            end = op;
        if (is_answered(*op))
            last_alive = op->called.at;
    }
    std::vector<std::size_t> savepoints; // the number of operations before each
    std::vector<std::size_t> live;
    for (const auto *const op : operations) {
        const auto index = index_of_[op->number];
        fates_[index] = within(end, last_alive);
        commits_[index] = end && end->what == action::commit ? end : nullptr;
        if (op->what == action::savepoint) {
            savepoints.push_back(live.size());
        } else if (op->what == action::keep && !savepoints.empty()) {
            savepoints.pop_back();
        } else if (op->what == action::undo && !savepoints.empty()) {
            undo(live, savepoints.back(), op->called.at);
            live.resize(savepoints.back());
        } else if (op->result == result::error) {
            undo(live, savepoints.empty() ? 0 : savepoints.back(),
                 op->called.at); // the server rolls back before the client sends ROLLBACK
        } else {
            live.push_back(index);
        }
    }
}

void world::undo(const std::vector<std::size_t> &indexes, std::size_t first, microseconds when)
{
    for (auto i = first; i < indexes.size(); ++i) {
        auto &fate = fates_[indexes[i]];
        fate = {fates::undone, ever, ever, std::min(fate.until, when), fate.settled};
    }
}

void world::fill_names()
{
    for (const auto &op : record_.operations)
        for (const auto &name : op.names)
            fill_name(name, op);
}

void world::fill_name(const std::string &name, const operation &op)
{
    auto &about = names[name];
    if (op.what != action::look)
        about.touched.push_back(&op);
    if (op.what == action::acquire && op.result == result::yes)
        about.acquisitions.push_back({&op, fate_of(op), {}});
    if (op.what == action::acquire && !is_answered(op))
        about.unknown.push_back(&op);
    // A release by force changes the token even if the lock was not held.
    if ((op.what == action::revoke && op.result != result::no) || op.what == action::force)
        about.revoked.push_back(&op);
    if ((op.what == action::extend || op.what == action::release) && op.result != result::no &&
        op.result != result::error)
        if (auto *const mine = const_cast<acquisition *>(acquisition_of(op, name)))
            mine->changes.push_back({&op, std::any_of(mine->changes.begin(), mine->changes.end(), [&](const auto &one) {
                                         return one.op->client != op.client && done_at(*one.op) > op.called.at;
                                     })});
}

const fate &world::fate_of(const operation &op) const
{
    return fates_[index_of_.at(op.number)];
}

const operation *world::commit_of(const operation &op) const
{
    return commits_[index_of_.at(op.number)];
}

const acquisition *world::acquisition_of(const operation &change, const std::string &name) const
{
    const auto found = names.find(name);
    if (found == names.end() || !change.of)
        return nullptr;
    const auto &all = found->second.acquisitions;
    const auto at =
        std::find_if(all.rbegin(), all.rend(), [&](const auto &one) { return one.op->number == change.of; });
    return at == all.rend() ? nullptr : &*at;
}

microseconds world::settled_at(const operation &op) const
{
    return fate_of(op).settled;
}

// A token is the time of the clock, whatever the tick, unless it had to be greater to exceed the one before. That of a
// Java client is the start of its transaction.
bool world::is_exact(const operation &op) const
{
    return op.what == action::acquire && op.token &&
           (op.by == maker::java || *op.token >= op.before.value_or(op.called.wall)) &&
           *op.token <= op.after.value_or(op.done.wall);
}

// Java clients use the start of their transaction as the current time.
microseconds world::earliest(const operation &op) const
{
    const auto begun = begun_.find({op.client, op.tx});
    if (op.by == maker::java && begun != begun_.end())
        return begun->second->called.wall;
    return is_exact(op) ? *op.token : op.before.value_or(op.called.wall);
}

microseconds world::latest(const operation &op) const
{
    return is_exact(op) ? *op.token : op.after.value_or(op.result == result::none ? ever : op.done.wall);
}

history::level world::level_of(const operation &op) const
{
    const auto begun = begun_.find({op.client, op.tx});
    return begun == begun_.end() ? history::level::committed : begun->second->level;
}

lease world::granted(const operation &op) const
{
    const auto low = op.until.value_or(earliest(op) + op.at_most);
    // If a reply was lost, the library extends once before it reports the grant.
    const auto last = op.by == maker::library && op.result == result::yes ? op.done.wall : latest(op);
    const auto high = op.until.value_or(last + op.at_most);
    const auto at_least = op.at_least.value_or(0);
    return {low, op.keep_alive ? ever : high, earliest(op) + at_least, latest(op) + at_least, false};
}

void world::apply(lease &now, const operation &change) const
{
    const auto low = earliest(change);
    const auto high = latest(change);
    if (change.what == action::extend) {
        if (change.at_least && change.by != maker::java) {
            now.kept_low = low + *change.at_least;
            now.kept_high = high == ever ? ever : high + *change.at_least;
        }
        now.until_low = std::max(low + change.at_most, change.by == maker::java ? beginning : now.kept_low);
        // The library trusts the lease for less time if an earlier request may still arrive and shorten it.
        if (change.trust)
            now.until_low = std::min(now.until_low, *change.trust + change.done.wall - change.done.at);
        now.until_high = now.until_high == ever || high == ever ? ever : std::max(high + change.at_most, now.kept_high);
    } else {
        // A run whose lease had ended had nothing to release.
        const auto by_lease = change.is_of_run ? now.until_low : ever;
        now.until_low = std::min(std::max(low, now.kept_low), by_lease);
        now.until_high = std::max(high, now.kept_high);
        now.is_released = true;
    }
}

lease world::lease_at(const acquisition &mine, const operation &observer) const
{
    auto now = granted(*mine.op);
    const auto seen_until = observer.result == result::none ? ever : observer.done.at;
    for (const auto &[change, may_be_earlier] : mine.changes) {
        const auto &fate = fate_of(*change);
        const bool is_own = in_one_transaction(*change, observer);
        if (change == &observer || (is_own ? fate.until < observer.called.at : fate.outcome == fates::undone))
            continue;
        const auto from = is_own ? change->called.at : fate.from;
        const auto by = is_own ? done_at(*change) : fate.by;
        if (from >= seen_until)
            continue;
        auto next = now;
        apply(next, *change);
        if (by > observer.called.at || may_be_earlier || (fate.outcome != fates::kept && !is_own)) {
            next.until_low = std::min(next.until_low, now.until_low);
            next.until_high = std::max(next.until_high, now.until_high);
            next.kept_low = std::min(next.kept_low, now.kept_low);
            next.kept_high = std::max(next.kept_high, now.kept_high);
            // It may have shortened the at_least, and later changes respect the shorter one.
            if (may_be_earlier && change->at_least)
                next.until_low = std::min(next.until_low, next.kept_low);
        }
        now = next;
    }
    return now;
}

} // namespace checker
