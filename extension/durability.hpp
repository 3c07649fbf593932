// What a call requires of the commit of its transaction. An acquire, an extend, a release by force and the release of
// a tick as done must reach the disk (I7). Any other release need not, unless something else in the transaction must.
#pragma once

#include "pg.hpp"

namespace shedlock::durability {

// Something was written that must not be lost, such as a lease or a tick that is done. So this commit waits for the
// disk, and for the synchronous standby if there is one, whatever synchronous_commit says.
void require();

// Called before and after the writes of a release.
void before_release();
void after_release();

void at_pre_commit();
void at_pre_prepare();
void at_end();

} // namespace shedlock::durability
