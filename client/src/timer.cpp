#include "timer.hpp"

#include <algorithm>
#include <time.h>

using namespace std::chrono_literals;

namespace shedlock {

clock::time_point clock::now() noexcept
{
#ifdef CLOCK_BOOTTIME
    constexpr auto id = CLOCK_BOOTTIME;
#else
    constexpr auto id = CLOCK_MONOTONIC; // Elsewhere than on Linux it counts the time of sleep.
#endif
    timespec now{};
    ::clock_gettime(id, &now);
    return time_point{std::chrono::seconds{now.tv_sec} + std::chrono::microseconds{now.tv_nsec / 1000}};
}

} // namespace shedlock

namespace shedlock::internal {

clock::duration nap(clock::time_point until)
{
    return std::clamp<clock::duration>(until - clock::now(), 0s, 1s);
}

timer::timer() : thread_{[this](std::stop_token const &end) { keep_time(end); }}
{
}
timer::~timer() = default;

void timer::keep_time(std::stop_token const &end)
{
    std::unique_lock hold{mutex_};
    while (!end.stop_requested()) {
        if (alarms_.empty()) {
            changed_.wait(hold, end, [this] { return !alarms_.empty(); });
        } else if (auto const first = alarms_.begin(); first->first.first <= clock::now()) {
            auto source = first->second;
            alarms_.erase(first);
            hold.unlock();
            source.request_stop(); // runs the owner's callbacks
            hold.lock();
        } else {
            auto const next = first->first;
            changed_.wait_for(hold, end, nap(next.first),
                              [&] { return alarms_.empty() || alarms_.begin()->first < next; });
        }
    }
}

timer::key timer::add(clock::time_point at, std::stop_source const &source)
{
    std::lock_guard const hold{mutex_};
    key const number{at, ++last_number_};
    alarms_.emplace(number, source);
    changed_.notify_all();
    return number;
}

void timer::remove(key const &number)
{
    std::lock_guard const hold{mutex_};
    alarms_.erase(number); // not there any more if its time has come
}

// The entry stays the same: an alarm must not be lost because there is no memory for another.
timer::key timer::move(key const &number, clock::time_point at) noexcept
{
    std::lock_guard const hold{mutex_};
    auto entry = alarms_.extract(number);
    if (entry.empty())
        return number;
    key const moved{at, ++last_number_};
    entry.key() = moved;
    alarms_.insert(std::move(entry));
    changed_.notify_all();
    return moved;
}

timer::alarm::alarm(timer &owner, clock::time_point at, std::stop_source const &source)
    : timer_{owner}, key_{owner.add(at, source)}
{
}

timer::alarm::~alarm()
{
    timer_.remove(key_);
}

void timer::alarm::move_to(clock::time_point at) noexcept
{
    key_ = timer_.move(key_, at);
}

bool sleep_until(clock::time_point until, std::stop_token const &end)
{
    std::mutex mutex;
    std::condition_variable stopped; // condition_variable_any, which knows of stops, would need memory
    auto const wake = [&] {
        std::lock_guard const hold{mutex};
        stopped.notify_all();
    };
    std::stop_callback const when_stopped{end, wake};
    std::unique_lock hold{mutex};
    while (!end.stop_requested() && clock::now() < until)
        stopped.wait_for(hold, nap(until));
    return !end.stop_requested();
}

} // namespace shedlock::internal
