#include "scene.hpp"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>

using namespace shedlock::test;

namespace {

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

} // namespace

TEST(crowd, I1_one_command_at_a_time)
{
    const auto command = sh("mkdir inside || echo overlap >>overlaps; sleep 0.02; rmdir inside; echo ran");
    const auto seen = run_at_once(30, under_lock(command, an_hour({"--wait", "1d"})));
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto &one) { return one.out == "ran\n"; }));
    EXPECT_EQ(content("overlaps"), "");
}

TEST(crowd, one_command_per_period)
{
    const auto seen = run_at_once(8, under_lock({"echo", "ran"}, an_hour({"--every", "30d"})));
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](const auto &one) { return one.out == "ran\n"; }), 1);
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto &one) { return one.status == 0; }));
}
