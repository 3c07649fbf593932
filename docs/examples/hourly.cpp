// Runs once per hour across all hosts, however short the job is, and however much the hosts' clocks differ. If it
// fails, the next call in the same hour, on this host or another, runs it again.
#include <iostream>
#include <shedlock/shedlock.hpp>

using namespace std::chrono_literals;

int main()
{
    shedlock::client locks;
    const bool ran = locks.run("hourly", {.at_most = 10min, .every = 1h, .retry = true},
                               [](shedlock::lock &) { std::cout << "working\n"; });
    if (!ran)
        std::cout << "skipped: another host is running this hour's job, or has done it\n";
}
