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
    bool release(const names &, token, outcome, clock::time_point until, clock::time_point over,
                 std::string_view detail = {});
    // Asks for one change that answers true or false. Throws in_doubt: "it is not known whether " + what.
    bool change(const std::string &call, const fields &, const std::string &what);

    const pid_t process = ::getpid();
    reporter report;
    outage away{report};
    timer time;
    session shared; // used by all calls
    waiting waits;
    aftermath after;
    keeper keeping; // the last member: it uses the others
};

} // namespace shedlock::internal
