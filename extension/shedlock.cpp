// One short function per SQL function. What they promise is in portable/shedlock.sql (Comments) and in
// docs/reference.md; what they do, in the headers that are included here.
#include "acquisition.hpp"
#include "adoption.hpp"
#include "change.hpp"
#include "durability.hpp"
#include "forget.hpp"
#include "guard.hpp"
#include "keeping.hpp"
#include "protection.hpp"
#include "request.hpp"
#include "run.hpp"
#include "session.hpp"
#include "settings.hpp"
#include "shared_memory.hpp"
#include "stats.hpp"
#include "waiting.hpp"

namespace shedlock {

namespace {

// Every function that changes a lock, or waits for one, begins with this.
void enter(const char *function)
{
    require_writable(function);
    shared_memory::attach();
}

// One name or several.
using name_reader = lock_names (arguments::*)();

Datum sql_acquire(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_acquire");
    arguments in{fcinfo};
    const auto request = in.acquire((in.*read)());
    const owner who{origin::kinds::session, {}, in.flag("ends_with_session")};
    return BoolGetDatum(acquire(fcinfo->flinfo->fn_oid, request, who).has_value());
}

Datum sql_acquire_token(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_acquire_token");
    arguments in{fcinfo};
    const auto request = in.acquire((in.*read)());
    const auto holder = in.text_if_any("holder");
    const owner who{origin::kinds::token, holder, in.flag("ends_with_session")};
    const auto token = acquire(fcinfo->flinfo->fn_oid, request, who);
    if (!token)
        PG_RETURN_NULL();
    PG_RETURN_INT64(token->time_since_epoch().count());
}

Datum yes_no_or_null(FunctionCallInfo fcinfo, std::optional<bool> answer)
{
    if (!answer)
        PG_RETURN_NULL();
    PG_RETURN_BOOL(*answer);
}

Datum do_extend(FunctionCallInfo fcinfo, const extend_request &request, const identity &who, bool nowait = false)
{
    return yes_no_or_null(fcinfo, with_lock_table(fcinfo->flinfo->fn_oid, [&](lock_table &table) {
                              return extend(table, request, who, nowait);
                          }));
}

Datum sql_extend(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_extend");
    arguments in{fcinfo};
    return do_extend(fcinfo, in.extend((in.*read)()), session_identity());
}

Datum sql_extend_token(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_extend_token");
    arguments in{fcinfo};
    const auto names = (in.*read)();
    const auto who = token_identity(in.token());
    const auto request = in.extend(names);
    return do_extend(fcinfo, request, who, in.flag("nowait"));
}

Datum do_release(FunctionCallInfo fcinfo, const release_request &request, const identity &who)
{
    return yes_no_or_null(fcinfo, with_lock_table(fcinfo->flinfo->fn_oid,
                                                  [&](lock_table &table) { return release(table, request, who); }));
}

Datum sql_release(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_release");
    arguments in{fcinfo};
    return do_release(fcinfo, in.release((in.*read)()), session_identity());
}

Datum sql_release_token(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_release_token");
    arguments in{fcinfo};
    const auto names = (in.*read)();
    const auto who = token_identity(in.token());
    return do_release(fcinfo, in.release_token(names), who);
}

Datum do_guard(FunctionCallInfo fcinfo, lock_names names, const identity &who)
{
    lock_table table = lock_table::open(fcinfo->flinfo->fn_oid);
    guard::add(table, names.front(), who);
    table.close(true);
    PG_RETURN_VOID();
}

Datum do_complete(FunctionCallInfo fcinfo, lock_names names, const identity &who)
{
    lock_table table = lock_table::open(fcinfo->flinfo->fn_oid);
    for (const auto &name : names)
        guard::add_completion(table, name, who);
    table.close(true);
    PG_RETURN_VOID();
}

Datum sql_complete(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_complete");
    arguments in{fcinfo};
    return do_complete(fcinfo, (in.*read)(), session_identity());
}

Datum sql_complete_token(FunctionCallInfo fcinfo, name_reader read)
{
    enter("shedlock_complete_token");
    arguments in{fcinfo};
    const auto names = (in.*read)();
    return do_complete(fcinfo, names, token_identity(in.token()));
}

Datum do_to_one(FunctionCallInfo fcinfo, bool (*change)(lock_table &, const lock_name &))
{
    const auto names = arguments{fcinfo}.stored_name();
    return BoolGetDatum(
        with_lock_table(fcinfo->flinfo->fn_oid, [&](lock_table &table) { return change(table, names.front()); }));
}

void at_transaction_event(XactEvent event, void *)
{
    switch (event) {
    case XACT_EVENT_PRE_COMMIT:
        // Must run after the guard, which writes. Callbacks run in reverse order, so the guard registers its own later.
        durability::at_pre_commit();
        PAUSE_POINT("before the commit");
        break;
    case XACT_EVENT_PRE_PREPARE:
        durability::at_pre_prepare();
        break;
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_ABORT:
    case XACT_EVENT_PREPARE:
        durability::at_end();
        queue::at_end(event == XACT_EVENT_ABORT ? queue::ends::abort : queue::ends::any);
        break;
    default:
        break;
    }
}

void at_subtransaction_event(SubXactEvent event, SubTransactionId ended, SubTransactionId parent, void *)
{
    if (event == SUBXACT_EVENT_COMMIT_SUB || event == SUBXACT_EVENT_ABORT_SUB)
        guard::at_subtransaction_end(ended, parent, event == SUBXACT_EVENT_COMMIT_SUB);
}

} // namespace
} // namespace shedlock

