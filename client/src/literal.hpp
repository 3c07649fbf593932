// C++ values as PostgreSQL reads them, whatever the session's settings are.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::internal {

// Throws usage_error for a NUL byte, which PostgreSQL cannot store.
std::string text_literal(std::string_view argument, std::string_view text);

// One name as text, several as text[], so that the server's errors refer to what the caller has given.
std::string names_literal(const names &);
std::string array_literal(const std::vector<std::string> &);

std::string token_literal(token);
std::int64_t to_number(const std::string &bigint); // the reverse
std::string interval_literal(std::chrono::microseconds);

// A statement that calls a function for the names $1. For its own transaction it first sets client_min_messages, so
// that the server's warnings reach us, whatever another client behind the same pooler has set; and lock_timeout, to
// what session::ask makes of @lock_timeout@, unless a smaller one is set or the request is to outlast its caller.
std::string call(const std::string &function, const names &, const std::string &other_arguments, bool outlasts = false);

} // namespace shedlock::internal
