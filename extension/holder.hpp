// Whose a lock is. The column locked_by is the holder, which is text for people, and an end that ownership is decided
// by. The end of every acquisition of ours has the row's own locked_at in it, in microseconds since 1970, behind a
// separator that tells its kind:
//   #<locked_at>                                 owned by whoever has the token, which is the same number
//   /<backend pid>.<backend start>:<locked_at>   owned by this session; the start in microseconds since 1970, since
//                                                process ids come back
//   /<backend pid>.<backend start>!<locked_at>   of a shedlock_run: owned by this session, and ends with it
//   *<locked_at>                                 a pause or a release by force: no run, and nobody's
// A Java client writes the same locked_by each time, and never the row's locked_at. A holder that imitates an end
// changes nothing: the real one is always written behind it. Nothing else is read from locked_by. (The view
// shedlock_locks, the portable edition and shedlock_protect_row have the same rule as a regular expression.)
#pragma once

#include "pg.hpp"

namespace shedlock {

// Room for the longest end and some holder; the table check demands it of locked_by.
inline constexpr int shortest_locked_by = 64;

// The end of locked_by for an acquisition of that kind, not java. palloc'd.
std::string_view end_of(origin::kinds kind, instant locked_at);

// `holder`, or if empty application_name@client_addr, cut at a character boundary so that it fits `limit` characters
// together with the end. palloc'd.
text *make_locked_by(std::string_view holder, std::string_view end, int limit);

// The role that the session logged in as, for what is written about people.
const char *session_role();

// The claims that session functions and token functions make.
claim session_claim();
claim token_claim(instant token);

// Whether that session still runs on this server.
bool is_session_alive(int pid, instant started);

// Points into locked_by.
row read_row(const lease &times, std::string_view locked_by);

// Whether it is held by a run whose session is gone.
bool is_of_dead_run(const lease &times, std::string_view locked_by);

} // namespace shedlock
