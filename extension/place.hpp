// Where this backend last saw the newest version of a name's row. While an old snapshot is held open somewhere, nothing
// can be pruned, and the way through the index leads past every version there ever was; and it is the longer way in any
// case.
//
// Only a hint: whoever goes there must find a version that bears the name and is the newest (lock_table::revisit). That
// page is asked for by buffer, not read: one that was truncated, rewritten or evicted meanwhile is simply not there.
#pragma once

#include "pg.hpp"

namespace shedlock {

struct place {
    ItemPointerData tid;
    Buffer page; // InvalidBuffer: not known
};

// InvalidBuffer unless it was remembered for this very name, or one with the same hash.
place recall_place(Oid table, std::string_view name);

// Takes the place of whatever name was last remembered in the same slot.
void remember_place(Oid table, std::string_view name, const place &where);

} // namespace shedlock
