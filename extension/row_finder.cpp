#include "row_finder.hpp"

#include "locked_by.hpp"
#include "row_hint.hpp"

namespace shedlock {

namespace {

// Notes a transaction that has locked the row. A foreign key that refers to the row is checked with a lock FOR KEY
// SHARE: that only keeps the row from being deleted.
void note_locker(TransactionId xid, bool for_key_share, seen_row &seen)
{
    if (TransactionIdIsCurrentTransactionId(xid) || !TransactionIdIsInProgress(xid))
        return;
    if (for_key_share)
        seen.is_referenced = true;
    else
        seen.other = xid;
}

// Looks for transactions that have locked a row without changing it. A dirty snapshot does not show them.
void find_lockers(HeapTupleHeader header, seen_row &seen)
{
    if (header->t_infomask & HEAP_XMAX_INVALID)
        return;
    const TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
    if (!(header->t_infomask & HEAP_XMAX_IS_MULTI)) {
        // We lock a row before we update it, and the new version still carries that lock. The lock belongs to the
        // transaction that wrote the version, which has ended or is this one.
        if (xmax != HeapTupleHeaderGetRawXmin(header))
            note_locker(xmax, HEAP_XMAX_IS_KEYSHR_LOCKED(header->t_infomask), seen);
        return;
    }
    MultiXactMember *members;
    const int count = GetMultiXactIdMembers(xmax, &members, HEAP_LOCKED_UPGRADED(header->t_infomask),
                                            HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask));
    for (int i = 0; i < count; i++)
        note_locker(members[i].xid, members[i].status == MultiXactStatusForKeyShare, seen);
    if (count > 0)
        pfree(members);
}

// Records what a dirty snapshot found out about a version that is not dead. The caller has locked the page.
void classify(const SnapshotData &dirty, seen_row &seen)
{
    seen.other = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
    if (TransactionIdIsValid(seen.other)) {
        seen.state = seen_row::states::undecided;
        return;
    }
    find_lockers(seen.tuple.t_data, seen);
    seen.state = TransactionIdIsValid(seen.other) ? seen_row::states::locked : seen_row::states::settled;
}

// Sets `version` to the row version at that position of the page, whichever row it belongs to. Returns false if there
// is none. The caller has locked the page.
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

// Whether a version in the HOT chain that begins there is visible to the snapshot. The caller has locked the page.
// heap_hot_search_buffer must not be given the snapshot itself: under SERIALIZABLE it would then record a predicate
// read.
bool has_visible_version(Relation table, Buffer page, ItemPointerData tid, Snapshot snapshot)
{
    HeapTupleData version;
    bool is_first = true;
    while (heap_hot_search_buffer(&tid, table, page, SnapshotAny, &version, nullptr, is_first)) {
        if (HeapTupleSatisfiesVisibility(&version, snapshot, page))
            return true;
        is_first = false;
    }
    return false;
}

// Does not lock the index: a session that drops or rebuilds it must first lock the table or, with CONCURRENTLY, wait
// until we unlock the table. ALTER INDEX ... SET TABLESPACE does neither: a transaction that has locked the table
// before it may then fail to read the old file (XX001), once.
Relation open_index(Oid id)
{
    const Relation index = RelationIdGetRelation(id);
    if (!index)
        elog(ERROR, "index %u of the lock table has vanished", id);
    return index;
}

// Calls `visit` with each tuple that the active snapshot shows under one of the names, a text[].
template <typename Visit> void visit_named(Relation table, Oid index_id, Datum names, Visit visit)
{
    const Relation index = open_index(index_id);
    ScanKeyData key;
    ScanKeyEntryInitialize(&key, SK_SEARCHARRAY, 1, BTEqualStrategyNumber, InvalidOid, index->rd_indcollation[0],
                           F_TEXTEQ, names);
    const IndexScanDesc scan = pg::begin_index_scan(table, index, GetActiveSnapshot(), 1);
    index_rescan(scan, &key, 1, nullptr, 0);
    TupleTableSlot *const slot = table_slot_create(table, nullptr);
    while (index_getnext_slot(scan, ForwardScanDirection, slot))
        visit(ExecFetchSlotHeapTuple(slot, false, nullptr));
    ExecDropSingleTupleTableSlot(slot);
    index_endscan(scan);
    RelationClose(index);
}

// The four columns of Java ShedLock, our five, and some that others may have added.
constexpr int usual_columns = 12;

} // namespace

seen_row row_finder::look(const lock_name &name) const
{
    auto seen = glance(name);
    while (seen.is_new() && is_committed(name)) {
        unpin(seen);
        CHECK_FOR_INTERRUPTS();
        seen = glance(name);
    }
    return seen;
}

seen_row row_finder::glance(const lock_name &name) const
{
    PAUSE_POINT("look");
    seen_row seen{};
    seen.name = name;
    if (!revisit(seen))
        seen = look_up(name);
    if (seen.state != seen_row::states::absent)
        seen.stored = read(seen.tuple);
    return seen;
}

