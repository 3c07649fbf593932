#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::maker;

namespace {

bool may_be_between(const operation &event, const operation &first, const operation &second)
{
    const bool is_over = event.result == history::result::yes || event.result == history::result::no;
    return &event != &second && event.called.at <= std::max(first.done.at, second.done.at) &&
           (is_over ? event.done.at : ever) >= first.called.at;
}

} // namespace

bool was_revoked_between(const biography &about, const operation &first, const operation &second)
{
    return std::any_of(about.revoked.begin(), about.revoked.end(),
                       [&](const auto *event) { return may_be_between(*event, first, second); });
}

bool was_deleted_between(const biography &about, const operation &first, const operation &second)
{
    return std::any_of(about.revoked.begin(), about.revoked.end(), [&](const auto *event) {
        return event->what == history::action::revoke && may_be_between(*event, first, second);
    });
}

bool may_follow(const world &world, const biography &about, const acquisition &x, const acquisition &y)
{
    if (y.op->done.at < x.op->called.at)
        return false;
    if (x.fate.outcome != fates::kept && x.fate.until <= y.op->done.at)
        return true;
    return world.latest(*y.op) + world.tolerance >= world.lease_at(x, *y.op).until_low ||
           was_revoked_between(about, *x.op, *y.op);
}

namespace {

void add_overlap(const world &world, const acquisition &x, const acquisition &y, found &all)
{
    const auto lease = world.lease_at(x, *y.op);
    std::vector<operation> proof{*x.op, *y.op};
    for (const auto &change : x.changes)
        proof.push_back(*change.op);
    all.push_back({lease.is_released ? "I5" : "I1",
                   lease.is_released ? "granted, although the lock had to be kept for its at_least"
                                     : "granted while another acquisition was live",
                   proof});
}

} // namespace

void holds_exclude(const world &world, const biography &about, found &all)
{
    const auto &some = about.acquisitions;
    for (std::size_t i = 0; i < some.size(); ++i)
        for (std::size_t j = i + 1; j < some.size(); ++j)
            if (!may_follow(world, about, some[i], some[j]) && !may_follow(world, about, some[j], some[i]))
                add_overlap(world, some[i], some[j], all);
}

// A client relies on the lock from the answer to its acquire until the time that its release records. A client that
// never releases records nothing. With keep-alive, holds_exclude does not know when a lease ended. This rule does not
// need to, because the client has recorded until when it relied on the lock.
void claims_exclude(const world &world, const std::string &name, const biography &about, found &all)
{
    std::vector<std::pair<const operation *, const operation *>> claims;
    for (const auto *const op : about.touched)
        if (const auto *const mine = world.acquisition_of(*op, name);
            mine && op->what == history::action::release && op->trust)
            claims.emplace_back(mine->op, op);
    for (std::size_t i = 0; i < claims.size(); ++i)
        for (std::size_t j = i + 1; j < claims.size(); ++j)
            if (claims[i].first->done.at <= *claims[j].second->trust &&
                claims[j].first->done.at <= *claims[i].second->trust &&
                !was_revoked_between(about, *claims[i].first, *claims[j].second) &&
                !was_revoked_between(about, *claims[j].first, *claims[i].second))
                all.push_back({"I1",
                               "two clients rely on the lock at the same time",
                               {*claims[i].first, *claims[i].second, *claims[j].first, *claims[j].second}});
}

// The tokens of Java clients may repeat, because they use the start of the transaction.
void tokens_grow(const world &, const biography &about, found &all)
{
    std::vector<const acquisition *> by_end;
    for (const auto &one : about.acquisitions)
        if (one.fate.outcome == fates::kept && one.op->token)
            by_end.push_back(&one);
    std::sort(by_end.begin(), by_end.end(),
              [](const auto *a, const auto *b) { return a->op->done.at < b->op->done.at; });
    const acquisition *greatest = nullptr;
    auto next = by_end.begin();
    for (const auto &one : about.acquisitions) { // in the order of their calls
        for (; next != by_end.end() && (*next)->op->done.at <= one.op->called.at; ++next)
            if (!greatest || (*next)->op->token > greatest->op->token)
                greatest = *next;
        if (greatest && one.op->token && one.op->by != maker::java && *one.op->token <= *greatest->op->token)
            all.push_back({"I6", "the token did not grow", {*greatest->op, *one.op}});
    }
    std::sort(by_end.begin(), by_end.end(), [](const auto *a, const auto *b) { return a->op->token < b->op->token; });
    for (std::size_t i = 1; i < by_end.size(); ++i)
        if (by_end[i - 1]->op->token == by_end[i]->op->token && by_end[i]->op->by != maker::java &&
            by_end[i - 1]->op->by != maker::java)
            all.push_back({"I6", "two acquisitions with one token", {*by_end[i - 1]->op, *by_end[i]->op}});
}

namespace {

// True only if it is certain.
bool came_before(const acquisition &one, const acquisition &other)
{
    if (one.op->token && other.op->token)
        return *one.op->token < *other.op->token;
    return one.op->done.at < other.op->called.at;
}

const operation *done_by(const world &world, const acquisition &one)
{
    for (const auto &[change, may_be_earlier] : one.changes)
        if (change->what == history::action::release && change->result == history::result::yes &&
            change->as == history::outcome::done && world.fate_of(*change).outcome == fates::kept &&
            world.fate_of(*change).by != ever)
            return change;
    return nullptr;
}

} // namespace

// A tick is compared with the ticks of earlier acquisitions, not with the times at which they ran. With retry the last
// tick may be granted again, unless it was done. A run without a tick counts only if it was done, as all Java runs are:
// then it uses up every tick up to the time that the clock showed.
void ticks_run_once(const world &world, const biography &about, found &all)
{
    for (const auto &again : about.acquisitions) {
        if (!again.op->tick || again.fate.outcome != fates::kept)
            continue;
        const auto tick = *again.op->tick;
        if (const auto &limit = again.op->start_within; limit && world.earliest(*again.op) > tick + *limit)
            all.push_back({"tick", "granted, although it was too late for its tick", {*again.op}});
        for (const auto &first : about.acquisitions) {
            if (first.op == again.op || first.fate.outcome != fates::kept || !came_before(first, again) ||
                first.op->tick.value_or(world.earliest(*first.op)) < tick ||
                was_deleted_between(about, *first.op, *again.op))
                continue;
            const auto *const done = first.op->by == maker::java ? first.op : done_by(world, first);
            if (first.op->tick > tick)
                all.push_back({"tick", "granted, although a later tick had been granted", {*first.op, *again.op}});
            else if (first.op->tick && !again.op->retry)
                all.push_back({"tick", "two acquisitions for one tick", {*first.op, *again.op}});
            else if (done)
                all.push_back({"tick", "granted, although the tick was done", {*first.op, *done, *again.op}});
        }
    }
}

} // namespace checker
