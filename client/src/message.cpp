#include "message.hpp"

#include "shedlock/types.hpp"

namespace shedlock::internal {

std::string one_line(std::string_view message)
{
    std::string line;
    for (const char letter : message) {
        if (letter == '\t')
            continue;
        if (letter != '\n')
            line += letter;
        else if (!line.empty() && line.back() != ' ')
            line += line.back() == '.' || line.back() == ':' ? " " : ". ";
    }
    while (!line.empty() && (line.back() == ' ' || line.back() == '.'))
        line.pop_back();
    return details::printable(line);
}

} // namespace shedlock::internal
