#include "shape.hpp"

#include "holder.hpp"

namespace shedlock {

namespace {

// For columns of type text, which have no length of their own.
constexpr int usual_limit = 255;

[[noreturn]] void unusable(Relation table, const char *what, const char *remedy)
{
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("table \"%s\" cannot serve as the lock table: %s",
                           quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)),
                                                      RelationGetRelationName(table)),
                           what),
                    errhint("%s", remedy)));
    pg_unreachable();
}

void check_kind(Relation table)
{
    if (table->rd_rel->relkind != RELKIND_RELATION)
        unusable(table, "it is not an ordinary table", "Rename or drop it, and create the extension again.");
    if (table->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
        unusable(table, "it is temporary", "A lock must be seen by all sessions: create an ordinary table.");
    if (table->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
        ereport(WARNING, (errmsg("lock table \"%s\" is UNLOGGED: a crash of the server forgets every lock",
                                 RelationGetRelationName(table)),
                          errhint("ALTER TABLE %s SET LOGGED.", RelationGetRelationName(table))));
    if (table->rd_rel->relispartition || table->rd_rel->relhassubclass || has_superclass(RelationGetRelid(table)))
        unusable(table, "it is a partition or takes part in inheritance",
                 "Detach it: a lock's row must be in exactly one table.");
    if (table->rd_rel->relam != HEAP_TABLE_AM_OID)
        unusable(table, "its access method is not heap", "ALTER TABLE ... SET ACCESS METHOD heap.");
}

void check_no_code_attached(Relation table)
{
    if (table->rd_rules)
        unusable(table, "it has rules, which would not run", "Drop the rules.");
    if (table->trigdesc)
        unusable(table, "it has triggers or foreign keys, which would not run", "Drop the triggers and foreign keys.");
    if (table->rd_rel->relrowsecurity)
        unusable(table, "it has row security, which would not apply", "ALTER TABLE ... DISABLE ROW LEVEL SECURITY.");
    if (table->rd_rel->relchecks > 0)
        unusable(table, "it has CHECK constraints, which would not be checked", "Drop the constraints.");
}

// The resolution of timestamp(p).
duration unit_of(int32 typmod)
{
    duration unit{1};
    for (int p = typmod < 0 ? MAX_TIMESTAMP_PRECISION : typmod; p < MAX_TIMESTAMP_PRECISION; p++)
        unit *= 10;
    return unit;
}

Form_pg_attribute find_column(Relation table, const char *column)
{
    const TupleDesc columns = RelationGetDescr(table);
    for (int i = 0; i < columns->natts; i++) {
        const Form_pg_attribute attribute = TupleDescAttr(columns, i);
        if (!attribute->attisdropped && namestrcmp(&attribute->attname, column) == 0)
            return attribute;
    }
    return nullptr;
}

Form_pg_attribute require_column(Relation table, const char *column)
{
    const Form_pg_attribute attribute = find_column(table, column);
    if (!attribute)
        unusable(table, psprintf("it has no column \"%s\"", column),
                 "Its columns are name, lock_until, locked_at, locked_by and lock_at_least_until; see the README.");
    if (attribute->attgenerated)
        unusable(table, psprintf("column \"%s\" is generated", column), "Make it an ordinary column.");
    return attribute;
}

void require_not_null(Relation table, Form_pg_attribute column)
{
    if (!column->attnotnull)
        unusable(table, psprintf("column \"%s\" may be NULL", NameStr(column->attname)),
                 psprintf("ALTER TABLE ... ALTER COLUMN %s SET NOT NULL.", NameStr(column->attname)));
}

Form_pg_attribute require_text(Relation table, const char *name)
{
    const Form_pg_attribute column = require_column(table, name);
    if (column->atttypid != VARCHAROID && column->atttypid != TEXTOID)
        unusable(table, psprintf("column \"%s\" is %s", name, format_type_be(column->atttypid)),
                 "It must be varchar or text.");
    require_not_null(table, column);
    return column;
}

int length_limit(Form_pg_attribute column)
{
    return column->atttypmod < static_cast<int32>(VARHDRSZ) ? usual_limit
                                                            : column->atttypmod - static_cast<int32>(VARHDRSZ);
}

void require_timestamp(Relation table, Form_pg_attribute column)
{
    if (column->atttypid == TIMESTAMPTZOID)
        unusable(table, psprintf("column \"%s\" is timestamp with time zone", NameStr(column->attname)),
                 psprintf("The UTC values that Java ShedLock writes are read in the session's time zone there, and "
                          "are off by its hours. ALTER TABLE ... ALTER COLUMN %s TYPE timestamp.",
                          NameStr(column->attname)));
    if (column->atttypid != TIMESTAMPOID)
        unusable(table, psprintf("column \"%s\" is %s", NameStr(column->attname), format_type_be(column->atttypid)),
                 "It must be timestamp without time zone, in UTC.");
}

Form_pg_attribute require_time(Relation table, const char *name)
{
    const Form_pg_attribute column = require_column(table, name);
    require_timestamp(table, column);
    require_not_null(table, column);
    return column;
}

// Further columns stay as they are in an UPDATE; a first acquire leaves them NULL, so that must be what SQL would do.
void check_further_columns(Relation table, const table_shape &shape)
{
    const TupleDesc columns = RelationGetDescr(table);
    for (int i = 0; i < columns->natts; i++) {
        const Form_pg_attribute column = TupleDescAttr(columns, i);
        const AttrNumber number = column->attnum;
        if (column->attisdropped || number == shape.name || number == shape.lock_until || number == shape.locked_at ||
            number == shape.locked_by || number == shape.lock_at_least_until)
            continue;
        if (column->attnotnull || column->atthasdef || column->attgenerated || column->attidentity)
            unusable(table,
                     psprintf("the further column \"%s\" is NOT NULL, has a default or is generated",
                              NameStr(column->attname)),
                     "Further columns must be nullable and without default.");
    }
}

bool is_index_on(Form_pg_index index, AttrNumber column)
{
    return index->indnatts == 1 && index->indkey.values[0] == column;
}

// Finds the index that decides who has a row, if there is one, and refuses every index that runs code or rejects rows
// by other rules.
Oid find_index(Relation table, AttrNumber name)
{
    Oid chosen = InvalidOid;
    List *const indexes = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, indexes) {
        const Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        const Form_pg_index form = index->rd_index;
        if (RelationGetIndexExpressions(index) != NIL || RelationGetIndexPredicate(index) != NIL)
            unusable(table, psprintf("index \"%s\" has an expression or a predicate", RelationGetRelationName(index)),
                     "Drop the index.");
        if (form->indisunique || form->indisexclusion) {
            if (!is_index_on(form, name) || form->indisexclusion || index->rd_rel->relam != BTREE_AM_OID ||
                index->rd_opfamily[0] != TEXT_BTREE_FAM_OID)
                unusable(
                    table,
                    psprintf("index \"%s\" is unique, but not a plain btree on (name)", RelationGetRelationName(index)),
                    "Drop the index: it could refuse rows that the lock needs.");
            if (!get_collation_isdeterministic(index->rd_indcollation[0]))
                unusable(table, "the collation of its names is nondeterministic",
                         "Names are compared byte by byte: ALTER TABLE ... ALTER COLUMN name TYPE ... COLLATE \"C\".");
            // While REINDEX CONCURRENTLY runs there are two of them.
            if (form->indisvalid && form->indisready && form->indimmediate)
                chosen = RelationGetRelid(index);
        }
        index_close(index, AccessShareLock);
    }
    return chosen;
}

// The checked table of this backend. There is one extension a database, hence one table.
table_shape known;
bool is_known = false;
bool has_changed = false; // since the inspection began

void forget_table()
{
    is_known = false;
    has_changed = true;
}

void on_relation_change(Datum, Oid relation)
{
    if (relation == InvalidOid || relation == known.table)
        forget_table();
}

// CREATE, DROP and ALTER EXTENSION change the functions: the table may be another one afterwards.
void on_function_change(Datum, int, uint32)
{
    forget_table();
}

void watch_for_changes()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterRelcacheCallback(on_relation_change, 0);
    CacheRegisterSyscacheCallback(PROCOID, on_function_change, 0);
    watching = true;
}

