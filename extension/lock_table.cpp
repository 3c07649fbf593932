#include "lock_table.hpp"

#include "place.hpp"

namespace shedlock {

namespace {

// Taken without waiting, only for the microseconds in which a row is written. Advisory locks made by users have 1 or 2
// in the fourth field, so these never meet. Two names with the same 48 bits would refuse each other if they were
// taken in the very same microsecond.
class taker_lock {
public:
    taker_lock(Oid table, const lock_name &name)
    {
        const uint64 hash = pg::hash_of(name.bytes, 0);
        SET_LOCKTAG_ADVISORY(tag_, MyDatabaseId, table, static_cast<uint32>(hash),
                             static_cast<uint16>(3 + ((hash >> 32) & 0x7fff)));
    }
    bool try_acquire() const { return LockAcquire(&tag_, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL; }
    void release() const { LockRelease(&tag_, ExclusiveLock, false); }

private:
    LOCKTAG tag_;
};

template <typename T> T *allocate(int count)
{
    return static_cast<T *>(palloc(sizeof(T) * count));
}

} // namespace

lock_table lock_table::open(Oid function)
{
    return open_table(find_table(function));
}

lock_table lock_table::open_table(Oid table)
{
    lock_table opened;
    // Locking brings news of DDL, before the shape is asked for.
    opened.table_ = try_table_open(table, RowExclusiveLock);
    if (!opened.table_)
        report_dropped();
    opened.shape_ = shape_of(opened.table_);
    return opened;
}

void lock_table::close(bool keep_lock)
{
    table_close(table_, keep_lock ? NoLock : RowExclusiveLock);
}

void lock_table::forget(sighting &seen) const
{
    if (BufferIsValid(seen.page))
        ReleaseBuffer(seen.page);
    seen.page = InvalidBuffer;
}

std::string_view lock_table::locked_by(const sighting &seen) const
{
    bool is_null;
    HeapTupleData tuple = seen.tuple;
    return pg::view_of(DatumGetTextPP(heap_getattr(&tuple, shape_.locked_by, RelationGetDescr(table_), &is_null)));
}

void lock_table::fill(Datum *values, bool *nulls, const lease &times, text *locked_by) const
{
    const auto set = [&](AttrNumber column, Datum value) {
        values[column - 1] = value;
        nulls[column - 1] = false;
    };
    set(shape_.lock_until, TimestampGetDatum(pg::to_timestamp(times.lock_until)));
    set(shape_.locked_at, TimestampGetDatum(pg::to_timestamp(times.locked_at)));
    if (locked_by)
        set(shape_.locked_by, PointerGetDatum(locked_by));
    if (times.lock_at_least_until)
        set(shape_.lock_at_least_until, TimestampGetDatum(pg::to_timestamp(*times.lock_at_least_until)));
    else
        nulls[shape_.lock_at_least_until - 1] = true;
}

bool lock_table::rewrite(sighting &seen, const lease &times, text *locked_by) const
{
    const TupleDesc columns = RelationGetDescr(table_);
    auto *const values = allocate<Datum>(columns->natts);
    auto *const nulls = allocate<bool>(columns->natts);
    heap_deform_tuple(&seen.tuple, columns, values, nulls);
    fill(values, nulls, times, locked_by);
    const HeapTuple tuple = heap_form_tuple(columns, values, nulls);

    // Looks do not prune, so writers do. This may move the old tuple within the page: all of it has been copied.
    heap_page_prune_opt(table_, seen.page);

    // Our own row lock makes heap_update report "being modified" unless it may wait. It will not have to once we hold
    // the row in the mode that an update needs.
    if (seen.locked_by_us && !lock_row(seen, LockTupleNoKeyExclusive)) {
        forget(seen);
        return false;
    }
    const auto result = pg::update_tuple(table_, &seen.tuple.t_self, tuple, seen.locked_by_us);
    const bool written = result.code == TM_Ok;
    if (written) {
        insert_index_entries(tuple, result.indexes, UNIQUE_CHECK_YES);
        remember_written(seen, tuple->t_self);
        CommandCounterIncrement(); // so that the same statement can release what it acquired
    }
    forget(seen);
    return written;
}

// On another page if the old one was full.
void lock_table::remember_written(const sighting &seen, const ItemPointerData &tid) const
{
    const BlockNumber block = ItemPointerGetBlockNumber(&tid);
    const bool is_same = block == BufferGetBlockNumber(seen.page);
    const Buffer page = is_same ? seen.page : ReadBuffer(table_, block);
    remember_place(RelationGetRelid(table_), seen.name.bytes, {tid, page});
    if (!is_same)
        ReleaseBuffer(page);
}

bool lock_table::take(sighting &seen, const lock_name &name, const lease &times, text *locked_by) const
{
    const taker_lock lock{RelationGetRelid(table_), name};
    if (!lock.try_acquire()) {
        forget(seen);
        return false;
    }
    bool taken = false;
    if (seen.state == sighting::states::absent) {
        auto again = look(name);
        taken = again.state == sighting::states::absent && insert(name, times, locked_by);
        forget(again);
    } else if (is_unchanged(seen)) {
        taken = rewrite(seen, times, locked_by);
    }
    forget(seen);
    lock.release();
    return taken;
}

// INSERT … ON CONFLICT DO NOTHING by hand, because the executor's waits for a conflicting insertion in progress, and
// fails with 40001 in REPEATABLE READ when the conflicting row is newer than the snapshot. A dirty scan can also miss a
// row that is just being moved to another page; the index then knows, and the insertion yields.
bool lock_table::insert(const lock_name &name, const lease &times, text *locked_by) const
{
    const TupleDesc columns = RelationGetDescr(table_);
    auto *const values = allocate<Datum>(columns->natts);
    auto *const nulls = allocate<bool>(columns->natts);
    std::fill_n(nulls, columns->natts, true);
    fill(values, nulls, times, locked_by);
    values[shape_.name - 1] = PointerGetDatum(name.datum);
    nulls[shape_.name - 1] = false;
    const HeapTuple tuple = heap_form_tuple(columns, values, nulls);

    // While the insertion is speculative, a Java client's ON CONFLICT waits for its outcome only, not for us to commit.
    const TransactionId xid = GetCurrentTransactionId();
    const uint32 speculation = SpeculativeInsertionLockAcquire(xid);
    HeapTupleHeaderSetSpeculativeToken(tuple->t_data, speculation);
    heap_insert(table_, tuple, GetCurrentCommandId(true), HEAP_INSERT_SPECULATIVE, nullptr);
    const bool alone = insert_index_entries(tuple, pg::index_work::all, UNIQUE_CHECK_PARTIAL);
    if (alone)
        heap_finish_speculative(table_, &tuple->t_self);
    else
        heap_abort_speculative(table_, &tuple->t_self);
    SpeculativeInsertionLockRelease(xid);
    CommandCounterIncrement();
    return alone;
}

// The table's shape promises that no index has expressions or predicates. False when a unique index knows another row
// of that name that is not dead.
bool lock_table::insert_index_entries(HeapTuple tuple, pg::index_work work, IndexUniqueCheck check) const
{
    if (work == pg::index_work::none)
        return true;
    const TupleDesc columns = RelationGetDescr(table_);
    auto *const values = allocate<Datum>(columns->natts);
    auto *const nulls = allocate<bool>(columns->natts);
    heap_deform_tuple(tuple, columns, values, nulls);
    bool alone = true;
    List *const indexes = RelationGetIndexList(table_);
    ListCell *cell;
    foreach (cell, indexes) {
        const Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
        if (index->rd_index->indisready && pg::wants_entry(index, work)) {
            Datum entry[INDEX_MAX_KEYS];
            bool entry_nulls[INDEX_MAX_KEYS];
            for (int i = 0; i < index->rd_index->indnatts; i++) {
                const AttrNumber column = index->rd_index->indkey.values[i];
                entry[i] = values[column - 1];
                entry_nulls[i] = nulls[column - 1];
            }
            const bool unique = index->rd_index->indisunique;
            const bool inserted = index_insert(index, entry, entry_nulls, &tuple->t_self, table_,
                                               unique ? check : UNIQUE_CHECK_NO, false, BuildIndexInfo(index));
            // Only a partial check answers; without one the answer means nothing.
            if (unique && check == UNIQUE_CHECK_PARTIAL && !inserted)
                alone = false;
        }
        index_close(index, NoLock);
    }
    return alone;
}

bool lock_table::remove(sighting &seen) const
{
    TM_FailureData failure;
    const TM_Result result =
        heap_delete(table_, &seen.tuple.t_self, GetCurrentCommandId(true), InvalidSnapshot, false, &failure, false);
    forget(seen);
    if (result == TM_Ok)
        CommandCounterIncrement();
    return result == TM_Ok;
}

lock_names lock_table::all_names() const
{
    List *names = NIL;
    const TableScanDesc scan = table_beginscan(table_, SnapshotSelf, 0, nullptr);
    while (const HeapTuple tuple = heap_getnext(scan, ForwardScanDirection)) {
        bool is_null;
        const Datum name = heap_getattr(tuple, shape_.name, RelationGetDescr(table_), &is_null);
        names = lappend(names, DatumGetTextPCopy(name));
    }
    table_endscan(scan);

    auto *const result = allocate<lock_name>(list_length(names));
    for (int i = 0; i < list_length(names); i++) {
        auto *const name = static_cast<text *>(list_nth(names, i));
        result[i] = {name, pg::view_of(name)};
    }
    return {result, static_cast<size_t>(list_length(names))};
}

bool lock_table::lock_row(const sighting &seen, LockTupleMode mode) const
{
    HeapTupleData tuple = seen.tuple;
    Buffer page;
    TM_FailureData failure;
    const TM_Result result =
        heap_lock_tuple(table_, &tuple, GetCurrentCommandId(true), mode, LockWaitSkip, false, &page, &failure);
    ReleaseBuffer(page);
    return result == TM_Ok;
}

bool lock_table::share_lock(sighting &seen) const
{
    const bool locked = lock_row(seen, LockTupleShare);
    forget(seen);
    return locked;
}

void lock_table::wait_for_other(sighting &seen) const
{
    ItemPointerData place = seen.tuple.t_self;
    forget(seen);
    XactLockTableWait(seen.other, table_, &place, XLTW_Update);
}

} // namespace shedlock
