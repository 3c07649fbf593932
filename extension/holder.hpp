// Who is asking. The column locked_by is "<holder><suffix>": the holder is text for people, the suffix is what
// ownership is decided by. A suffix is never missing, so no Java client, whose locked_by is its bare host name, can
// match it.
//   /<backend pid>.<backend start>   owned by this session; the start in microseconds since 1970, since pids come back
//   #<token>                         owned by whoever has the token
// A holder that imitates a suffix changes nothing: the real one is always written behind it.
#pragma once

#include "pg.hpp"

namespace shedlock {

// Room for the longest suffix and some holder; the table check demands it of locked_by.
inline constexpr int shortest_locked_by = 64;

std::string_view session_suffix();
std::string_view token_suffix(instant token); // palloc'd

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

// locked_by without its suffix, for messages.
std::string_view holder_of(const row &current);

// Whether it has a suffix, and that of a token is the row's own: one of ours wrote it. A Java host may be called
// worker#3.
bool is_of_ours(const row &current);

} // namespace shedlock
