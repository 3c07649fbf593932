// The shape of the lock table: found, checked, remembered. The functions write it directly, past everything that runs
// for an ordinary UPDATE (triggers, rules, row security, constraints), so a table that has any of that is refused.
#pragma once

#include "pg.hpp"

namespace shedlock {

struct table_shape {
    Oid table;
    Oid index; // unique btree on name alone
    AttrNumber name;
    AttrNumber lock_until;
    AttrNumber locked_at;
    AttrNumber locked_by;
    AttrNumber lock_at_least_until;
    int name_limit;      // characters
    int locked_by_limit; // characters
    duration unit;       // resolution of the coarsest of the timestamps
};

// The lock table of the extension that `function` belongs to: remembered, or looked for. Errors when there is none.
Oid find_table(Oid function);

// 42P01: DROP EXTENSION, while we waited for a lock.
[[noreturn]] void report_dropped();

// The shape of an open lock table: remembered, or checked anew when it is new to this backend or something about it has
// changed. 55000 as inspect.
const table_shape &shape_of(Relation table);

// Checks an open table. 55000 with what is wrong and what to do. A table about to be adopted may lack
// lock_at_least_until, which is then added, and its unique index, which a restored dump brings after everything else:
// then the attribute number or the index in the shape is invalid.
enum class purposes { use, adoption };
table_shape inspect(Relation table, purposes purpose);

} // namespace shedlock
