#include "outage.hpp"

#include <algorithm>
#include <random>

namespace shedlock::internal {

void outage::begin(names const &what, std::exception const &why) noexcept
{
    if (!is_told_.exchange(true))
        tell_(event::kind::acquire_failing, what,
              [&] { return "waiting for PostgreSQL, to ask for " + what.to_text() + ": " + why.what(); });
}

void outage::end(names const &what) noexcept
{
    if (is_told_ && is_told_.exchange(false))
        tell_(event::kind::acquire_recovered, what,
              [&] { return "PostgreSQL can be asked for " + what.to_text() + " again"; });
}

void backoff::rest(clock::time_point until, std::stop_token const &stop)
{
    static thread_local std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<clock::rep> between{next_.count() / 2, next_.count()};
    auto const pause = clock::duration{between(random)};
    next_ = std::min(2 * next_, longest);
    sleep_until(std::min(until, later(clock::now(), pause)), stop);
}

} // namespace shedlock::internal
