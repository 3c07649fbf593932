// Where this backend last saw the newest version of a name's row. While an old snapshot is open, nothing can be pruned,
// so an index scan visits every version of the row; and it is slower in any case.
//
// It is only a hint: the caller must find a version there that has the name and is the newest (row_finder::revisit).
// The page is requested by buffer, and not read from disk: if it has been truncated, rewritten or evicted, it is simply
// not there.
#pragma once

#include "pg.hpp"

namespace shedlock {

struct row_hint {
    ItemPointerData tid;
    Buffer page; // InvalidBuffer: unknown
};

// InvalidBuffer unless a row was remembered for a name with this hash.
row_hint recall_row(Oid table, uint64 hash);

// Overwrites what was last remembered in the same slot.
void remember_row(Oid table, uint64 hash, const row_hint &where);

} // namespace shedlock
