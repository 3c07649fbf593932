// A library that is preloaded into a server. For each backend that has a time in the file SERVER_CLOCK, the clock
// stands still at that time. The file is an array of microseconds since 1970, by process id; 0 means the server's time,
// which is the machine's plus what the array has for process 0. pass_time(interval in microseconds), an SQL function,
// moves the clock of its backend.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
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
    const auto *const path = std::getenv("SERVER_CLOCK");
    const int file = path ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    void *const memory =
        file < 0 ? MAP_FAILED : ::mmap(nullptr, most_pids * sizeof(times), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        ::close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<times *>(memory);
}

times *time_of(pid_t process)
{
    static auto *const all = mapped(); // before the postmaster forks
    return all ? all + process : nullptr;
}

std::int64_t server_time()
{
    timeval now{};
    ::syscall(SYS_gettimeofday, &now, nullptr);
    const auto *const ahead = time_of(0);
    return now.tv_sec * 1'000'000 + now.tv_usec + (ahead ? ahead->load() : 0);
}

} // namespace

extern "C" int gettimeofday(timeval *now, void *) noexcept
{
    const auto *const own = time_of(::getpid());
    const std::int64_t own_time = own ? own->load() : 0;
    const std::int64_t at = own_time == 0 ? server_time() : own_time;
    *now = {at / 1'000'000, at % 1'000'000};
    return 0;
}

// pg_ctl compares it with the time at which the server says it has started.
extern "C" time_t time(time_t *result) noexcept
{
    const time_t now = server_time() / 1'000'000;
    if (result)
        *result = now;
    return now;
}

extern "C" Datum pass_time(PG_FUNCTION_ARGS)
{
    *time_of(::getpid()) += PG_GETARG_INT64(0);
    PG_RETURN_BOOL(true);
}
