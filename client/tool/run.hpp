// shedlock run: a command under a lock.
#pragma once

#include "events.hpp"

namespace shedlock::tool {

struct run_request {
    std::vector<std::string> names; // one, or several that are acquired all or none
    options how;
    std::chrono::microseconds wait{};
    std::optional<std::chrono::microseconds> wait_server; // instead of wait, for a server that cannot be reached
    std::uint8_t status_if_refused = 0;
    bool verbose = false;
    bool ends_with_session = false;
    std::vector<std::string> command;
};

// Acquires, and returns nullopt and why if refused. A signal ends the waiting; then its number is in interrupted_by,
// and what was acquired nevertheless is released again (if that fails, its lease ends by itself).
std::optional<lock> acquire(client &, const run_request &, events &, int &interrupted_by, refusal *why);

// Returns the exit status. Must be called before there are other threads.
int run(const std::function<client()> &connect, const run_request &);

constexpr int not_recorded = 123; // only with --retry: done, but that was not confirmed, so it may run again
constexpr int lease_was_lost = 124;
constexpr int own_failure = 125;

} // namespace shedlock::tool
