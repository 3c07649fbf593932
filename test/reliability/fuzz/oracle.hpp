// What a call may answer and do, by the plain words of docs/reference.md, without any of the extension's code.
#pragma once

#include "session.hpp"

// The SQLSTATEs with which a call may fail.
struct expected_errors {
    std::set<std::string> possible{};
    bool certain = false; // one of them it is

    void must(char const *sqlstate) { certain = true, possible.insert(sqlstate); }
    void may(char const *sqlstate) { possible.insert(sqlstate); }
    void may_or_must(bool is_certain, char const *sqlstate) { is_certain ? must(sqlstate) : may(sqlstate); }
};

// How long it may be: months have 28 to 31 days.
struct length {
    __int128 least, most; // microseconds
};
length length_of(interval const &);

struct circumstances {
    encoding of_database;
    std::size_t name_limit;
    int server_version;
    std::string role;
    std::string default_holder;
    bool is_portable = false;
};

// Of the arguments, and of names that have no row.
expected_errors errors_of(call const &, session const &, circumstances const &, rows const &known, moment before,
                          moment after);

class oracle {
public:
    explicit oracle(circumstances const &about) : about_(about) {}

    // The names of a call whose rows it could change, as far as they can be names.
    std::set<std::string> names_of(call const &) const;

    // Empty, or what is wrong. Takes the rows found for known.
    std::string judge(call const &, session const &, outcome const &);

    // The whole table: nothing has changed but what the calls had to change.
    std::string settle(rows const &all) const;

    rows known{};

private:
    std::string judge_result(call const &, session const &, outcome const &, expected_errors &) const;
    std::string judge_error(call const &, session const &, outcome const &, expected_errors const &,
                            bool good_arguments) const;
    std::string judge_acquire(call const &, session const &, outcome const &, expected_errors &) const;
    std::string judge_change(call const &, session const &, outcome const &) const;
    std::string judge_guard(call const &, session const &, outcome const &, expected_errors &) const;
    std::string judge_complete(call const &, session const &, outcome const &, expected_errors &) const;
    std::string judge_force(call const &, outcome const &) const;
    std::string judge_resume(call const &, outcome const &) const;
    std::string judge_taken(call const &, session const &, outcome const &) const;
    std::string expected_holder(call const &, session const &, moment locked_at) const;
    std::string unchanged(call const &, outcome const &) const;

    circumstances about_;
};

// Whether those sessions are said to be alive that are, of texts like those in locked_by. Empty, or what is wrong.
std::string judge_sessions(session &, std::vector<std::string> const &texts);

// What the view says of the rows, and whether shedlock_doctor can look at them. Empty, or what is wrong.
std::string judge_view(session &, rows const &known, circumstances const &);

// Which rows shedlock_protect keeps from others' SQL. Empty, or what is wrong.
std::string judge_protection(session &, rows const &known);

// What the portable edition, in schema portable, reads from locked_by. Empty, or what is wrong.
std::string judge_portable_parser(session &, rows const &known);
