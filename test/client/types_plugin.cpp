#include "types_plugin.hpp"

#include <shedlock/shedlock.hpp>

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The lock is not held, so the library throws.
EXPORTED bool catches(shedlock::client &locks, const std::string &name)
try {
    locks.release(name, shedlock::token{1});
    return false;
} catch (const shedlock::lock_lost &) {
    return true;
}

EXPORTED void throws(shedlock::client &, const std::string &name)
{
    throw shedlock::lock_lost{name, "SL001"};
}

EXPORTED const std::type_info *type()
{
    return &typeid(shedlock::lock_lost);
}
