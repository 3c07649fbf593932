#include "table.hpp"

#include <algorithm>
#include <ostream>

namespace shedlock::tool {

namespace {

std::size_t width(const std::string &utf8)
{
    std::size_t letters = 0;
    for (const char byte : utf8)
        letters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    return letters;
}

} // namespace

std::string cut(const std::string &utf8)
{
    constexpr std::size_t limit = 64;
    if (width(utf8) <= limit)
        return utf8;
    std::size_t letters = 0, end = 0;
    while (letters < limit)
        letters += (static_cast<unsigned char>(utf8[end++]) & 0xC0) != 0x80;
    return utf8.substr(0, end - 1) + "…"; // the last byte counted begins the first character that is left out
}

void print_table(const std::vector<columns> &lines, const char *(*colour)(const columns &), std::ostream &out)
{
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto &line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], width(line[i]));
    for (const auto &line : lines) {
        std::string printed;
        for (std::size_t i = 0; i < line.size(); ++i)
            printed += line[i] + std::string(i + 1 < line.size() ? widths[i] - width(line[i]) + 2 : 0, ' ');
        if (colour)
            printed = (&line == &lines.front() ? "\033[1m" : colour(line)) + printed + "\033[0m";
        out << printed << '\n';
    }
}

} // namespace shedlock::tool
