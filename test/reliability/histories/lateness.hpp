// How long clients that waited for a lease to end had to wait after its end.
#pragma once

#include "history.hpp"

namespace crowd {

// One entry per name granted to a client that waited for a lease that was neither extended nor released.
std::vector<history::microseconds> lateness(history::record const &);

// 0 if the list is empty.
history::microseconds percentile_99(std::vector<history::microseconds>);

} // namespace crowd
