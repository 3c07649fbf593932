// Reports events and activities to the application.
#pragma once

#include "shedlock/shedlock.hpp"

#include <new>

namespace shedlock::internal {

class reporter {
public:
    // Default: a line on stderr for events, and nothing for activities.
    explicit reporter(client_settings const &);

    // words() returns the text. If there is no memory for that, a fixed text is reported.
    template <std::invocable Words>
    void operator()(event::kind what, names const &lock, Words const &words) const noexcept
    try {
        on_event_({what, lock, words()});
    } catch (std::bad_alloc const &) {
        report_briefly(what);
    }

    void operator()(activity const &what) const noexcept
    try {
        if (on_activity_)
            on_activity_(what);
    } catch (std::bad_alloc const &) {
    }

private:
    void report_briefly(event::kind) const noexcept;

    std::function<void(event const &)> on_event_;
    std::function<void(activity const &)> on_activity_;
};

} // namespace shedlock::internal
