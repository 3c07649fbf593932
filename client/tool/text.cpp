#include "text.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string_view>

namespace shedlock::tool {

namespace {

bool is_between(std::string_view letter, std::string_view first, std::string_view last)
{
    return letter.substr(0, first.size()) >= first && letter.substr(0, last.size()) <= last;
}

// How many bytes at the beginning of this are such a character; 0: none.
std::size_t harmful(std::string_view text)
{
    if (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F)
        return 1;
    if (is_between(text, "\u0080", "\u009F") || is_between(text, "\u061C", "\u061C"))
        return 2;
    if (is_between(text, "\u200E", "\u200F") || is_between(text, "\u2028", "\u202E") ||
        is_between(text, "\u2066", "\u2069"))
        return 3;
    return 0;
}

} // namespace

std::string printable(std::string const &any)
{
    std::string safe;
    for (std::string_view rest = any; !rest.empty();) {
        auto const bytes = harmful(rest);
        for (char const byte : rest.substr(0, bytes)) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\x%02X", static_cast<unsigned char>(byte));
            safe += escaped;
        }
        if (bytes == 0)
            safe += rest.front();
        rest.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return safe;
}

void say(std::string const &message)
{
    std::cerr << "shedlock: " + printable(message) + '\n';
}

void say_event(event const &what)
{
    say(what.text);
}

} // namespace shedlock::tool
