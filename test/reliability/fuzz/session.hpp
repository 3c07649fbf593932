// A connection that passes arguments in binary, so that any bytes reach the server unchanged.
#pragma once

#include "call.hpp"

#include <memory>
#include <set>

#include <libpq-fe.h>

struct outcome {
    moment before, after;             // the server's clock around the call
    std::optional<std::string> error; // its SQLSTATE
    bool is_null = false;
    std::string value; // in binary
    std::vector<std::string> warnings;
    rows found; // the rows of the call's names, afterwards

    bool is_true() const { return value == std::string_view{"\1", 1}; }
    std::int64_t number() const;
};

class session {
public:
    session(const std::string &database, const std::string &isolation, const std::string &default_at_most);
    ~session();
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    // All sessions by their marks, and whether they are open. A session that was closed may take a while to be gone.
    static std::map<std::string, bool> &sessions();

    outcome make(const call &, const std::set<std::string> &to_look_at);

    // Executes plain statements, which must succeed, and returns the values as text.
    std::vector<std::vector<std::string>> query(const std::string &sql);
    void edit(const std::string &name, const std::string &assignments); // updates the row by hand; "" deletes it
    void insert(const std::string &name);                               // inserts a free row, unless there is one
    rows all_rows();

    const std::string &mark() const { return mark_; } // "/pid.start.server", as in the locked_by of its locks
    std::optional<interval> default_at_most{};

private:
    void prepare();
    void fail(const std::string &what) const;
    std::string quoted(const std::string &) const;
    std::unique_ptr<PGresult, decltype(&PQclear)> next_result();
    void finish_statement();

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
    std::string mark_;
    std::vector<std::string> warnings_;
};
