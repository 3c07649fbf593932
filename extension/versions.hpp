// Differences between PostgreSQL versions: no other file tests for the version. Included by pg.hpp only.
// dev/postgresql-19.md says what was read in the server's source when 19 was added.
#pragma once

extern "C" {
#if PG_VERSION_NUM >= 160000
#include "utils/guc_hooks.h"
#endif
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif
}

// What pg_get_loaded_modules shows.
#if PG_VERSION_NUM >= 180000
#define SHEDLOCK_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "shedlock", .version = SHEDLOCK_VERSION)
#else
#define SHEDLOCK_MODULE_MAGIC PG_MODULE_MAGIC
#endif

namespace shedlock::pg {

inline constexpr int major_version = PG_VERSION_NUM / 10000;

inline bool is_finite([[maybe_unused]] const Interval *interval)
{
#if PG_VERSION_NUM >= 170000
    return !INTERVAL_NOT_FINITE(interval);
#else
    return true;
#endif
}

// False if the replica identity has a generated column that is not published. Earlier versions allow that.
inline bool publishes_generated_columns([[maybe_unused]] const PublicationDesc &published)
{
#if PG_VERSION_NUM >= 180000
    return published.gencols_valid_for_update && published.gencols_valid_for_delete;
#else
    return true;
#endif
}

// How long this statement, or its transaction, may take. 0: no limit.
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

// Prunes the page if the server considers that worthwhile. Never waits.
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

// What names a system cache: in callbacks for changes to a system catalog, and in look-ups.
#if PG_VERSION_NUM >= 190000
using cache_identifier = SysCacheIdentifier;
#else
using cache_identifier = int;
#endif

// The list of backends in shared memory: MaxBackends slots, followed by those of auxiliary processes.
inline const PgBackendStatus *all_backends()
{
#if PG_VERSION_NUM >= 170000
    return MyBEEntry - MyProcNumber;
#else
    return MyBEEntry - (MyBackendId - 1);
#endif
}

// Pins that page of the table if this buffer still holds it. Reads nothing.
inline bool pin_recent(Relation table, BlockNumber block, Buffer buffer)
{
#if PG_VERSION_NUM >= 160000
    return ReadRecentBuffer(table->rd_locator, MAIN_FORKNUM, block, buffer);
#else
    return ReadRecentBuffer(table->rd_node, MAIN_FORKNUM, block, buffer);
#endif
}

// Replaces a row that this transaction has locked for an update, or has written. Returns whether the new version needs
// index entries. It needs none if it stayed on its page and no indexed column changed. (No btree index is a summarizing
// one.)
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

// Whether the column is NOT NULL, for rows that existed before the constraint, too.
inline bool is_never_null(TupleDesc columns, AttrNumber column)
{
#if PG_VERSION_NUM >= 180000
    return TupleDescCompactAttr(columns, column - 1)->attnullability == ATTNULLABLE_VALID;
#else
    return TupleDescAttr(columns, column - 1)->attnotnull;
#endif
}

// Called when all columns have been set.
inline void finalize([[maybe_unused]] TupleDesc columns)
{
#if PG_VERSION_NUM >= 190000
    TupleDescFinalize(columns);
#endif
}

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

using memory_initialize = void (*)(void *memory);
inline constexpr bool has_named_memory = major_version >= 17;

// The shared memory segment of that name. The first caller creates it.
inline void *named_memory([[maybe_unused]] const char *name, [[maybe_unused]] Size size,
                          [[maybe_unused]] memory_initialize initialize)
{
#if PG_VERSION_NUM >= 170000
    bool found;
#endif
#if PG_VERSION_NUM >= 190000
    const auto call = [](void *made, void *given) { reinterpret_cast<memory_initialize>(given)(made); };
    return GetNamedDSMSegment(name, size, call, &found, reinterpret_cast<void *>(initialize));
#elif PG_VERSION_NUM >= 170000
    return GetNamedDSMSegment(name, size, initialize, &found);
#else
    return nullptr;
#endif
}

} // namespace shedlock::pg
