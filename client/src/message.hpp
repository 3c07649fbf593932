// Messages of the server and of libpq, for people.
#pragma once

#include <string>
#include <string_view>

namespace shedlock::internal {

// In one line, and without control characters for a terminal, because anybody can choose names and holders.
std::string one_line(std::string_view message);

} // namespace shedlock::internal
