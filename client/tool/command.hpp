// A command in a process group of its own, so that it can be signalled as a whole, and does not outlive us.
#pragma once

#include "events.hpp"

#include <stop_token>
#include <string>
#include <sys/types.h>
#include <vector>

namespace shedlock::tool {

// Whether execvp will find a program of that name. Returns 0 if so. Otherwise prints a message and returns what a shell
// returns: 127 if nothing was found, 126 if it is not a program.
int look_for(const std::string &program);

class command {
public:
    // Starts it, with these variables in addition to ours (NAME=value, or NAME to leave one out), and with the terminal
    // if we had it. Its standard input and output are ours. It is killed if we die without having waited for it
    // (Linux). Must be called by the main thread, because the kernel kills it when the calling thread dies.
    command(events &, std::vector<std::string> words, std::vector<std::string> variables);
    ~command();
    command(const command &) = delete;
    command &operator=(const command &) = delete;

    // Waits until it ends. Meanwhile signals are passed on to the group; when the command is stopped (Ctrl-Z) our own
    // group stops and continues with it; when a stop is requested the group gets SIGTERM, and SIGKILL five seconds
    // later. Returns its exit status: 128 + n if signal n killed it; 126 or 127 if it could not be started.
    int wait(const std::stop_token &stop);
    // Once it has ended otherwise than with the exit status 0: how. "exit status 3", "signal 9 (Killed)", or why it
    // could not be started.
    [[nodiscard]] const std::string &failure() const noexcept { return failure_; }
    // The signal that killed it, if it may have been typed (Ctrl-C). Otherwise 0.
    [[nodiscard]] int killed_on_terminal() const noexcept { return killed_on_terminal_; }
    // If it had the terminal, our own group did not get what was typed.
    [[nodiscard]] bool had_terminal() const noexcept { return has_terminal_; }

private:
    void signal_group(int number) const noexcept;
    void reap(bool stopping);
    void note_end(int wait_status);
    bool stop_with_it(pid_t whom) noexcept;
    void refuse_terminal() noexcept;

    events &events_;
    const std::string program_;
    bool has_terminal_;
    // Where a failed exec writes its errno. That is read once the process has ended: until then it may have been
    // stopped, or its exec may wait for a file server, and signals must not wait for that.
    int report_ = -1;
    pid_t pid_ = 0;
    int exit_status_ = 0;
    int passed_on_ = 0;      // the last signal
    bool was_typed_ = false; // that signal
    int killed_on_terminal_ = 0;
    bool is_hung_up_ = false;
    std::string failure_;
};

} // namespace shedlock::tool
