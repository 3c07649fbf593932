// Acquire: the recipe, for one name or several. Several are all or nothing, with one common token.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// Who will own what is acquired.
struct owner {
    origin::kinds kind;
    std::string_view holder{}; // empty: the default
    bool ends_with_session = false;
};

// The token of the new acquisition, or nothing: refused. Without a wait it never waits for another transaction. Opens
// the table anew for every try, so that a waiting caller holds no lock on it while it sleeps.
std::optional<instant> acquire(Oid function, const acquire_request &request, const owner &who);

} // namespace shedlock
