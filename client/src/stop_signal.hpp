// A stop request as a descriptor.
#pragma once

#include "clock.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

namespace shedlock::internal {

// Can be polled together with a socket: it becomes readable when a stop is requested. If there is no descriptor left it
// never does, and the stop is noticed later.
class stop_signal {
public:
    explicit stop_signal(const std::stop_token &stop)
        : stop_{stop}, descriptor_{stop.stop_possible() ? ::eventfd(0, EFD_CLOEXEC) : -1},
          when_stopped_{std::in_place, stop, [this] { ::eventfd_write(descriptor_, 1); }}
    {
    }
    ~stop_signal()
    {
        when_stopped_.reset(); // waits for the callback, which may be writing to the descriptor
        if (descriptor_ >= 0)
            ::close(descriptor_);
    }
    stop_signal(const stop_signal &) = delete;
    stop_signal &operator=(const stop_signal &) = delete;

    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    [[nodiscard]] bool is_requested() const noexcept { return stop_.stop_requested(); }

private:
    const std::stop_token &stop_;
    const int descriptor_;
    std::optional<std::stop_callback<std::function<void()>>> when_stopped_;
};

} // namespace shedlock::internal
