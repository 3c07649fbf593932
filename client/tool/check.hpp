// What a monitoring plugin reports about locks: one line, and an exit status.
#pragma once

#include "judgement.hpp"
#include "session.hpp"

namespace shedlock::tool {

struct diagnosis {
    health worst = health::ok;
    std::string line; // with performance data; no line break
};

// Needs only the privilege to read. Throws what session::ask throws, and what read_past() throws if missed ticks are
// limited.
diagnosis check(internal::session &, const std::vector<std::string> &names, const thresholds &);

// The line of a check that could not be made.
std::string unchecked(const std::string &why);

} // namespace shedlock::tool
