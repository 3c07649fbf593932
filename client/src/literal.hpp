// C++ values as PostgreSQL reads them, whatever the session's settings.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::internal {

// Throws usage_error for a NUL byte, which PostgreSQL has no way to store.
std::string text_literal(std::string_view argument, std::string_view text);

// One name as text, several as text[]: the server's errors then speak of what the caller has given.
std::string names_literal(names const &);
std::string array_literal(std::vector<std::string> const &);

std::string token_literal(token);
std::int64_t to_number(std::string const &bigint); // the other way round
std::string interval_literal(std::chrono::microseconds);

// A constant for a statement of anybody's, whatever the client_encoding and standard_conforming_strings there.
std::string constant(std::string const &utf8);

// A statement that calls a function for the names $1. It begins so, for its own transaction: what the server has to say
// beside must reach us, whatever client_min_messages was set to, perhaps by a stranger behind the same pooler.
std::string call(std::string const &function, names const &, std::string const &other_arguments);

} // namespace shedlock::internal
