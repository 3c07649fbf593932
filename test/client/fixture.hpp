// What the tests of the client have in common: a client whose warnings are kept, and a lock name for each test.
#pragma once

#include "server.hpp"

#include <gtest/gtest.h>
#include <mutex>
#include <shedlock/shedlock.hpp>
#include <thread>

using namespace std::chrono_literals;
using shedlock::token;

// The same, as server::token gives it.
inline std::int64_t number(token value)
{
    return static_cast<std::int64_t>(value);
}

class warnings {
public:
    [[nodiscard]] std::function<void(std::string const &)> handler()
    {
        return [this](std::string const &text) {
            std::lock_guard const hold{mutex_};
            all_ += text + '\n';
        };
    }
    [[nodiscard]] std::string all()
    {
        std::lock_guard const hold{mutex_};
        return all_;
    }

private:
    std::mutex mutex_;
    std::string all_;
};

class with_server : public testing::Test {
protected:
    warnings warned; // before the client, which uses it until its end
    std::string const name = testing::UnitTest::GetInstance()->current_test_info()->name();
    shedlock::client locks = client(server::connection());

    shedlock::client client(std::string const &connection, std::chrono::milliseconds timeout = 5s)
    {
        return shedlock::client{connection, {.timeout = timeout, .on_warning = warned.handler()}};
    }
};
