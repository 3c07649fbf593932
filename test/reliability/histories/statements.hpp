// What the SQL clients send, and how the answers are to be read.
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

// host: Java's locked_by; holder: ours for tokens. sees_row: the row as written is read back, which in SERIALIZABLE
// would be a read that can fail. is_first: Java's first attempt of a name. work: for how long a run's command works.
struct manner {
    std::string host;
    bool sees_row = true;
    bool is_first = true;
    wrapping how = wrapping::none;
    history::microseconds work = 0;
};

// token: of the acquisition that is meant.
statement make_statement(history::operation const &, std::optional<history::microseconds> token, manner const &);
void read_answer(history::operation &, pqxx::result const &);

// The SQLSTATE. A function that is dropped between being found and being called is a "cache lookup failed" to the
// server, XX000, where it means 42883. Of any other XX000 the text goes to stderr.
std::string state_of(std::string const &sqlstate, std::string const &message);

// Asks, by the library or over a connection of the application's, and writes down what came of it. Lost: nobody knows.
void record(recorder &, operation &, std::function<void()> const &ask);

// Functions and tables that these need, made once a database.
extern char const *const preparations;

} // namespace crowd
