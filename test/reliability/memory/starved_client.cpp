// starved_client DSN FIRST STEP: shows what happens to locks when memory runs out. Each test runs in a new process. In
// the first, allocation number FIRST fails, in the next one FIRST + STEP, and so on until a process makes fewer
// allocations than that. The allocation is one of the calling thread, which acquires, extends, releases and loses a
// lock, or one of the library's threads, which keep a lease alive. Either that one allocation fails, or a few of the
// following as well, or all of them. Prints how often each result occurred, and one line for each wrong result. If
// libpq crashes without our library as well, the program says so, and does not count crashes as wrong.
#include <shedlock/shedlock.hpp>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <libpq-fe.h>
#include <limits>
#include <map>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace {

struct failure_plan {
    const char *title;
    bool in_caller; // otherwise in all other threads
    int count;
};
constexpr int no_end = std::numeric_limits<int>::max();
constexpr failure_plan failure_plans[] = {{"one of the caller's", true, 1},
                                          {"one of the caller's and all after it", true, no_end},
                                          {"one of the keeper's", false, 1},
                                          {"five of the keeper's", false, 5},
                                          {"one of the keeper's and all after it", false, no_end}};

thread_local bool is_caller = false;
failure_plan plan{};
std::atomic<std::int64_t> left = 0; // allocations until one fails; with 0, none fails
std::atomic<int> failed_allocations = 0;
std::atomic<long> ahead = 0; // seconds that the clock of leases is ahead of the machine's

bool is_to_fail()
{
    if (left <= 0 || is_caller != plan.in_caller || --left > 0)
        return false;
    left = ++failed_allocations < plan.count ? 1 : 0;
    errno = ENOMEM;
    return true;
}

} // namespace

// These replace the C library's functions, for libpq as well as for operator new.
extern "C" {
int clock_gettime(clockid_t which, timespec *time) noexcept
{
    const auto failed = static_cast<int>(::syscall(SYS_clock_gettime, which, time));
    if (which == CLOCK_BOOTTIME)
        time->tv_sec += ahead;
    return failed;
}

void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);

void *malloc(std::size_t size)
{
    return is_to_fail() ? nullptr : __libc_malloc(size);
}

void *calloc(std::size_t count, std::size_t size)
{
    return is_to_fail() ? nullptr : __libc_calloc(count, size);
}

void *realloc(void *old, std::size_t size)
{
    return is_to_fail() ? nullptr : __libc_realloc(old, size);
}
}

