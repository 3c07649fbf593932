// Tables for terminals.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace shedlock::tool {

using columns = std::vector<std::string>;

// At most 64 characters of it. Names and holders may have 255 letters each. In JSON they are not cut.
std::string cut(const std::string &utf8);

// The first line is the header. If there is a function `colour`, the header is bold, and the other lines have the
// colours of this function: the terminal's commands, or "".
void print_table(const std::vector<columns> &, const char *(*colour)(const columns &), std::ostream &);

} // namespace shedlock::tool
