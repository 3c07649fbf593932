#include "scene.hpp"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>

using namespace shedlock::test;

namespace {

constexpr int crowd = 30;

// Reads, pauses and writes: without exclusion, one process overwrites what another has written.
words add_one(const std::string &rest)
{
    return sh("mkdir inside || echo overlap >>overlaps; n=$(cat counter); sleep " + rest +
              "; echo $((n + 1)) >counter; rmdir inside");
}

std::string content(const char *file)
{
    std::ifstream stream{file};
    return {std::istreambuf_iterator<char>{stream}, {}};
}

std::vector<outcome> run_at_once(int count, const words &command)
{
    std::vector<std::unique_ptr<process>> processes;
    for (int i = 0; i < count; ++i)
        processes.push_back(std::make_unique<process>(command));
    std::vector<outcome> seen;
    for (auto &one : processes)
        seen.push_back(one->wait());
    return seen;
}

int count_after(const words &command)
{
    std::ofstream{"counter"} << "0\n";
    for (const auto &seen : run_at_once(crowd, command))
        EXPECT_EQ(seen.status, 0) << seen.err;
    return std::stoi(content("counter"));
}

} // namespace

TEST(crowd, I1_one_command_at_a_time)
{
    EXPECT_EQ(count_after(under_lock(add_one("0.02"), an_hour({"--wait", "1d"}))), crowd);
    EXPECT_EQ(content("overlaps"), "");
}

TEST(crowd, does_interfere_without_the_lock)
{
    std::ofstream{"counter"} << "0\n";
    // No process writes before all have read.
    run_at_once(crowd, add_one("0; touch read.$$; until [ $(ls -d read.* | wc -l) -eq " + std::to_string(crowd) +
                               " ]; do sleep 0.1; done"));
    EXPECT_EQ(content("counter"), "1\n");
}

TEST(crowd, one_command_per_period)
{
    const auto seen = run_at_once(8, under_lock({"echo", "ran"}, an_hour({"--every", "30d"})));
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](const auto &one) { return one.out == "ran\n"; }), 1);
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto &one) { return one.status == 0; }));
}
