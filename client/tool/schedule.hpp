// When the runs of a job are due. The server reads the texts.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace shedlock::tool {

struct schedule {
    std::optional<std::string> ticks; // an interval or a crontab expression
    std::string zone = "UTC";
    std::chrono::microseconds grace{}; // after the tick, until its run must be done
    // How far shedlock_tick looks ahead for such a schedule. An early tick is not due yet for a check.
    std::chrono::microseconds looks_ahead = std::chrono::seconds{30};
    // Earlier ticks do not count. An instant, or a time back from now; at most one of them.
    std::optional<std::string> since;
    std::optional<std::chrono::microseconds> since_ago;
};

} // namespace shedlock::tool
