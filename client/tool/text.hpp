// Text for terminals. Any user can choose names and holders, so these must not act as commands of a terminal.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::tool {

// With control characters, and those that change the direction of the text, as \xNN.
std::string printable(const std::string &);

// The same, but line breaks are kept, and no two texts become the same: a backslash before an x becomes \x5C.
std::string printable_uniquely(const std::string &);

// The same characters as \uNNNN, in JSON.
std::string escaped_in_json(const std::string &);

// Two units at most: 350 ms, 4.2 s, 5m12s, 3h04m, 2d03h.
std::string duration(double seconds);

// Whether this instant is more than two minutes ahead; the doctor tolerates as much. If so, a clock is or was wrong, or
// a Java client has written local time instead of UTC.
bool is_in_the_future(double seconds_ago);

// "3h04m ago", or "in the future".
std::string ago(double seconds);

// On standard error.
void say(const std::string &message);

} // namespace shedlock::tool
