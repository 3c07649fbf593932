// The effects of runs and completions that are in the ledger at the end.
#pragma once

#include "history.hpp"

#include <map>

namespace checker {

// By the number of the run or completion.
using effects = std::map<int, std::vector<history::row>>;

// The last operation `effects` that succeeded; nullptr if there is none.
inline const history::operation *last_look(const history::record &record)
{
    const history::operation *last = nullptr;
    for (const auto &op : record.operations)
        if (op.what == history::action::effects && op.result == history::result::yes)
            last = &op;
    return last;
}

inline effects effects_in(const history::operation *look)
{
    effects all;
    if (look)
        for (const auto &one : look->rows)
            all[static_cast<int>(one.until)].push_back(one);
    return all;
}

} // namespace checker
