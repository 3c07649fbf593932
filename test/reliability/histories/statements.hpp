// The statements that the SQL clients send, and how their answers are read.
#pragma once

#include "crowd.hpp"

#include "libpqxx.hpp"

#include <functional>

namespace crowd {

struct statement {
    std::string sql;
    shedlock::libpqxx::parameters values;
};

// How an acquire is wrapped.
enum class wrapping { none, cursor, exception_block };

// host: locked_by of a Java client, or the holder of a token. sees_row: the row is read back after it was written,
// which needs READ COMMITTED. is_first: a Java client's first attempt at a name. work: how long a run's
// command takes.
struct manner {
    std::string host;
    bool sees_row = true;
    bool is_first = true;
    wrapping how = wrapping::none;
    history::microseconds work = 0;
};

// token: that of the acquisition which is extended, released, guarded or completed.
statement make_statement(const history::operation &, std::optional<history::microseconds> token, const manner &);
void read_answer(history::operation &, const pqxx::result &);

// Returns the SQLSTATE. If a function is dropped after it was found and before it is called, the server reports "cache
// lookup failed" as XX000; then this returns 42883. The message of any other XX000 goes to stderr.
std::string state_of(const std::string &sqlstate, const std::string &message);

// Sends a request through the library or on the application's connection, and records the result: lost if it is
// unknown.
void record(recorder &, operation &, const std::function<void()> &ask);

// Creates the functions and tables that these statements need, once per database.
extern const char *const preparations;

} // namespace crowd
