#include "scene.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace shedlock::test {

namespace {

namespace fs = std::filesystem;

class scene final : public testing::EmptyTestEventListener {
public:
    // A new name for each run of a test, even if tests are repeated.
    [[nodiscard]] std::string name_of(const testing::TestInfo &test) const
    {
        return std::string{test.name()} + '.' + std::to_string(::getpid()) + '.' + std::to_string(number_);
    }

private:
    void OnTestProgramStart(const testing::UnitTest &) override
    {
        adopt_orphans();
        const auto *const tool = std::getenv("SHEDLOCK_TOOL");
        fs::create_directories(home_ / "bin");
        fs::create_symlink(fs::absolute(tool ? tool : SHEDLOCK_TOOL), home_ / "bin" / "shedlock");
        ::setenv("PATH", ((home_ / "bin").string() + ':' + std::getenv("PATH")).c_str(), 1);
        ::setenv("LC_ALL", "C.UTF-8", 1);
        share_clock(home_ / "clock");
        ::setenv("SHEDLOCK_TEST_CLOCK", (home_ / "clock").c_str(), 1);
        ::setenv("LD_PRELOAD", FROZEN_CLOCK, 1);
        ::setenv("PGCONNECT_TIMEOUT", "300", 1);
    }

    void OnTestProgramEnd(const testing::UnitTest &) override
    {
        fs::current_path("/");
        fs::remove_all(home_);
    }

    void OnTestStart(const testing::TestInfo &) override
    {
        const auto folder = home_ / std::to_string(++number_);
        fs::create_directories(folder);
        fs::current_path(folder);
    }

    void OnTestEnd(const testing::TestInfo &) override { end_children(); }

    const fs::path home_ = fs::temp_directory_path() / ("shedlock_tool_test." + std::to_string(::getpid()));
    int number_ = 0;
};

scene *const the_scene = [] {
    auto *const made = new scene;
    testing::UnitTest::GetInstance()->listeners().Append(made); // which will delete it
    return made;
}();

} // namespace

std::string name()
{
    return the_scene->name_of(*testing::UnitTest::GetInstance()->current_test_info());
}

// Does not use shedlock_stats, because the portable edition has no counters.
bool is_refused(const std::string &lock)
{
    return ask("SELECT count(*) FROM pg_stat_activity JOIN shedlock_locks l ON backend_start > l.locked_at"
               " WHERE l.name = " +
               literal(lock) +
               " AND application_name = 'shedlock' AND pg_stat_activity.state = 'idle' AND query LIKE "
               "'%shedlock_acquire_token%'") != "0";
}

std::string acquire(const std::string &lock, const std::string &at_most)
{
    return ask("SELECT shedlock_acquire_token(" + literal(lock) + ", " + literal(at_most) + ')');
}

std::string yearly_schedule()
{
    return "0 0 1 " + ask("SELECT extract(month FROM timezone('utc', now()) - interval '6 months')") + " *";
}

std::string yearly_tick(const std::string &zone)
{
    return "shedlock_tick(" + literal(yearly_schedule()) + ", " + literal(zone) + ')';
}

std::string bad_program()
{
    std::ofstream{"bad"} << "#!/no/such/interpreter\n";
    fs::permissions("bad", fs::perms::owner_all);
    return "./bad";
}

words under_lock(const words &command, const words &options)
{
    return words{"shedlock", "run", name()} + options + words{"--"} + command;
}

words an_hour(const words &more)
{
    return words{"--at-most", "1h"} + more;
}

} // namespace shedlock::test
