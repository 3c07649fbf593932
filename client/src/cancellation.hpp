// Keeps pthread_cancel away from calls of the library.
#pragma once

#include <pthread.h>

namespace shedlock::internal {

// While one of these lives, the calling thread cannot be cancelled. Every call of the library has one. If a call were
// cancelled halfway, nobody would know what has become of its requests; and many of its waits are in functions through
// which no exception may pass.
class uncancelled {
public:
    uncancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~uncancelled() { ::pthread_setcancelstate(before_, nullptr); }
    uncancelled(const uncancelled &) = delete;
    uncancelled &operator=(const uncancelled &) = delete;

private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

} // namespace shedlock::internal
