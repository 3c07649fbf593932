// The environment of the tests: a database with the extension or the portable edition, the tool in PATH, with a clock
// that the test moves, and for each test an empty working directory and a lock of its own.
#pragma once

#include "process.hpp"

#include "../client/frozen_clock.hpp"
#include "../client/server.hpp"

namespace shedlock::test {

using server::ask, server::comes_true, server::end_lease, server::is_portable, server::last_outcome, server::literal,
    server::state;

// The name of this test's lock.
std::string name();

inline std::string state()
{
    return state(name());
}
inline std::string last_outcome()
{
    return last_outcome(name());
}

// Whether a tool that connected after this lock was acquired has asked for a lock, and has been answered.
bool is_refused(const std::string &lock = name());

// Acquires for another holder. Returns the token, or "" if refused.
std::string acquire(const std::string &lock = name(), const std::string &at_most = "1h");

// A schedule whose latest tick was five to seven months ago, as is the next one ahead, so that none comes during a
// test. The tick before was a year earlier.
std::string yearly_schedule(); // a crontab expression
// Its latest tick, as an expression of SQL.
std::string yearly_tick(const std::string &zone = "UTC");

// A program that cannot be started, though it looks as if it could.
std::string bad_program();

// shedlock run NAME OPTIONS -- COMMAND
words under_lock(const words &command, const words &options = {"--at-most", "1h"});
// Options for run: at_most of an hour, and these.
words an_hour(const words &more);

} // namespace shedlock::test
