// shedlock run: a command under a lock.
#pragma once

#include "events.hpp"
#include "request.hpp"

namespace shedlock::tool {

// Acquires, and returns nullopt and why if refused. A signal ends the waiting; then its number is in interrupted_by,
// and what was acquired nevertheless is released again (if that fails, its lease ends by itself).
std::optional<lock> acquire(client &, const request &, events &, int &interrupted_by, refusal *why);

// Returns the exit status. Must be called before there are other threads.
int run(const std::function<client()> &connect, const request &);

constexpr int not_recorded = 123; // only with --retry: done, but that was not confirmed, so it may run again
constexpr int lease_was_lost = 124;

} // namespace shedlock::tool
