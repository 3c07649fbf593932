// Acquire, over connections that break, and while it is not known whether a request was carried out.
#pragma once

#include "session.hpp"

namespace shedlock::internal {

class waiting;
class outage;
class aftermath;

struct grant {
    shedlock::token token;
    clock::time_point sent; // the lease lasts for at_most from then on, or longer
    bool was_extended;      // since then, perhaps more than once, and one of these requests may still be on its way
    std::optional<instant> tick;
};

// How long an acquire waits.
struct limits {
    clock::time_point end;
    std::stop_token stop{};
    std::optional<clock::duration> server{}; // for a server that cannot be reached; nullopt: until the end
    // The lease ends with the session that acquires it, which is pinned then. usage_error behind a pooler.
    bool ends_with_session = false;
};

// Asks at once, and again until the end or a stop; while the server cannot be reached, until limits.server has passed.
// Returns within the session's patience after that, or after the request that was under way when a stop was requested.
// Returns nullopt if refused, and fills in `why` unless it is null.
// Throws in_doubt; lock_lost when a reply was lost and the lease ended before it was known; connection_error when the
// server could not be asked.
std::optional<grant> acquire(session &, waiting &, outage &, aftermath &, const names &, const options &,
                             const limits &, refusal *why);

} // namespace shedlock::internal
