// Stops: a slow callback delays no other lock's stop.
#include "fixture.hpp"

#include <condition_variable>

using stop_test = with_server;

namespace {

// A stop callback that goes on until it is told to end.
class slow {
public:
    explicit slow(const shedlock::lock &lock) : callback_{lock.stop_token(), [this] { work(); }} {}
    ~slow() { end(); }
    slow(const slow &) = delete;
    slow &operator=(const slow &) = delete;

    [[nodiscard]] bool has_begun()
    {
        const std::lock_guard hold{mutex_};
        return begun_;
    }
    void end()
    {
        const std::lock_guard hold{mutex_};
        ended_ = true;
        changed_.notify_all();
    }

private:
    void work()
    {
        std::unique_lock hold{mutex_};
        begun_ = true;
        changed_.wait_for(hold, 2 * server::at_last, [this] { return ended_; });
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool begun_ = false;
    bool ended_ = false;
    std::stop_callback<std::function<void()>> callback_; // the last: it uses the others
};

bool is_stopped(const shedlock::lock &lock)
{
    return server::comes_true([&] { return lock.stop_token().stop_requested(); });
}

} // namespace

TEST_F(stop_test, slow_callbacks_do_not_delay_the_stops_of_other_locks)
{
    const frozen_clock clock;
    const auto first = locks.try_acquire(name + " 1", {.at_most = 1h});
    const auto second = locks.try_acquire(name + " 2", {.at_most = 61min});
    const auto third = locks.try_acquire(name + " 3", {.at_most = 3h});
    slow one{*first}, two{*second};
    advance_clock(61min);
    EXPECT_TRUE(server::comes_true([&] { return one.has_begun() && two.has_begun(); }));
    const auto late = locks.try_acquire(name + " 4", {.at_most = 1h});
    advance_clock(late->deadline() - shedlock::clock::now()); // which is before another caller may have the lock
    EXPECT_TRUE(is_stopped(*late));
    EXPECT_FALSE(third->stop_token().stop_requested());
    advance_clock(third->deadline() - shedlock::clock::now());
    EXPECT_TRUE(is_stopped(*third));
    EXPECT_TRUE(first->stop_token().stop_requested());
}

TEST_F(stop_test, slow_callbacks_do_not_delay_keep_alive)
{
    const auto brief = locks.try_acquire(name + " 1", {.at_most = 20min});
    const auto lost = locks.try_acquire(name + " 2", {.at_most = 1h, .keep_alive = true});
    const auto kept = locks.try_acquire(name + " 3", {.at_most = 2h, .keep_alive = true});
    slow late{*brief}, by_keep_alive{*lost};
    locks.force_release(name + " 2");
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return late.has_begun() && by_keep_alive.has_begun(); }));
    const auto deadline = kept->deadline();
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return kept->deadline() > deadline; }));
    EXPECT_TRUE(kept->held());
    EXPECT_EQ(server::state(name + " 3"), "held");
    locks.force_release(name + " 3");
    advance_clock(41min);
    EXPECT_TRUE(is_stopped(*kept));
    EXPECT_FALSE(kept->held());
}

TEST_F(stop_test, a_slow_callback_does_not_keep_its_own_lock_from_its_release)
{
    auto mine = locks.try_acquire(name, {.at_most = 1h});
    const auto stop = mine->stop_token();
    slow late{*mine};
    advance_clock(1h);
    EXPECT_TRUE(server::comes_true([&] { return late.has_begun(); }));
    mine.reset(); // while the callback runs
    EXPECT_TRUE(locks.try_acquire(name, {.at_most = 1min}));
}

TEST_F(stop_test, a_callback_may_use_the_client)
{
    const auto mine = locks.try_acquire(name, {.at_most = 1h});
    std::atomic<bool> acquired = false;
    const std::stop_callback when{mine->stop_token(),
                                  [&] { acquired = locks.acquire(name + " 2", {.at_most = 1min}, 1s).has_value(); }};
    advance_clock(1h);
    EXPECT_TRUE(server::comes_true([&] { return acquired.load(); }));
}

TEST_F(stop_test, a_callback_may_end_the_lock_and_its_client)
{
    std::optional<shedlock::client> brief = client(server::connection());
    std::optional<shedlock::lock> mine = brief->try_acquire(name, {.at_most = 1h, .keep_alive = true});
    brief.reset(); // so that the lock is the last owner of the client's threads
    std::atomic<bool> is_gone = false;
    const auto stop = mine->stop_token();
    const std::stop_callback when{stop, [&] {
                                      mine.reset();
                                      is_gone = true;
                                  }};
    locks.force_release(name);
    advance_clock(21min);
    EXPECT_TRUE(server::comes_true([&] { return is_gone.load(); }));
}