Oid look_for_table(Oid function)
{
    // The view stands in the functions' schema wherever ALTER EXTENSION puts them, and knows its table even if that is
    // an adopted one which does not move along, or was renamed.
    const Oid schema = get_func_namespace(function);
    const Oid view_id = OidIsValid(schema) ? get_relname_relid("shedlock_locks", schema) : InvalidOid;
    const Relation view = OidIsValid(view_id) ? try_relation_open(view_id, AccessShareLock) : nullptr;
    if (view && view->rd_rules) {
        const auto *const query = static_cast<const Query *>(linitial(view->rd_rules->rules[0]->actions));
        ListCell *cell;
        foreach (cell, query->rtable) {
            const auto *const entry = static_cast<const RangeTblEntry *>(lfirst(cell));
            if (entry->rtekind == RTE_RELATION && entry->relkind == RELKIND_RELATION) {
                const Oid found = entry->relid;
                relation_close(view, AccessShareLock);
                return found;
            }
        }
    }
    if (!SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(function)))
        report_dropped(); // while we waited for a lock on the view
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("the view shedlock_locks, which leads to the lock table, is missing"),
                    errhint("Drop the extension shedlock and create it again.")));
    pg_unreachable();
}

} // namespace

void report_dropped()
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the lock table has been dropped"),
                    errhint("CREATE EXTENSION shedlock makes a new one. If that has been done since, try again.")));
    pg_unreachable();
}

