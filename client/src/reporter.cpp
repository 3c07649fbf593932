#include "reporter.hpp"

#include <cstdio>

namespace shedlock::internal {

namespace {

void print(const event &what)
{
    std::fprintf(stderr, "shedlock: %s\n", details::printable(what.text).c_str());
}

} // namespace

reporter::reporter(const client_settings &settings)
    : on_event_{settings.on_event ? settings.on_event : print}, on_activity_{settings.on_activity}
{
}

// The text is so short that a string does not allocate for it.
void reporter::report_briefly(event::kind what) const noexcept
try {
    on_event_({what, names{std::vector<std::string>{}}, "out of memory"});
} catch (const std::bad_alloc &) {
}

} // namespace shedlock::internal
