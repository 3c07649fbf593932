// A connection to PostgreSQL, on which every wait has its end. The one place that knows libpq.
#pragma once

#include "clock.hpp"

struct pg_conn;
struct pg_result;

namespace shedlock::internal {

// Parameters of a statement, or a row of its result: text as PostgreSQL reads and writes it; nothing: NULL.
using fields = std::vector<std::optional<std::string>>;

// Why an acquisition is not ours any more.
namespace sqlstate {
inline constexpr char const *lost = "SL001";
inline constexpr char const *released_as_done = "SL002";
} // namespace sqlstate

// What the server said in addition to its answer.
struct notice {
    std::string text; // one line
    std::string sqlstate;
};

struct reply {
    std::vector<fields> rows;
    std::vector<notice> notices;
    clock::time_point sent; // before the request was

    [[nodiscard]] std::string notice_text() const; // of all of them
};

// The request may have been carried out, and its reply is lost.
class reply_lost : public connection_error {
public:
    using connection_error::connection_error;
};

// No reply in time.
class unanswered : public reply_lost {
public:
    using reply_lost::reply_lost;
};

class stop_signal;

class connection {
public:
    // Opens it. Our defaults are used for what neither the string nor PG* variables nor service files say:
    // target_session_attrs=read-write (if it is for writing) and connect_timeout, which is patience for all hosts
    // together. Cannot be interrupted. Throws connection_error; usage_error for a string that cannot be parsed. So it
    // does if the string is unproven (it has never led to a server) and is rejected with 28P01, 28000 or 3D000.
    connection(std::string const &how, std::chrono::milliseconds patience, bool to_write, bool is_unproven = false);
    ~connection();
    connection(connection const &) = delete;
    connection &operator=(connection const &) = delete;

    // False once the server has closed it.
    [[nodiscard]] bool is_open() noexcept;
    // The server process that was named to us. If another one answers, a pooler stands between.
    [[nodiscard]] int backend() const noexcept;

    // One statement, a transaction of its own. Throws reply_lost, also when there is no answer until then or a stop is
    // requested; the connection is of no use any more then. Otherwise throws the error that the server reported, and
    // nothing has happened.
    reply ask(std::string const &sql, fields const &values, clock::time_point until, std::stop_token const &);

private:
    static void remember(void *self, pg_result const *notice) noexcept;
    pg_result *receive(clock::time_point until, stop_signal const &);
    pg_result *receive_last(clock::time_point until, stop_signal const &);
    bool is_ready(short events, clock::time_point until, int stopped = -1) const noexcept;

    pg_conn *const connection_;
    std::vector<notice> notices_;
    bool is_missing_notice_ = false; // there was no memory for one
};

} // namespace shedlock::internal
