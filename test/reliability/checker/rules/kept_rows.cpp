// Every acknowledged acquisition is in the table until a later one replaces it or it is revoked, with a lease that is
// no shorter than acknowledged. Every row in the table is that of a client's acquisition.
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::result;

namespace {

bool is_explained(const biography &about, const history::row &row)
{
    if (!about.unknown.empty() || !about.revoked.empty())
        return true;
    return std::any_of(about.acquisitions.begin(), about.acquisitions.end(), [&](const auto &one) {
        return !one.op->token || (*one.op->token == row.token && one.fate.outcome != fates::undone);
    });
}

void must_be_kept(const world &world, const acquisition &mine, const biography &about, const operation &look,
                  const history::row *row, found &all)
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

void rows_are_kept(const world &world, const history::record &record, found &all)
{
    for (const auto &look : record.operations) {
        if (look.what != action::look || look.result != result::yes)
            continue;
        for (const auto &name : look.names) {
            const auto &about = world.names.at(name);
            const auto row =
                std::find_if(look.rows.begin(), look.rows.end(), [&](const auto &one) { return one.name == name; });
            for (const auto &mine : about.acquisitions)
                must_be_kept(world, mine, about, look, row == look.rows.end() ? nullptr : &*row, all);
            if (row != look.rows.end() && !is_explained(about, *row))
                all.push_back({"unexplained", "no client made the acquisition in the row of " + name, {look}});
        }
    }
}

} // namespace checker
