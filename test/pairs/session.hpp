// A connection that can send a statement without waiting for it, and notes the pause points that it reaches.
#pragma once

#include "lease.hpp"

#include <memory>
#include <string>
#include <vector>

#include <libpq-fe.h>

struct warning {
    std::string sqlstate;
    std::string detail;
};

struct answer {
    shedlock::instant begun, ended;
    std::string value; // the last one; NULL is empty
    int affected = 0;
    std::string error; // its SQLSTATE
    std::string message;
    std::string detail;
    std::vector<warning> warnings;
};

using rows = std::vector<std::vector<std::string>>;

class session {
public:
    explicit session(std::string const &database);

    void send(std::string const &sql);

    // Whether the statement has ended. Waits up to `patience` for that or for the next pause point.
    bool has_ended(std::chrono::milliseconds patience);
    std::vector<std::string> const &points() const { return points_; } // reached since the statement was sent

    // Of a statement that has ended.
    answer const &result() const { return answer_; }

    answer ask(std::string const &sql); // and waits for the answer
    rows query(std::string const &sql); // which must work

    bool is_busy() const { return PQtransactionStatus(connection_.get()) == PQTRANS_ACTIVE; }
    bool is_in_transaction() const { return PQtransactionStatus(connection_.get()) > PQTRANS_ACTIVE; }
    void leave_transaction(); // if it is in one

    int process() const { return PQbackendPID(connection_.get()); }
    // "/pid.start.server", in the locked_by of what this session acquires
    std::string const &mark() const { return mark_; }

private:
    static void hear(void *self, PGresult const *notice);
    void note(PGresult const *result);

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
    std::string mark_;
    std::vector<std::string> points_;
    answer answer_;
    rows rows_;
};
