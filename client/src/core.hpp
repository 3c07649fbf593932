// What a client and its locks share, and what outlives the client while there are locks.
#pragma once

#include "protocol.hpp"

#include <future>

namespace shedlock::internal {

struct core {
    core(std::string const &connection, client_settings);

    // Try again for as long as settings.timeout when the connection broke. For release, until may be sooner.
    clock::time_point extend(names const &, token, clock::duration at_most, std::optional<clock::duration> at_least);
    void release(names const &, token, outcome, clock::time_point until);
    [[nodiscard]] clock::time_point timeout() const { return clock::now() + settings.timeout; }

    bool ask_bool(std::string const &call, libpqxx::parameters const &);

    // words() gives the message; there may be no memory for it.
    template <typename Words> void warn(Words const &words) const noexcept
    try {
        settings.on_warning(words());
    } catch (std::bad_alloc const &) {
        warn_briefly();
    }

    // Takes a keeper whose lock is gone, but who may still be opening a connection: libpq cannot be interrupted in
    // that.
    void retire(std::future<void> keeper) noexcept;

    client_settings const settings;
    std::string const connection;
    timer time;
    session shared; // by all calls

private:
    void warn_briefly() const noexcept;

    std::mutex retiring_;
    std::vector<std::future<void>> retired_; // the last member: waits for them, and they use the others
};

} // namespace shedlock::internal
