// The library's own threads.
#pragma once

#include "shedlock/shedlock.hpp"

#include <csignal>
#include <system_error>
#include <thread>

namespace shedlock::internal {

// During its lifetime signals are blocked in this thread, and in threads that it starts. They are for the application's
// threads, which may have blocked them for a signalfd. Faults of a callback are not blocked: that would bypass their
// handlers.
class without_signals {
public:
    without_signals() noexcept
    {
        sigset_t all;
        ::sigfillset(&all);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
            ::sigdelset(&all, fault);
        ::pthread_sigmask(SIG_SETMASK, &all, &found_);
    }
    ~without_signals() { ::pthread_sigmask(SIG_SETMASK, &found_, nullptr); }
    without_signals(const without_signals &) = delete;
    without_signals &operator=(const without_signals &) = delete;

private:
    sigset_t found_;
};

// True in the library's own threads, which run callbacks of the application.
inline thread_local bool on_library_thread = false;

// start() starts a thread and returns it.
template <std::invocable Start> auto quietly(const Start &start)
try {
    const without_signals here;
    return start();
} catch (const std::system_error &failure) {
    throw error{std::string{"cannot start a thread: "} + failure.what()};
}

} // namespace shedlock::internal
