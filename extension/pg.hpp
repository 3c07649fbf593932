// The PostgreSQL headers that the other files need. Differences between PostgreSQL versions are in versions.hpp, which
// includes two more.
//
// Anything included here may longjmp over C++ frames when it reports an error. So nothing in this module has a
// non-trivial destructor, nothing throws, memory comes from palloc, and the end of the transaction cleans up.
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
#include "catalog/heap.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/toasting.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "common/ip.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/parser.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
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
#include "tcop/dest.h"
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
}

#include "pause_point.hpp"
#include "rules.hpp"
#include "versions.hpp"

// Our own SQLSTATEs, which clients test for. SL001, lock_lost: the caller does not have the lock, or no longer has it.
// SL002, lock_done: an extend or a release did nothing, because the acquisition was already released as done.
#define ERRCODE_LOCK_LOST MAKE_SQLSTATE('S', 'L', '0', '0', '1')
#define ERRCODE_LOCK_DONE MAKE_SQLSTATE('S', 'L', '0', '0', '2')

namespace shedlock::pg {

// PostgreSQL counts microseconds from 2000, and tokens count them from 1970. The last thirty years of timestamp's
// range do not fit: they are read as forever, and request.cpp prevents us from writing them.
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

// The database server's clock at this moment. Not now(), which is when the transaction began.
inline instant clock_now()
{
    return to_instant(GetCurrentTimestamp());
}

// A clock that is never set, and is the same in all processes. Not the server's instr_time: from PostgreSQL 19 on
// timing_clock_source decides for each session what that reads.
inline duration steady_now()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::chrono::seconds{now.tv_sec} + duration{now.tv_nsec / 1000};
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

// Runs `work` in a subtransaction, which is kept if `work` returns true, and rolled back if it returns false or fails.
// Returns null, or the error with which it failed.
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
        // A caller that traps errors rolls back only its own subtransaction, so this one must be ended here.
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

// The statement's snapshot may be older than our lock on the table, and would then see a table that was rewritten
// meanwhile as empty. A transaction that uses one snapshot throughout sees what that shows, as in any table. Rows that
// the statement itself writes are not shown in either case.
template <typename Work> void with_snapshot_after_lock(Work work)
{
    const CommandId command = GetActiveSnapshot()->curcid;
    PushCopiedSnapshot(IsolationUsesXactSnapshot() ? GetActiveSnapshot() : GetLatestSnapshot());
    GetActiveSnapshot()->curcid = command;
    work();
    PopActiveSnapshot();
}

// Calls `visit` with each tuple that the active snapshot shows.
template <typename Visit> void visit_all(Relation table, Visit visit)
{
    const TableScanDesc scan = begin_scan(table, GetActiveSnapshot());
    while (const HeapTuple tuple = heap_getnext(scan, ForwardScanDirection))
        visit(tuple);
    table_endscan(scan);
}

template <typename Work> bool all_or_nothing(Work work)
{
    bool kept = false;
    if (ErrorData *const error = in_subtransaction([&] { return kept = work(); }))
        ReThrowError(error);
    return kept;
}

} // namespace shedlock::pg
