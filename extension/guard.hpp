// Fencing: a transaction that called shedlock_guard or shedlock_complete commits only if no other acquisition of that
// name has happened.
#pragma once

#include "lock_table.hpp"

namespace shedlock::guard {

// Fails with SL001 unless the row's acquisition is ours now. Otherwise the transaction is guarded; rolling back a
// subtransaction that is open now drops the guard. At PRE_COMMIT and PRE_PREPARE, before the callbacks of extensions
// that registered earlier, the guard looks again (SL001 if the lock is lost) and share-locks the row until the
// transaction ends.
void add(const lock_table &table, const lock_name &name, const identity &who);

// The same, and the commit releases the lock as done. Also fails with SL001, at once or at the commit, if the lock was
// already released, unless this transaction itself released it as done. A lease that is over, but without another
// acquisition since, is completed with a WARNING. Until the commit the row is not touched: the lock is still held, and
// its owner can extend it.
void add_completion(const lock_table &table, const lock_name &name, const identity &who);

// The lock of a shedlock_run. Allocated with palloc.
struct guarded_lock;
guarded_lock *lock_of_run(Oid table, const lock_name &name, const identity &who);

// From begin_run to end_run every transaction of this session is guarded by it. Runs may nest.
void begin_run(const guarded_lock &mine);
// The commit of this transaction completes the run.
void complete_run(const guarded_lock &mine);
void end_run();
// After an error, which ends all of them, the outer ones, too: their guards must not undo the release of an inner one.
void end_all_runs();

void at_subtransaction_end(SubTransactionId ended, SubTransactionId parent, bool committed);

} // namespace shedlock::guard
