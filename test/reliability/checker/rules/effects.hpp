// The effects of runs and completions that are in the ledger at the end.
#pragma once

#include "history.hpp"

#include <map>

namespace checker {

// By the number of the run or completion.
using effects = std::map<int, std::vector<history::row>>;

// The last operation `effects` that succeeded; nullptr if there is none.
inline history::operation const *last_look(history::record const &record)
{
    history::operation const *last = nullptr;
    for (auto const &op : record.operations)
        if (op.what == history::action::effects && op.result == history::result::yes)
            last = &op;
    return last;
}

inline effects effects_in(history::operation const *look)
{
    effects all;
    if (look)
        for (auto const &one : look->rows)
            all[static_cast<int>(one.until)].push_back(one);
    return all;
}

} // namespace checker
