// How lock_table finds the row: where it was last seen, or by the index.
#include "lock_table.hpp"

#include "place.hpp"

namespace shedlock {

namespace {

// Looks for lockers of a row that nobody is changing. A dirty snapshot does not tell of them.
void find_lockers(HeapTupleHeader header, sighting &seen)
{
    if (header->t_infomask & HEAP_XMAX_INVALID)
        return;
    const TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
    if (!(header->t_infomask & HEAP_XMAX_IS_MULTI)) {
        if (TransactionIdIsCurrentTransactionId(xmax))
            seen.locked_by_us = true;
        else if (TransactionIdIsInProgress(xmax))
            seen.other = xmax;
        return;
    }
    MultiXactMember *members;
    const int count = GetMultiXactIdMembers(xmax, &members, HEAP_LOCKED_UPGRADED(header->t_infomask),
                                            HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask));
    for (int i = 0; i < count; i++) {
        if (TransactionIdIsCurrentTransactionId(members[i].xid))
            seen.locked_by_us = true;
        else if (TransactionIdIsInProgress(members[i].xid))
            seen.other = members[i].xid;
    }
    if (count > 0)
        pfree(members);
}

// What a dirty snapshot found out about a version that is not dead. The page is locked.
void judge(const SnapshotData &dirty, sighting &seen)
{
    seen.locked_by_us = false;
    seen.other = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
    if (TransactionIdIsValid(seen.other)) {
        seen.state = sighting::states::undecided;
        return;
    }
    find_lockers(seen.tuple.t_data, seen);
    seen.state = TransactionIdIsValid(seen.other) ? sighting::states::locked : sighting::states::settled;
}

// The version at that place of a page, whatever row it may belong to. The page is locked. False: there is none.
bool version_at(Relation table, Buffer buffer, const ItemPointerData &tid, HeapTupleData &version)
{
    const Page page = BufferGetPage(buffer);
    const OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&tid);
    if (ItemPointerGetBlockNumberNoCheck(&tid) != BufferGetBlockNumber(buffer) || offset < FirstOffsetNumber ||
        offset > PageGetMaxOffsetNumber(page))
        return false;
    const ItemId item = PageGetItemId(page, offset);
    if (!ItemIdIsNormal(item))
        return false;
    version.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
    version.t_len = ItemIdGetLength(item);
    version.t_tableOid = RelationGetRelid(table);
    version.t_self = tid;
    return true;
}

// Java's four, ours, and some that others may have added.
constexpr int usual_columns = 8;

} // namespace

sighting lock_table::look(const lock_name &name) const
{
    sighting seen{};
    seen.name = name;
    if (!revisit(seen))
        seen = look_up(name);
    if (seen.state != sighting::states::absent)
        seen.times = read_times(seen);
    return seen;
}

// By the index. Whoever wants to drop or rebuild that has to lock the table first, so a lock on it would only cost.
sighting lock_table::look_up(const lock_name &name) const
{
    const Relation index = RelationIdGetRelation(shape_.index);
    if (!index)
        elog(ERROR, "index %u of the lock table has vanished", shape_.index);
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    ScanKeyData key;
    ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber, InvalidOid, index->rd_indcollation[0], F_TEXTEQ,
                           PointerGetDatum(name.datum));
    const IndexScanDesc scan = pg::begin_index_scan(table_, index, &dirty, 1);
    index_rescan(scan, &key, 1, nullptr, 0);

    sighting result{};
    result.name = name;
    result.state = sighting::states::absent;
    result.page = InvalidBuffer;
    while (const ItemPointer root = index_getnext_tid(scan, ForwardScanDirection)) {
        sighting seen = result;
        seen.page = ReadBuffer(table_, ItemPointerGetBlockNumber(root));
        ItemPointerData tid = *root;
        LockBuffer(seen.page, BUFFER_LOCK_SHARE);
        const bool found = heap_hot_search_buffer(&tid, table_, seen.page, &dirty, &seen.tuple, nullptr, true);
        if (found)
            judge(dirty, seen);
        LockBuffer(seen.page, BUFFER_LOCK_UNLOCK);
        if (!found) {
            ReleaseBuffer(seen.page);
            continue;
        }
        forget(result);
        result = seen;
        // An uncommitted insertion may be the new place of a row whose committed version comes later in the index.
        if (!TransactionIdIsValid(seen.other) || HeapTupleHeaderGetXmin(seen.tuple.t_data) != seen.other)
            break;
    }
    index_endscan(scan);
    RelationClose(index);
    if (result.state == sighting::states::settled)
        remember(result);
    return result;
}

