// Lets a test stop and move the clock that the client reads, CLOCK_BOOTTIME: in a program that links this, and in a
// tool that is started with it as LD_PRELOAD. Until the test does so, it follows the machine's clock. So a lease of an
// hour ends when the test decides, and at no other time. All other clocks are the machine's.
#pragma once

#include <chrono>
#include <string>

// The client's clock is stopped while one of these lives, and then goes on from there.
class frozen_clock {
public:
    frozen_clock();
    ~frozen_clock();
    frozen_clock(const frozen_clock &) = delete;
    frozen_clock &operator=(const frozen_clock &) = delete;
};

// Moves it forward. Threads of the client look at it at least once a second.
void advance_clock(std::chrono::microseconds by);

// Moves it forward in steps of 10 ms, no faster than the machine's clock goes. However busy the machine is, no more
// than this passes for the client.
void pass_time(std::chrono::microseconds in_all);

// From now on this program, and those that are started with LD_PRELOAD and with this file in SHEDLOCK_TEST_CLOCK, share
// one clock. It is so much slower than the machine's that the five seconds of a request take nearly a minute.
void share_clock(const std::string &file, int slowness = 10);
