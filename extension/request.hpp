// What the caller asked for: SQL arguments, read and checked. Every "invalid argument" error of the lock functions
// stands in request.cpp, names its argument and has an SQLSTATE of its own.
#pragma once

#include "pg.hpp"

namespace shedlock {

// A lock's name: bytes, compared as bytes.
struct lock_name {
    text *datum;
    std::string_view bytes;
};

// Sorted, distinct, at least one.
using lock_names = std::span<lock_name>;

struct acquire_request {
    lock_names names;
    duration at_most;
    duration at_least;
    duration wait;
    turn asked;
};

struct extend_request {
    lock_names names;
    duration at_most;
    std::optional<duration> at_least;
};

// Of several who wait: names[i] is a lock that number which[i] waits for.
struct wait_request {
    lock_names names;
    const int32 *which;
    duration wait;
    int64 room;
};

// 25006 in a read-only transaction and on a standby.
void require_writable(const char *function);

// The longest array of names. An acquire keeps a page of the buffer cache pinned for each name, and a waiting session
// takes up a place in shared memory for each.
inline constexpr int most_names = 1000;

// One name, text (22004, 22023), or several, text[] (22004, 2202E, 22023, 54000). Taken byte by byte, as Java takes it:
// blanks at its ends are part of it.
lock_names read_name(FunctionCallInfo fcinfo, int argument);
lock_names read_names(FunctionCallInfo fcinfo, int argument);

// For administrators: whatever may stand in a table, an empty name included. 22004.
lock_names read_standing_name(FunctionCallInfo fcinfo, int argument);

// at_most, at_least, wait, tick, retry from the given argument on. 22004, 22023, 22008.
acquire_request read_acquire(FunctionCallInfo fcinfo, int argument, lock_names names);

// at_most, at_least. 22004, 22023, 22008.
extend_request read_extend(FunctionCallInfo fcinfo, int argument, lock_names names);

// A name to pause: as an acquire without end; reads wait from the given argument. 22004, 22023, 22008.
acquire_request read_pause(FunctionCallInfo fcinfo, int argument, lock_names names);

// names, which, wait, room from the first argument on. The wait is over well before a statement_timeout. 22004, 22023,
// 2202E, 22008, 54000.
wait_request read_wait(FunctionCallInfo fcinfo);
int64 read_room(FunctionCallInfo fcinfo, int argument);

// A token. 22004.
instant read_token(FunctionCallInfo fcinfo, int argument);

// Whether a release is of work that was done. 22004.
bool read_done(FunctionCallInfo fcinfo, int argument);

// Whether another transaction is not waited for. 22004.
bool read_nowait(FunctionCallInfo fcinfo, int argument);

// Whether a lease ends with the session that acquires it. 22004.
bool read_ends_with_session(FunctionCallInfo fcinfo, int argument);

// Not empty, not NULL. 22004, 22023.
const char *read_command(FunctionCallInfo fcinfo, int argument);

// Empty when NULL: the caller wants the default holder.
std::string_view read_holder(FunctionCallInfo fcinfo, int argument);

// For a name that has no row yet: 22023 if it is empty, 22001 if it is longer than the table's column, which only the
// opened table knows.
void require_storable(const lock_name &name, int limit);

} // namespace shedlock
