#include "text.hpp"

#include "shedlock/types.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string_view>

namespace shedlock::tool {

namespace {

// One UTF-8 character, of at most three bytes, as \uNNNN.
std::string number_in_hex(std::string_view letter)
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(letter[i]); };
    const unsigned number = letter.size() == 1   ? byte(0)
                            : letter.size() == 2 ? (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu)
                                                 : (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", number);
    return escaped;
}

template <typename Escape> std::string without_harmful(const std::string &any, Escape escape)
{
    std::string safe;
    for (std::string_view rest = any; !rest.empty();) {
        const auto bytes = details::harmful_length(rest);
        if (bytes == 0)
            safe += rest.front();
        else
            safe += escape(rest.substr(0, bytes));
        rest.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return safe;
}

} // namespace

std::string printable(const std::string &any)
{
    return details::printable(any);
}

std::string printable_uniquely(const std::string &any)
{
    std::string marked;
    for (std::size_t i = 0; i < any.size(); ++i)
        marked += any.compare(i, 2, "\\x") == 0 ? "\\x5C" : std::string{any[i]};
    return without_harmful(details::storable(marked, 4), [](std::string_view letter) {
        return letter == "\n" ? std::string{letter} : details::printable(letter);
    });
}

std::string escaped_in_json(const std::string &json)
{
    return without_harmful(
        json, [](std::string_view letter) { return letter == "\n" ? std::string{letter} : number_in_hex(letter); });
}

std::string duration(double seconds)
{
    if (!std::isfinite(seconds)) // a row that was edited by hand
        return "an unknown time";
    const auto whole = static_cast<long long>(seconds);
    char out[48];
    if (seconds < 1)
        std::snprintf(out, sizeof out, "%.0f ms", seconds * 1000);
    else if (seconds < 60)
        std::snprintf(out, sizeof out, "%.1f s", seconds);
    else if (whole < 3600)
        std::snprintf(out, sizeof out, "%lldm%02llds", whole / 60, whole % 60);
    else if (whole < 86400)
        std::snprintf(out, sizeof out, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    else
        std::snprintf(out, sizeof out, "%lldd%02lldh", whole / 86400, whole / 3600 % 24);
    return out;
}

bool is_in_the_future(double seconds_ago)
{
    return seconds_ago < -120;
}

std::string ago(double seconds)
{
    return is_in_the_future(seconds) ? "in the future" : duration(std::max(seconds, 0.0)) + " ago";
}

void say(const std::string &message)
{
    std::cerr << "shedlock: " + printable(message) + '\n';
}

} // namespace shedlock::tool
