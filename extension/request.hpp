// The caller's request: SQL arguments, read and checked. Every "invalid argument" error of the lock functions is
// raised in request.cpp or name.cpp, names its argument and has a specific SQLSTATE.
#pragma once

#include "name.hpp"

namespace shedlock {

struct acquire_request {
    lock_names names;
    std::optional<duration> at_most; // absent: without end, a pause
    duration at_least;
    duration wait;
    tick_request asked;
};

struct extend_request {
    lock_names names;
    duration at_most;
    std::optional<duration> at_least;
};

struct release_request {
    lock_names names;
    bool done = true;          // whether the work was done
    std::string_view detail{}; // for the history
    bool nowait = false;
};

// Which rows of the history: under one of the names, if any are given, that ended at `since` or later; and of each name
// at most the `latest` last ones.
struct history_request {
    std::optional<lock_names> names;
    std::optional<instant> since;
    std::optional<int32> latest;
};

// The locks of several waiters: waiter which[i] waits for names[i].
struct wait_request {
    lock_names names;
    const int32 *which;
    duration wait;
    int64 wait_id;
};

// 25006 in a read-only transaction and on a standby. 25000 in a parallel operation: a worker's guard would be
// forgotten.
void require_writable(const char *function);

// The longest array of names. An acquire keeps one page of the buffer cache pinned for each name, and a session that
// waits takes one place in shared memory for each.
inline constexpr int most_names = 1000;

// The arguments of one call, which are read in the order of the declaration; with assertions, under its names. Names
// are taken byte by byte, as Java takes them: leading and trailing blanks count.
class arguments {
public:
    explicit arguments(FunctionCallInfo fcinfo) : fcinfo_{fcinfo} {}

    lock_names name();                         // text. 22004, 22023
    lock_names names();                        // name text[]. 22004, 2202E, 22023, 54000
    lock_names stored_name();                  // text that a table may contain, even if it is empty. 22004
    acquire_request acquire(lock_names);       // at_most, at_least, wait, then as asked(). 22004, 22023, 22008
    tick_request asked();                      // tick, retry, start_within. 22004, 22023, 22008
    extend_request extend(lock_names);         // at_most, at_least. 22004, 22023, 22008
    release_request release(lock_names);       // done, detail. 22004
    release_request release_token(lock_names); // done, nowait, detail. 22004
    history_request past_runs();               // names, since, latest. 22023
    // names, which, wait, wait_id. The wait ends well before a statement_timeout. 22004, 22023, 2202E, 22008, 54000
    wait_request waiters();
    duration span(const char *name);                // not negative. 22004, 22023, 22008
    instant token();                                // 22004
    int64 id(const char *name);                     // 22004
    bool flag(const char *name);                    // 22004
    std::string_view text_if_any(const char *name); // empty if it is NULL
    const char *command();                          // not empty. 22004, 22023

private:
    int next(const char *name); // the position of the next argument
    int required(const char *name, const char *hint = nullptr);
    duration at_most();
    duration at_least(int argument, duration at_most);
    std::span<Datum> array(const char *name, Oid type);
    std::optional<instant> tick();
    std::optional<duration> start_within(const std::optional<instant> &tick);

    FunctionCallInfo fcinfo_;
    int next_ = 0;
};

} // namespace shedlock
