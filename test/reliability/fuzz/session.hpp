// A connection whose server process has a clock that stands still until it is set. Arguments are passed in binary, so
// that any bytes reach the server unchanged.
#pragma once

#include "call.hpp"

#include <atomic>
#include <memory>

#include <libpq-fe.h>

struct reply {
    std::string error; // its SQLSTATE, or empty
    std::string text;  // message, detail and hint of the error
    bool is_null = false;
    std::string value;                 // in binary
    std::vector<std::string> warnings; // each: SQLSTATE, message, detail and hint
    bool operator==(const reply &) const = default;
};

class session {
public:
    session(const std::string &database, const std::string &isolation, const std::string &default_at_most);
    ~session(); // returns when the server process has gone
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    // All sessions by their marks, and whether they are open.
    static std::map<std::string, bool> &sessions();

    void set_clock(moment);
    [[nodiscard]] moment clock() const;

    reply make(const call &, const std::string &schema);

    // Executes statements, which must succeed, and returns the values as text.
    std::vector<std::vector<std::string>> query(const std::string &sql);
    rows rows_of(const std::string &schema, const std::vector<std::string> &names);
    bool is_valid(const std::string &text); // in the database's encoding
    [[nodiscard]] std::string quoted(const std::string &) const;

    [[nodiscard]] const std::string &mark() const
    {
        return mark_;
    } // "/pid.start.server", as in the locked_by of its locks

private:
    using result = std::unique_ptr<PGresult, decltype(&PQclear)>;

    void fail(const std::string &what) const;
    result send(const std::string &sql, const std::vector<value> &);

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
    std::string mark_;
    std::atomic<std::int64_t> *time_ = nullptr;
    std::vector<std::string> warnings_;
};
