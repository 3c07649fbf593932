// Where the connection string comes from.
#pragma once

#include "shedlock/shedlock.hpp"

#include <atomic>

namespace shedlock::internal {

// Copies share what is known of the string.
class source {
public:
    // Asked for each connection: credentials that fail may be right the next time.
    template <typename Function>
    requires std::is_invocable_r_v<std::string, Function &> source(Function function) : string_{std::move(function)} {}
    // The same for each connection, given by the caller once.
    explicit source(std::string const &fixed);

    // Throws connection_error when the function throws.
    [[nodiscard]] std::string string() const;

    // It is always the same, and no connection has been opened with it so far: it may well be wrong.
    [[nodiscard]] bool is_unproven() const noexcept { return is_unproven_ && *is_unproven_; }
    void prove() const noexcept;

private:
    std::function<std::string()> string_;
    std::shared_ptr<std::atomic<bool>> is_unproven_; // null for functions
};

} // namespace shedlock::internal
