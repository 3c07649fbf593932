// What there is to see: locks, counters, findings; as a table for people, as JSON, for Prometheus.
#pragma once

#include "session.hpp"

#include <iosfwd>

namespace shedlock::tool {

// Only these locks; all, if none is named. The names that have no row are given back.
std::vector<std::string> list_as_table(internal::session &, std::vector<std::string> const &names, std::ostream &,
                                       bool with_colours);
std::vector<std::string> list_as_json(internal::session &, std::vector<std::string> const &names, std::ostream &);

// The names are those of docs/postgres_exporter.yaml.
void metrics(internal::session &, std::ostream &);

// Whether there is an error or a warning among the findings.
bool doctor(internal::session &, std::ostream &);

} // namespace shedlock::tool
