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
        absent,
        settled,
        undecided, // a transaction in progress inserted, updated or deleted it; times are the last committed ones, if
                   // any
        locked,    // another transaction in progress has locked the row
    };
    lock_name name; // asked for
    states state;
    bool locked_by_us; // we locked the row earlier in this transaction
    lease times;
    HeapTupleData tuple;
    Buffer page;
    TransactionId other; // in progress: whom to wait for

    bool decided() const { return state == states::absent || state == states::settled; }
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

    // The row of that name as it is now, not as any snapshot has it. Never waits, writes nothing.
    sighting look(const lock_name &name) const;
    void forget(sighting &seen) const;

    // locked_by of a sighting that is not absent; detoasted, so it needs a snapshot if it is out of line.
    std::string_view locked_by(const sighting &seen) const;

    // Replaces the seen row; without locked_by the old one stays. False when the row is no longer the one that was
    // seen. Never waits for a row that was seen settled. The sighting is forgotten.
    bool rewrite(sighting &seen, const lease &times, text *locked_by) const;

    // As rewrite, and inserts where there was no row; but at most one backend at a time gets that far, and the row is
    // looked at once more before anything is written. So those who lose the race have no transaction id to show for it.
    bool take(sighting &seen, const lock_name &name, const lease &times, text *locked_by) const;

    // Deletes the seen row, without waiting. False when it is no longer the one that was seen. The sighting is
    // forgotten.
    bool remove(sighting &seen) const;

    // The names of all rows that are committed now, palloc'd.
    lock_names all_names() const;

    // Share-locks the seen row until the end of the transaction. False when it has changed or is being changed.
    // The sighting is forgotten.
    bool share_lock(sighting &seen) const;

    // Waits until the transaction that keeps a sighting undecided or locked has ended. The sighting is forgotten.
    void wait_for_other(sighting &seen) const;

private:
    Relation table_;
    table_shape shape_;

    lease read_times(const sighting &seen) const;
    sighting look_up(const lock_name &name) const;
    bool revisit(sighting &seen) const;
    bool bears(const HeapTupleData &tuple, const lock_name &name) const;
    void remember(const sighting &seen) const;
    void remember_written(const sighting &seen, const ItemPointerData &tid) const;
    bool is_unchanged(const sighting &seen) const;
    bool lock_row(const sighting &seen, LockTupleMode mode) const;
    bool insert(const lock_name &name, const lease &times, text *locked_by) const;
    bool insert_index_entries(HeapTuple tuple, pg::index_work work, IndexUniqueCheck check) const;
    void fill(Datum *values, bool *nulls, const lease &times, text *locked_by) const;
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