namespace {

using namespace std::chrono_literals;
using clock = shedlock::clock;

enum outcome { ok, no_failure, warned, doubtful, refused, starved, failed, dropped, not_stopped };
constexpr const char *words[] = {"as if nothing had happened",
                                 "no allocation failed",
                                 "perhaps not released, with a warning",
                                 "in doubt",
                                 "refused",
                                 "bad_alloc",
                                 "another error",
                                 "lease not kept alive any more",
                                 "not told to stop when the lease ended"};

// The server's notice says why the lock was lost, and processing it needs memory as well.
void lose(shedlock::client &locks, const std::string &name)
try {
    auto lock = locks.try_acquire(name, {.at_most = 1h});
    locks.force_release(name);
    if (lock)
        lock->release();
} catch (const shedlock::lock_lost &) {
}

outcome call(shedlock::client &locks, const std::string &name, const bool &is_warned)
try {
    auto lock = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    if (!lock)
        return refused;
    lock->extend(1h);
    if (locks.acquire(name, {.at_most = 1h}, 20ms)) // waits
        return dropped;
    lock.reset();
    if (is_warned)
        return warned;
    lose(locks, name);
    return is_warned ? warned : ok;
} catch (const shedlock::in_doubt &) {
    return doubtful;
} catch (const std::bad_alloc &) {
    return is_warned ? warned : starved;
} catch (const std::exception &) {
    return is_warned ? warned : failed;
}

// Waits until the condition is true, but no longer than three minutes.
template <typename Condition> bool becomes_true(const Condition &condition)
{
    using std::chrono::steady_clock;
    for (const auto end = steady_clock::now() + 3min; !condition() && steady_clock::now() < end;)
        std::this_thread::sleep_for(10ms);
    return condition();
}

// The lease is an hour, and this function moves the clock. Once a third of the lease has passed, the keeper must extend
// it, even if that fails at first.
outcome keep(shedlock::client &locks, const std::string &name)
{
    auto lock = locks.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    const auto stop = lock->stop_token();
    const auto first = lock->deadline();
    const auto is_extended = [&] { return lock->deadline() > first; };
    ahead = 1300;
    becomes_true([&] { return failed_allocations > 0 || is_extended(); });
    if (failed_allocations == 0)
        return no_failure;
    if (plan.count == no_end) {
        ahead = 2 * 3595; // the lease has ended even if it was extended before
        return becomes_true([&] { return stop.stop_requested(); }) ? ok : not_stopped;
    }
    becomes_true([&] {
        ahead = std::min(ahead.load() + 10, 3000L);
        return is_extended() || stop.stop_requested();
    });
    return is_extended() && !stop.stop_requested() ? ok : dropped;
}

outcome live(const char *dsn, const std::string &name, std::int64_t n)
{
    bool is_warned = false;
    bool is_not_released = false;
    const auto on_event = [&](const shedlock::event &event) {
        is_warned = true;
        is_not_released = is_not_released || event.what == shedlock::event::kind::not_released;
    };
    shedlock::client{dsn, {.timeout = 1h}}.force_release(name);
    // In the tests of the keeper the clock is moved, which ends its requests. A slow server must not end them, too, so
    // the timeout is longer there.
    shedlock::client locks{dsn, {.timeout = plan.in_caller ? 2s : 60s, .on_event = on_event}};
    if (!plan.in_caller)
        locks.force_release(name); // connects: the thread that does so is not the keeper
    is_caller = true;
    left = n;
    auto result = plan.in_caller ? call(locks, name, is_warned) : keep(locks, name);
    left = 0;
    if (result == ok && is_not_released) // the server took longer than the timeout
        result = warned;
    return failed_allocations > 0 ? result : no_failure;
}

bool is_wrong(outcome result, bool is_held)
{
    const bool may_be_held = result == doubtful || result == warned || (plan.count == no_end && result == starved);
    return result == dropped || result == not_stopped || (is_held && !may_be_held);
}

// Returns whether libpq alone crashes when an allocation fails while it connects. Version 16.15 does, in PQfinish.
bool is_libpq_to_crash(const char *dsn)
{
    for (std::int64_t n = 1;; ++n) {
        const auto pid = fork();
        if (pid == 0) {
            plan = {"", true, 1};
            is_caller = true;
            left = n;
            PQfinish(PQconnectdb(dsn));
            _exit(failed_allocations);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (!WIFEXITED(status))
            return true;
        if (WEXITSTATUS(status) == 0) // no allocation was left to fail
            return false;
    }
}

class child {
public:
    child(const char *dsn, std::int64_t n) : number{n}, name{"starved " + std::to_string(n)}, pid_{fork()}
    {
        if (pid_ == 0)
            _exit(live(dsn, name, n));
    }

    int status() const
    {
        int status = 0;
        waitpid(pid_, &status, 0);
        return status;
    }

    std::int64_t const number;
    const std::string name;

private:
    pid_t pid_;
};

} // namespace

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    const auto *const dsn = arguments[1];
    const auto step = std::atoll(arguments[3]);
    shedlock::client observer{dsn, {.timeout = 1h}};
    // Connects, so that libpq's first look-up of a user is over: glibc 2.36 crashes if memory runs out in that one.
    observer.force_release("none");
    const bool may_crash = is_libpq_to_crash(dsn);
    if (may_crash)
        std::cout << "libpq crashes by itself" << std::endl;
    int wrong = 0;
    for (const auto &one : failure_plans) {
        plan = one;
        std::map<outcome, int> times;
        for (auto n = std::atoll(arguments[2]); times[no_failure] == 0;) {
            std::vector<child> children;
            for (; children.size() < 20; n += step)
                children.emplace_back(dsn, n);
            for (const auto &each : children) {
                const auto status = each.status();
                const auto result = static_cast<outcome>(WEXITSTATUS(status));
                const bool is_held = observer.force_release(each.name);
                if (WIFEXITED(status))
                    times[result]++;
                if (WIFEXITED(status) ? !is_wrong(result, is_held) : may_crash)
                    continue;
                wrong++;
                std::cout << "allocation " << each.number << ", " << plan.title << ": "
                          << (WIFEXITED(status) ? words[result] : "crashed, signal " + std::to_string(WTERMSIG(status)))
                          << (is_held ? ", and the lock is held" : "") << std::endl;
            }
        }
        times.erase(no_failure);
        for (const auto &[result, often] : times)
            std::cout << often << " times, " << plan.title << ": " << words[result] << std::endl;
    }
    return wrong > 0;
}
