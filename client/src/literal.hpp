// C++ values as PostgreSQL reads them, whatever the session's settings are.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::internal {

// Throws usage_error for a NUL byte, which PostgreSQL cannot store.
std::string text_literal(std::string_view argument, std::string_view text);

// One name as text, several as text[], so that the server's errors refer to what the caller has given.
std::string names_literal(names const &);
std::string array_literal(std::vector<std::string> const &);

std::string token_literal(token);
std::int64_t to_number(std::string const &bigint); // the reverse
std::string interval_literal(std::chrono::microseconds);

// A constant for any statement, whatever the session's client_encoding and standard_conforming_strings are.
std::string constant(std::string const &utf8);

// A statement that calls a function for the names $1. For its own transaction it first sets client_min_messages, so
// that the server's warnings reach us, whatever another client behind the same pooler has set; and lock_timeout, to
// what session::ask makes of @lock_timeout@, unless a smaller one is set or the request is to outlast its caller.
std::string call(std::string const &function, names const &, std::string const &other_arguments, bool outlasts = false);

} // namespace shedlock::internal
