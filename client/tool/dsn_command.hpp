// The command of --dsn-command, which prints the connection string.
#pragma once

#include "shedlock/shedlock.hpp"

#include <sys/types.h>

namespace shedlock::tool {

// Runs it by /bin/sh, and returns the first line of its output. Its standard input is empty, and it gets no SHEDLOCK_*
// variable. It has a process group of its own, which is killed if it has not ended when `patience` is over. Throws if
// it fails or prints no connection string; the message does not contain what it printed. Any thread may call it.
std::string ask_for_dsn(const std::string &command, clock::duration patience);

// To be called instead of waitpid(child, …, WUNTRACED | WNOHANG), which would keep ask_for_dsn from learning how its
// own child ended. Returns the status, or nullopt if waitpid has none to report.
std::optional<int> reap(pid_t child);
void reap_all(); // all children that have ended

} // namespace shedlock::tool
