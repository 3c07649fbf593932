// What the command line asks for.
#pragma once

#include "check.hpp"

#include <cstdint>

namespace shedlock::tool {

constexpr int own_failure = 125; // the exit status when the tool itself fails

struct request {
    int (*action)(const request &) = nullptr; // one of actions.hpp
    int status_of_failure = own_failure;      // if the action throws; `check` has another one

    std::string connection;
    std::string dsn_command; // its output is the connection string, unless this is empty

    std::vector<std::string> names;                       // every command that concerns locks
    options how;                                          // run, acquire; extend: only at_most
    std::string months;                                   // run, acquire: --every in months, an interval as text
    std::optional<std::chrono::microseconds> at_least;    // extend
    std::chrono::microseconds wait{};                     // run, acquire, pause
    std::optional<std::chrono::microseconds> wait_server; // run; instead of wait, for a server that cannot be reached
    bool ends_with_session = false;                       // run
    std::uint8_t status_if_refused = 0;                   // run
    bool verbose = false;                                 // run
    std::vector<std::string> command;                     // run
    std::int64_t token = 0;                               // extend, release
    bool force = false;                                   // release
    bool failed = false;                                  // release
    std::string detail;                                   // release
    std::string reason;                                   // pause
    bool watch = false;                                   // list
    bool json = false;                                    // list, history
    schedule runs;                                        // history
    thresholds check_limits;                              // check
    std::int64_t max_names = 10000;                       // metrics

    // What print_answer prints, and the exit status that it returns.
    std::string answer;
    int status_of_answer = 0;
};

} // namespace shedlock::tool
