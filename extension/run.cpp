#include "run.hpp"

#include "acquisition.hpp"
#include "change.hpp"
#include "guard.hpp"
#include "holder.hpp"
#include "lost.hpp"
#include "whereabouts.hpp"

namespace shedlock {

namespace {

void execute(const char *command)
{
    // Not atomic: a CALL or a DO in the command may commit. Nobody reads the rows it returns, and SPI would keep them
    // all.
    SPIExecuteOptions options{};
    options.allow_nonatomic = true;
    options.dest = None_Receiver;
    const int result = SPI_execute_extended(command, &options);
    if (result == SPI_ERROR_TRANSACTION)
        ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
                        errmsg("the command of shedlock_run must not begin or end transactions by itself"),
                        errhint("Let it CALL a procedure that commits.")));
    if (result == SPI_ERROR_COPY)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("the command of shedlock_run cannot COPY from or to the client")));
    if (result < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("the command of shedlock_run failed: %s", SPI_result_code_string(result))));
}

// After the command has failed. SPI_rollback would not do: it wants to finish the cursor loops that the error broke
// off, it miscounts the snapshots that the error left behind, and it ends the innermost of the SPI connections that are
// still open, not ours. So the transaction is aborted as a whole, as the server itself does after an error, and the
// release gets one of its own. Nothing runs in the caller's frame afterwards.
[[noreturn]] void release_and_fail(Oid function, lock_names names, const claim &mine)
{
    MemoryContextSwitchTo(PortalContext); // outlives the transaction
    ErrorData *const error = CopyErrorData();
    FlushErrorState();
    const bool tell = error->sqlerrcode != ERRCODE_LOCK_LOST; // or it would be told twice
    AbortOutOfAnyTransaction();
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    with_lock_table(function, [&](lock_table &table) { return release(table, names, mine, false, tell); });
    PopActiveSnapshot();
    CommitTransactionCommand();
    StartTransactionCommand();
    ReThrowError(error);
}

void warn_of_overrun(const lock_name &name, duration by)
{
    Interval span{by.count(), 0, 0};
    const char *const text = DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&span)));
    ereport(WARNING,
            (errcode(ERRCODE_WARNING), errmsg("the run of lock \"%.*s\" overran its lease by %s", SV(name.bytes), text),
             errdetail("Nobody had taken the lock, so the work is committed."),
             errhint("Choose a longer at_most, or extend the lock in time.")));
}

} // namespace

void require_top_level(FunctionCallInfo fcinfo)
{
    const auto *const call = fcinfo->context;
    if (!call || !IsA(call, CallContext) || castNode(CallContext, fcinfo->context)->atomic || IsSubTransaction())
        ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                        errmsg("shedlock_run cannot run inside a transaction block, a function or an exception block"),
                        errhint("CALL it by itself. Inside a transaction use shedlock_acquire and shedlock_release.")));
}

bool run(Oid function, const acquire_request &request, const char *command)
{
    SPI_connect_ext(SPI_OPT_NONATOMIC);
    const auto token = acquire(function, request, {owner::kinds::run, {}});
    if (!token) {
        SPI_finish();
        return false;
    }
    // Of this session, so that the command may guard and extend it, and of this acquisition.
    const claim mine{session_suffix(), token};
    auto *const guarded = guard::lock_of_run(find_table(function), request.names.front(), mine);
    PAUSE_POINT("run acquired");
    SPI_commit();

    std::optional<duration> overran;
    PG_TRY();
    {
        guard::begin_run(*guarded);
        PAUSE_POINT("run committed");
        execute(command);
        PAUSE_POINT("run done");
        EnsurePortalSnapshotExists();
        overran = with_lock_table(function, [&](lock_table &table) { return guard::release_run(table, *guarded); });
        SPI_commit();
        guard::end_run(*guarded);
    }
    PG_CATCH();
    {
        guard::end_run(*guarded);
        release_and_fail(function, request.names, mine);
    }
    PG_END_TRY();

    if (overran)
        warn_of_overrun(request.names.front(), *overran);
    SPI_finish();
    return true;
}

} // namespace shedlock
