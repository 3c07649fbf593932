// For a program whose clients are child processes: shared memory, and the end of the processes.
#pragma once

#include <csignal>
#include <new>
#include <span>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>

namespace processes {

// Memory that this process shares with all processes that it forks later.
template <typename Shared> Shared &shared_memory()
{
    void *const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::runtime_error{"no shared memory"};
    return *new (memory) Shared{};
}

// Kills all of them. Returns whether all were still running.
inline bool end_all(std::span<const pid_t> all)
{
    bool all_well = true;
    for (const auto one : all) {
        int status = 0;
        all_well &= ::waitpid(one, &status, WNOHANG) == 0;
        ::kill(one, SIGKILL);
        ::waitpid(one, &status, 0);
    }
    return all_well;
}

} // namespace processes
