// The settings shedlock.*, read and defined in one place.
#pragma once

#include "pg.hpp"

namespace shedlock::settings {

void define();

std::optional<duration> default_at_most(); // absent: not set
bool async_release();
uint32 max_tracked();

} // namespace shedlock::settings
