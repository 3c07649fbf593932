// Where this backend last saw the newest version of a name's row. While an old snapshot is open somewhere, nothing can
// be pruned, so an index scan visits every version of the row; and it is slower in any case.
//
// It is only a hint: the caller must find a version there that has the name and is the newest (lock_table::revisit).
// The page is requested by buffer, not read: if it was truncated, rewritten or evicted meanwhile, it is simply not
// there.
#pragma once

#include "pg.hpp"

namespace shedlock {

struct place {
    ItemPointerData tid;
    Buffer page; // InvalidBuffer: unknown
};

// InvalidBuffer unless a place was remembered for this name, or for another with the same hash.
place recall_place(Oid table, std::string_view name);

// Overwrites what was last remembered in the same slot.
void remember_place(Oid table, std::string_view name, const place &where);

} // namespace shedlock
