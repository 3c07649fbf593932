// Ownership. The column locked_by is the holder, which is any text, followed by an end that determines the owner of the
// acquisition. The end of each of our acquisitions contains the row's own locked_at, in microseconds since 1970, after
// a separator that tells its kind:
//   #<locked_at>            owned by its token, which is the same number
//   <session>:<locked_at>   owned by this session
//   <session>!<locked_at>   owned by this session, and ends with it
//   <session>&<locked_at>   owned by its token, and ends with this session
//   *<locked_at>            a pause or a release by force: not a run, and without an owner
// <session> is /<backend pid>.<backend start>.<server>. The start, in microseconds since 1970, is there because process
// ids are reused. The server, a 32-bit hash of its system identifier in eight hexadecimal digits, is there because a
// row can be copied to another server. A comma before <server> means that the start is not that of the backend, because
// the portable edition could not see it.
//
// A Java client writes the same locked_by each time, without the row's locked_at. A holder that imitates an end
// changes nothing, because the real end is always appended to it. Nothing else is read from locked_by. (The view
// shedlock_locks, the portable edition and shedlock_protect_row implement the same rule as a regular expression.)
#pragma once

#include "pg.hpp"

namespace shedlock {

// The end of locked_by for an acquisition of that kind, which is not java. Allocated with palloc.
std::string_view end_of(origin::kinds kind, instant locked_at, bool ends_with_session = false);

// `holder`, or application_name@client_addr if it is empty (the session's role replaces an empty application_name),
// truncated at a character boundary so that it fits into `limit` characters together with the end. Allocated with
// palloc.
text *make_locked_by(std::string_view holder, std::string_view end, int limit);

// The session_user, for texts that name a user.
const char *session_role();

// The claims made by functions for sessions and by functions for tokens.
claim session_claim();
claim token_claim(instant token);

// Whether a session, as it is written in locked_by, is still running. Nothing if that cannot be known: it belongs to
// another server, or the text names no session.
std::optional<bool> is_session_alive(std::string_view session);

// Points into locked_by.
row read_row(const lease &times, std::string_view locked_by);

// Whether the lease ends with a session that is gone.
bool has_lost_its_session(const lease &times, std::string_view locked_by);

} // namespace shedlock
