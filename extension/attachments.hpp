// What the owner of the lock table, or an ORM, has attached to it: triggers, constraints, columns, statistics. We write
// the table without the executor, so none of it is run or checked. What touches no column that we write does no harm to
// the rows that exist; it can only keep us from inserting one. Whatever is not known to be harmless is refused.
#pragma once

#include "shape.hpp"

namespace shedlock {

// 55000 with what is wrong and what to do. Sets has_triggers, has_foreign_keys and is_referenced of the shape, whose
// columns are known.
void check_attachments(Relation table, table_shape &shape);

// 55000 if a new row of ours could differ from what an INSERT of the same columns in SQL would make, or would be
// refused. Names the column or the constraint.
void require_insertable(Relation table, const table_shape &shape, std::string_view name);

// 55000 if SQL of this transaction has changed the table, and a foreign key has not been checked yet. PostgreSQL would
// not check the version of a row that we replace, nor ours.
void require_checked(Relation table, const table_shape &shape, std::string_view name);

// 55000: an index that is not ours does not take a new row for that name.
[[noreturn]] void report_conflict(Relation table, Relation index, std::string_view name);

} // namespace shedlock
