// The smallest job: it runs here, or is skipped because it is running on another host.
#include <iostream>
#include <shedlock/shedlock.hpp>

using namespace std::chrono_literals;

int main()
{
    shedlock::client locks{"dbname=postgres"};
    const bool ran =
        locks.run("nightly", {.at_most = 10min}, [](shedlock::lock &) { std::cout << "working\n"; }); // then released
    if (!ran)
        std::cout << "skipped\n";
}
