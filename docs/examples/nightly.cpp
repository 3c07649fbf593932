// The smallest job: run it here, or skip it, because it runs on another host.
#include <iostream>
#include <shedlock/shedlock.hpp>

using namespace std::chrono_literals;

int main()
{
    shedlock::client locks{"dbname=postgres"};
    if (auto lock = locks.try_acquire("nightly", {.at_most = 10min}))
        std::cout << "working\n";
    else
        std::cout << "skipped\n";
} // released here
