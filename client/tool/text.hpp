// Words for people. Names and holders are anybody's to choose: they must not reach a terminal as commands to it.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::tool {

// Control characters, and those that turn the line around, as \xNN.
std::string printable(std::string const &);

// So, too, but for line breaks, and reversible: a backslash before an x is \x5C.
std::string printable_uniquely(std::string const &);

// These characters in JSON, as \uNNNN.
std::string escaped_in_json(std::string const &);

// Two units at most: 350 ms, 4.2 s, 5m12s, 3h04m, 2d03h.
std::string duration(double seconds);

// Further ahead than clocks of servers differ (and the doctor tolerates): the clock had jumped forward.
bool is_in_the_future(double seconds_ago);

// "3h04m ago", or "in the future".
std::string ago(double seconds);

// On standard error.
void say(std::string const &message);
void say_event(event const &);

} // namespace shedlock::tool
