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
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
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

inline IndexScanDesc begin_index_scan(Relation table, Relation index, Snapshot snapshot, int keys)
{
#if PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0);
#else
    return index_beginscan(table, index, snapshot, keys, 0);
#endif
}

// From 1 to pgstat_fetch_stat_numbackends().
inline const PgBackendStatus *backend_entry(int i)
{
#if PG_VERSION_NUM >= 160000
    const LocalPgBackendStatus *const entry = pgstat_get_local_beentry_by_index(i);
#else
    const LocalPgBackendStatus *const entry = pgstat_fetch_stat_local_beentry(i);
#endif
    return entry ? &entry->backendStatus : nullptr;
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

enum class index_work { none, summarizing, all };

struct update_result {
    TM_Result code;
    index_work indexes;
};

inline update_result update_tuple(Relation table, ItemPointer tid, HeapTuple tuple, bool wait)
{
    TM_FailureData failure;
    LockTupleMode mode;
    const CommandId command = GetCurrentCommandId(true);
#if PG_VERSION_NUM >= 160000
    TU_UpdateIndexes indexes = TU_None;
    const TM_Result code = heap_update(table, tid, tuple, command, InvalidSnapshot, wait, &failure, &mode, &indexes);
    return {code, indexes == TU_None          ? index_work::none
                  : indexes == TU_Summarizing ? index_work::summarizing
                                              : index_work::all};
#else
    const TM_Result code = heap_update(table, tid, tuple, command, InvalidSnapshot, wait, &failure, &mode);
    return {code, HeapTupleIsHeapOnly(tuple) ? index_work::none : index_work::all};
#endif
}

inline bool wants_entry([[maybe_unused]] Relation index, index_work work)
{
#if PG_VERSION_NUM >= 160000
    if (work == index_work::summarizing)
        return index->rd_indam->amsummarizing;
#endif
    return work != index_work::none;
}

// Shared memory for the whole server. A library in shared_preload_libraries asks for it from _PG_init, and `started` is
// called with it. Otherwise attach_shared_memory: from PostgreSQL 17 on whoever comes first makes it; before, it gives
// null.
using memory_size = Size (*)();
using memory_started = void (*)(void *memory, bool is_new);
void request_shared_memory(memory_size size, memory_started started);

inline void *attach_shared_memory([[maybe_unused]] Size size, [[maybe_unused]] void (*initialize)(void *))
{
#if PG_VERSION_NUM >= 170000
    bool found;
    return GetNamedDSMSegment("shedlock", size, initialize, &found);
#else
    return nullptr;
#endif
}

inline int new_tranche()
{
    const int tranche = LWLockNewTrancheId();
    LWLockRegisterTranche(tranche, "shedlock");
    return tranche;
}

// Runs `work` in a subtransaction that is kept when it gives true and undone when it gives false or fails.
template <typename Work> bool all_or_nothing(Work work)
{
    const MemoryContext context = CurrentMemoryContext;
    const ResourceOwner owner = CurrentResourceOwner;
    volatile bool kept = false;

    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        kept = work();
        if (kept)
            ReleaseCurrentSubTransaction();
        else
            RollbackAndReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        // A caller that traps errors rolls back one level, its own; this one is ours to end.
        MemoryContextSwitchTo(context);
        ErrorData *const error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(context);
        CurrentResourceOwner = owner;
        ReThrowError(error);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return kept;
}

} // namespace shedlock::pg
