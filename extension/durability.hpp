// What a call requires of the commit of its transaction. An acquire or extend must reach the disk (I7); a release need
// not, unless something else in the transaction does.
#pragma once

#include "pg.hpp"

namespace shedlock::durability {

// A lease was granted or extended, so this commit waits for the disk, and for the synchronous standby if there is one,
// whatever synchronous_commit says.
void required();

// Called before and after the writes of a release.
void before_release();
void after_release();

void at_pre_commit();
void at_pre_prepare();
void at_end();

} // namespace shedlock::durability
