// Acquire, for one name or several. Several are all or nothing, with one common token.
#pragma once

#include "lock_table.hpp"
#include "request.hpp"

namespace shedlock {

// The owner of what is acquired.
struct owner {
    origin::kinds kind;
    std::string_view holder{}; // empty: the default holder
    bool ends_with_session = false;
};

// Why an acquire is refused for good: "had run" or "late". Null if it is not.
const char *why_not_due(Oid function, const lock_name &name, const tick_request &asked);

// Returns the token of the new acquisition, or nothing if it was refused. Without a wait it never waits for another
// transaction, except for DDL that locks the table. It opens the table again for every try, so that a caller that waits
// holds no lock on the table while it sleeps.
std::optional<instant> acquire(Oid function, const acquire_request &request, const owner &who);

} // namespace shedlock
