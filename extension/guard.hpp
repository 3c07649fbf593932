// Fencing: a transaction that called shedlock_guard commits only if no other acquisition of that name has happened.
#pragma once

#include "lock_table.hpp"

namespace shedlock::guard {

// SL001 when the row does not bear an acquisition of ours now; otherwise the transaction, or the subtransaction that is
// open, is guarded until it ends.
void add(const lock_table &table, const lock_name &name, const claim &who);

// Looks again and share-locks the rows, so that nobody can take them before the commit is done. SL001.
void at_pre_commit();

void at_end();
void at_subtransaction_end(SubTransactionId ended, SubTransactionId parent, bool committed);

} // namespace shedlock::guard