// Calls `visit` with the position of every row version that the index has under the name, until `visit` returns false.
// The scan has a dirty snapshot even if the visitor goes by another one: with an MVCC
// snapshot, SERIALIZABLE would track the scan as a read.
template <typename Visit> void row_finder::visit_index(const lock_name &name, Visit visit) const
{
    const Relation index = open_index(shape_.index);
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    ScanKeyData key;
    ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber, InvalidOid, index->rd_indcollation[0], F_TEXTEQ,
                           PointerGetDatum(name.datum));
    const IndexScanDesc scan = pg::begin_index_scan(table_, index, &dirty, 1);
    index_rescan(scan, &key, 1, nullptr, 0);
    while (const ItemPointer root = index_getnext_tid(scan, ForwardScanDirection)) {
        PAUSE_POINT("between index and heap");
        if (!visit(*root))
            break;
    }
    index_endscan(scan);
    RelationClose(index);
}

seen_row row_finder::look_up(const lock_name &name) const
{
    seen_row result{};
    result.name = name;
    result.state = seen_row::states::absent;
    result.page = InvalidBuffer;
    visit_index(name, [&](ItemPointerData root) {
        SnapshotData dirty;
        InitDirtySnapshot(dirty);
        seen_row seen = result;
        seen.page = ReadBuffer(table_, ItemPointerGetBlockNumber(&root));
        LockBuffer(seen.page, BUFFER_LOCK_SHARE);
        const bool found = heap_hot_search_buffer(&root, table_, seen.page, &dirty, &seen.tuple, nullptr, true);
        if (found)
            classify(dirty, seen);
        LockBuffer(seen.page, BUFFER_LOCK_UNLOCK);
        if (!found) {
            ReleaseBuffer(seen.page);
            return true;
        }
        unpin(result);
        result = seen;
        // An uncommitted insertion may be the new version of a row whose committed version comes later in the index.
        return seen.is_new();
    });
    if (result.state == seen_row::states::settled)
        remember(result);
    return result;
}

// Whether a row of that name was committed when this call began. A dirty scan can miss a row that another transaction
// moves and commits during the scan: it may have read the index before the new version was in it, and then find the old
// one dead; or it may reach the new version before the commit and the old one after it. A snapshot that is older
// than the scan sees such a row in its old version. It also sees everything that this transaction has done.
bool row_finder::is_committed(const lock_name &name) const
{
    PAUSE_POINT("absent");
    const Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    snapshot->curcid = InvalidCommandId;
    bool found = false;
    visit_index(name, [&](ItemPointerData root) {
        const Buffer page = ReadBuffer(table_, ItemPointerGetBlockNumber(&root));
        LockBuffer(page, BUFFER_LOCK_SHARE);
        found = has_visible_version(table_, page, root, snapshot);
        LockBuffer(page, BUFFER_LOCK_UNLOCK);
        ReleaseBuffer(page);
        return !found;
    });
    UnregisterSnapshot(snapshot);
    return found;
}

