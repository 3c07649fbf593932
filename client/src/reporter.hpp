// Reports events and activities to the application.
#pragma once

#include "shedlock/shedlock.hpp"

#include <new>

namespace shedlock::internal {

// A line on standard error, without waiting for a reader, because keep-alive or a release waits for this. What does not
// fit into the pipe, or on a terminal after Ctrl-S, is lost.
void print_at_once(const std::string &text);

class reporter {
public:
    // Default: print_at_once for events, and nothing for activities.
    explicit reporter(const client_settings &);

    // words() returns the text. If there is no memory for that, a fixed text is reported.
    template <std::invocable Words>
    void operator()(event::kind what, const names &lock, const Words &words) const noexcept
    try {
        on_event_({what, lock, words()});
    } catch (const std::bad_alloc &) {
        report_briefly(what);
    }

    void operator()(const activity &what) const noexcept
    try {
        if (on_activity_)
            on_activity_(what);
    } catch (const std::bad_alloc &) {
    }

private:
    void report_briefly(event::kind) const noexcept;

    std::function<void(const event &)> on_event_;
    std::function<void(const activity &)> on_activity_;
};

} // namespace shedlock::internal
