// The caller's request: SQL arguments, read and checked. Every "invalid argument" error of the lock functions is
// raised in request.cpp, names its argument and has a specific SQLSTATE.
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

// One name, text (22004, 22023), or several, text[] (22004, 2202E, 22023, 54000). Names are taken byte by byte, as
// Java takes them: leading and trailing blanks count.
lock_names read_name(FunctionCallInfo fcinfo, int argument);
lock_names read_names(FunctionCallInfo fcinfo, int argument);

// For administrators: any name that a table may contain, even an empty one. 22004.
lock_names read_stored_name(FunctionCallInfo fcinfo, int argument);

// Reads at_most, at_least, wait, tick and retry, beginning with the given argument. 22004, 22023, 22008.
acquire_request read_acquire(FunctionCallInfo fcinfo, int argument, lock_names names);

// Reads at_most and at_least. 22004, 22023, 22008.
extend_request read_extend(FunctionCallInfo fcinfo, int argument, lock_names names);

// A pause of that name, which is an acquire without an end. Reads wait from the given argument. 22004, 22023, 22008.
acquire_request read_pause(FunctionCallInfo fcinfo, int argument, lock_names names);

// Reads names, which, wait and wait_id, beginning with the first argument. The wait ends well before a
// statement_timeout. 22004, 22023, 2202E, 22008, 54000.
wait_request read_wait(FunctionCallInfo fcinfo);
int64 read_wait_id(FunctionCallInfo fcinfo, int argument);

// A token. 22004.
instant read_token(FunctionCallInfo fcinfo, int argument);

// Whether the work of a release was done. 22004.
bool read_done(FunctionCallInfo fcinfo, int argument);

// Whether shedlock_protect is to be on. 22004.
bool read_on(FunctionCallInfo fcinfo, int argument);

// Whether not to wait for another transaction. 22004.
bool read_nowait(FunctionCallInfo fcinfo, int argument);

// Whether a lease ends with the session that acquires it. 22004.
bool read_ends_with_session(FunctionCallInfo fcinfo, int argument);

// Not empty, not NULL. 22004, 22023.
const char *read_command(FunctionCallInfo fcinfo, int argument);

// Empty when NULL: the caller wants the default holder.
std::string_view read_holder(FunctionCallInfo fcinfo, int argument);

// For a name that has no row yet: 22023 if it is empty, or an array literal ({a,b}: what drivers send for a list
// without a type); 22001 if it is longer than the table's column, which only the opened table knows.
void require_storable(const lock_name &name, int limit);

} // namespace shedlock
