// Opening a connection by libpq.
#pragma once

#include "clock.hpp"

struct pg_conn;

namespace shedlock::internal {

// For std::unique_ptr of what libpq has allocated.
template <auto Free> struct freed {
    template <typename Type> void operator()(Type *one) const noexcept { Free(one); }
};

// As connection's constructor. The caller finishes it.
pg_conn *open(std::string const &how, std::chrono::milliseconds patience, bool to_write, bool is_unproven);

// Of the first error in what libpq says in PQERRORS_VERBOSE, whatever the server's language; "" if it has none.
std::string sqlstate_in(std::string_view message);

// Has libpq's TLS library register its exit handler, which would otherwise happen with the first connection. Handlers
// and destructors of static objects run in reverse order: an object made after this call is gone before the handler
// runs.
void prepare_tls() noexcept;

} // namespace shedlock::internal
