// Asks the server what history.hpp needs.
#pragma once

#include "history.hpp"
#include "schedule.hpp"
#include "session.hpp"

#include <set>

namespace shedlock::tool {

struct known_past {
    timeline times;
    std::map<std::string, job> jobs; // all that were asked for
};

// The schedule must have a `since`, and may have no ticks. Throws what session::ask throws, and `error` if no history
// is kept.
known_past read_past(internal::session &, const std::vector<std::string> &names, const schedule &);

// An instant by the clocks of a zone: "Fri 2026-11-27", "02:30:00", "CET".
struct local_time {
    std::string date, clock, zone;
};

// The zone must be the name of one.
std::map<std::chrono::sys_seconds, local_time>
local_times(internal::session &, const std::set<std::chrono::sys_seconds> &, const std::string &zone);

} // namespace shedlock::tool
