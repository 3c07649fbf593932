// CALL shedlock_run: acquire, commit; then the command, guarded, and the release in the transaction of its work.
#pragma once

#include "request.hpp"

namespace shedlock {

// 25001 inside a transaction block, a function or a DO block: it could not commit there, so the others would not see
// the lock before everything is over.
void require_top_level(FunctionCallInfo fcinfo);

// True when the lock was acquired, the command ran, and its work is committed together with the release; false:
// refused, nothing was done. If the command fails, its work is rolled back, the lock is released as not done, and its
// own error is thrown on. If others have had the lock meanwhile, the work is rolled back with SL001. If nobody has, but
// the lease is over, a WARNING says so.
bool run(Oid function, const acquire_request &request, const char *command);

} // namespace shedlock
