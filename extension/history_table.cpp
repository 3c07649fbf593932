#include "history_table.hpp"

#include "index_entries.hpp"
#include "session.hpp"

#include <limits>

namespace shedlock {

namespace {

constexpr int longest_detail = 1000; // characters

using columns = history_shape::columns;

// What this backend knows: the table in the schema of that lock table, and whether a history is kept in it.
struct remembered_history {
    bool is_valid;
    bool has_changed; // since the last search began
    Oid locks;
    Oid found;
    bool is_kept;
    uint32 hash_of_name; // in the cache of relations by name

    // Since it was last inspected, when it was locked.
    bool is_inspected;
    history_shape shape;

    void forget()
    {
        is_valid = false;
        has_changed = true;
        is_inspected = false;
    }
};
remembered_history remembered;

void on_relation_change(Datum, Oid relation)
{
    if (relation == InvalidOid || relation == remembered.found || relation == remembered.locks)
        remembered.forget();
}

void on_name_change(Datum, pg::cache_identifier, uint32 hash)
{
    if (hash == 0 || hash == remembered.hash_of_name)
        remembered.forget();
}

void watch_for_changes()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterRelcacheCallback(on_relation_change, 0);
    CacheRegisterSyscacheCallback(RELNAMENSP, on_name_change, 0);
    watching = true;
}

// The table may not be locked, and dropped at any moment.
const char *qualified_name(Oid table)
{
    const char *const schema = get_namespace_name(get_rel_namespace(table));
    const char *const name = get_rel_name(table);
    return name ? quote_qualified_identifier(schema, name) : history_shape::usual_name;
}

constexpr const char *remedy = "Rename or drop it, and call shedlock_keep_history().";

void warn_once(Oid history, const char *fault)
{
    static bool has_warned = false;
    if (has_warned)
        return;
    has_warned = true;
    ereport(WARNING,
            (errcode(ERRCODE_WARNING), errmsg("runs are not recorded in table %s: %s", qualified_name(history), fault),
             errhint("%s", remedy)));
}

Oid owner_of(Oid table)
{
    const HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(row))
        return InvalidOid;
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relowner;
    ReleaseSysCache(row);
    return owner;
}

// GRANT and REVOKE change pg_class, so they count as changes of the table. What changes during the search is not
// remembered, as in table_finder.
void search(const row_finder &locks)
{
    watch_for_changes();
    remembered.has_changed = false;
    remembered.is_inspected = false;
    remembered.locks = locks.shape().table;
    remembered.hash_of_name = GetSysCacheHashValue2(RELNAMENSP, CStringGetDatum(history_shape::usual_name),
                                                    ObjectIdGetDatum(get_rel_namespace(remembered.locks)));
    remembered.found = history_table::find(remembered.locks);
    remembered.is_kept = OidIsValid(remembered.found) && history_table::is_kept(remembered.found);
    // Whoever owns another table could keep it locked, and every release would wait.
    if (remembered.is_kept && owner_of(remembered.found) != locks.owner()) {
        warn_once(remembered.found, foreign_owner);
        remembered.is_kept = false;
    }
    remembered.is_valid = !remembered.has_changed;
}

// The table in which a history is kept, if one is.
Oid find_kept(const row_finder &locks)
{
    if (!remembered.is_valid || remembered.locks != locks.shape().table)
        search(locks);
    return remembered.is_kept ? remembered.found : InvalidOid;
}

// As find_fault, but remembered. The table is locked, so it does not change.
const char *inspect(Relation history, Oid owner, history_shape &shape)
{
    if (remembered.is_inspected && remembered.found == RelationGetRelid(history)) {
        shape = remembered.shape;
        return nullptr;
    }
    remembered.has_changed = false;
    const char *const fault = find_fault(history, owner, shape);
    remembered.shape = shape;
    remembered.is_inspected = !fault && !remembered.has_changed && remembered.found == RelationGetRelid(history);
    return fault;
}

// Why the table is not fit to be the history, or null. One of another owner is not opened: whoever owns it could keep
// it locked.
const char *open_and_inspect(Oid found, const row_finder &locks, LOCKMODE mode, Relation &history, history_shape &shape)
{
    if (owner_of(found) != locks.owner())
        return foreign_owner;
    history = try_relation_open(found, mode);
    return history ? find_fault(history, locks.owner(), shape) : "it has just been dropped";
}

Datum timestamp_of(instant t)
{
    return TimestampTzGetDatum(pg::to_timestamp(t));
}

