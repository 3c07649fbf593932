// Fencing: a transaction that called shedlock_guard or shedlock_complete commits only if no other acquisition of that
// name has happened.
#pragma once

#include "lock_table.hpp"

namespace shedlock::guard {

// SL001 if the row's acquisition is not ours now. Otherwise guards the transaction, unless a subtransaction open now is
// rolled back. Before the commit or the prepare, and before extensions that have registered by now take part in it,
// this looks at the row again (SL001) and share-locks it, so that no session can take it before the commit is done.
void add(const lock_table &table, const lock_name &name, const identity &who);

// The same, and the commit releases the lock as done. SL001, at once or at the commit, also if the lock has been
// released before, unless this transaction released it as done. A lease that is over, but without another acquisition
// since, is completed with a WARNING. Until the commit the row is not touched: the lock is still held, and its owner
// can extend it.
void add_completion(const lock_table &table, const lock_name &name, const identity &who);

// The lock of a shedlock_run: from begin_run to end_run every transaction of this session is guarded so. Runs nest.
struct guarded_lock;
guarded_lock *lock_of_run(Oid table, const lock_name &name, const identity &who);
void begin_run(guarded_lock &mine);
void end_run(guarded_lock &mine);

// The commit of this transaction completes the run.
void complete_run(const guarded_lock &mine);

void at_subtransaction_end(SubTransactionId ended, SubTransactionId parent, bool committed);

} // namespace shedlock::guard
