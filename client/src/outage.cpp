#include "outage.hpp"

#include <algorithm>
#include <random>

namespace shedlock::internal {

void outage::begin(const names &what, const std::exception &why) noexcept
{
    {
        const std::lock_guard hold{mutex_};
        if (state_ == is_over_already) // for another call, but not for this one
            state_ = begins;
        if (state_ != none)
            return;
        state_ = begins;
    }
    report_(event::kind::acquire_failing, what,
            [&] { return "could not ask PostgreSQL for " + what.to_text() + " yet: " + why.what(); });
    {
        const std::lock_guard hold{mutex_};
        state_ = state_ == begins ? begun : ends;
        if (state_ == begun)
            return;
    }
    report_end(what);
}

void outage::end(const names &what) noexcept
{
    {
        const std::lock_guard hold{mutex_};
        if (state_ == begins) // the call that reports the beginning will report the end, too
            state_ = is_over_already;
        if (state_ != begun)
            return;
        state_ = ends;
    }
    report_end(what);
}

void outage::report_end(const names &what) noexcept
{
    report_(event::kind::acquire_recovered, what,
            [&] { return "PostgreSQL can be asked for " + what.to_text() + " again"; });
    const std::lock_guard hold{mutex_};
    state_ = none;
}

void backoff::rest(clock::time_point until, const std::stop_token &stop)
{
    static thread_local std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<clock::rep> between{next_.count() / 2, next_.count()};
    const auto pause = clock::duration{between(random)};
    next_ = std::min(2 * next_, longest_);
    sleep_until(std::min(until, later(clock::now(), pause)), stop);
}

} // namespace shedlock::internal
