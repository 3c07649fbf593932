// Instants as people and other programs write them.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace shedlock::tool {

// Of ISO 8601 a date, a time and an offset from UTC, as RFC 3339 and date(1) write it; or @SECONDS since 1970. What is
// less than a microsecond is cut off. Nothing: it is no such instant.
std::optional<std::chrono::sys_time<std::chrono::microseconds>> to_instant(std::string const &);

// In UTC; to_instant() reads it. Fractions of a second only if there are any.
std::string to_text(std::chrono::sys_time<std::chrono::microseconds>);

} // namespace shedlock::tool