// Where it was last seen, or from there on to newer versions of the same page. False unless that leads to the version
// that a look through the index would find, too: it bears the name, which is unique among rows that are not dead, and
// it was not inserted by a transaction still in progress, whose row may have an older place.
bool lock_table::revisit(sighting &seen) const
{
    const place last = recall_place(RelationGetRelid(table_), seen.name.bytes);
    const BlockNumber block = ItemPointerGetBlockNumberNoCheck(&last.tid);
    if (!BufferIsValid(last.page) || !pg::pin_recent(table_, block, last.page))
        return false;
    seen.page = last.page;
    LockBuffer(seen.page, BUFFER_LOCK_SHARE);
    bool found = false;
    TransactionId maker = InvalidTransactionId; // of the version that we come to; not known of the first
    for (ItemPointerData next = last.tid; !found && version_at(table_, seen.page, next, seen.tuple);) {
        const HeapTupleHeader version = seen.tuple.t_data;
        if ((TransactionIdIsValid(maker) && HeapTupleHeaderGetXmin(version) != maker) || !bears(seen.tuple, seen.name))
            break;
        SnapshotData dirty;
        InitDirtySnapshot(dirty);
        if (HeapTupleSatisfiesVisibility(&seen.tuple, &dirty, seen.page)) {
            judge(dirty, seen);
            found = !TransactionIdIsValid(dirty.xmin);
            break;
        }
        if (!HeapTupleHeaderIsHotUpdated(version))
            break;
        maker = HeapTupleHeaderGetUpdateXid(version);
        next = version->t_ctid;
    }
    LockBuffer(seen.page, BUFFER_LOCK_UNLOCK);
    if (!found) {
        forget(seen);
        return false;
    }
    if (!ItemPointerEquals(&seen.tuple.t_self, const_cast<ItemPointer>(&last.tid)) &&
        seen.state == sighting::states::settled)
        remember(seen);
    return true;
}

// One that is compressed does not look like it; then the index is asked.
bool lock_table::bears(const HeapTupleData &tuple, const lock_name &name) const
{
    bool is_null;
    HeapTupleData copy = tuple;
    const Datum stored = heap_getattr(&copy, shape_.name, RelationGetDescr(table_), &is_null);
    return !is_null && pg::view_of(reinterpret_cast<const text *>(DatumGetPointer(stored))) == name.bytes;
}

void lock_table::remember(const sighting &seen) const
{
    remember_place(RelationGetRelid(table_), seen.name.bytes, {seen.tuple.t_self, seen.page});
}

lease lock_table::read_times(const sighting &seen) const
{
    const TupleDesc columns = RelationGetDescr(table_);
    Datum values[usual_columns];
    bool nulls[usual_columns];
    const bool is_usual = columns->natts <= usual_columns;
    Datum *const value = is_usual ? values : static_cast<Datum *>(palloc(sizeof(Datum) * columns->natts));
    bool *const is_null = is_usual ? nulls : static_cast<bool *>(palloc(sizeof(bool) * columns->natts));
    HeapTupleData tuple = seen.tuple;
    heap_deform_tuple(&tuple, columns, value, is_null);

    const auto time = [&](AttrNumber column) { return pg::to_instant(DatumGetTimestamp(value[column - 1])); };
    const bool has_at_least = !is_null[shape_.lock_at_least_until - 1];
    return {time(shape_.lock_until), time(shape_.locked_at),
            has_at_least ? std::optional{time(shape_.lock_at_least_until)} : std::nullopt};
}

bool lock_table::is_unchanged(const sighting &seen) const
{
    sighting again{};
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    LockBuffer(seen.page, BUFFER_LOCK_SHARE);
    const bool found = version_at(table_, seen.page, seen.tuple.t_self, again.tuple) &&
                       HeapTupleSatisfiesVisibility(&again.tuple, &dirty, seen.page);
    if (found)
        judge(dirty, again);
    LockBuffer(seen.page, BUFFER_LOCK_UNLOCK);
    return found && again.state == sighting::states::settled;
}

} // namespace shedlock
