#include "core.hpp"

#include <cstdio>

namespace shedlock::internal {

namespace {

client_settings with_default_warning(client_settings settings)
{
    if (!settings.on_warning)
        settings.on_warning = [](std::string const &message) {
            std::fprintf(stderr, "shedlock: %s\n", message.c_str());
        };
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

void core::release(names const &what, token number, outcome how, clock::time_point until)
{
    auto const remark = internal::release(shared, what, number, how, until);
    if (!remark.empty())
        warn([&] { return remark + " (asked twice, for the first reply was lost)"; });
}

bool core::ask_bool(std::string const &call, libpqxx::parameters const &arguments)
{
    return shared.ask("SELECT @extschema@." + call, arguments).rows[0][0].as<bool>();
}

// So short that a string needs no memory of its own for it.
void core::warn_briefly() const noexcept
try {
    settings.on_warning("out of memory");
} catch (std::bad_alloc const &) {
}

void core::retire(std::future<void> keeper) noexcept
try {
    std::lock_guard const hold{retiring_};
    std::erase_if(retired_,
                  [](auto const &one) { return one.wait_for(std::chrono::seconds{0}) == std::future_status::ready; });
    retired_.push_back(std::move(keeper));
} catch (std::bad_alloc const &) { // it is still ours, and waits when it goes
}

} // namespace shedlock::internal
