// Words for people. Names and holders are anybody's to choose: they must not reach a terminal as commands to it.
#pragma once

#include <string>

namespace shedlock::tool {

// Control characters, and those that turn the line around, as \xNN.
std::string printable(std::string const &);

// On standard error.
void say(std::string const &message);

} // namespace shedlock::tool