Oid find_table(Oid function)
{
    watch_for_changes();
    return is_known ? known.table : look_for_table(function);
}

const table_shape &shape_of(Relation table)
{
    while (!is_known || known.table != RelationGetRelid(table)) {
        has_changed = false;
        is_known = false; // should the inspection fail
        known.table = RelationGetRelid(table);
        known = inspect(table, purposes::use);
        is_known = !has_changed;
    }
    return known;
}

table_shape inspect(Relation table, purposes purpose)
{
    check_kind(table);
    check_no_code_attached(table);

    const Form_pg_attribute name = require_text(table, "name");
    const Form_pg_attribute locked_by = require_text(table, "locked_by");
    const Form_pg_attribute lock_until = require_time(table, "lock_until");
    const Form_pg_attribute locked_at = require_time(table, "locked_at");
    const bool is_missing = purpose == purposes::adoption && !find_column(table, "lock_at_least_until");
    const Form_pg_attribute at_least = is_missing ? nullptr : require_column(table, "lock_at_least_until");
    if (at_least)
        require_timestamp(table, at_least);
    if (at_least && at_least->attnotnull)
        unusable(table, "column \"lock_at_least_until\" is NOT NULL",
                 "A released lock has none: ALTER TABLE ... ALTER COLUMN lock_at_least_until DROP NOT NULL.");

    table_shape shape{};
    shape.table = RelationGetRelid(table);
    shape.name = name->attnum;
    shape.lock_until = lock_until->attnum;
    shape.locked_at = locked_at->attnum;
    shape.locked_by = locked_by->attnum;
    if (at_least)
        shape.lock_at_least_until = at_least->attnum;
    shape.name_limit = length_limit(name);
    shape.locked_by_limit = length_limit(locked_by);
    shape.unit = std::max(
        {unit_of(lock_until->atttypmod), unit_of(locked_at->atttypmod), unit_of(at_least ? at_least->atttypmod : -1)});
    if (shape.locked_by_limit < shortest_locked_by)
        unusable(table, psprintf("column \"locked_by\" holds %d characters only", shape.locked_by_limit),
                 "ALTER TABLE ... ALTER COLUMN locked_by TYPE varchar(255).");
    check_further_columns(table, shape);
    shape.index = find_index(table, shape.name);
    if (!OidIsValid(shape.index) && purpose == purposes::use)
        unusable(table, "it has no unique index on (name)", "ALTER TABLE ... ADD PRIMARY KEY (name).");
    return shape;
}

} // namespace shedlock
