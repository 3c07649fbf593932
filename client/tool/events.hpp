// What can happen while a command runs or is waited for: signals, and other threads that call. For one thread.
#pragma once

#include "shedlock/shedlock.hpp"

#include <csignal>

namespace shedlock::tool {

class events {
public:
    // From here on every signal that would end us waits to be picked up by wait(), unless it is ignored (nohup), cannot
    // be caught, or tells of a fault of our own; so do TSTP and CHLD. PIPE and XFSZ, which our own writes bring, are
    // blocked: the write fails. To be made before there are other threads.
    events();
    ~events();
    events(events const &) = delete;
    events &operator=(events const &) = delete;

    // A signal's number, or 0: called, or the time has come.
    int wait(std::optional<clock::time_point> until = std::nullopt);
    void call() const noexcept; // from any thread

    // For a new process, before it executes something: signals as we found them.
    void restore() const noexcept;

private:
    sigset_t found_;
    int signals_;
    int calls_;
};

} // namespace shedlock::tool
