// What a monitoring plugin reports about locks: one line, and an exit status.
#pragma once

#include "schedule.hpp"
#include "session.hpp"

namespace shedlock::tool {

struct thresholds {
    std::optional<std::chrono::microseconds> max_age;  // since a run was last done
    std::optional<std::chrono::microseconds> max_held; // by the present holder
    schedule runs;                                     // without ticks: not limited by a schedule
};

// The exit status of monitoring plugins.
enum class health { ok = 0, warning = 1, critical = 2, unknown = 3 };

struct diagnosis {
    health worst = health::ok; // critical is worse than warning, and that is worse than unknown
    std::string line;          // with performance data; no line break
};

// Needs only the privilege to read the view shedlock_locks. Throws what session::ask throws.
diagnosis check(internal::session &, const std::vector<std::string> &names, const thresholds &);

// The line of a check that could not be made.
std::string unchecked(const std::string &why);

} // namespace shedlock::tool
