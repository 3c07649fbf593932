#include "timer.hpp"

#include "frozen_clock.hpp"
#include "server.hpp"

#include <gtest/gtest.h>

using namespace shedlock;
using namespace shedlock::internal;
using namespace std::chrono_literals;

namespace {

bool comes_to_a_stop(const std::stop_source &source)
{
    return server::comes_true([&] { return source.stop_requested(); });
}

} // namespace

TEST(timer_test, requests_stops_when_it_is_time_and_not_before)
{
    timer timer;
    std::stop_source soon, sooner, never;
    const auto begin = clock::now();
    const timer::alarm later{timer, begin + 200ms, soon};
    const timer::alarm earlier{timer, begin + 100ms, sooner};
    const timer::alarm far{timer, clock::time_point::max(), never};
    EXPECT_TRUE(comes_to_a_stop(sooner));
    EXPECT_GE(clock::now(), begin + 100ms);
    EXPECT_TRUE(comes_to_a_stop(soon));
    EXPECT_GE(clock::now(), begin + 200ms);
    EXPECT_FALSE(never.stop_requested());
}

TEST(timer_test, an_alarm_can_be_moved_and_taken_back)
{
    const frozen_clock still;
    timer timer;
    std::stop_source moved, gone;
    {
        const timer::alarm brief{timer, clock::now() + 1h, gone};
    }
    timer::alarm alarm{timer, clock::now() + 3h, moved};
    alarm.move_to(clock::now() + 2h);
    advance_clock(2h);
    EXPECT_TRUE(comes_to_a_stop(moved));
    EXPECT_FALSE(gone.stop_requested());
    alarm.move_to(clock::now()); // after it went off
}

TEST(timer_test, a_callback_may_set_alarms)
{
    timer timer;
    std::stop_source first, second;
    std::optional<timer::alarm> next;
    const std::stop_callback when{first.get_token(), [&] { next.emplace(timer, clock::now(), second); }};
    const timer::alarm alarm{timer, clock::now(), first};
    EXPECT_TRUE(comes_to_a_stop(second));
}

TEST(timer_test, sleep_ends_with_a_stop)
{
    std::stop_source stop;
    stop.request_stop();
    EXPECT_FALSE(sleep_until(clock::now() + 1h, stop.get_token()));
    EXPECT_TRUE(sleep_until(clock::now() + 1ms, {}));
}

TEST(timer_test, the_clock_is_the_one_that_goes_on_during_suspend)
{
    const frozen_clock still;
    const auto before = clock::now();
    advance_clock(1h); // CLOCK_BOOTTIME and no other
    EXPECT_EQ(clock::now(), before + 1h);
}

TEST(timer_test, a_mutex_is_waited_for_until_a_time)
{
    timed_mutex one;
    std::unique_lock first{one, clock::now()};
    EXPECT_TRUE(first);
    const auto begin = clock::now();
    EXPECT_FALSE((std::unique_lock{one, begin + 100ms}));
    EXPECT_GE(clock::now(), begin + 100ms);
    const std::jthread later{[&] {
        std::this_thread::sleep_for(100ms);
        first.unlock();
    }};
    EXPECT_TRUE((std::unique_lock{one, begin + 1h}));
}
