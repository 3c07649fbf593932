// What a client and its locks share. It outlives the client while there are locks.
#pragma once

#include "aftermath.hpp"
#include "keeper.hpp"
#include "outage.hpp"
#include "waiting.hpp"

#include <unistd.h>

namespace shedlock::internal {

struct core {
    core(session::source, const client_settings &);

    // Deleted with its last owner, except in a forked child of the process that made it: there the copy has neither
    // threads nor a connection of its own, and is left as it is. The same holds for leases.
    static std::shared_ptr<core> make(session::source, const client_settings &);
    std::shared_ptr<lease> make_lease(const names &, const grant &, clock::duration at_most);
    [[nodiscard]] bool is_ours() const noexcept { return ::getpid() == process; }
    core &require(); // throws usage_error unless is_ours()

    // Calls internal::release (protocol.hpp), which says what `until` and `over` limit. Returns true if the lock was
    // already released as done.
    bool release(const names &, token, outcome, clock::time_point until, clock::time_point over);
    bool ask_bool(const std::string &call, const fields &);

    const pid_t process = ::getpid();
    reporter report;
    outage away{report};
    timer time;
    session shared; // used by all calls
    waiting waits;
    aftermath after;
    keeper keeping; // the last member: it uses the others
};

// What only the tool needs of a client.
struct tool_access {
    static std::optional<lock> acquire(client &, const names &, const options &, const limits &, refusal *why);
    // Throws what client::release throws. Does not try again if the server cannot be reached; after a lost reply it
    // tries once more. Takes no longer than `patience`, or client_settings::timeout if that is less.
    static void release_once(client &, const names &, token, outcome,
                             clock::duration patience = clock::duration::max());
    // Returns when a stop is requested, or when the session that holds the lock is lost. Then so is the lock.
    static void watch_session(client &, lock &, const std::stop_token &);
    // Which of the locks is held with one of the tokens, or nullopt.
    static std::optional<std::string> held_with(client &, const names &, const std::vector<std::int64_t> &tokens);
};

} // namespace shedlock::internal
