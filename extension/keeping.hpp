// Whether a history is kept (shedlock_keep_history), and what is in it.
#pragma once

#include "request.hpp"

namespace shedlock {

// Makes shedlock_history in the lock table's schema, if there is none, and gives its owner the right to INSERT, or
// takes it away. Tables are found and made by their OIDs, because after a wait a name could mean something else. Waits
// for transactions that have written the lock table: a transaction may know since before that no history is kept.
// `function` is any function of the extension. 55000 and 42P01 as every call, and 55000 if a table of that name cannot
// be the history.
void keep_history(Oid function, bool on);

// 42P01 if there is no history.
void put_history(Oid function, const history_request &request, ReturnSetInfo *result);

} // namespace shedlock
