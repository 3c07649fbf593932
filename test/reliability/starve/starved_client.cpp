// starved_client DSN FIRST STEP: acquires, extends and releases a lock, and loses one, with one allocation failing: the
// FIRST, the FIRST + STEPth ...; each time in a process of its own. Ends when none was left to fail. Prints how many
// failed, and one line for each of: a crash; a lock that a caller believes to be released, refused or an error, and is
// held.
#include <shedlock/shedlock.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

namespace {

thread_local std::int64_t left = 0; // of this thread, until one fails; 0: none does

bool is_to_fail()
{
    if (left > 0 && --left == 0) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

} // namespace

// In place of the C library's, for libpq as well as for operator new.
extern "C" {
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

enum outcome { ok, no_failure, warned, doubtful, refused, starved, failed, outcomes };
constexpr char const *words[] = {"as if nothing had happened",
                                 "",
                                 "released late, with a warning",
                                 "in doubt",
                                 "refused",
                                 "bad_alloc",
                                 "another error"};

// The server says beside its answer why a lock was lost.
void lose(shedlock::client &locks)
try {
    auto lock = locks.try_acquire("starved", {.at_most = 1h});
    locks.force_release("starved");
    if (lock)
        lock->release();
} catch (shedlock::lock_lost const &) {
}

outcome live(char const *dsn, std::int64_t n)
{
    bool is_warned = false;
    shedlock::client locks{dsn, {.timeout = 2s, .on_warning = [&](std::string const &) { is_warned = true; }}};
    try {
        locks.force_release("starved");
        left = n;
        auto lock = locks.try_acquire("starved", {.at_most = 1h});
        if (!lock)
            return refused;
        lock->extend(1h);
        lock.reset();
        if (is_warned)
            return warned;
        lose(locks);
    } catch (shedlock::in_doubt const &) {
        return doubtful;
    } catch (std::bad_alloc const &) {
        return is_warned ? warned : starved;
    } catch (std::exception const &) {
        return is_warned ? warned : failed;
    }
    bool const was_met = std::exchange(left, 0) == 0;
    return !was_met ? no_failure : is_warned ? warned : ok;
}

int status_of_child(char const *dsn, std::int64_t n)
{
    auto const child = fork();
    if (child == 0) {
        auto const result = live(dsn, n);
        left = 0;
        _exit(result);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    auto const *const dsn = arguments[1];
    auto const step = std::atoll(arguments[3]);
    shedlock::client judge{dsn};
    std::array<int, outcomes> times{};
    int wrong = 0;
    for (auto n = std::atoll(arguments[2]);; n += step) {
        auto const status = status_of_child(dsn, n);
        bool const held = judge.force_release("starved");
        if (!WIFEXITED(status)) {
            std::cout << "allocation " << n << ": crashed, signal " << WTERMSIG(status) << std::endl;
            wrong++;
            continue;
        }
        auto const result = WEXITSTATUS(status);
        if (held && result != doubtful && result != warned) {
            std::cout << "allocation " << n << ": held, and the caller was told: " << words[result] << std::endl;
            wrong++;
        }
        if (result == no_failure)
            break;
        times.at(static_cast<std::size_t>(result))++;
    }
    for (std::size_t i = 0; i < times.size(); i++)
        if (times[i] > 0)
            std::cout << times[i] << " times " << words[i] << std::endl;
    return wrong > 0;
}
