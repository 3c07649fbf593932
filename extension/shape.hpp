// The shape of the lock table, and which shapes are accepted. The functions write the table directly, without what the
// executor does for an ordinary UPDATE (triggers, rules, row security, constraints, publications), on behalf of any
// caller, and the table may belong to another role. So this is a list of what is allowed: whatever is not known to be
// harmless is refused.
#pragma once

#include "pg.hpp"

namespace shedlock {

// What this server is in a Citus cluster. Each node of the cluster could have a lock table of its own.
enum class citus_roles { none, coordinator, worker };

struct table_shape {
    Oid table;
    Oid index; // unique btree on name alone
    AttrNumber name;
    AttrNumber lock_until;
    AttrNumber locked_at;
    AttrNumber locked_by;
    AttrNumber lock_at_least_until;
    AttrNumber last_tick;
    AttrNumber last_done_tick;
    AttrNumber last_done_at;
    citus_roles citus;   // set by shape_of
    int name_limit;      // characters
    int locked_by_limit; // characters
    duration unit;       // resolution of the coarsest of the timestamps
};

// 55000, with what is wrong with it, and what to do.
[[noreturn]] void report_unusable(Relation table, const char *what, const char *remedy);

// 55000. In a table of the right shape lock_until, locked_at and locked_by cannot be NULL. If one is NULL all the
// same, this prevents a crash.
void require_value(bool is_null, const char *column);

// Checks an open table. 55000 with what is wrong and what to do. A table that is about to be adopted may lack the
// columns that Java does not have, because they are added afterwards. It may also lack its unique index, because a dump
// that is being restored creates that last. Their attribute numbers and the index are then invalid in the shape.
enum class purposes { use, adoption };
table_shape inspect(Relation table, purposes purpose);

// What shedlock_protect creates.
inline constexpr const char *protection_trigger = "shedlock_protect";
inline constexpr const char *protection_function = "shedlock_protect_row";

// The columns that Java does not have.
inline constexpr const char *own_columns[] = {"lock_at_least_until", "last_tick", "last_done_tick", "last_done_at"};

} // namespace shedlock
