#include "call.hpp"

namespace {

template <typename T> std::string described(const std::optional<T> &value)
{
    return value ? std::to_string(*value) : "NULL";
}

std::string described(const std::optional<bool> &value)
{
    return value ? *value ? "true" : "false" : "NULL";
}

std::string described(const std::optional<interval> &i)
{
    return i ? std::to_string(i->months) + " mons " + std::to_string(i->days) + " days " +
                   std::to_string(i->microseconds) + " us"
             : "NULL";
}

std::string described(const std::optional<std::string> &text)
{
    return text ? "\"" + printable(*text) + "\"" : "NULL";
}

std::string described_name(const call &made)
{
    if (made.name_is_null)
        return "NULL";
    if (!made.is_array)
        return described(made.names.front());
    auto result = "[" + std::to_string(made.dimensions) + " dimensions from " + std::to_string(made.lower_bound) + "]{";
    for (const auto &name : made.names)
        result += described(name) + ",";
    return result + "}";
}

} // namespace

std::string description(const call &made)
{
    std::string result = signature_of(made.what).name;
    for (const char letter : signature_of(made.what).arguments)
        result += letter == 'n'   ? " name " + described_name(made)
                  : letter == 'k' ? " token " + described(made.token)
                  : letter == 'm' ? " at_most " + described(made.at_most)
                  : letter == 'l' ? " at_least " + described(made.at_least)
                  : letter == 'w' ? " wait " + described(made.wait)
                  : letter == 't' ? " tick " + described(made.tick)
                  : letter == 'r' ? " retry " + described(made.retry)
                  : letter == 's' ? " start_within " + described(made.start_within)
                  : letter == 'd' ? " done " + described(made.done)
                  : letter == 'e' ? " ends_with_session " + described(made.ends_with_session)
                                  : " text " + described(made.text);
    return result;
}

std::string description(const rows &all, const std::string &name)
{
    const auto found = all.find(name);
    if (found == all.end())
        return "no row \"" + printable(name) + "\"";
    const auto &row = found->second;
    return "\"" + printable(name) + "\" lock_until " + std::to_string(row.lock_until) + " locked_at " +
           std::to_string(row.locked_at) + " locked_by \"" + printable(row.locked_by) + "\" lock_at_least_until " +
           described(row.lock_at_least_until) + " last_tick " + described(row.last_tick) + " last_done_tick " +
           described(row.last_done_tick) + " last_done_at " + described(row.last_done_at) + " run_tick " +
           described(row.run_tick);
}
