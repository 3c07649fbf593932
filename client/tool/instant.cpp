#include "instant.hpp"

#include <cstdio>
#include <ctime>
#include <regex>

namespace shedlock::tool {

namespace {

using namespace std::chrono;
using found = std::ssub_match;

int number(const found &digits)
{
    return digits.length() == 0 ? 0 : std::stoi(digits);
}

microseconds fraction(const found &digits)
{
    return microseconds{std::stoi((digits.str() + "000000").substr(0, 6))};
}

minutes offset(const found &sign, const found &hour, const found &minute)
{
    const auto size = hours{number(hour)} + minutes{number(minute)};
    return sign == "-" ? -size : size;
}

} // namespace

std::optional<sys_time<microseconds>> to_instant(const std::string &text)
{
    static const std::regex calendar{
        "(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ]([01]\\d|2[0-3]):([0-5]\\d)(?::([0-5]\\d)(?:[.,](\\d{1,20}))?)?"
        "(?:[Zz]|([+-])([01]\\d|2[0-3]):?([0-5]\\d)?)"};
    static std::regex const since_1970{"@(\\d{1,11})(?:\\.(\\d{1,20}))?"}; // no schedule goes beyond the year 5000
    std::smatch part;
    if (std::regex_match(text, part, since_1970))
        return sys_seconds{seconds{std::stoll(part[1])}} + fraction(part[2]);
    if (!std::regex_match(text, part, calendar))
        return std::nullopt;
    const year_month_day date{year{number(part[1])}, month{static_cast<unsigned>(number(part[2]))},
                              day{static_cast<unsigned>(number(part[3]))}};
    if (!date.ok())
        return std::nullopt;
    return sys_days{date} + hours{number(part[4])} + minutes{number(part[5])} + seconds{number(part[6])} +
           fraction(part[7]) - offset(part[8], part[9], part[10]);
}

std::string to_text(sys_time<microseconds> time)
{
    const auto second = floor<seconds>(time);
    const auto since_1970 = std::time_t{second.time_since_epoch().count()};
    tm parts{};
    ::gmtime_r(&since_1970, &parts);
    char text[32], rest[16] = "";
    const int length = std::snprintf(text, sizeof text, "%04d", parts.tm_year + 1900); // %Y would not pad it
    std::strftime(text + length, sizeof text - static_cast<std::size_t>(length), "-%m-%dT%H:%M:%S", &parts);
    if (time != second)
        std::snprintf(rest, sizeof rest, ".%06d", static_cast<int>((time - second).count()));
    return std::string{text} + rest + 'Z';
}

} // namespace shedlock::tool
