// Who is asking. The column locked_by is "<holder><suffix>": the holder is text for people, the suffix is what
// ownership is decided by. A suffix is never missing, so no Java client, whose locked_by is its bare host name, can
// match it.
//   /<backend pid>.<backend start>   owned by this session; the start in microseconds since 1970, since pids come back
//   #<token>                         owned by whoever has the token
// A holder that imitates one of these changes nothing: the real one is always written behind it. Before it stands what
// else is to be known of the acquisition:
//   /run                             by shedlock_run: it ends with its session
//   /tick<instant>                   for that tick, in microseconds since 1970; 0 if it was earlier
#pragma once

#include "pg.hpp"

namespace shedlock {

// Room for the longest suffix and some holder; the table check demands it of locked_by.
inline constexpr int shortest_locked_by = 64;

std::string_view session_suffix();
std::string_view token_suffix(instant token); // palloc'd

// What stands before a suffix. palloc'd.
std::string_view with_remarks(std::string_view suffix, bool is_run, std::optional<instant> tick);

// `holder`, or if empty application_name@client_addr, cut at a character boundary so that it fits `limit` characters
// together with the suffix. palloc'd.
text *make_locked_by(std::string_view holder, std::string_view suffix, int limit);

// The role that the session logged in as, for what is written about people.
const char *session_role();

// The claims that session functions and token functions make.
claim session_claim();
claim token_claim(instant token);

// Whether the session of such a suffix still runs on this server.
bool is_session_alive(int pid, instant started);

// locked_by without its suffix and what stands before that, for messages.
std::string_view holder_of(const row &current);

// Ours if it has a suffix, and that of a token is the row's own. A Java host may be called worker#3.
origin origin_of(const row &current);

// Whether it is held by a run whose session is gone.
bool is_of_dead_run(std::string_view locked_by);

} // namespace shedlock
