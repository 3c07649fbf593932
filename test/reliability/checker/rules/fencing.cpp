#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::result;

namespace {

struct guarded {
    operation const *guard;
    operation const *commit;
    acquisition const *mine;
};

std::vector<guarded> committed_guards(world const &world, std::string const &name, biography const &about)
{
    std::vector<guarded> all;
    for (auto const *const op : about.touched) {
        auto const *const mine = world.acquisition_of(*op, name);
        if (op->what == action::guard && op->result == result::yes && mine && world.fate_of(*op).outcome == fates::kept)
            all.push_back({op, world.commit_of(*op), mine});
    }
    return all;
}

bool comes_later(acquisition const &other, acquisition const &mine)
{
    if (other.op->token && mine.op->token)
        return *other.op->token > *mine.op->token;
    return other.op->called.at >= mine.op->done.at;
}

// No guarded commit began after a later acquisition, committed or not, that was in effect until the commit had ended.
void must_be_the_latest(world const &world, guarded const &one, biography const &about, found &all)
{
    for (auto const &other : about.acquisitions)
        if (other.op != one.mine->op && comes_later(other, *one.mine) && other.op->done.at <= one.commit->called.at &&
            other.fate.until > one.commit->done.at && !is_let_pass_by_portable(world, *other.op, *one.commit))
            all.push_back({"I11",
                           "a guarded transaction committed after a later acquisition",
                           {*one.mine->op, *other.op, *one.guard, *one.commit}});
    for (auto const *const event : about.revoked)
        if (event->result == result::yes && event->called.at >= one.mine->op->done.at &&
            event->done.at <= one.commit->called.at)
            all.push_back({"I11",
                           "a guarded transaction committed after its lock had been taken away",
                           {*one.mine->op, *event, *one.guard, *one.commit}});
}

// When a new holder reads the ledger, it has every row that guarded transactions of earlier holders ever write.
void must_be_complete(acquisition const &mine, std::vector<guarded> const &all_guarded, found &all)
{
    int earlier = 0;
    std::vector<operation> proof{*mine.op};
    for (auto const &one : all_guarded)
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

void must_be_in_order(std::vector<guarded> const &all_guarded, found &all)
{
    for (auto const &one : all_guarded)
        for (auto const &other : all_guarded)
            if (one.commit->done.at < other.commit->called.at && one.mine->op->token && other.mine->op->token &&
                *one.mine->op->token > *other.mine->op->token)
                all.push_back({"I11",
                               "guarded transactions committed against the order of their tokens",
                               {*one.guard, *one.commit, *other.guard, *other.commit}});
}

} // namespace

void guards_fence(world const &world, std::string const &name, biography const &about, found &all)
{
    auto const guards = committed_guards(world, name, about);
    for (auto const &one : guards)
        must_be_the_latest(world, one, about, all);
    for (auto const &mine : about.acquisitions)
        if (mine.fate.outcome == fates::kept && mine.op->ledger && mine.op->token && mine.op->names.front() == name)
            must_be_complete(mine, guards, all);
    must_be_in_order(guards, all);
}

} // namespace checker
