// How long after the end of a lease the clients that waited for it were granted the lock.
#pragma once

#include "history.hpp"

namespace crowd {

// Has one entry for each grant of a name, without a tick, to a client that had waited for the previous lease to end.
// Leaves out previous leases that anybody tried to extend, release, guard or complete.
std::vector<history::microseconds> lateness(const history::record &);

// 0 if the list is empty.
history::microseconds percentile_99(std::vector<history::microseconds>);

} // namespace crowd
