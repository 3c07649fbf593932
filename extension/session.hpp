// Sessions. locked_by names one as /<backend pid>.<backend start>.<server>. The start, in microseconds since 1970, is
// there because process ids are reused. The server, a 32-bit hash of its system identifier in eight hexadecimal digits,
// is there because a row can be copied to another server. A comma before <server> means that the start is not that of
// the backend, because the portable edition could not see it.
#pragma once

#include "pg.hpp"

namespace shedlock {

// This session, as locked_by names it.
std::string_view own_session();

// Removes a session from the end of the text. Returns false, and removes nothing, if the text does not end with one.
bool take_session(std::string_view &text);

// Whether a session, as locked_by names it, is still running. Nothing if that cannot be known: it belongs to another
// server, or the text names no session.
std::optional<bool> is_session_alive(std::string_view session);

// The session_user, for texts that name a user.
const char *session_role();

// The identity of the caller of a function for sessions, and of a function for tokens.
identity session_identity();
identity token_identity(instant token);

} // namespace shedlock