// Looks where the row was last seen, and follows newer versions on the same page. Returns false unless that leads to
// the version that a look through the index would find, too: it has the name, which is unique among rows that are not
// dead, and it was not inserted by a transaction in progress, whose row may have an older version elsewhere.
bool row_finder::revisit(seen_row &seen) const
{
    const row_hint last = recall_row(RelationGetRelid(table_), seen.name.hash);
    const BlockNumber block = ItemPointerGetBlockNumberNoCheck(&last.tid);
    if (!BufferIsValid(last.page) || !pg::pin_recent(table_, block, last.page))
        return false;
    PAUSE_POINT("revisit");
    seen.page = last.page;
    LockBuffer(seen.page, BUFFER_LOCK_SHARE);
    bool found = false;
    TransactionId maker = InvalidTransactionId; // of the version we are about to visit; unknown for the first
    for (ItemPointerData next = last.tid; !found && version_at(table_, seen.page, next, seen.tuple);) {
        const HeapTupleHeader version = seen.tuple.t_data;
        if ((TransactionIdIsValid(maker) && HeapTupleHeaderGetXmin(version) != maker) || !bears(seen.tuple, seen.name))
            break;
        SnapshotData dirty;
        InitDirtySnapshot(dirty);
        if (HeapTupleSatisfiesVisibility(&seen.tuple, &dirty, seen.page)) {
            classify(dirty, seen);
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
        unpin(seen);
        return false;
    }
    if (!ItemPointerEquals(&seen.tuple.t_self, const_cast<ItemPointer>(&last.tid)) &&
        seen.state == seen_row::states::settled)
        remember(seen);
    return true;
}

// Whether the tuple has that name. A compressed name does not compare equal; then the caller asks the index.
bool row_finder::bears(const HeapTupleData &tuple, const lock_name &name) const
{
    bool is_null;
    HeapTupleData copy = tuple;
    const Datum stored = heap_getattr(&copy, shape_.name, RelationGetDescr(table_), &is_null);
    return !is_null && pg::view_of(reinterpret_cast<const text *>(DatumGetPointer(stored))) == name.bytes;
}

void row_finder::remember(const seen_row &seen) const
{
    remember_row(RelationGetRelid(table_), seen.name.hash, {seen.tuple.t_self, seen.page});
}

contents row_finder::read(const HeapTupleData &version) const
{
    const TupleDesc columns = RelationGetDescr(table_);
    Datum values[usual_columns];
    bool nulls[usual_columns];
    const bool is_usual = columns->natts <= usual_columns;
    Datum *const value = is_usual ? values : static_cast<Datum *>(palloc(sizeof(Datum) * columns->natts));
    bool *const is_null = is_usual ? nulls : static_cast<bool *>(palloc(sizeof(bool) * columns->natts));
    HeapTupleData tuple = version;
    heap_deform_tuple(&tuple, columns, value, is_null);

    require_value(is_null[shape_.lock_until - 1], "lock_until");
    require_value(is_null[shape_.locked_at - 1], "locked_at");
    const auto time = [&](AttrNumber column) { return pg::to_instant(DatumGetTimestamp(value[column - 1])); };
    const auto time_if_any = [&](AttrNumber column) {
        return is_null[column - 1] ? std::nullopt : std::optional{time(column)};
    };
    return {{time(shape_.lock_until), time(shape_.locked_at), time_if_any(shape_.lock_at_least_until)},
            {time_if_any(shape_.last_tick), time_if_any(shape_.last_done_tick), time_if_any(shape_.last_done_at),
             time_if_any(shape_.run_tick)}};
}

row_finder::changes row_finder::look_ahead(const seen_row &seen) const
{
    LockBuffer(seen.page, BUFFER_LOCK_SHARE);
    ItemPointerData next = seen.tuple.t_data->t_ctid;
    LockBuffer(seen.page, BUFFER_LOCK_UNLOCK);
    ItemPointerData self = seen.tuple.t_self;
    if (ItemPointerEquals(&next, &self))
        return changes::deletion;
    const Buffer page = ReadBuffer(table_, ItemPointerGetBlockNumber(&next));
    LockBuffer(page, BUFFER_LOCK_SHARE);
    HeapTupleData version;
    const bool is_acquisition = version_at(table_, page, next, version) &&
                                HeapTupleHeaderGetXmin(version.t_data) == seen.other &&
                                read(version).times.locked_at != seen.times().locked_at;
    LockBuffer(page, BUFFER_LOCK_UNLOCK);
    ReleaseBuffer(page);
    return is_acquisition ? changes::acquisition : changes::other;
}

void row_finder::unpin(seen_row &seen) const
{
    if (BufferIsValid(seen.page))
        ReleaseBuffer(seen.page);
    seen.page = InvalidBuffer;
}

bool row_finder::is_own(const seen_row &seen)
{
    return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(seen.tuple.t_data));
}

std::string_view row_finder::locked_by(const seen_row &seen) const
{
    bool is_null;
    HeapTupleData tuple = seen.tuple;
    const Datum stored = heap_getattr(&tuple, shape_.locked_by, RelationGetDescr(table_), &is_null);
    require_value(is_null, "locked_by");
    if (!VARATT_IS_EXTERNAL(DatumGetPointer(stored)))
        return pg::view_of(DatumGetTextPP(stored));
    // A value that is stored out of line is read from the TOAST table, which needs a snapshot. At commit there is none
    // left.
    PushActiveSnapshot(GetLatestSnapshot());
    const auto *const detoasted = DatumGetTextPP(stored);
    PopActiveSnapshot();
    return pg::view_of(detoasted);
}

lease row_finder::lease_of(const seen_row &seen, instant now) const
{
    const bool is_held = seen.times().lock_until > now;
    return is_held && has_lost_its_session(seen.times(), locked_by(seen)) ? ended(seen.times()) : seen.times();
}

row row_finder::row_of(const seen_row &seen) const
{
    return read_row(seen.times(), locked_by(seen));
}

history row_finder::history_of(const seen_row &seen) const
{
    return shedlock::history_of(seen.stored.past, seen.times(), row_of(seen).from);
}

void row_finder::put_rows(const Datum *names, ReturnSetInfo *result) const
{
    const AttrNumber columns[] = {shape_.name,           shape_.lock_until,          shape_.locked_at,
                                  shape_.locked_by,      shape_.lock_at_least_until, shape_.last_tick,
                                  shape_.last_done_tick, shape_.last_done_at,        shape_.run_tick};
    const auto put = [&](HeapTuple tuple) {
        Datum values[std::size(columns)];
        bool nulls[std::size(columns)];
        for (size_t i = 0; i < std::size(columns); i++) {
            values[i] = heap_getattr(tuple, columns[i], RelationGetDescr(table_), &nulls[i]);
            if (!nulls[i] && (columns[i] == shape_.name || columns[i] == shape_.locked_by))
                values[i] = PointerGetDatum(DatumGetTextPP(values[i])); // may be stored out of line
        }
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    };
    pg::with_snapshot_after_lock([&] {
        // An index that is newer than the snapshot may not lead to everything that the snapshot shows.
        if (names && !IsolationUsesXactSnapshot())
            visit_named(table_, shape_.index, *names, put);
        else
            pg::visit_all(table_, put);
    });
}

} // namespace shedlock
