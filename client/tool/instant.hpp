// Instants, in the formats that users and other programs write.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace shedlock::tool {

// Reads a date, a time and an offset from UTC in ISO 8601, as RFC 3339 and date(1) write them; or @SECONDS since 1970.
// Rounds down to microseconds. Returns nullopt for any other text.
std::optional<std::chrono::sys_time<std::chrono::microseconds>> to_instant(const std::string &);

// In UTC, as to_instant() reads it. With a fraction of a second only if there is one.
std::string to_text(std::chrono::sys_time<std::chrono::microseconds>);

} // namespace shedlock::tool
