#include "lock_table.hpp"

#include "attachments.hpp"
#include "durability.hpp"
#include "index_entries.hpp"
#include "queue.hpp"
#include "row_hint.hpp"
#include "table_finder.hpp"

namespace shedlock {

namespace {

// Keeps other backends out while a row is inserted. Taken without waiting, and held only for the microseconds of the
// write; on Citus see below. Advisory locks of users have 1 or 2 in the fourth field, so they never conflict with
// these. Two names whose hashes agree in 47 bits refuse each other if they are inserted (on Citus: taken) at the same
// moment.
//
// Citus commits on the workers after the coordinator's commit has become visible. Advisory locks, unlike row locks,
// last until that is over. So on Citus a transaction that has written or guarded a row keeps this lock, in share mode,
// and whoever takes a row must first get it for itself.
class taker_lock {
public:
    taker_lock(Oid table, const lock_name &name)
    {
        SET_LOCKTAG_ADVISORY(tag_, MyDatabaseId, table, static_cast<uint32>(name.hash),
                             static_cast<uint16>(3 + ((name.hash >> 32) & 0x7fff)));
    }
    bool try_acquire() const { return LockAcquire(&tag_, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL; }
    void release() const { LockRelease(&tag_, ExclusiveLock, false); }
    // May wait, but only for microseconds.
    void keep_others_away() const { LockAcquire(&tag_, ShareLock, false, false); }

private:
    LOCKTAG tag_;
};

// Whether the lease ends within the longest sleep of the first waiter, so that this waiter has to be woken even if the
// transaction commits.
bool will_be_free_soon(const lease &times)
{
    return times.lock_until < pg::clock_now() + queue::poll_interval;
}

template <typename T> T *allocate(int count)
{
    return static_cast<T *>(palloc(sizeof(T) * count));
}

} // namespace

lock_table lock_table::open(Oid function, LOCKMODE mode)
{
    const lock_table opened = open_table(find_table(function), mode);
    require_not_dropped(function);
    return opened;
}

lock_table lock_table::open_table(Oid table, LOCKMODE mode)
{
    // The lock is taken first, because that processes the invalidation messages of DDL, so the shape is current.
    const Relation relation = try_table_open(table, mode);
    if (!relation)
        report_dropped();
    const lock_table opened{relation, shape_of(relation)};
    // Makes visible what this command itself has written to the table, for example in a WITH clause.
    CommandCounterIncrement();
    return opened;
}

void lock_table::close(bool keep_lock)
{
    table_close(table_, keep_lock ? NoLock : RowExclusiveLock);
}

void lock_table::fill(Datum *values, bool *nulls, const contents &written, text *locked_by) const
{
    const auto set = [&](AttrNumber column, std::optional<instant> time) {
        nulls[column - 1] = !time;
        if (time)
            values[column - 1] = TimestampGetDatum(pg::to_timestamp(*time));
    };
    set(shape_.lock_until, written.times.lock_until);
    set(shape_.locked_at, written.times.locked_at);
    set(shape_.lock_at_least_until, written.times.lock_at_least_until);
    set(shape_.last_tick, written.past.last_tick);
    set(shape_.last_done_tick, written.past.last_done_tick);
    set(shape_.last_done_at, written.past.last_done_at);
    set(shape_.run_tick, written.past.run_tick);
    if (locked_by) {
        values[shape_.locked_by - 1] = PointerGetDatum(locked_by);
        nulls[shape_.locked_by - 1] = false;
    }
}

bool lock_table::rewrite(seen_row &seen, const contents &written, text *locked_by) const
{
    const TupleDesc columns = RelationGetDescr(table_);
    auto *const values = allocate<Datum>(columns->natts);
    auto *const nulls = allocate<bool>(columns->natts);
    heap_deform_tuple(&seen.tuple, columns, values, nulls);
    fill(values, nulls, written, locked_by);
    const HeapTuple tuple = heap_form_tuple(columns, values, nulls);

    PAUSE_POINT("before the lock");
    const bool own = is_own(seen);
    if (own)
        require_checked(table_, shape_, seen.name.bytes);
    // heap_update has no mode that does not wait (an assertion rules it out). But it has nothing to wait for once this
    // transaction holds the row lock that an update needs.
    const bool locked = own || lock_row(seen, LockTupleNoKeyExclusive);
    if (locked) {
        // Readers do not prune, so writers do, as soon as the page no longer has space for a few row versions. The
        // server's own threshold, a tenth of the page, would make nearly every write scan all rows of a full page.
        // Pruning may move the old tuple within the page; nothing of it is needed any more.
        constexpr Size few = 4;
        if (PageGetHeapFreeSpace(BufferGetPage(seen.page)) < few * tuple->t_len)
            pg::prune(table_, seen.page);
        PAUSE_POINT("before the update");
        const bool moved = pg::update_locked(table_, &seen.tuple.t_self, tuple);
        PAUSE_POINT("updated");
        if (moved)
            insert_index_entries(tuple, UNIQUE_CHECK_YES, seen.name);
        PAUSE_POINT("rewritten");
        queue::wake_at(will_be_free_soon(written.times) ? queue::ends::any : queue::ends::abort,
                       RelationGetRelid(table_), seen.name);
        remember_written(seen, tuple->t_self);
        CommandCounterIncrement(); // lets the same statement release what it acquired
    }
    unpin(seen);
    if (locked)
        hold_until_workers_commit(seen.name);
    return locked;
}

// simple_heap_delete, like heap_update, has nothing to wait for once this transaction has locked the row.
bool lock_table::remove(seen_row &seen) const
{
    PAUSE_POINT("before the lock");
    const bool removed = lock_row(seen, LockTupleExclusive);
    if (removed) {
        simple_heap_delete(table_, &seen.tuple.t_self);
        PAUSE_POINT("removed");
        queue::wake_at(queue::ends::any, RelationGetRelid(table_), seen.name);
        CommandCounterIncrement();
    }
    unpin(seen);
    return removed;
}

// The new version is on another page if the old page was full.
void lock_table::remember_written(const seen_row &seen, const ItemPointerData &tid) const
{
    const BlockNumber block = ItemPointerGetBlockNumber(&tid);
    const bool is_same = block == BufferGetBlockNumber(seen.page);
    const Buffer page = is_same ? seen.page : ReadBuffer(table_, block);
    remember_row(RelationGetRelid(table_), seen.name.hash, {tid, page});
    if (!is_same)
        ReleaseBuffer(page);
}

bool lock_table::take(seen_row &seen, const contents &written, text *locked_by) const
{
    PAUSE_POINT("take");
    if (shape_.citus == citus_roles::none || is_own(seen))
        return rewrite(seen, written, locked_by);
    const taker_lock lock{RelationGetRelid(table_), seen.name};
    if (!lock.try_acquire()) {
        unpin(seen);
        return false;
    }
    const bool taken = rewrite(seen, written, locked_by);
    lock.release();
    return taken;
}

bool lock_table::insert(const lock_name &name) const
{
    PAUSE_POINT("make");
    const taker_lock lock{RelationGetRelid(table_), name};
    if (!lock.try_acquire())
        return false;
    PAUSE_POINT("inserter");
    auto again = glance(name);
    const bool is_absent = again.state == seen_row::states::absent;
    unpin(again);
    if (is_absent)
        require_insertable(table_, shape_, name.bytes);
    const bool inserted = is_absent && insert_speculatively(name);
    lock.release();
    return inserted;
}

// INSERT … ON CONFLICT DO NOTHING by hand. The executor's version waits for a conflicting insertion in progress, and
// fails with 40001 in REPEATABLE READ if the conflicting row is newer than the snapshot. The dirty scan in insert()
// can miss a row that is being moved to another page. The unique index then reports the row, and the insertion is
// undone.
bool lock_table::insert_speculatively(const lock_name &name) const
{
    const TupleDesc columns = RelationGetDescr(table_);
    auto *const values = allocate<Datum>(columns->natts);
    auto *const nulls = allocate<bool>(columns->natts);
    std::fill_n(nulls, columns->natts, true);
    fill(values, nulls, {{never, never, std::nullopt}, {}}, pg::text_of(""));
    values[shape_.name - 1] = PointerGetDatum(name.datum);
    nulls[shape_.name - 1] = false;
    const HeapTuple tuple = heap_form_tuple(columns, values, nulls);

    // While the insertion is speculative, a Java client's ON CONFLICT waits until it is finished or aborted. After an
    // abort the client need not wait for our commit.
    PAUSE_POINT("insert");
    const TransactionId xid = GetCurrentTransactionId();
    const uint32 speculation = SpeculativeInsertionLockAcquire(xid);
    HeapTupleHeaderSetSpeculativeToken(tuple->t_data, speculation);
    heap_insert(table_, tuple, GetCurrentCommandId(true), HEAP_INSERT_SPECULATIVE, nullptr);
    PAUSE_POINT("inserted");
    const bool alone = insert_index_entries(tuple, UNIQUE_CHECK_PARTIAL, name);
    PAUSE_POINT("indexed");
    if (alone)
        heap_finish_speculative(table_, &tuple->t_self);
    else
        heap_abort_speculative(table_, &tuple->t_self);
    PAUSE_POINT("finished");
    SpeculativeInsertionLockRelease(xid);
    CommandCounterIncrement();
    return alone;
}

// With UNIQUE_CHECK_PARTIAL, returns false if the unique index has another live or uncommitted row of that name, and
// fails if an index on other columns does not take the row. Otherwise returns true.
bool lock_table::insert_index_entries(HeapTuple tuple, IndexUniqueCheck check, const lock_name &name) const
{
    bool alone = true;
    shedlock::insert_index_entries(table_, tuple, check, [&](Relation index) {
        if (index->rd_index->indkey.values[0] != shape_.name)
            report_conflict(table_, index, name.bytes);
        alone = false;
    });
    return alone;
}

bool lock_table::lock_row(const seen_row &seen, LockTupleMode mode) const
{
    HeapTupleData tuple = seen.tuple;
    Buffer page;
    TM_FailureData failure;
    const TM_Result result =
        heap_lock_tuple(table_, &tuple, GetCurrentCommandId(true), mode, LockWaitSkip, false, &page, &failure);
    ReleaseBuffer(page);
    return result == TM_Ok;
}

bool lock_table::share_lock(seen_row &seen) const
{
    PAUSE_POINT("share lock");
    // If a foreign key has the row locked and somebody waits for it, FOR UPDATE for example, a share lock would have to
    // queue behind that session. The stronger lock need not, but keeps another guard of this acquisition waiting.
    const bool locked =
        lock_row(seen, LockTupleShare) || (seen.is_referenced && lock_row(seen, LockTupleNoKeyExclusive));
    unpin(seen);
    if (locked)
        hold_until_workers_commit(seen.name);
    return locked;
}

// Citus writes its own record of this transaction only after durability has decided whether the commit must wait for
// the disk. So this function already requires the wait. Otherwise some workers could commit, the coordinator crash and
// forget its own commit, and the remaining workers would roll back.
void lock_table::hold_until_workers_commit(const lock_name &name) const
{
    if (shape_.citus == citus_roles::none)
        return;
    taker_lock{RelationGetRelid(table_), name}.keep_others_away();
    durability::require();
}

bool lock_table::is_held_until_workers_commit(const lock_name &name) const
{
    if (shape_.citus == citus_roles::none)
        return false;
    const taker_lock lock{RelationGetRelid(table_), name};
    if (!lock.try_acquire())
        return true;
    lock.release();
    return false;
}

void lock_table::wait_for_other(seen_row &seen) const
{
    PAUSE_POINT("wait");
    ItemPointerData tid = seen.tuple.t_self;
    unpin(seen);
    XactLockTableWait(seen.other, table_, &tid, XLTW_Update);
}

} // namespace shedlock
