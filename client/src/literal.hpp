// C++ values as PostgreSQL reads them, whatever the session's settings.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::internal {

// Throws usage_error for a NUL byte, which PostgreSQL has no way to store.
std::string text_literal(std::string_view argument, std::string_view text);

// One name as text, several as text[]: the server's errors then speak of what the caller has given.
std::string type_of(names const &);
std::string names_literal(names const &);

std::string interval_literal(std::chrono::microseconds);
std::string timestamp_literal(std::chrono::sys_time<std::chrono::microseconds>); // UTC

} // namespace shedlock::internal
