// What a call may answer and do, according to docs/reference.md, without using any of the extension's code.
#pragma once

#include "session.hpp"

// The SQLSTATEs with which a call may fail.
struct expected_errors {
    std::set<std::string> possible{};
    bool certain = false; // there must be one of these errors

    void must(const char *sqlstate) { certain = true, possible.insert(sqlstate); }
    void may(const char *sqlstate) { possible.insert(sqlstate); }
    void may_or_must(bool is_certain, const char *sqlstate) { is_certain ? must(sqlstate) : may(sqlstate); }
};

// The possible length of an interval: months have 28 to 31 days.
struct length {
    __int128 least, most; // microseconds
};
length length_of(const interval &);

struct circumstances {
    encoding of_database;
    std::size_t name_limit;
    int server_version;
    std::string role;
    std::string default_holder;
    bool is_portable = false;
};

// Errors because of the arguments, and of names that have no row.
expected_errors errors_of(const call &, const session &, const circumstances &, const rows &known, moment before,
                          moment after);

class oracle {
public:
    explicit oracle(const circumstances &about) : about_(about) {}

    // The valid names of a call, whose rows it could change.
    std::set<std::string> names_of(const call &) const;

    // Returns what is wrong, or an empty string. If nothing is wrong, the rows that were found become the known ones.
    std::string judge(const call &, const session &, const outcome &);

    // Checks the whole table: nothing has changed except what the calls had to change.
    std::string settle(const rows &all) const;

    rows known{};

private:
    std::string judge_result(const call &, const session &, const outcome &, expected_errors &) const;
    std::string judge_error(const call &, const session &, const outcome &, const expected_errors &,
                            bool good_arguments) const;
    std::string judge_acquire(const call &, const session &, const outcome &, expected_errors &) const;
    std::string judge_change(const call &, const session &, const outcome &) const;
    std::string judge_guard(const call &, const session &, const outcome &, expected_errors &) const;
    std::string judge_complete(const call &, const session &, const outcome &, expected_errors &) const;
    std::string judge_force(const call &, const outcome &) const;
    std::string judge_resume(const call &, const outcome &) const;
    std::string judge_taken(const call &, const session &, const outcome &) const;
    std::string expected_holder(const call &, const session &, moment locked_at) const;
    std::string unchanged(const call &, const outcome &) const;

    circumstances about_;
};

// Checks shedlock_session_alive with texts like those in locked_by. Returns what is wrong, or an empty string.
std::string judge_sessions(session &, const std::vector<std::string> &texts);

// Checks how the view shows the rows, and that shedlock_doctor works. Returns what is wrong, or an empty string.
std::string judge_view(session &, const rows &known, const circumstances &);

// Checks which rows shedlock_protect protects from SQL of others. Returns what is wrong, or an empty string.
std::string judge_protection(session &, const rows &known);

// Checks how the portable edition, in schema portable, parses locked_by. Returns what is wrong, or an empty string.
std::string judge_portable_parser(session &, const rows &known);
