// The only door to PostgreSQL's headers, and the only place that asks for its version.
//
// Whatever is included here may longjmp over C++ frames when it reports an error. So in this module nothing has a
// destructor that matters, nothing throws, memory comes from palloc, and the end of the transaction cleans up.
#pragma once

// Before postgres.h, which defines macros over ordinary words.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

extern "C" {
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "common/ip.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "portability/instr_time.h"
#include "replication/syncrep.h"
#include "rewrite/prs2lock.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 160000
#include "utils/guc_hooks.h"
#endif
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif
}

#include "lease.hpp"
#include "pause_point.hpp"

// What pg_get_loaded_modules tells.
#if PG_VERSION_NUM >= 180000
#define SHEDLOCK_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "shedlock", .version = SHEDLOCK_VERSION)
#else
#define SHEDLOCK_MODULE_MAGIC PG_MODULE_MAGIC
#endif

namespace shedlock::pg {

// PostgreSQL counts microseconds from 2000, tokens count them from 1970. The last thirty years of timestamp's range do
// not fit; they read as forever, and request.cpp keeps us from writing them.
inline constexpr duration epoch_difference = std::chrono::days{POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE};

inline instant to_instant(Timestamp t)
{
    if (TIMESTAMP_IS_NOBEGIN(t))
        return never;
    if (TIMESTAMP_IS_NOEND(t) || t > (forever - epoch_difference).time_since_epoch().count())
        return forever;
    return instant{duration{t} + epoch_difference};
}

inline Timestamp to_timestamp(instant t)
{
    if (t == never)
        return DT_NOBEGIN;
    if (t == forever)
        return DT_NOEND;
    return (t - epoch_difference).time_since_epoch().count();
}

// The database server's clock, this very moment. Not now(): that is when the transaction began.
inline instant clock_now()
{
    return to_instant(GetCurrentTimestamp());
}

inline std::string_view view_of(const text *t)
{
    return {VARDATA_ANY(t), static_cast<size_t>(VARSIZE_ANY_EXHDR(t))};
}

inline text *text_of(std::string_view s)
{
    return cstring_to_text_with_len(s.data(), static_cast<int>(s.size()));
}

inline uint64 hash_of(std::string_view s, uint64 seed)
{
    return hash_bytes_extended(reinterpret_cast<const unsigned char *>(s.data()), static_cast<int>(s.size()), seed);
}

// For %.*s
#define SV(s) static_cast<int>((s).size()), (s).data()

inline bool is_finite([[maybe_unused]] const Interval *interval)
{
#if PG_VERSION_NUM >= 170000
    return !INTERVAL_NOT_FINITE(interval);
#else
    return true;
#endif
}

// How long this statement, or its transaction, may take. Zero: that long as it wants.
inline duration time_limit()
{
    int limit = StatementTimeout;
#if PG_VERSION_NUM >= 170000
    if (TransactionTimeout > 0 && (limit == 0 || TransactionTimeout < limit))
        limit = TransactionTimeout;
#endif
    return std::chrono::milliseconds{limit};
}

inline IndexScanDesc begin_index_scan(Relation table, Relation index, Snapshot snapshot, int keys)
{
#if PG_VERSION_NUM >= 190000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0);
#else
    return index_beginscan(table, index, snapshot, keys, 0);
#endif
}

inline TableScanDesc begin_scan(Relation table, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
    return table_beginscan(table, snapshot, 0, nullptr, SO_NONE);
#else
    return table_beginscan(table, snapshot, 0, nullptr);
#endif
}

// Removes from the page what nobody can see any more, if the server thinks that worth while. Never waits.
inline void prune(Relation table, Buffer page)
{
#if PG_VERSION_NUM >= 190000
    Buffer visibility_map = InvalidBuffer;
    heap_page_prune_opt(table, page, &visibility_map, false);
    if (BufferIsValid(visibility_map))
        ReleaseBuffer(visibility_map);
#else
    heap_page_prune_opt(table, page);
#endif
}

// What functions that hear of changes to a system catalog are called with.
#if PG_VERSION_NUM >= 190000
using cache_identifier = SysCacheIdentifier;
#else
using cache_identifier = int;
#endif

// Whether the backend in that place, of MaxBackends, is this one. Asks shared memory: the server's own functions copy
// what they know of all backends once a transaction, and stay with that.
inline bool is_backend(int place, int pid, TimestampTz start)
{
#if PG_VERSION_NUM >= 170000
    const PgBackendStatus *const all = MyBEEntry - MyProcNumber;
#else
    const PgBackendStatus *const all = MyBEEntry - (MyBackendId - 1);
#endif
    const volatile PgBackendStatus &entry = all[place];
    while (entry.st_procpid == pid) {
        int before;
        int after;
        pgstat_begin_read_activity(&entry, before);
        const bool found = entry.st_procpid == pid && entry.st_proc_start_timestamp == start;
        pgstat_end_read_activity(&entry, after);
        if (pgstat_read_activity_complete(before, after))
            return found;
        CHECK_FOR_INTERRUPTS();
    }
    return false;
}

// Pins that page of the table if this is still the buffer it is in. Reads nothing.
inline bool pin_recent(Relation table, BlockNumber block, Buffer buffer)
{
#if PG_VERSION_NUM >= 160000
    return ReadRecentBuffer(table->rd_locator, MAIN_FORKNUM, block, buffer);
#else
    return ReadRecentBuffer(table->rd_node, MAIN_FORKNUM, block, buffer);
#endif
}

// Replaces a row that this transaction has locked for it. Whether that needs new index entries: not if it stayed on its
// page and no indexed column changed. (Summarizing indexes are none of btree's.)
inline bool update_locked(Relation table, ItemPointer tid, HeapTuple tuple)
{
    TM_FailureData failure;
    LockTupleMode mode;
    const CommandId command = GetCurrentCommandId(true);
#if PG_VERSION_NUM >= 190000
    TU_UpdateIndexes indexes = TU_None;
    const TM_Result code = heap_update(table, tid, tuple, command, 0, InvalidSnapshot, true, &failure, &mode, &indexes);
    const bool needs_entries = indexes == TU_All;
#elif PG_VERSION_NUM >= 160000
    TU_UpdateIndexes indexes = TU_None;
    const TM_Result code = heap_update(table, tid, tuple, command, InvalidSnapshot, true, &failure, &mode, &indexes);
    const bool needs_entries = indexes == TU_All;
#else
    const TM_Result code = heap_update(table, tid, tuple, command, InvalidSnapshot, true, &failure, &mode);
    const bool needs_entries = !HeapTupleIsHeapOnly(tuple);
#endif
    if (code != TM_Ok)
        elog(ERROR, "a row that we had locked was changed by others: %d", static_cast<int>(code));
    return needs_entries;
}

// Not NULL, and no row that was there before is an exception to it.
inline bool is_never_null(TupleDesc columns, AttrNumber column)
{
#if PG_VERSION_NUM >= 180000
    return TupleDescCompactAttr(columns, column - 1)->attnullability == ATTNULLABLE_VALID;
#else
    return TupleDescAttr(columns, column - 1)->attnotnull;
#endif
}

// Shared memory for the whole server (shared_memory.hpp). A library in shared_preload_libraries asks for it from
// _PG_init, and `started` is called with it. Otherwise attach_shared_memory, below.
using memory_size = Size (*)();
using memory_started = void (*)(void *memory, bool is_new);
using memory_initialize = void (*)(void *memory);
void request_shared_memory(memory_size size, memory_started started);

inline int new_tranche()
{
#if PG_VERSION_NUM >= 190000
    return LWLockNewTrancheId("shedlock");
#else
    const int tranche = LWLockNewTrancheId();
    LWLockRegisterTranche(tranche, "shedlock");
    return tranche;
#endif
}

// Runs `work` in a subtransaction that is kept when it gives true and undone when it gives false or fails. Null, or the
// error with which it failed.
template <typename Work> ErrorData *in_subtransaction(Work work)
{
    const MemoryContext context = CurrentMemoryContext;
    const ResourceOwner owner = CurrentResourceOwner;
    ErrorData *volatile error = nullptr;

    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        if (work())
            ReleaseCurrentSubTransaction();
        else
            RollbackAndReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        // A caller that traps errors rolls back one level, its own; this one is ours to end.
        MemoryContextSwitchTo(context);
        error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return error;
}

template <typename Work> bool all_or_nothing(Work work)
{
    bool kept = false;
    if (ErrorData *const error = in_subtransaction([&] { return kept = work(); }))
        ReThrowError(error);
    return kept;
}

// From PostgreSQL 17 on: the memory of that name, which whoever comes first makes. Null before; also when it is not to
// be had, and then a line in the server's log says why. In no callback of a transaction's end: needs a subtransaction.
inline void *attach_shared_memory([[maybe_unused]] const char *name, [[maybe_unused]] Size size,
                                  [[maybe_unused]] memory_initialize initialize)
{
    void *memory = nullptr;
#if PG_VERSION_NUM >= 170000
    const auto attach = [&] {
        bool found;
#if PG_VERSION_NUM >= 190000
        const auto call = [](void *made, void *given) { reinterpret_cast<memory_initialize>(given)(made); };
        memory = GetNamedDSMSegment(name, size, call, &found, reinterpret_cast<void *>(initialize));
#else
        memory = GetNamedDSMSegment(name, size, initialize, &found);
#endif
        return true;
    };
    if (const ErrorData *const error = in_subtransaction(attach))
        ereport(LOG, (errcode(error->sqlerrcode), errmsg("this session does without shared memory \"%s\"", name),
                      errdetail_internal("%s", error->message)));
#endif
    return memory;
}

} // namespace shedlock::pg
