// Which tables can be the lock table. The functions write it directly, without what the executor does for an ordinary
// UPDATE (triggers, rules, row security, constraints, publications), on behalf of any caller, and it may belong to
// another role. So this is a list of what is allowed: whatever is not known to be harmless is refused. Row security is
// no concern of ours: it is about rows that an SQL statement may see.
#pragma once

#include "shape.hpp"

namespace shedlock {

// Checks an open table. 55000 with what is wrong and what to do. A table that is about to be adopted may lack the
// columns that Java does not have, because they are added afterwards. It may also lack its unique index, because a dump
// that is being restored creates that last. Their attribute numbers and the index are then invalid in the shape.
enum class purposes { use, adoption };
table_shape inspect(Relation table, purposes purpose);

// The column of that name, or null.
Form_pg_attribute find_column(Relation table, const char *column);

// Whether an entry in the index runs only code of PostgreSQL's own, and can never be refused.
bool is_plain(Relation index);

} // namespace shedlock
