#include "source.hpp"

namespace shedlock::internal {

source::source(const std::string &fixed)
    : string_{[fixed] { return fixed; }}, is_unproven_{std::make_shared<std::atomic<bool>>(true)}
{
}

std::string source::string() const
try {
    return string_();
} catch (const std::exception &failure) {
    throw connection_error{std::string{"there is no connection string: "} + failure.what()};
} catch (...) {
    throw connection_error{"there is no connection string: something was thrown"};
}

void source::prove() const noexcept
{
    if (is_unproven_)
        *is_unproven_ = false;
}

} // namespace shedlock::internal
