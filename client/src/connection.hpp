// A connection to PostgreSQL, on which every wait has a time limit. Only this file and opening use libpq (and exit, to
// initialise TLS).
#pragma once

#include "reply.hpp"

struct pg_conn;
struct pg_result;

namespace shedlock::internal {

// The request may have been carried out, but its reply is lost.
class reply_lost : public connection_error {
public:
    using connection_error::connection_error;
};

// No reply in time, or before a stop was requested.
class unanswered : public reply_lost {
public:
    using reply_lost::reply_lost;
};

// Nothing has happened, and the request can be sent again soon; for example, another transaction has locked the row.
class busy : public connection_error {
public:
    using connection_error::connection_error;
};

class stop_signal;
class tls_use;

class connection {
public:
    // Opens it. These settings have defaults of ours, unless the string, PG* variables or service files set them:
    // target_session_attrs=read-write (if it is for writing; "any" in a service file counts as not set), and
    // connect_timeout (`patience` divided by the number of hosts, but at least 2 s). TCP keepalives begin after a
    // minute, unless one of their settings is set. Opening cannot be interrupted. Throws connection_error. If the
    // string is unproven (always the same, and no connection was ever opened with it), also usage_error, if it cannot
    // be parsed, for a password that is missing, and for what does not end by itself. If the string is not quotable, no
    // message contains a part of it.
    connection(const std::string &how, std::chrono::milliseconds patience, bool to_write, bool is_unproven = false,
               bool is_quotable = true);
    ~connection();
    connection(const connection &) = delete;
    connection &operator=(const connection &) = delete;

    // False once the server has closed it.
    [[nodiscard]] bool is_open() noexcept;
    [[nodiscard]] int socket() const noexcept;
    // From now on a peer that has vanished is noticed within 15 seconds, whatever the string says.
    void watch_closely() const noexcept;
    // The process id of the server process, as the server gave it when the connection was opened. If another process
    // answers, there is a pooler in between.
    [[nodiscard]] int backend() const noexcept;

    // One statement, a transaction of its own. Throws reply_lost, also when there is no answer in time or a stop is
    // requested; after that the connection cannot be used any more. If the server reports an error, throws that error;
    // then nothing has happened.
    reply ask(const std::string &sql, const fields &values, clock::time_point until, const std::stop_token &);
    // The reply to a request that got none in time, or part of one. Throws what ask() throws.
    reply await(clock::time_point until, const std::stop_token & = {});

private:
    void require(const tls_use &) const;
    void send(const std::string &sql, const std::vector<const char *> &values);
    static void remember(void *self, const pg_result *notice) noexcept;
    pg_result *receive(clock::time_point until, const stop_signal &);
    pg_result *receive_last(clock::time_point until, const stop_signal &);
    bool is_ready(short events, clock::time_point until, int stopped = -1) const noexcept;

    pg_conn *const connection_;
    const bool is_encrypted_;
    std::vector<notice> notices_;
    bool is_missing_notice_ = false; // there was no memory for one
};

} // namespace shedlock::internal
