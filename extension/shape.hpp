// The shape of the lock table: its columns, its index, and what else the other functions need to know of it.
#pragma once

#include "pg.hpp"

namespace shedlock {

// Space that locked_by must have: for the longest end (locked_by.hpp) and a short holder.
inline constexpr int shortest_locked_by = 64;

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
    AttrNumber run_tick;
    bool has_triggers;     // of somebody, which do not fire for what we write
    bool has_foreign_keys; // of columns that we do not write
    bool is_referenced;    // by foreign keys of other tables
    citus_roles citus;     // set by shape_of
    int name_limit;        // characters
    int locked_by_limit;   // characters
    duration unit;         // resolution of the coarsest of the timestamps
};

// Whether it is one of the columns that we write. What is no number of a column counts as one, too: the whole row has
// number 0.
bool is_ours(const table_shape &shape, AttrNumber column);

// With its schema, and quoted.
const char *qualified_name(Relation table);

// 55000, with what is wrong with it, and what to do.
[[noreturn]] void report_unusable(Relation table, const char *what, const char *remedy);

// Whether a type, an operator class or a collation came with PostgreSQL: no ordinary role can create or change one.
bool is_built_in(pg::cache_identifier cache, AttrNumber schema_column, Oid object);

// 55000. In a table of the right shape lock_until, locked_at and locked_by cannot be NULL. If one is NULL all the
// same, this prevents a crash.
void require_value(bool is_null, const char *column);

// What shedlock_protect creates.
inline constexpr const char *protection_trigger = "shedlock_protect";
inline constexpr const char *protection_function = "shedlock_protect_row";

// The columns that Java does not have.
inline constexpr const char *own_columns[] = {"lock_at_least_until", "last_tick", "last_done_tick", "last_done_at",
                                              "run_tick"};

} // namespace shedlock
