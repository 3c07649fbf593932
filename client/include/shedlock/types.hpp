// What both clients share: shedlock.hpp, on libpq, and pqxx.hpp, on a connection of libpqxx. Needs C++17 and nothing to
// link. Every class is inline and has default visibility, so that it is the same type in every program and library,
// also in those that are built with -fvisibility=hidden or loaded with RTLD_LOCAL.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define SHEDLOCK_EXPORT __attribute__((visibility("default")))

namespace shedlock {

// ---- Errors ----

// That somebody else holds a lock is an outcome, never an error. what() says what to do.

// The server could not do it. sqlstate() is its code, or empty.
class SHEDLOCK_EXPORT error : public std::runtime_error {
public:
    explicit error(std::string const &message, std::string sqlstate = {})
        : std::runtime_error{message}, sqlstate_{std::move(sqlstate)}
    {
    }
    [[nodiscard]] std::string const &sqlstate() const noexcept { return sqlstate_; }

private:
    std::string sqlstate_;
};

// No server, a connection that broke, or a server that takes no writes (a standby).
class SHEDLOCK_EXPORT connection_error : public error {
public:
    using error::error;
};

// The reply was lost, and the truth could not be learned in time: the lock may be held in our name, until at_most at
// the latest, and nobody must work as if it were.
class SHEDLOCK_EXPORT in_doubt : public connection_error {
public:
    using connection_error::connection_error;
};

// The lock is not ours any more: the lease ended, or somebody else took over (SQLSTATE SL001), or it was released as
// done before (SL002).
class SHEDLOCK_EXPORT lock_lost : public error {
public:
    using error::error;
};

// The caller or the administrator has to fix it: bad arguments, missing privileges, functions missing or too old.
class SHEDLOCK_EXPORT usage_error : public error {
public:
    using error::error;
};

// ---- Values ----

// By the server's clock, in microseconds as PostgreSQL counts them. C++20 calls it sys_time<microseconds>.
using instant = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// One acquisition. The tokens of a name only grow.
enum class token : std::int64_t {};

// How the work under a lock ended, as the view shedlock_locks shows it and options.retry heeds it.
enum class outcome { done, failed };

// One name, or several that are acquired all or none: "nightly", or {"ledger", "stock"}. In UTF-8.
class SHEDLOCK_EXPORT names {
public:
    names(char const *name) : names(std::string{name}) {}
    names(std::string_view name) : names(std::string{name}) {}
    names(std::string name) { list_.push_back(std::move(name)); }
    names(std::initializer_list<std::string> list) : list_(list) {}
    names(std::vector<std::string> list) : list_(std::move(list)) {}

    [[nodiscard]] std::vector<std::string> const &list() const noexcept { return list_; }

    // For people: lock "a", "b"
    [[nodiscard]] std::string to_text() const
    {
        std::string text;
        for (auto const &name : list_)
            text += (text.empty() ? "lock \"" : ", \"") + name + '"';
        return text;
    }

private:
    std::vector<std::string> list_;
};

} // namespace shedlock
