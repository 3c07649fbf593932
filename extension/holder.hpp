// Whose a lock is. The column locked_by is the holder, which is text for people, and an end that decides who owns the
// acquisition. The end of every acquisition of ours has the row's own locked_at in it, in microseconds since 1970,
// behind a separator that tells its kind:
//   #<locked_at>            owned by its token, which is the same number
//   <session>:<locked_at>   owned by this session
//   <session>!<locked_at>   owned by this session, and ends with it
//   <session>&<locked_at>   owned by its token, and ends with this session
//   *<locked_at>            a pause or a release by force: no run, and nobody's
// where <session> is /<backend pid>.<backend start>.<server>: the start in microseconds since 1970, since process ids
// come back; the server as a 32-bit hash of its system identifier in eight hexadecimal digits, since a row can be
// copied to another server. A comma before <server> says that the start is not when the backend began, because the
// portable edition could not see it. A Java client writes the same locked_by each time, and never the row's locked_at.
// A holder that imitates an end changes nothing: the real one is always written behind it. Nothing else is read from
// locked_by. (The view shedlock_locks, the portable edition and shedlock_protect_row have the same rule as a regular
// expression.)
#pragma once

#include "pg.hpp"

namespace shedlock {

// Room for the longest end and some holder; the table check demands it of locked_by.
inline constexpr int shortest_locked_by = 64;

// The end of locked_by for an acquisition of that kind, not java. palloc'd.
std::string_view end_of(origin::kinds kind, instant locked_at, bool ends_with_session = false);

// `holder`, or if empty application_name@client_addr, cut at a character boundary so that it fits `limit` characters
// together with the end. palloc'd.
text *make_locked_by(std::string_view holder, std::string_view end, int limit);

// The role that the session logged in as, for what is written about people.
const char *session_role();

// The claims that session functions and token functions make.
claim session_claim();
claim token_claim(instant token);

// Whether that session, as it is in locked_by, still runs. Nothing if that cannot be known: it is another server's, or
// the text names no session.
std::optional<bool> is_session_alive(std::string_view session);

// Points into locked_by.
row read_row(const lease &times, std::string_view locked_by);

// Whether the lease ends with a session that is gone.
bool has_lost_its_session(const lease &times, std::string_view locked_by);

} // namespace shedlock
