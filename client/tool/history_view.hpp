// Prints what became of the runs of jobs, and of the ticks if there is a schedule.
#pragma once

#include "schedule.hpp"
#include "session.hpp"

#include <iosfwd>

namespace shedlock::tool {

// Print the history since schedule.since. Return the names that have neither a row nor a run in it. Throw what
// read_past() throws.
std::vector<std::string> history_as_table(internal::session &, const std::vector<std::string> &names, const schedule &,
                                          std::ostream &, bool with_colours);
std::vector<std::string> history_as_json(internal::session &, const std::vector<std::string> &names, const schedule &,
                                         std::ostream &);

} // namespace shedlock::tool
