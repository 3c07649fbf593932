// What can happen while a command runs, or while we wait for a lock: signals, and calls of other threads. For use by
// one thread.
#pragma once

#include "shedlock/shedlock.hpp"

#include <csignal>
#include <sys/types.h>

namespace shedlock::tool {

class events {
public:
    // From now on wait() returns every signal that would end us, unless it is ignored (nohup), cannot be caught, or
    // reports a fault of our own. It also returns TSTP and CHLD. PIPE and XFSZ, which our own writes cause, are
    // blocked, so that the write fails. Must be made before there are other threads.
    events();
    ~events();
    events(const events &) = delete;
    events &operator=(const events &) = delete;

    // Returns a signal's number, or 0 if call() was called or the time has come. If that is more than an hour away, it
    // returns 0 after an hour.
    int wait(std::optional<clock::time_point> until = std::nullopt);
    void call() const noexcept; // from any thread
    // Whether the last signal was typed, so that our process group has it, too.
    [[nodiscard]] bool was_typed() const noexcept { return was_typed_; }

    // Stops this process, or with 0 its process group, by SIGTSTP, and returns when it is continued. Returns false at
    // once if the signal is ignored, or if no shell would continue us, as in an orphaned process group (ssh -t).
    bool stop(pid_t whom) const noexcept;

    // The destructor is to end this process, or with 0 its process group, by this signal if it is SIGINT or SIGQUIT:
    // after Ctrl-C a shell goes on with its script unless the signal has killed the program. Returns 128 + number, the
    // exit status for other signals.
    int end_by(int number, pid_t whom) noexcept;

    // Restores the signal mask that we found, for a new process that is about to execute a program.
    void restore() const noexcept;

private:
    sigset_t found_;
    int signals_;
    int calls_;
    bool was_typed_ = false;
    int ends_by_ = 0;
    pid_t ends_ = 0;
};

} // namespace shedlock::tool
