// Every acknowledged acquisition is in the table until a later one replaces it or it is revoked, with a lease that is
// no shorter than acknowledged. Every row in the table is that of a client's acquisition.
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::result;

namespace {

bool is_explained(biography const &about, history::row const &row)
{
    if (!about.unknown.empty() || !about.revoked.empty())
        return true;
    return std::any_of(about.acquisitions.begin(), about.acquisitions.end(), [&](auto const &one) {
        return !one.op->token || (*one.op->token == row.token && one.fate.outcome != fates::undone);
    });
}

void must_be_kept(world const &world, acquisition const &mine, biography const &about, operation const &look,
                  history::row const *row, found &all)
{
    if (mine.fate.outcome != fates::kept || mine.fate.by > look.called.at || was_revoked_between(about, *mine.op, look))
        return;
    if (!row)
        all.push_back({"I7", "the row of an acknowledged acquisition is gone", {*mine.op, look}});
    else if (mine.op->token && row->token < *mine.op->token)
        all.push_back({"I7", "an acknowledged acquisition was forgotten", {*mine.op, look}});
    else if (mine.op->token && row->token == *mine.op->token &&
             row->until + world.tolerance < world.lease_at(mine, look).until_low)
        all.push_back({"I7", "the row's lease is shorter than the acknowledged one", {*mine.op, look}});
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
                must_be_kept(world, mine, about, look, row == look.rows.end() ? nullptr : &*row, all);
            if (row != look.rows.end() && !is_explained(about, *row))
                all.push_back({"unexplained", "no client made the acquisition in the row of " + name, {look}});
        }
    }
}

} // namespace checker
