// CALL shedlock_run: acquire, commit, run, commit, release, commit.
#pragma once

#include "request.hpp"

namespace shedlock {

// 25001 inside a transaction block, a function or a DO block: it could not commit there, so the others would not see
// the lock before everything is over.
void require_top_level(FunctionCallInfo fcinfo);

// True when the lock was acquired and the command ran; false: refused, nothing was done. If the command fails, its work
// is rolled back, the lock is released, and its own error is thrown on. If the lock was lost meanwhile, the release
// says so in a WARNING. On return the release is not committed yet.
bool run(Oid function, const acquire_request &request, const char *command);

} // namespace shedlock
