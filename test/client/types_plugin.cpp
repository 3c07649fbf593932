#include "types_plugin.hpp"

#include <shedlock/shedlock.hpp>

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The lock is not held, so the library throws.
EXPORTED bool catches(shedlock::client &locks, std::string const &name)
try {
    locks.release(name, shedlock::token{1});
    return false;
} catch (shedlock::lock_lost const &) {
    return true;
}

EXPORTED void throws(shedlock::client &, std::string const &name)
{
    throw shedlock::lock_lost{name, "SL001"};
}

EXPORTED std::type_info const *type()
{
    return &typeid(shedlock::lock_lost);
}
