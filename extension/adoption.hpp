// CREATE EXTENSION creates the lock table, or adopts an existing one. That may have been created by a Java migration,
// left by DROP EXTENSION, or restored from a dump.
#pragma once

#include "pg.hpp"

namespace shedlock {

// Called only from the extension's script; `schema` is the extension's schema. An existing table `shedlock` is
// checked, gets the columns that it lacks, and keeps its owner. 42501 if the installing role could not act as that
// owner. A new table belongs to the installing role. In both cases the table is not a member of the extension; the
// extension depends on it.
void make_or_adopt_table(Oid schema);

// For use after pg_upgrade, which keeps the extension's members, but loses the extension's dependency on the table.
void record_dependency_again(Oid table);

} // namespace shedlock
