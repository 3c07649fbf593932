// Why an acquire was refused, for people.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::internal {

// Without the client's mark, which is not for people.
std::string without_mark(std::string const &holder);

} // namespace shedlock::internal
