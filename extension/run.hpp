// CALL shedlock_run: acquires and commits, then runs the command, guarded, and releases in the transaction of its work.
#pragma once

#include "request.hpp"

namespace shedlock {

// 25001 inside a transaction block, a function or an exception block: it could not commit there, so others would not
// see the lock until everything is over.
void require_top_level(FunctionCallInfo fcinfo);

// Returns true when the lock was acquired, the command ran, and its work is committed together with the release; false
// when the lock was refused and nothing was done. If the command fails, its work is rolled back, the lock is released
// as not done, and the command's own error is raised again. If another acquisition has happened since, the work is
// rolled back with SL001. If none has, but the lease is over, there is a WARNING.
bool run(Oid function, const acquire_request &request, const char *command);

} // namespace shedlock
