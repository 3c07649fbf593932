// CREATE EXTENSION: makes the lock table, or adopts the one that a Java team's migration made.
#pragma once

#include "pg.hpp"

namespace shedlock {

// Only from the extension's script; `schema` is where the extension goes. An existing table shedlock is checked, gets
// the column that it lacks, and stays its owner's. 42501 when the installing role could not act as that owner. A new
// one belongs to the installing role. Either way it is no member of the extension, which only depends on it.
void make_or_adopt_table(Oid schema);

// pg_upgrade carries over what depends on the extension's members, but not what the extension itself depends on.
void record_dependency_again(Oid table);

} // namespace shedlock