using namespace shedlock;

// The module is compiled with -fvisibility=hidden. Only what the server looks up by name is exported. (From PostgreSQL
// 16 on its own macros do that.)
#pragma GCC visibility push(default)
extern "C" {

SHEDLOCK_MODULE_MAGIC;

void _PG_init(void);

void _PG_init(void)
{
    settings::define();
    shared_memory::prepare();
    RegisterXactCallback(at_transaction_event, nullptr);
    RegisterSubXactCallback(at_subtransaction_event, nullptr);
}

#define SQL_FUNCTION(symbol, expression)                                                                               \
    PG_FUNCTION_INFO_V1(symbol);                                                                                       \
    Datum symbol(PG_FUNCTION_ARGS)                                                                                     \
    {                                                                                                                  \
        return expression;                                                                                             \
    }

SQL_FUNCTION(shedlock_acquire, sql_acquire(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_acquire_all, sql_acquire(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_extend, sql_extend(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_extend_all, sql_extend(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_release, sql_release(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_release_all, sql_release(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_acquire_token, sql_acquire_token(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_acquire_token_all, sql_acquire_token(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_extend_token, sql_extend_token(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_extend_token_all, sql_extend_token(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_release_token, sql_release_token(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_release_token_all, sql_release_token(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_complete, sql_complete(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_complete_all, sql_complete(fcinfo, &arguments::names))
SQL_FUNCTION(shedlock_complete_token, sql_complete_token(fcinfo, &arguments::name))
SQL_FUNCTION(shedlock_complete_token_all, sql_complete_token(fcinfo, &arguments::names))

PG_FUNCTION_INFO_V1(shedlock_guard);
Datum shedlock_guard(PG_FUNCTION_ARGS)
{
    enter("shedlock_guard");
    return do_guard(fcinfo, arguments{fcinfo}.name(), session_identity());
}

PG_FUNCTION_INFO_V1(shedlock_guard_token);
Datum shedlock_guard_token(PG_FUNCTION_ARGS)
{
    enter("shedlock_guard_token");
    arguments in{fcinfo};
    const auto names = in.name();
    return do_guard(fcinfo, names, token_identity(in.token()));
}

// Because of INOUT executed, the result is a record of one column. What the caller passes for it is not read.
PG_FUNCTION_INFO_V1(shedlock_run);
Datum shedlock_run(PG_FUNCTION_ARGS)
{
    enter("shedlock_run");
    require_top_level(fcinfo);
    arguments in{fcinfo};
    const auto names = in.name();
    const char *const command = in.command();
    TupleDesc columns; // looked up before the run commits: later the procedure may have been dropped
    if (get_call_result_type(fcinfo, nullptr, &columns) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "shedlock_run must have exactly one INOUT argument");
    BlessTupleDesc(columns);
    Datum executed = BoolGetDatum(run(fcinfo->flinfo->fn_oid, in.acquire(names), command));
    bool is_null = false;
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(columns, &executed, &is_null)));
}

// locked_by says who paused it and why.
PG_FUNCTION_INFO_V1(shedlock_pause);
Datum shedlock_pause(PG_FUNCTION_ARGS)
{
    enter("shedlock_pause");
    arguments in{fcinfo};
    const auto names = in.stored_name();
    const auto reason = in.text_if_any("reason");
    const acquire_request request{names, std::nullopt, duration::zero(), in.span("wait"), {}};
    const char *const who = session_role();
    const char *const holder =
        reason.empty() ? psprintf("paused: %s", who) : psprintf("paused: %s: %.*s", who, SV(reason));
    PG_RETURN_BOOL(acquire(fcinfo->flinfo->fn_oid, request, {origin::kinds::administrator, holder}).has_value());
}

PG_FUNCTION_INFO_V1(shedlock_resume);
Datum shedlock_resume(PG_FUNCTION_ARGS)
{
    enter("shedlock_resume");
    return do_to_one(fcinfo, resume);
}

PG_FUNCTION_INFO_V1(shedlock_force_release);
Datum shedlock_force_release(PG_FUNCTION_ARGS)
{
    enter("shedlock_force_release");
    return do_to_one(fcinfo, force_release);
}

PG_FUNCTION_INFO_V1(shedlock_forget);
Datum shedlock_forget(PG_FUNCTION_ARGS)
{
    enter("shedlock_forget");
    return do_to_one(fcinfo, forget);
}

// For the client library.
PG_FUNCTION_INFO_V1(shedlock_wait_any);
Datum shedlock_wait_any(PG_FUNCTION_ARGS)
{
    enter("shedlock_wait_any");
    auto *const found = wait_for_any(fcinfo->flinfo->fn_oid, arguments{fcinfo}.waiters());
    if (!found)
        PG_RETURN_NULL();
    PG_RETURN_ARRAYTYPE_P(found);
}

PG_FUNCTION_INFO_V1(shedlock_end_wait);
Datum shedlock_end_wait(PG_FUNCTION_ARGS)
{
    enter("shedlock_end_wait");
    PG_RETURN_BOOL(queue::wake(queue::key_of_wait(arguments{fcinfo}.id("wait_id"))));
}

// For the client library.
PG_FUNCTION_INFO_V1(shedlock_not_due);
Datum shedlock_not_due(PG_FUNCTION_ARGS)
{
    arguments in{fcinfo};
    const auto names = in.stored_name();
    const char *const why = why_not_due(fcinfo->flinfo->fn_oid, names.front(), in.asked());
    if (!why)
        PG_RETURN_NULL();
    return CStringGetTextDatum(why);
}

// For the view shedlock_locks, which does not read the table itself: the planner would evaluate constant parts of the
// expressions of the table's indexes and statistics with the rights of the role that queries the view, and the table
// may belong to another role. 55000, 42P01.
PG_FUNCTION_INFO_V1(shedlock_rows);
Datum shedlock_rows(PG_FUNCTION_ARGS)
{
    InitMaterializedSRF(fcinfo, 0);
    lock_table table = lock_table::open(fcinfo->flinfo->fn_oid);
    const Datum *const names = PG_ARGISNULL(0) ? nullptr : &fcinfo->args[0].value;
    table.put_rows(names, reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo));
    table.close(false);
    return Datum{0};
}

PG_FUNCTION_INFO_V1(shedlock_keep_history);
Datum shedlock_keep_history(PG_FUNCTION_ARGS)
{
    enter("shedlock_keep_history");
    keep_history(fcinfo->flinfo->fn_oid, arguments{fcinfo}.flag("on"));
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(shedlock_history);
Datum shedlock_history(PG_FUNCTION_ARGS)
{
    InitMaterializedSRF(fcinfo, 0);
    const auto request = arguments{fcinfo}.past_runs();
    put_history(fcinfo->flinfo->fn_oid, request, reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo));
    return Datum{0};
}

// For the view shedlock_stats.
PG_FUNCTION_INFO_V1(shedlock_stats_rows);
Datum shedlock_stats_rows(PG_FUNCTION_ARGS)
{
    shared_memory::attach();
    stats::put_rows(fcinfo);
    return Datum{0};
}

PG_FUNCTION_INFO_V1(shedlock_stats_reset);
Datum shedlock_stats_reset(PG_FUNCTION_ARGS)
{
    (void) fcinfo;
    shared_memory::attach();
    stats::reset();
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(shedlock_protect);
Datum shedlock_protect(PG_FUNCTION_ARGS)
{
    enter("shedlock_protect");
    protect(fcinfo->flinfo->fn_oid, arguments{fcinfo}.flag("on"));
    PG_RETURN_VOID();
}

// For shedlock_doctor: the lock table, or why it cannot be one and what to do; the history, and why runs are not
// recorded in it; and whether there are counters.
PG_FUNCTION_INFO_V1(shedlock_inspect);
Datum shedlock_inspect(PG_FUNCTION_ARGS)
{
    shared_memory::attach();
    Oid found = InvalidOid;
    Oid history = InvalidOid;
    const char *history_fault = nullptr;
    ErrorData *const error = pg::in_subtransaction([&] {
        lock_table table = lock_table::open(fcinfo->flinfo->fn_oid);
        found = table.shape().table;
        history = history_table::find(found);
        history_fault = history_table::fault(table);
        table.close(false);
        return true;
    });
    if (error && error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
        ReThrowError(error);
    const auto text_if_any = [](const char *what) { return what ? CStringGetTextDatum(what) : Datum{0}; };
    Datum values[] = {ObjectIdGetDatum(found),
                      text_if_any(error ? error->message : nullptr),
                      text_if_any(error ? error->hint : nullptr),
                      BoolGetDatum(stats::are_available()),
                      ObjectIdGetDatum(history),
                      text_if_any(history_fault)};
    bool nulls[] = {error != nullptr, !error, !error || !error->hint, false, !OidIsValid(history), !history_fault};
    TupleDesc row;
    get_call_result_type(fcinfo, nullptr, &row);
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls));
}

// For the view shedlock_locks: whether the session that the end of locked_by names is still running. NULL if that is
// not known: the session belongs to another server, or this is a standby.
PG_FUNCTION_INFO_V1(shedlock_session_alive);
Datum shedlock_session_alive(PG_FUNCTION_ARGS)
{
    if (PG_ARGISNULL(0) || RecoveryInProgress())
        PG_RETURN_NULL();
    const auto is_alive = is_session_alive(pg::view_of(PG_GETARG_TEXT_PP(0)));
    if (!is_alive)
        PG_RETURN_NULL();
    PG_RETURN_BOOL(*is_alive);
}

// For the extension's script.
PG_FUNCTION_INFO_V1(shedlock_make_or_adopt_table);
Datum shedlock_make_or_adopt_table(PG_FUNCTION_ARGS)
{
    make_or_adopt_table(get_func_namespace(fcinfo->flinfo->fn_oid));
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(shedlock_after_pg_upgrade);
Datum shedlock_after_pg_upgrade(PG_FUNCTION_ARGS)
{
    enter("shedlock_after_pg_upgrade");
    lock_table table = lock_table::open(fcinfo->flinfo->fn_oid);
    record_dependency_again(table.shape().table);
    table.close(true);
    PG_RETURN_VOID();
}

} // extern "C"
#pragma GCC visibility pop
