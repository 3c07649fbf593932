// Messages of the server and of libpq, for people.
#pragma once

#include <string>
#include <string_view>

namespace shedlock::internal {

// In one line, and with nothing that a terminal would obey: names and holders are anybody's to choose.
std::string one_line(std::string_view message);

} // namespace shedlock::internal
