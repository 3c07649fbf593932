// For a program whose clients are child processes: the memory that they share, and how they are ended.
#pragma once

#include <csignal>
#include <new>
#include <span>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>

namespace processes {

// Shared by this process and all that it forks from now on.
template <typename Shared> Shared &shared_memory()
{
    void *const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::runtime_error{"no shared memory"};
    return *new (memory) Shared{};
}

// Whether all of them were still running.
inline bool end_all(std::span<pid_t const> all)
{
    bool all_well = true;
    for (auto const one : all) {
        int status = 0;
        all_well &= ::waitpid(one, &status, WNOHANG) == 0;
        ::kill(one, SIGKILL);
        ::waitpid(one, &status, 0);
    }
    return all_well;
}

} // namespace processes
