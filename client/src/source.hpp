// Where the connection string comes from.
#pragma once

#include "shedlock/shedlock.hpp"

#include <atomic>

namespace shedlock::internal {

// Copies share what is known about the string.
class source {
public:
    // The function is called for each connection, so credentials that fail may be right the next time.
    template <typename Function>
    requires std::is_invocable_r_v<std::string, Function &> source(Function function) : string_{std::move(function)} {}
    // The same string for each connection.
    explicit source(const std::string &fixed);

    // Throws connection_error when the function throws.
    [[nodiscard]] std::string string() const;

    // Whether it is always the same string, and no connection has been opened with it so far. Then it may be wrong.
    [[nodiscard]] bool is_fixed() const noexcept { return is_unproven_ != nullptr; }
    [[nodiscard]] bool is_unproven() const noexcept { return is_unproven_ && *is_unproven_; }
    void prove() const noexcept;

private:
    std::function<std::string()> string_;
    std::shared_ptr<std::atomic<bool>> is_unproven_; // null for functions
};

} // namespace shedlock::internal
