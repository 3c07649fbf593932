// The row. Everything that accesses the heap or the index is in lock_table.cpp (write, insert, wait) and
// lock_table_look.cpp.
//
// Why not SQL: an UPDATE waits for a transaction that has changed the row, and then fails with 40001 in REPEATABLE
// READ. A dirty snapshot sees uncommitted rows instead, at a third of the instructions. Why heap_* and not
// table_tuple_*: reading through the table access method prunes the page, which writes WAL, and a refused acquire must
// not write any.
#pragma once

#include "name.hpp"
#include "shape.hpp"

namespace shedlock {

// A row, or its absence, as a look saw it. Unless the state is absent, the row's page stays pinned until unpin(): the
// row cannot be pruned, and no other row can take its place.
struct seen_row {
    enum class states {
        absent, // only a guess if it comes from glance(), and so is is_new()
        settled,
        undecided, // a transaction in progress inserted, updated or deleted it; times are the last committed ones, if
                   // any
        locked,    // another transaction in progress has locked the row against changes of its lease
    };
    lock_name name; // the name that was asked for
    states state;
    contents stored;
    HeapTupleData tuple;
    Buffer page;
    TransactionId other; // the transaction in progress to wait for
    bool is_referenced;  // by a foreign key that a transaction in progress has checked

    const lease &times() const { return stored.times; }
    bool decided() const { return state == states::absent || state == states::settled; }

    // Whether nothing of the row is committed: there is none, or only one that a transaction in progress has inserted.
    bool is_new() const
    {
        return state == states::absent || (state == states::undecided && HeapTupleHeaderGetXmin(tuple.t_data) == other);
    }
};

class lock_table {
public:
    // Locks the table, by default in ROW EXCLUSIVE mode, so it waits for DDL that conflicts. Checks the table's shape
    // if the table is new to this backend or has changed. `function` is any function of the extension.
    static lock_table open(Oid function, LOCKMODE mode = RowExclusiveLock);
    static lock_table open_table(Oid table, LOCKMODE mode = RowExclusiveLock);

    // With keep_lock the table stays locked until the transaction ends, as after every write.
    void close(bool keep_lock);

    const table_shape &shape() const { return shape_; }
    const TriggerDesc *triggers() const { return table_->trigdesc; }

    // The row of that name as it is now, whatever any snapshot shows. Never waits, writes nothing. It may miss a row
    // that another transaction moves and commits at that very moment, or take it for a new one. That is good enough to
    // try an insertion, which then yields.
    seen_row glance(const lock_name &name) const;

    // The same, but absent and new are certain: at some instant during this call no such row was committed.
    seen_row look(const lock_name &name) const;

    // For a name that the caller of a function gave: 22023 or 22001 if there is no such row, and could be none. Not
    // part of the looks, because a guard must fail with SL001 at the commit, and shedlock_wait_any takes any name.
    void require_storable(const seen_row &seen) const
    {
        if (seen.state == seen_row::states::absent)
            shedlock::require_storable(seen.name, shape_.name_limit);
    }

    void unpin(seen_row &seen) const;

    // What the transaction in progress makes of an undecided row: another acquisition, nothing, or something else: it
    // extends or releases the same acquisition, or has just ended.
    enum class changes { acquisition, deletion, other };
    changes look_ahead(const seen_row &seen) const;

    // Whether this transaction wrote what was seen. If so, no other one can change it before this transaction ends.
    static bool is_own(const seen_row &seen);

    // locked_by of a row that is not absent. 55000 if it is NULL.
    std::string_view locked_by(const seen_row &seen) const;
    row row_of(const seen_row &seen) const;

    // The history of its runs, as history_of in rules.hpp.
    history history_of(const seen_row &seen) const;

    // Its lease. If it ends with its session and that session is gone, the lease is over once at_least has passed.
    lease lease_of(const seen_row &seen, instant now) const;

    // Replaces the row that was seen; without locked_by the old value stays. Returns false if the row is no longer the
    // one that was seen, or is being changed. Never waits. Unpins the row.
    bool rewrite(seen_row &seen, const contents &written, text *locked_by) const;

    // Deletes the row that was seen. Returns false as rewrite does. Never waits. Unpins the row.
    bool remove(seen_row &seen) const;

    // Like rewrite, but only one backend at a time gets that far, and it looks at the row once more before it writes.
    // So the backends that lose the race have not used a transaction id.
    bool take(seen_row &seen, const contents &written, text *locked_by) const;

    // Inserts a row that has always been free, where none was seen. 55000 if the table takes none from us
    // (attachments.hpp). Returns false if another session is inserting it,
    // or was first. Until this transaction commits, no other one can insert a row of that name. So a clock that is read
    // after this call is later than every earlier acquisition, even of a deleted row.
    bool insert(const lock_name &name) const;

    // The columns of all rows, or at least of those with one of the names, a text[]. In REPEATABLE READ and
    // SERIALIZABLE, as the transaction's snapshot shows them; otherwise as they are now, even if they were committed
    // after the statement began.
    void put_rows(const Datum *names, ReturnSetInfo *result) const;

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
    Relation table_;
    table_shape shape_;

    contents read(const HeapTupleData &version) const;
    template <typename Visit> void visit_index(const lock_name &name, Visit visit) const;
    seen_row look_up(const lock_name &name) const;
    bool is_committed(const lock_name &name) const;
    bool revisit(seen_row &seen) const;
    bool bears(const HeapTupleData &tuple, const lock_name &name) const;
    void remember(const seen_row &seen) const;
    void remember_written(const seen_row &seen, const ItemPointerData &tid) const;
    bool is_unchanged(const seen_row &seen) const;
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
