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

// host: Java's locked_by, or the holder of a token. sees_row: the row is read back as written; under SERIALIZABLE that
// would be a read that can fail. is_first: Java's first attempt at a name. work: how long a run's command takes.
struct manner {
    std::string host;
    bool sees_row = true;
    bool is_first = true;
    wrapping how = wrapping::none;
    history::microseconds work = 0;
};

// token: of the acquisition that is extended, released, guarded or completed.
statement make_statement(history::operation const &, std::optional<history::microseconds> token, manner const &);
void read_answer(history::operation &, pqxx::result const &);

// The SQLSTATE. If a function is dropped after it was found and before it is called, the server reports "cache lookup
// failed" as XX000 where it means 42883. The text of any other XX000 goes to stderr.
std::string state_of(std::string const &sqlstate, std::string const &message);

// Asks, through the library or over the application's connection, and writes down the result: lost if it is unknown.
void record(recorder &, operation &, std::function<void()> const &ask);

// The functions and tables that these statements need; created once per database.
extern char const *const preparations;

} // namespace crowd
