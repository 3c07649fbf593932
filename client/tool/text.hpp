// Words for people. Names and holders are anybody's to choose: they must not reach a terminal as commands to it.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::tool {

// Control characters, and those that turn the line around, as \xNN.
std::string printable(std::string const &);

// On standard error.
void say(std::string const &message);
void say_event(event const &);

} // namespace shedlock::tool
