// Opening a connection by libpq.
#pragma once

#include "clock.hpp"

struct pg_conn;

namespace shedlock::internal {

// The deleter of std::unique_ptr for what libpq has allocated.
template <auto Free> struct freed {
    template <typename Type> void operator()(Type *one) const noexcept { Free(one); }
};

// Does what the constructor of connection says. The caller calls PQfinish.
pg_conn *open(const std::string &how, std::chrono::milliseconds patience, bool to_write, bool is_unproven,
              bool is_quotable);

// Whether libpq takes it for one. It takes anything else for the name of a database.
bool is_connection_string(std::string_view how);

// The SQLSTATE of the first error in a message of libpq in PQERRORS_VERBOSE, in any language; "" if it has none.
std::string sqlstate_in(std::string_view message);

} // namespace shedlock::internal
