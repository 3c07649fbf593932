// The settings shedlock.*: defined and read here only.
#pragma once

#include "pg.hpp"

namespace shedlock::settings {

void define();

std::optional<duration> default_at_most(); // absent: not set
bool async_release();
uint32 max_tracked();

} // namespace shedlock::settings
