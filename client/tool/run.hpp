// shedlock run: a command under a lock.
#pragma once

#include "shedlock/shedlock.hpp"

namespace shedlock::tool {

struct run_request {
    std::string name;
    options how;
    std::chrono::microseconds wait{};
    std::uint8_t status_if_refused = 0;
    bool verbose = false;
    std::vector<std::string> command;
};

// The exit status. To be called before there are other threads.
int run(std::string const &connection, run_request const &);

constexpr int lease_was_lost = 124;
constexpr int own_failure = 125;

} // namespace shedlock::tool
