// The smallest job: it runs here, or is skipped because it is running on another host.
#include <iostream>
#include <shedlock/shedlock.hpp>

using namespace std::chrono_literals;

int main()
{
    shedlock::client locks{"dbname=postgres"};
    if (auto lock = locks.try_acquire("nightly", {.at_most = 10min})) // held until the end of the if statement
        std::cout << "working\n";
    else
        std::cout << "skipped\n";
}
