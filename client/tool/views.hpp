// Prints locks, counters and findings: as a table, as JSON, or for Prometheus.
#pragma once

#include "session.hpp"

#include <iosfwd>

namespace shedlock::tool {

// Print these locks, or all if none is named. Return the names that have no row.
std::vector<std::string> list_as_table(internal::session &, const std::vector<std::string> &names, std::ostream &,
                                       bool with_colours);
std::vector<std::string> list_as_json(internal::session &, const std::vector<std::string> &names, std::ostream &);

// The metrics have the names of docs/postgres_exporter.yaml. Without counters only the others are printed. If there are
// more names than max_names, the first ones are printed, and a message on stderr.
void metrics(internal::session &, std::int64_t max_names, std::ostream &);

// Returns true if there is an error or a warning among the findings.
bool doctor(internal::session &, std::ostream &);

} // namespace shedlock::tool
