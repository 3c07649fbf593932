// What the tests of the client have in common: a client whose events are kept, and a lock name for each test.
#pragma once

#include "frozen_clock.hpp"
#include "server.hpp"

#include <algorithm>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <shedlock/shedlock.hpp>
#include <thread>

using namespace std::chrono_literals;
using shedlock::event;
using shedlock::token;

// The same token, as the type that server::token returns.
inline std::int64_t number(token value)
{
    return static_cast<std::int64_t>(value);
}

#define ONLY_THE_EXTENSION(why)                                                                                        \
    if (server::is_portable())                                                                                         \
    GTEST_SKIP() << "the portable edition: " << (why)

// A table for what the transactions of a test commit.
class table_of_work {
public:
    static constexpr const char *work = "INSERT INTO work DEFAULT VALUES";

    table_of_work() { server::ask("CREATE TABLE work (number int DEFAULT 0)"); }
    ~table_of_work() { server::ask("DROP TABLE work"); }
    table_of_work(const table_of_work &) = delete;
    table_of_work &operator=(const table_of_work &) = delete;
    [[nodiscard]] std::string rows() const { return server::ask("SELECT count(*) FROM work"); }

    // Does the work and then executes this statement, in one transaction. Returns the SQLSTATE with which it failed, or
    // "".
    [[nodiscard]] std::string do_with(const std::string &statement) const
    {
        try {
            server::ask(std::string{"BEGIN; "} + work + "; " + statement + "; COMMIT");
            return "";
        } catch (const pqxx::sql_error &failure) {
            return std::string{failure.sqlstate()};
        }
    }
};

class events {
public:
    // A client that was destroyed in a callback may call the handler after the end of the test.
    [[nodiscard]] std::function<void(const event &)> handler()
    {
        return [heard = heard_](const event &one) {
            const std::lock_guard hold{heard->mutex};
            heard->all.push_back(one);
        };
    }
    [[nodiscard]] std::vector<event> all()
    {
        const std::lock_guard hold{heard_->mutex};
        return heard_->all;
    }
    // Without not_reported: most tests let their locks end with their scope.
    [[nodiscard]] std::string texts()
    {
        std::string lines;
        for (const auto &one : all())
            if (one.what != event::kind::not_reported)
                lines += one.text + '\n';
        return lines;
    }
    [[nodiscard]] auto count(event::kind what) { return std::ranges::count(all(), what, &event::what); }
    [[nodiscard]] bool include(event::kind what) { return count(what) > 0; }

private:
    struct list {
        std::mutex mutex;
        std::vector<event> all;
    };
    std::shared_ptr<list> heard_ = std::make_shared<list>();
};

class with_server : public testing::Test {
protected:
    events heard;
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    shedlock::client locks = client(server::connection());

    shedlock::client client(const std::string &connection, std::chrono::milliseconds timeout = 1min)
    {
        return shedlock::client{connection, {.timeout = timeout, .on_event = heard.handler()}};
    }

    // Acquires a lease that ends while nobody has it, however long the reply takes.
    void leave_to_end(const shedlock::options &how)
    {
        const frozen_clock clock;
        locks.try_acquire(name, how).value().detach();
    }

    // Moves the client's clock forward by this time. Waits until its threads have requested the stops and extended the
    // leases that were due.
    void let_pass(shedlock::client &by, std::chrono::microseconds time)
    {
        auto kept = by.try_acquire(name + " is kept", {.at_most = 2 * time, .keep_alive = true});
        auto ends = by.try_acquire(name + " ends", {.at_most = time});
        ASSERT_TRUE(kept && ends);
        const auto before = kept->deadline();
        advance_clock(time);
        by.try_acquire(name + " wakes them", {.at_most = 1h}).value().release(); // they may sleep for up to a second
        EXPECT_TRUE(server::comes_true([&] {
            return kept->deadline() > before && ends->stop_token().stop_requested();
        })) << heard.texts();
        kept->release();
    }
    void let_pass(std::chrono::microseconds time) { let_pass(locks, time); }

    // Waits for a call that ends when its time is over, and meanwhile moves the client's clock, a minute at a time.
    template <typename Result> static Result as_time_passes(std::future<Result> &one)
    {
        while (one.wait_for(10ms) != std::future_status::ready)
            advance_clock(1min);
        return one.get();
    }

    // Until when the client trusts a lease that it asked for at that time.
    static shedlock::clock::time_point trusted_until(shedlock::clock::time_point asked,
                                                     shedlock::clock::duration at_most)
    {
        return asked + at_most - std::min<shedlock::clock::duration>(at_most / 10, 6s) - at_most / 1000;
    }
};
