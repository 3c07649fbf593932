#include "clock.hpp"

#include <algorithm>
#include <time.h>

using namespace std::chrono_literals;

namespace shedlock {

clock::time_point clock::now() noexcept
{
#ifdef CLOCK_BOOTTIME
    constexpr auto id = CLOCK_BOOTTIME;
#else
    constexpr auto id = CLOCK_MONOTONIC; // on other systems it includes the time of sleep
#endif
    timespec now{};
    ::clock_gettime(id, &now);
    return time_point{std::chrono::seconds{now.tv_sec} + std::chrono::microseconds{now.tv_nsec / 1000}};
}

} // namespace shedlock

namespace shedlock::internal {

clock::time_point later(clock::time_point from, clock::duration by) noexcept
{
    clock::rep sum = 0;
    const bool is_beyond = __builtin_add_overflow(from.time_since_epoch().count(), by.count(), &sum);
    return is_beyond ? clock::time_point::max() : clock::time_point{clock::duration{sum}};
}

clock::duration limited_wait(clock::time_point until)
{
    const auto now = clock::now();
    return until <= now ? 0s : std::min<clock::duration>(until - now, 1s);
}

bool sleep_until(clock::time_point until, const std::stop_token &end)
{
    std::mutex mutex;
    std::condition_variable stopped; // condition_variable_any supports stop tokens, but allocates memory
    const auto wake = [&] {
        const std::lock_guard hold{mutex};
        stopped.notify_all();
    };
    const std::stop_callback when_stopped{end, wake};
    std::unique_lock hold{mutex};
    while (!end.stop_requested() && clock::now() < until)
        stopped.wait_for(hold, limited_wait(until));
    return !end.stop_requested();
}

bool timed_mutex::try_lock_until(clock::time_point until)
{
    std::unique_lock hold{mutex_};
    while (is_taken_ && clock::now() < until)
        given_back_.wait_for(hold, limited_wait(until));
    return !std::exchange(is_taken_, true);
}

void timed_mutex::unlock() noexcept
{
    const std::lock_guard hold{mutex_};
    is_taken_ = false;
    given_back_.notify_one();
}

} // namespace shedlock::internal