// A lock_until that was edited by hand may be long before the acquisition, or -infinity. In columns of coarse precision
// tokens may run ahead of the clock.
instant end_of(const ending_run &run, endings how, instant now)
{
    return std::max(how == endings::ran_out ? std::min(run.lock_until, now) : now, run.token);
}

Datum shortened(std::string_view detail)
{
    const int length = pg_mbcharcliplen(detail.data(), static_cast<int>(detail.size()), longest_detail);
    return PointerGetDatum(cstring_to_text_with_len(detail.data(), length));
}

// Calls `visit` with the rows of that name from the last one backwards, until it returns false.
template <typename Visit>
void visit_backwards(Relation history, Relation index, Datum name, std::optional<instant> since, Visit visit)
{
    ScanKeyData keys[2];
    ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, index->rd_indcollation[0], F_TEXTEQ,
                           name);
    ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, timestamp_of(since.value_or(never)));
    const IndexScanDesc scan = pg::begin_index_scan(history, index, GetActiveSnapshot(), 2);
    index_rescan(scan, keys, 2, nullptr, 0);
    TupleTableSlot *const slot = table_slot_create(history, nullptr);
    while (index_getnext_slot(scan, BackwardScanDirection, slot))
        if (!visit(ExecFetchSlotHeapTuple(slot, false, nullptr)))
            break;
    ExecDropSingleTupleTableSlot(slot);
    index_endscan(scan);
}

} // namespace

Oid history_table::find(Oid locks)
{
    return get_relname_relid(history_shape::usual_name, get_rel_namespace(locks));
}

bool history_table::is_kept(Oid history)
{
    const HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(history));
    if (!HeapTupleIsValid(row))
        return false;
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relowner;
    bool is_default;
    const Datum stored = SysCacheGetAttr(RELOID, row, Anum_pg_class_relacl, &is_default);
    bool may_insert = is_default;
    if (!is_default) {
        const Acl *const rights = DatumGetAclPCopy(stored);
        may_insert = std::any_of(ACL_DAT(rights), ACL_DAT(rights) + ACL_NUM(rights), [&](const AclItem &item) {
            return item.ai_grantee == owner && (ACLITEM_GET_PRIVS(item) & ACL_INSERT) != 0;
        });
    }
    ReleaseSysCache(row);
    return may_insert;
}

// Looks again once the table is locked: what was found may have been renamed, replaced or dropped meanwhile.
std::optional<history_table> history_table::open_kept(const row_finder &locks, bool nowait)
{
    for (;;) {
        const Oid found = find_kept(locks);
        if (!OidIsValid(found))
            return history_table{};
        PAUSE_POINT("history found");
        if (nowait && !ConditionalLockRelationOid(found, RowExclusiveLock))
            return std::nullopt;
        history_table opened;
        opened.table_ = try_relation_open(found, nowait ? NoLock : RowExclusiveLock);
        if (opened.table_ && find_kept(locks) == found) {
            const char *const fault = inspect(opened.table_, locks.owner(), opened.shape_);
            if (!fault)
                return opened;
            warn_once(found, fault);
            relation_close(opened.table_, RowExclusiveLock);
            return history_table{};
        }
        if (opened.table_)
            relation_close(opened.table_, NoLock);
        if (opened.table_ || nowait)
            UnlockRelationOid(found, RowExclusiveLock);
    }
}

history_table history_table::open(const row_finder &locks)
{
    return *open_kept(locks, false);
}

std::optional<history_table> history_table::open_nowait(const row_finder &locks)
{
    return open_kept(locks, true);
}

history_table history_table::open_any(Oid history, const row_finder &locks, LOCKMODE mode)
{
    history_table opened;
    if (const char *const fault = open_and_inspect(history, locks, mode, opened.table_, opened.shape_))
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("table %s cannot be the history: %s", qualified_name(history), fault), errhint("%s", remedy)));
    return opened;
}

void history_table::close(bool keep_lock)
{
    if (table_)
        relation_close(table_, keep_lock ? NoLock : RowExclusiveLock);
    table_ = nullptr;
}

std::optional<ending_run> history_table::run_in(const row_finder &locks, const seen_row &seen) const
{
    if (!table_ || is_released(seen.times()))
        return std::nullopt;
    const row current = locks.row_of(seen);
    if (!current.from.is_run())
        return std::nullopt;
    return ending_run{seen.name,
                      current.times.locked_at,
                      tick_of_run(seen.stored.past),
                      {pnstrdup(current.holder.data(), current.holder.size()), current.holder.size()},
                      current.times.lock_until};
}

