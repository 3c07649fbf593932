// A library that is preloaded into a server. For each backend that has a time in the file FUZZ_CLOCK, the clock stands
// still at that time. The file is an array of microseconds since 1970, by process id; 0 means the machine's time.
// pass_time(interval in microseconds), an SQL function, moves the clock of its backend.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

extern "C" {
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(pass_time);
}

namespace {

using times = std::atomic<std::int64_t>;

times *mapped()
{
    constexpr std::size_t most_pids = 4'194'304;
    const auto *const path = std::getenv("FUZZ_CLOCK");
    const int file = path ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    void *const memory =
        file < 0 ? MAP_FAILED : ::mmap(nullptr, most_pids * sizeof(times), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        ::close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<times *>(memory);
}

times *own_time()
{
    static auto *const all = mapped(); // before the postmaster forks
    return all ? all + ::getpid() : nullptr;
}

} // namespace

extern "C" int gettimeofday(timeval *now, void *zone) noexcept
{
    const auto *const own = own_time();
    const std::int64_t time = own ? own->load() : 0;
    if (time == 0)
        return static_cast<int>(::syscall(SYS_gettimeofday, now, zone));
    *now = {time / 1'000'000, time % 1'000'000};
    return 0;
}

extern "C" Datum pass_time(PG_FUNCTION_ARGS)
{
    *own_time() += PG_GETARG_INT64(0);
    PG_RETURN_BOOL(true);
}
