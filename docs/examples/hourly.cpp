// Once an hour in the whole fleet, however short the job, and however much the hosts' clocks differ.
#include <iostream>
#include <shedlock/shedlock.hpp>

using namespace std::chrono_literals;

int main()
{
    shedlock::client locks;
    auto const this_hour = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
    bool const ran =
        locks.run("hourly", {.at_most = 10min, .tick = this_hour}, [](shedlock::lock &) { std::cout << "working\n"; });
    if (!ran)
        std::cout << "this hour has had its run\n";
}