void history_table::add(const std::optional<ending_run> &run, endings how, instant now, std::string_view detail) const
{
    static constexpr const char *names_of_endings[] = {"done", "failed", "ran out", "freed"};
    if (!run)
        return;
    Datum values[columns::column_count];
    bool nulls[columns::column_count] = {};
    values[columns::name] = PointerGetDatum(run->name.datum);
    values[columns::token] = Int64GetDatum(run->token.time_since_epoch().count());
    values[columns::tick] = timestamp_of(run->tick.value_or(never));
    nulls[columns::tick] = !run->tick;
    values[columns::holder] = PointerGetDatum(pg::text_of(run->holder));
    values[columns::acquired_at] = timestamp_of(run->token);
    values[columns::ended_at] = timestamp_of(end_of(*run, how, now));
    values[columns::outcome] = CStringGetTextDatum(names_of_endings[static_cast<int>(how)]);
    values[columns::detail] = detail.empty() ? Datum{0} : shortened(detail);
    nulls[columns::detail] = detail.empty();
    insert(values, nulls);
}

void history_table::add_marker(bool on, instant now) const
{
    Datum values[columns::column_count];
    bool nulls[columns::column_count];
    std::fill_n(nulls, columns::column_count, true);
    const auto set = [&](columns column, Datum value) {
        values[column] = value;
        nulls[column] = false;
    };
    set(columns::name, CStringGetTextDatum(""));
    set(columns::holder, CStringGetTextDatum(session_role()));
    set(columns::ended_at, timestamp_of(now));
    set(columns::outcome, CStringGetTextDatum(on ? "on" : "off"));
    insert(values, nulls);
}

// The values are in the order of our columns.
void history_table::insert(const Datum *values, const bool *nulls) const
{
    const TupleDesc all = RelationGetDescr(table_);
    auto *const row = static_cast<Datum *>(palloc0(sizeof(Datum) * all->natts));
    auto *const is_null = static_cast<bool *>(palloc(sizeof(bool) * all->natts));
    std::fill_n(is_null, all->natts, true);
    for (int i = 0; i < columns::column_count; i++) {
        row[shape_.numbers[i] - 1] = values[i];
        is_null[shape_.numbers[i] - 1] = nulls[i];
    }
    const HeapTuple tuple = heap_form_tuple(all, row, is_null);
    heap_insert(table_, tuple, GetCurrentCommandId(true), 0, nullptr);
    PAUSE_POINT("recorded");
    insert_index_entries(table_, tuple, UNIQUE_CHECK_NO, [](Relation) {});
    CommandCounterIncrement();
}

void history_table::put_rows(const history_request &request, ReturnSetInfo *result) const
{
    const TupleDesc all = RelationGetDescr(table_);
    const auto put = [&](HeapTuple tuple) {
        Datum values[columns::column_count];
        bool nulls[columns::column_count];
        for (int i = 0; i < columns::column_count; i++) {
            values[i] = heap_getattr(tuple, shape_.numbers[i], all, &nulls[i]);
            if (!nulls[i] && history_shape::types[i].type == TEXTOID)
                values[i] = PointerGetDatum(DatumGetTextPP(values[i])); // may be stored out of line
        }
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    };
    if (!request.names) {
        pg::visit_all(table_, [&](HeapTuple tuple) {
            bool is_null;
            const Datum ended = heap_getattr(tuple, shape_.numbers[columns::ended_at], all, &is_null);
            if (!request.since || (!is_null && pg::to_instant(DatumGetTimestampTz(ended)) >= *request.since))
                put(tuple);
        });
        return;
    }
    const Relation index = index_open(shape_.index, AccessShareLock);
    for (const auto &name : *request.names) {
        auto left = request.latest.value_or(std::numeric_limits<int32>::max());
        visit_backwards(table_, index, PointerGetDatum(name.datum), request.since, [&](HeapTuple tuple) {
            const bool is_wanted = left-- > 0;
            if (is_wanted)
                put(tuple);
            return is_wanted;
        });
    }
    index_close(index, AccessShareLock);
}

const char *history_table::fault(const row_finder &locks)
{
    const Oid found = find(locks.shape().table);
    if (!OidIsValid(found) || !is_kept(found))
        return nullptr;
    Relation history = nullptr;
    history_shape shape;
    const char *const fault = open_and_inspect(found, locks, AccessShareLock, history, shape);
    if (history)
        relation_close(history, AccessShareLock);
    return fault;
}

} // namespace shedlock
