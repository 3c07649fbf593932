// What our calls ask of the commit of the transaction they stand in: an acquire or extend must reach the disk (I7), a
// release need not, unless something else does.
#pragma once

#include "pg.hpp"

namespace shedlock::durability {

// A lease was granted or extended: this commit waits for the disk, and for the synchronous standby if there is one,
// whatever synchronous_commit says.
void required();

// Around the writes of a release.
void before_release();
void after_release();

void at_pre_commit();
void at_pre_prepare();
void at_end();

} // namespace shedlock::durability
