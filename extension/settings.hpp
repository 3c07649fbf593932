// The settings shedlock.* are defined and read only here.
#pragma once

#include "pg.hpp"

namespace shedlock::settings {

void define();

std::optional<duration> default_at_most(); // absent: not set
bool async_release();
uint32 max_tracked();

// The tick of the innermost shedlock_run, for its command: ISO 8601 in UTC, empty if there is none. As with any
// setting, a value outlasts the transaction only if that commits.
const char *tick();
void set_tick(const char *text);

} // namespace shedlock::settings
