// The lock table: opened for a call, which finds and looks at rows (row_finder), and inserts, changes, locks and
// deletes them.
#pragma once

#include "row_finder.hpp"

namespace shedlock {

class lock_table : public row_finder {
public:
    // Locks the table, by default in ROW EXCLUSIVE mode, so it waits for DDL that conflicts. Checks the table's shape
    // if the table is new to this backend or has changed. `function` is any function of the extension.
    static lock_table open(Oid function, LOCKMODE mode = RowExclusiveLock);
    static lock_table open_table(Oid table, LOCKMODE mode = RowExclusiveLock);

    // With keep_lock the table stays locked until the transaction ends, as after every write.
    void close(bool keep_lock);

    const TriggerDesc *triggers() const { return table_->trigdesc; }

    // Replaces the row that was seen; without locked_by the old value stays. Returns false if the row is no longer the
    // one that was seen, or is being changed; that uses no transaction id. Never waits. Unpins the row.
    bool rewrite(seen_row &seen, const contents &written, text *locked_by) const;

    // Deletes the row that was seen. Returns false as rewrite does. Never waits. Unpins the row.
    bool remove(seen_row &seen) const;

    // Like rewrite, for an acquisition: on Citus it also fails while the last writer's workers have not committed.
    bool take(seen_row &seen, const contents &written, text *locked_by) const;

    // Inserts a row that has always been free, where none was seen. 55000 if the table takes none from us
    // (attachments.hpp). Returns false if another session is inserting it, or was first. Until this transaction
    // commits, no other one can insert a row of that name. So a clock that is read after this call is later than every
    // earlier acquisition, even of a deleted row.
    bool insert(const lock_name &name) const;

    // Share-locks the row that was seen until the transaction ends. Returns false if the row has changed or is being
    // changed. Unpins the row.
    bool share_lock(seen_row &seen) const;

    // Only on Citus: whether a transaction that wrote or guarded the row has committed here, but not yet on all
    // workers. Until then take() fails. Also true while it is in progress.
    bool is_held_until_workers_commit(const lock_name &name) const;

    // Waits until the transaction that keeps a row undecided or locked has ended. Unpins the row. The caller must have
    // unpinned all others: a session that waits with a page pinned can deadlock with VACUUM, which nothing detects.
    void wait_for_other(seen_row &seen) const;

private:
    lock_table(Relation table, const table_shape &shape) : row_finder{table, shape} {}

    void remember_written(const seen_row &seen, const ItemPointerData &tid) const;
    bool lock_row(const seen_row &seen, LockTupleMode mode) const;
    void hold_until_workers_commit(const lock_name &name) const;
    bool insert_speculatively(const lock_name &name) const;
    bool insert_index_entries(HeapTuple tuple, IndexUniqueCheck check, const lock_name &name) const;
    void fill(Datum *values, bool *nulls, const contents &written, text *locked_by) const;
};

// Opens the lock table for `work`, and keeps it locked until the transaction ends, as after a write.
template <typename Work> auto with_lock_table(Oid function, Work work)
{
    lock_table table = lock_table::open(function);
    const auto result = work(table);
    table.close(true);
    return result;
}

} // namespace shedlock
