#include "core.hpp"

#include <iostream>

namespace shedlock::internal {

namespace {

client_settings with_default_warning(client_settings settings)
{
    if (!settings.on_warning)
        settings.on_warning = [](std::string const &message) { std::cerr << "shedlock: " + message + '\n'; };
    return settings;
}

} // namespace

core::core(std::string const &given, client_settings chosen)
    : settings{with_default_warning(std::move(chosen))},
      connection{with_defaults(given, settings.timeout, true)}, shared{connection, settings.timeout, time}
{
}

clock::time_point core::extend(names const &what, token number, clock::duration at_most,
                               std::optional<clock::duration> at_least)
{
    return persist(timeout(), [&] { return internal::extend(shared, what, number, at_most, at_least); });
}

void core::release(names const &what, token number, clock::time_point until)
{
    auto const remark = internal::release(shared, what, number, until);
    if (!remark.empty())
        warn(remark + " (asked twice, for the first reply was lost)");
}

bool core::ask_bool(std::string const &call, libpqxx::parameters const &arguments)
{
    return shared.ask("SELECT @extschema@." + call, arguments).rows[0][0].as<bool>();
}

void core::warn(std::string const &message) const noexcept
{
    settings.on_warning(message);
}

void core::retire(std::future<void> keeper) noexcept
{
    std::lock_guard const hold{retiring_};
    std::erase_if(retired_,
                  [](auto const &one) { return one.wait_for(std::chrono::seconds{0}) == std::future_status::ready; });
    retired_.push_back(std::move(keeper));
}

} // namespace shedlock::internal
