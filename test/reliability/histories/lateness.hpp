// How long after the end of a lease the clients that waited for it were granted the lock.
#pragma once

#include "history.hpp"

namespace crowd {

// Has one entry per name that was granted to a client that waited for a lease that was neither extended nor released.
std::vector<history::microseconds> lateness(history::record const &);

// 0 if the list is empty.
history::microseconds percentile_99(std::vector<history::microseconds>);

} // namespace crowd
