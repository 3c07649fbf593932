// Text for people. Anybody can choose names and holders, which must not reach a terminal as commands to it.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::tool {

// With control characters, and those that change the direction of the text, as \xNN.
std::string printable(std::string const &);

// The same, except for line breaks, and reversible: a backslash before an x becomes \x5C.
std::string printable_uniquely(std::string const &);

// These characters in JSON, as \uNNNN.
std::string escaped_in_json(std::string const &);

// Two units at most: 350 ms, 4.2 s, 5m12s, 3h04m, 2d03h.
std::string duration(double seconds);

// Whether it is further ahead than the clocks of servers differ (as far as the doctor tolerates), so that a clock must
// have jumped forward.
bool is_in_the_future(double seconds_ago);

// "3h04m ago", or "in the future".
std::string ago(double seconds);

// On standard error.
void say(std::string const &message);
void say_event(event const &);

} // namespace shedlock::tool
