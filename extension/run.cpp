#include "run.hpp"

#include "acquisition.hpp"
#include "change.hpp"
#include "guard.hpp"
#include "session.hpp"
#include "settings.hpp"
#include "table_finder.hpp"

namespace shedlock {

namespace {

// Reports the position of a syntax error in the command, not in the CALL around it.
void point_at_command(void *command)
{
    const int position = geterrposition();
    if (position <= 0) {
        errcontext("SQL statement \"%s\"", static_cast<const char *>(command));
        return;
    }
    errposition(0);
    internalerrposition(position);
    internalerrquery(static_cast<const char *>(command));
}

List *parse(const char *command)
{
    ErrorContextCallback where{error_context_stack, point_at_command, const_cast<char *>(command)};
    error_context_stack = &where;
    List *const statements = raw_parser(command, RAW_PARSE_DEFAULT);
    error_context_stack = where.previous;
    return statements;
}

const char *text_of(const RawStmt *statement, const char *command)
{
    const char *const begin = command + std::max(statement->stmt_location, 0);
    std::string_view text{begin, statement->stmt_len > 0 ? statement->stmt_len : strlen(begin)};
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    return pnstrdup(text.data(), text.size());
}

// Only CALL and DO may commit. SPI gives every other statement a snapshot of its own, but CALL and DO start with the
// portal's snapshot, which must first be advanced so that they see what earlier statements have done.
void execute_one(const RawStmt *statement, const char *text)
{
    SPIExecuteOptions options{};
    options.allow_nonatomic = IsA(statement->stmt, CallStmt) || IsA(statement->stmt, DoStmt);
    options.dest = None_Receiver; // the rows that it returns are not read, and SPI would keep them all
    EnsurePortalSnapshotExists();
    CommandCounterIncrement();
    if (options.allow_nonatomic)
        UpdateActiveSnapshotCommandId();
    const int result = SPI_execute_extended(text, &options);
    if (result == SPI_ERROR_TRANSACTION)
        ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
                        errmsg("shedlock_run cannot execute a command that begins or ends a transaction"),
                        errhint("To commit during the run, CALL a procedure that commits.")));
    if (result == SPI_ERROR_COPY)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("the command of shedlock_run cannot COPY from or to the client")));
    if (result < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("the command of shedlock_run failed: %s", SPI_result_code_string(result))));
}

// Executes one statement at a time. If SPI got them all at once, and were told that they may commit, it would run them
// with one snapshot, and none would see what those before it have done.
void execute(const char *command)
{
    ListCell *cell;
    foreach (cell, parse(command)) {
        const auto *const statement = lfirst_node(RawStmt, cell);
        execute_one(statement, text_of(statement, command));
    }
}

// ISO 8601 in UTC, as to_json writes it, whatever DateStyle and TimeZone are. Empty if there is no tick.
const char *iso_text(std::optional<instant> tick)
{
    pg_tm parts;
    fsec_t microseconds;
    if (!tick || timestamp2tm(pg::to_timestamp(*tick), nullptr, &parts, &microseconds, nullptr, nullptr) != 0)
        return "";
    parts.tm_isdst = 0; // not -1, which means an unknown time zone: the offset would be left out
    char *const out = static_cast<char *>(palloc(MAXDATELEN + 1));
    EncodeDateTime(&parts, microseconds, true, 0, nullptr, USE_XSD_DATES, out);
    return out;
}

std::string_view first_line(std::string_view text)
{
    return text.substr(0, text.find_first_of("\r\n"));
}

// Called after the command, or the commit of its work, has failed. SPI_rollback would not work: it would complete the
// queries of the cursor loops that the error interrupted, miscount the snapshots that the error left behind, and treat
// the innermost SPI connection that is still open as ours. So the whole transaction is aborted, as the server itself
// does after an error, and the release gets a transaction of its own. This never returns, so the caller's state does
// not matter any more.
[[noreturn]] void release_and_fail(Oid function, lock_names names, const identity &mine, const char *outer_tick)
{
    MemoryContextSwitchTo(PortalContext); // outlives the transaction
    ErrorData *const error = CopyErrorData();
    FlushErrorState();
    const bool warn = error->sqlerrcode != ERRCODE_LOCK_LOST; // that error itself says that the lock is lost
    AbortOutOfAnyTransaction();
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    // The caller gets the command's error even if the release fails, because of lock_timeout, for example.
    if (const ErrorData *const failure = pg::in_subtransaction([&] {
            with_lock_table(function, [&](lock_table &table) {
                return release(table, {names, false, first_line(error->message)}, mine, warn);
            });
            return true;
        }))
        ereport(WARNING,
                (errcode(failure->sqlerrcode), errmsg("lock \"%.*s\" was not released", SV(names.front().bytes)),
                 errdetail("%s", failure->message), errhint("It ends with its lease, or with this session.")));
    settings::set_tick(outer_tick);
    PopActiveSnapshot();
    CommitTransactionCommand();
    StartTransactionCommand();
    ReThrowError(error);
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
    const auto token = acquire(function, request, {origin::kinds::session, {}, true});
    if (!token) {
        SPI_finish();
        return false;
    }
    // The session owns the lock, so that the command may guard and extend it. So the identity contains the session. It
    // also contains the token, so that it refers to this acquisition only.
    const identity mine{session_identity().session, token};
    const auto *const guarded = guard::lock_of_run(find_table(function), request.names.front(), mine);
    const char *const outer_tick = MemoryContextStrdup(PortalContext, settings::tick());
    settings::set_tick(iso_text(request.asked.tick));
    PAUSE_POINT("run acquired");
    SPI_commit();

    PG_TRY();
    {
        guard::begin_run(*guarded);
        PAUSE_POINT("run committed");
        execute(command);
        PAUSE_POINT("run done");
        guard::complete_run(*guarded);
        SPI_commit();
        guard::end_run();
    }
    PG_CATCH();
    {
        guard::end_all_runs();
        release_and_fail(function, request.names, mine, outer_tick);
    }
    PG_END_TRY();

    // Committed here: if the caller rolled back the next transaction, the tick of this run would come back.
    if (strcmp(settings::tick(), outer_tick) != 0) {
        settings::set_tick(outer_tick);
        SPI_commit();
    }
    SPI_finish();
    return true;
}

} // namespace shedlock
