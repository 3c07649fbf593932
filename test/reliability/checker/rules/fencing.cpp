#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::result;

namespace {

struct guarded {
    const operation *guard;
    const operation *commit;
    const acquisition *mine;
};

std::vector<guarded> committed_guards(const world &world, const std::string &name, const biography &about)
{
    std::vector<guarded> all;
    for (const auto *const op : about.touched) {
        const auto *const mine = world.acquisition_of(*op, name);
        if (op->what == action::guard && op->result == result::yes && mine && world.fate_of(*op).outcome == fates::kept)
            all.push_back({op, world.commit_of(*op), mine});
    }
    return all;
}

bool comes_later(const acquisition &other, const acquisition &mine)
{
    if (other.op->token && mine.op->token)
        return *other.op->token > *mine.op->token;
    return other.op->called.at >= mine.op->done.at;
}

// No guarded commit began after a later acquisition, committed or not, that was in effect until the commit had ended.
void must_be_the_latest(const world &world, const guarded &one, const biography &about, found &all)
{
    for (const auto &other : about.acquisitions)
        if (other.op != one.mine->op && comes_later(other, *one.mine) && other.op->done.at <= one.commit->called.at &&
            other.fate.until > one.commit->done.at && !is_let_pass_by_portable(world, *other.op, *one.commit))
            all.push_back({"I11",
                           "a guarded transaction committed after a later acquisition",
                           {*one.mine->op, *other.op, *one.guard, *one.commit}});
    for (const auto *const event : about.revoked)
        if (event->result == result::yes && event->called.at >= one.mine->op->done.at &&
            event->done.at <= one.commit->called.at)
            all.push_back({"I11",
                           "a guarded transaction committed after its lock had been taken away",
                           {*one.mine->op, *event, *one.guard, *one.commit}});
}

// When a new holder reads the ledger, it has every row that guarded transactions of earlier holders ever write.
void must_be_complete(const acquisition &mine, const std::vector<guarded> &all_guarded, found &all)
{
    int earlier = 0;
    std::vector<operation> proof{*mine.op};
    for (const auto &one : all_guarded)
        if (one.guard->names.front() == mine.op->names.front() && one.mine->op->token &&
            *one.mine->op->token < *mine.op->token) {
            ++earlier;
            if (one.commit->done.at >= mine.op->called.at) {
                proof.push_back(*one.guard);
                proof.push_back(*one.commit);
            }
        }
    if (earlier > *mine.op->ledger)
        all.push_back({"I11",
                       "a later holder saw " + std::to_string(*mine.op->ledger) +
                           " rows of earlier holders, and then there were " + std::to_string(earlier),
                       proof});
}

void must_be_in_order(const std::vector<guarded> &all_guarded, found &all)
{
    for (const auto &one : all_guarded)
        for (const auto &other : all_guarded)
            if (one.commit->done.at < other.commit->called.at && one.mine->op->token && other.mine->op->token &&
                *one.mine->op->token > *other.mine->op->token)
                all.push_back({"I11",
                               "guarded transactions committed against the order of their tokens",
                               {*one.guard, *one.commit, *other.guard, *other.commit}});
}

} // namespace

void guards_fence(const world &world, const std::string &name, const biography &about, found &all)
{
    const auto guards = committed_guards(world, name, about);
    for (const auto &one : guards)
        must_be_the_latest(world, one, about, all);
    for (const auto &mine : about.acquisitions)
        if (mine.fate.outcome == fates::kept && mine.op->ledger && mine.op->token && mine.op->names.front() == name)
            must_be_complete(mine, guards, all);
    must_be_in_order(guards, all);
}

} // namespace checker
