// Finds the row of a name, and looks at it: where this backend last saw it, or through the index.
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

// Writes nothing, and never waits for another transaction.
class row_finder {
public:
    const table_shape &shape() const { return shape_; }
    Oid owner() const { return table_->rd_rel->relowner; }

    // The row of that name as it is now, whatever any snapshot shows. It may miss a row that another transaction
    // moves and commits at that very moment, or take it for a new one. That is good enough to try an insertion, which
    // then yields.
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

    // What the transaction in progress does to an undecided row: it acquires it, deletes it, or does something else. In
    // that case it extends or releases the same acquisition, or has just ended.
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

    // The columns of all rows, or at least of those with one of the names, a text[]. In REPEATABLE READ and
    // SERIALIZABLE, as the transaction's snapshot shows them; otherwise as they are now, even if they were committed
    // after the statement began.
    void put_rows(const Datum *names, ReturnSetInfo *result) const;

protected:
    row_finder(Relation table, const table_shape &shape) : table_{table}, shape_{shape} {}

    Relation table_;
    table_shape shape_;

private:
    contents read(const HeapTupleData &version) const;
    template <typename Visit> void visit_index(const lock_name &name, Visit visit) const;
    seen_row look_up(const lock_name &name) const;
    bool is_committed(const lock_name &name) const;
    bool revisit(seen_row &seen) const;
    bool bears(const HeapTupleData &tuple, const lock_name &name) const;
    void remember(const seen_row &seen) const;
};

} // namespace shedlock
