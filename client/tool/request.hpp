// What the command line asks for.
#pragma once

#include "check.hpp"
#include "run.hpp"

namespace shedlock::tool {

struct request {
    int (*action)(const request &) = nullptr; // one of actions.hpp
    std::string connection;
    std::string dsn_command; // or "", instead of it
    run_request run;
    std::chrono::microseconds at_most{};
    std::optional<std::chrono::microseconds> at_least;
    std::int64_t token = 0;
    bool no_keep_alive = false, force = false, failed = false, watch = false, json = false;
    std::string reason;
    std::int64_t max_names = 10000;      // metrics
    int status_of_failure = own_failure; // of the command
    limits allowed;                      // of a check
    std::string check_failed;            // what is wrong with the command line of `check`
};

// Reads the request of these words, without the program's name, into an empty one. Throws usage_error, except for
// `check`: then it sets check_failed. For --help and the like it prints the text, and the action does nothing.
void read_request(std::vector<std::string> words, request &);

} // namespace shedlock::tool
