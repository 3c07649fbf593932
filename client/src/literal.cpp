#include "literal.hpp"

#include <cstdio>

namespace shedlock::internal {

std::string text_literal(std::string_view argument, std::string_view text)
{
    if (text.find('\0') != text.npos)
        throw usage_error{std::string{argument} + " must not contain a NUL byte: PostgreSQL cannot store it", "22021"};
    return std::string{text};
}

std::string type_of(names const &names)
{
    return names.list().size() == 1 ? "pg_catalog.text" : "pg_catalog.text[]";
}

std::string names_literal(names const &names)
{
    if (names.list().empty())
        throw usage_error{"names must not be empty: give at least one name", "22023"};
    if (names.list().size() == 1)
        return text_literal("name", names.list().front());
    std::string array = "{";
    for (auto const &name : names.list()) {
        array += array.size() > 1 ? ",\"" : "\"";
        for (char const letter : text_literal("name", name)) {
            if (letter == '"' || letter == '\\')
                array += '\\';
            array += letter;
        }
        array += '"';
    }
    return array + '}';
}

std::string interval_literal(std::chrono::microseconds duration)
{
    return std::to_string(duration.count()) + " microseconds";
}

std::string timestamp_literal(std::chrono::sys_time<std::chrono::microseconds> instant)
{
    auto const day = std::chrono::floor<std::chrono::days>(instant);
    std::chrono::year_month_day const date{day};
    std::chrono::hh_mm_ss const time{instant - day};
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u %02ld:%02ld:%02ld.%06ld+00", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  static_cast<long>(time.hours().count()), static_cast<long>(time.minutes().count()),
                  static_cast<long>(time.seconds().count()), static_cast<long>(time.subseconds().count()));
    return text;
}

} // namespace shedlock::internal
