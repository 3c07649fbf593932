// Messages of the server and of libpq, made fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace shedlock::internal {

// In one line, and without control characters for a terminal, because any user can choose names and holders.
std::string one_line(std::string_view message);

} // namespace shedlock::internal
