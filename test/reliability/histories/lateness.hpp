// How long those who waited for a lease to end were kept waiting after its end.
#pragma once

#include "history.hpp"

namespace crowd {

// Of each name granted to one who waited for a lease that was neither extended nor released.
std::vector<history::microseconds> lateness(history::record const &);

// The 99th percentile; 0 if there is nothing.
history::microseconds percentile_99(std::vector<history::microseconds>);

} // namespace crowd
