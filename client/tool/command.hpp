// A command in a process group of its own: to be signalled as a whole, and not to outlive us.
#pragma once

#include "events.hpp"

#include <stop_token>
#include <string>
#include <sys/types.h>
#include <vector>

namespace shedlock::tool {

// Whether there is a program of that name, where execvp will look. 0: there is; 127: there is nothing, 126: it is no
// program, as a shell tells it, and that has been said.
int look_for(std::string const &program);

class command {
public:
    // Started, with these variables besides ours (NAME=value, or NAME to leave one out), and with the terminal if we
    // had it. Its standard input and output are ours. It is killed when we die without having waited for it (Linux). To
    // be called by the main thread, for it is the death of that thread which counts.
    command(events &, std::vector<std::string> words, std::vector<std::string> variables);

    // Until it ends: signals are passed on to the group; when it is stopped (Ctrl-Z) so are we, and we go on together;
    // after a stop the group gets SIGTERM, and SIGKILL five seconds later. Its exit status: 128 + n when killed by
    // signal n; 126 or 127 when it could not be started.
    int wait(std::stop_token const &stop);

private:
    void signal_group(int number) const noexcept;
    void reap(bool stopping);
    void end(int exit_status) noexcept;
    void stop_with_it() noexcept;

    events &events_;
    bool has_terminal_;
    pid_t pid_ = 0;
    int exit_status_ = 0;
};

} // namespace shedlock::tool
