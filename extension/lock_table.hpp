// The row. All that touches the heap or the index stands in lock_table.cpp (write, insert, wait) and look.cpp.
//
// Why not SQL: an UPDATE waits behind whoever has the row uncommitted, and then fails with 40001 in REPEATABLE READ. A
// dirty snapshot sees undecided rows instead, and costs a third of the instructions. Why heap_* and not table_tuple_*:
// a look through the table access method prunes the page, which writes WAL, and a refused acquire must write none.
#pragma once

#include "request.hpp"
#include "shape.hpp"

namespace shedlock {

// What a look saw. While the state is not absent, the row's page stays pinned: the row cannot be pruned, and its
// place cannot be taken by another row, until forget().
struct sighting {
    enum class states {
        absent, // from glance() a guess, as is that a row is new
        settled,
        undecided, // a transaction in progress inserted, updated or deleted it; times are the last committed ones, if
                   // any
        locked,    // another transaction in progress has locked the row
    };
    lock_name name; // asked for
    states state;
    contents stored;
    HeapTupleData tuple;
    Buffer page;
    TransactionId other; // in progress: whom to wait for

    const lease &times() const { return stored.times; }
    bool decided() const { return state == states::absent || state == states::settled; }

    // Nothing of it is committed: there is no row, or only one that a transaction in progress has made.
    bool is_new() const
    {
        return state == states::absent || (state == states::undecided && HeapTupleHeaderGetXmin(tuple.t_data) == other);
    }
};

class lock_table {
public:
    // Takes ROW EXCLUSIVE on the table, so DDL that excludes it is waited for. Checks the table's shape when it is new
    // to this backend or has changed. `function` is any function of the extension.
    static lock_table open(Oid function);
    static lock_table open_table(Oid table);

    // With keep_lock the table stays locked until the end of the transaction, as after every write.
    void close(bool keep_lock);

    const table_shape &shape() const { return shape_; }

    // The row of that name as it is now, not as any snapshot has it. Never waits, writes nothing. It may miss a row
    // that is moved to another place and committed at that very moment, or take it for a new one. Good enough to try an
    // insertion, which then yields.
    sighting glance(const lock_name &name) const;

    // The same, and absent or new is the truth: at some instant of this call no such row was committed.
    sighting look(const lock_name &name) const;
    void forget(sighting &seen) const;

    // What the transaction in progress is doing to a row that was seen undecided: extending or releasing the same
    // acquisition, making another one, or deleting it; or it has just ended.
    enum class changes { extension, acquisition, deletion, over };
    changes look_ahead(const sighting &seen) const;

    // Whether this transaction wrote what was seen: nobody else can change it before the end.
    static bool is_own(const sighting &seen);

    // locked_by of a sighting that is not absent. 55000 when somebody has made it NULL.
    std::string_view locked_by(const sighting &seen) const;
    row row_of(const sighting &seen) const;

    // What counts of its runs.
    history history_of(const sighting &seen) const;

    // What still counts of its lease: all of it, unless it ended with a session that is gone.
    lease lease_of(const sighting &seen, instant now) const;

    // Replaces the seen row; without locked_by the old one stays. False when the row is no longer the one that was
    // seen, or is being changed. Never waits. The sighting is forgotten.
    bool rewrite(sighting &seen, const contents &written, text *locked_by) const;

    // Deletes the seen row. False as from rewrite. Never waits. The sighting is forgotten.
    bool remove(sighting &seen) const;

    // As rewrite, but at most one backend at a time gets that far, and the row is looked at once more before anything
    // is written. So those who lose the race have no transaction id to show for it.
    bool take(sighting &seen, const contents &written, text *locked_by) const;

    // Inserts a row that is free since ever, where none was seen. False when somebody else is at it, or was first.
    // While we have not committed nobody else can make a row of that name, so a clock that is read after this is later
    // than every acquisition there has been, also those whose row is gone.
    bool insert(const lock_name &name) const;

    // The columns of all rows: as the statement sees them, or as they are once DDL that it waited for is over.
    void put_rows(ReturnSetInfo *result) const;

    // Share-locks the seen row until the end of the transaction. False when it has changed or is being changed.
    // The sighting is forgotten.
    bool share_lock(sighting &seen) const;

    // Waits until the transaction that keeps a sighting undecided or locked has ended. The sighting is forgotten; the
    // caller has forgotten all others: whoever waits with a page pinned can deadlock with VACUUM, which nobody detects.
    void wait_for_other(sighting &seen) const;

private:
    Relation table_;
    table_shape shape_;

    contents read(const HeapTupleData &version) const;
    template <typename Visit> void visit_index(const lock_name &name, Visit visit) const;
    sighting look_up(const lock_name &name) const;
    bool is_committed(const lock_name &name) const;
    bool revisit(sighting &seen) const;
    bool bears(const HeapTupleData &tuple, const lock_name &name) const;
    void remember(const sighting &seen) const;
    void remember_written(const sighting &seen, const ItemPointerData &tid) const;
    bool is_unchanged(const sighting &seen) const;
    bool lock_row(const sighting &seen, LockTupleMode mode) const;
    bool insert_speculatively(const lock_name &name) const;
    bool insert_index_entries(HeapTuple tuple, IndexUniqueCheck check) const;
    void fill(Datum *values, bool *nulls, const contents &written, text *locked_by) const;
};

// Opens the lock table for `work`, and keeps it locked until the end of the transaction, as after a write.
template <typename Work> auto with_lock_table(Oid function, Work work)
{
    lock_table table = lock_table::open(function);
    const auto result = work(table);
    table.close(true);
    return result;
}

} // namespace shedlock
