// A connection that can send a statement without waiting for it, and notes the pause points that it reaches.
#pragma once

#include "rules.hpp"

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
    explicit session(const std::string &database);

    void send(const std::string &sql);

    // Whether the statement has ended. Waits up to `patience` for that or for the next pause point.
    bool has_ended(std::chrono::milliseconds patience);
    const std::vector<std::string> &points() const { return points_; } // reached since the statement was sent

    // Of a statement that has ended.
    const answer &result() const { return answer_; }

    answer ask(const std::string &sql); // and waits for the answer
    rows query(const std::string &sql); // which must work

    bool is_busy() const { return PQtransactionStatus(connection_.get()) == PQTRANS_ACTIVE; }
    bool is_in_transaction() const { return PQtransactionStatus(connection_.get()) > PQTRANS_ACTIVE; }
    void leave_transaction(); // if it is in one

    int process() const { return PQbackendPID(connection_.get()); }
    // "/pid.start.server", in the locked_by of what this session acquires
    const std::string &mark() const { return mark_; }

private:
    static void hear(void *self, const PGresult *notice);
    void note(const PGresult *result);

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
    std::string mark_;
    std::vector<std::string> points_;
    answer answer_;
    rows rows_;
};
