// Reads the command line.
#pragma once

#include "request.hpp"

#include <string>
#include <vector>

namespace shedlock::tool {

// Returns the request of these words, which do not include the program's name. For --help and the like its action
// prints the text. Throws usage_error, except for `check`: then the action prints the error as a monitoring plugin
// does.
request read_command_line(std::vector<std::string> words);

} // namespace shedlock::tool
