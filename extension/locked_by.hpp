// The column locked_by. It contains the holder, which is any text, and then an end that determines the owner of the
// acquisition. The end of each of our acquisitions contains the row's own locked_at, in microseconds since 1970, after
// a separator that tells its kind:
//   #<locked_at>            owned by its token, which is the same number
//   <session>:<locked_at>   owned by this session
//   <session>!<locked_at>   owned by this session, and ends with it
//   <session>&<locked_at>   owned by its token, and ends with this session
//   *<locked_at>            a pause or a release by force: not a run, and without an owner
// session.hpp describes <session>.
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

// Points into locked_by.
row read_row(const lease &times, std::string_view locked_by);

// Whether the lease ends with a session that is gone.
bool has_lost_its_session(const lease &times, std::string_view locked_by);

} // namespace shedlock
