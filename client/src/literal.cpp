#include "literal.hpp"

#include <cstdlib>

namespace shedlock::internal {

std::string text_literal(std::string_view argument, std::string_view text)
{
    if (text.find('\0') != text.npos)
        throw usage_error{std::string{argument} + " must not contain a NUL byte: PostgreSQL cannot store it", "22021"};
    return std::string{text};
}

std::string names_literal(const names &names)
{
    if (names.list().empty())
        throw usage_error{"names must not be empty: give at least one name", "22023"};
    for (const auto &name : names.list())
        details::require_storable(name);
    if (names.list().size() == 1)
        return text_literal("name", names.list().front());
    return array_literal(names.list());
}

std::string array_literal(const std::vector<std::string> &list)
{
    std::string array = "{";
    for (const auto &one : list) {
        array += array.size() > 1 ? ",\"" : "\"";
        for (const char letter : text_literal("name", one)) {
            if (letter == '"' || letter == '\\')
                array += '\\';
            array += letter;
        }
        array += '"';
    }
    return array + '}';
}

std::string token_literal(token number)
{
    return std::to_string(static_cast<std::int64_t>(number));
}

std::int64_t to_number(const std::string &bigint)
{
    return std::strtoll(bigint.c_str(), nullptr, 10);
}

std::string interval_literal(std::chrono::microseconds duration)
{
    return std::to_string(duration.count()) + " microseconds";
}

std::string call(const std::string &function, const names &names, const std::string &other_arguments, bool outlasts)
{
    const std::string limit =
        outlasts ? "NULL"
                 : "pg_catalog.set_config('lock_timeout', CASE WHEN pg_catalog.current_setting('lock_timeout') "
                   "OPERATOR(pg_catalog.=) '0' OR pg_catalog.current_setting('lock_timeout')::pg_catalog.interval "
                   "OPERATOR(pg_catalog.>) '@lock_timeout@ ms'::pg_catalog.interval THEN '@lock_timeout@' ELSE "
                   "pg_catalog.current_setting('lock_timeout') END, true)";
    return "SELECT ROW(pg_catalog.set_config('client_min_messages', 'warning', true), " + limit + "), @extschema@." +
           function + (names.list().size() == 1 ? "($1::pg_catalog.text, " : "($1::pg_catalog.text[], ") +
           other_arguments + ')';
}

} // namespace shedlock::internal
