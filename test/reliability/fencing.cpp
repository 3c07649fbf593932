#include "rules.hpp"

#include <algorithm>

namespace checker {

using namespace model;
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

// No guarded commit began when a later acquisition had been granted that stayed.
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

// What a new holder finds in the ledger is all that guarded transactions of earlier holders will ever write.
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

namespace {

bool is_explained(biography const &about, history::row const &row)
{
    if (!about.unknown.empty() || !about.revoked.empty())
        return true;
    return std::any_of(about.acquisitions.begin(), about.acquisitions.end(), [&](auto const &one) {
        return !one.op->token || (*one.op->token == row.token && one.fate.outcome != fates::undone);
    });
}

void must_be_known(world const &world, acquisition const &mine, biography const &about, operation const &look,
                   history::row const *row, found &all)
{
    if (mine.fate.outcome != fates::kept || mine.fate.by > look.called.at || was_revoked_between(about, *mine.op, look))
        return;
    if (!row)
        all.push_back({"I7", "its row is gone", {*mine.op, look}});
    else if (mine.op->token && row->token < *mine.op->token)
        all.push_back({"I7", "acknowledged, and forgotten", {*mine.op, look}});
    else if (mine.op->token && row->token == *mine.op->token &&
             row->until + world.tolerance < world.lease_at(mine, look).until_low)
        all.push_back({"I7", "the row's lease is shorter than what was acknowledged", {*mine.op, look}});
}

} // namespace

void rows_are_kept(world const &world, history::record const &record, found &all)
{
    for (auto const &look : record.operations) {
        if (look.what != action::look || look.result != result::yes)
            continue;
        for (auto const &name : look.names) {
            auto const &about = world.names.at(name);
            auto const row =
                std::find_if(look.rows.begin(), look.rows.end(), [&](auto const &one) { return one.name == name; });
            for (auto const &mine : about.acquisitions)
                must_be_known(world, mine, about, look, row == look.rows.end() ? nullptr : &*row, all);
            if (row != look.rows.end() && !is_explained(about, *row))
                all.push_back({"unexplained", "nobody was told of the acquisition in the row of " + name, {look}});
        }
    }
}

} // namespace checker
