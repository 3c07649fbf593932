#include "frozen_clock.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace {

constexpr std::int64_t second = 1'000'000'000; // in nanoseconds, as all times in `state`

struct state {
    std::atomic<std::int64_t> ahead = 0; // of the machine's
    std::atomic<std::int64_t> stopped_at = 0;
    std::atomic<std::int64_t> slowness = 0; // 0: none
    std::atomic<int> stops = 0;
};

state *map(const char *path, int flags)
{
    const int file = ::open(path, flags | O_CLOEXEC, 0600);
    const bool is_there = file >= 0 && (!(flags & O_CREAT) || ::ftruncate(file, sizeof(state)) == 0);
    void *const memory =
        is_there ? ::mmap(nullptr, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0)
        ::close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<state *>(memory); // a new file is all zeros: the initial state
}

state of_this_program;

state *found()
{
    const auto *const file = std::getenv("SHEDLOCK_TEST_CLOCK");
    auto *const shared = file ? map(file, O_RDWR) : nullptr;
    return shared ? shared : &of_this_program;
}

std::atomic<state *> used = nullptr;

state &clock_state()
{
    if (!used)
        used = found();
    return *used;
}

std::int64_t machine_time()
{
    timespec now{};
    ::syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (now.tv_sec * second + now.tv_nsec) / std::max<std::int64_t>(clock_state().slowness, 1);
}

} // namespace

frozen_clock::frozen_clock()
{
    auto &mine = clock_state();
    if (mine.stops == 0)
        mine.stopped_at = machine_time() + mine.ahead;
    ++mine.stops;
}

frozen_clock::~frozen_clock()
{
    auto &mine = clock_state();
    if (mine.stops == 1)
        mine.ahead = mine.stopped_at - machine_time();
    --mine.stops;
}

void advance_clock(std::chrono::microseconds by)
{
    auto &mine = clock_state();
    (mine.stops > 0 ? mine.stopped_at : mine.ahead) += std::chrono::nanoseconds{by}.count();
}

void pass_time(std::chrono::microseconds in_all)
{
    constexpr std::chrono::milliseconds step{10};
    const frozen_clock stands_still;
    for (auto left = in_all; left > left.zero(); left -= step) {
        std::this_thread::sleep_for(step);
        advance_clock(std::min<std::chrono::microseconds>(step, left));
    }
}

void share_clock(const std::string &file, int slowness)
{
    auto *const shared = map(file.c_str(), O_RDWR | O_CREAT);
    if (!shared)
        std::abort();
    shared->slowness = slowness;
    used = shared;
}

extern "C" int clock_gettime(clockid_t which, timespec *now) noexcept
{
    if (which != CLOCK_BOOTTIME)
        return static_cast<int>(::syscall(SYS_clock_gettime, which, now));
    auto &mine = clock_state();
    const auto time = mine.stops > 0 ? mine.stopped_at.load() : machine_time() + mine.ahead;
    *now = {time / second, time % second};
    return 0;
}
