// What only the tool needs of a client.
#pragma once

#include "acquisition.hpp"

namespace shedlock::internal {

struct tool_access {
    static void connect_patiently(client &); // see session
    static std::optional<lock> acquire(client &, const names &, const options &, const limits &, refusal *why);
    // Throws what client::release throws. Does not try again if the server cannot be reached; after a lost reply it
    // tries once more. Takes no longer than `patience`, or client_settings::timeout if that is less.
    static void release_once(client &, const names &, token, outcome, std::string_view detail = {},
                             clock::duration patience = clock::duration::max());
    // Ends the lock, without releasing it or waiting for anything.
    static void abandon(lock &) noexcept;
    // Releases as failed, because of this exception.
    static void fail(lock &, const std::exception &) noexcept;
    // Returns when a stop is requested, or when the session that holds the lock is lost. Then so is the lock.
    static void watch_session(client &, lock &, const std::stop_token &);
    // Which of the locks is held with one of the tokens, or nullopt.
    static std::optional<std::string> held_with(client &, const names &, const std::vector<std::int64_t> &tokens);
};

} // namespace shedlock::internal
