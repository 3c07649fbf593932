// Acquire, extend, release: the recipes, for one name or several. Several are all or nothing, with one common token.
#pragma once

#include "lock_table.hpp"

namespace shedlock {

// Who will own what is acquired.
struct owner {
    enum class kinds { session, token };
    kinds kind;
    std::string_view holder; // empty: the default
};

// The token of the new acquisition, or nothing: refused. Without a wait it never waits for another transaction. Opens
// the table anew for every try, so that a waiting caller holds no lock on it while it sleeps.
std::optional<instant> acquire(Oid function, const acquire_request &request, const owner &who);

// True when all were ours and live, and now are extended. Otherwise false, a WARNING that says which was not and why,
// and no row is touched. Waits for a transaction in progress that guards or changes the row.
bool extend(lock_table &table, const extend_request &request, const claim &who);

// The same for release.
bool release(lock_table &table, lock_names names, const claim &who);

} // namespace shedlock
