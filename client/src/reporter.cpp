#include "reporter.hpp"

#include <algorithm>
#include <climits>
#include <poll.h>
#include <string_view>
#include <unistd.h>

namespace shedlock::internal {

// (Only another writer can fill the pipe between the two calls.)
void print_at_once(const std::string &text)
{
    const auto line = "shedlock: " + details::printable(text) + '\n';
    for (std::string_view rest = line; !rest.empty();) {
        pollfd out{STDERR_FILENO, POLLOUT, 0};
        if (::poll(&out, 1, 0) != 1 || out.revents != POLLOUT)
            return;
        const auto size = ::write(out.fd, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
        if (size < 0)
            return;
        rest.remove_prefix(static_cast<std::size_t>(size));
    }
}

reporter::reporter(const client_settings &settings)
    : on_event_{settings.on_event ? settings.on_event : [](const event &what) { print_at_once(what.text); }},
      on_activity_{settings.on_activity}
{
}

// The text is so short that a string does not allocate for it.
void reporter::report_briefly(event::kind what) const noexcept
try {
    on_event_({what, names{std::vector<std::string>{}}, "out of memory"});
} catch (const std::bad_alloc &) {
}

} // namespace shedlock::internal
