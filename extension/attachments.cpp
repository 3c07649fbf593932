#include "attachments.hpp"

namespace shedlock {

namespace {

// Whether this is exactly the trigger that shedlock_protect creates. Its function is the one that the extension's
// script created, in whatever schema it is now; only its owner can replace or rename it.
bool is_protection(const Trigger &trigger)
{
    const char *const function = get_func_name(trigger.tgfoid);
    const Oid extension = getExtensionOfObject(ProcedureRelationId, trigger.tgfoid);
    constexpr int16 type = TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE;
    return function && strcmp(function, protection_function) == 0 && OidIsValid(extension) &&
           extension == get_extension_oid("shedlock", true) && strcmp(trigger.tgname, protection_trigger) == 0 &&
           trigger.tgtype == type && trigger.tgenabled == TRIGGER_FIRES_ON_ORIGIN && trigger.tgnargs == 0 &&
           trigger.tgnattr == 0 && !trigger.tgqual;
}

// Extensions that replicate or distribute tables are known by their triggers, whose functions belong to them or are in
// C. Any other trigger is somebody's own, an audit for example.
bool is_of_user(const Trigger &trigger)
{
    const HeapTuple function = SearchSysCache1(PROCOID, ObjectIdGetDatum(trigger.tgfoid));
    if (!HeapTupleIsValid(function))
        return false;
    const Oid language = reinterpret_cast<Form_pg_proc>(GETSTRUCT(function))->prolang;
    ReleaseSysCache(function);
    return !trigger.tgisinternal && language != ClanguageId && language != INTERNALlanguageId &&
           !OidIsValid(getExtensionOfObject(ProcedureRelationId, trigger.tgfoid));
}

// Whether the foreign key or CHECK constraint is on a column that we write.
bool is_on_ours(HeapTuple constraint, const table_shape &shape)
{
    bool is_null;
    const Datum columns = SysCacheGetAttr(CONSTROID, constraint, Anum_pg_constraint_conkey, &is_null);
    if (is_null)
        return false; // a CHECK without any column
    const ArrayType *const array = DatumGetArrayTypeP(columns);
    const auto *const numbers = reinterpret_cast<const AttrNumber *>(ARR_DATA_PTR(array));
    return std::any_of(numbers, numbers + ARR_DIMS(array)[0],
                       [&](AttrNumber column) { return is_ours(shape, column); });
}

// Whether it is a foreign key's trigger, and the foreign key does no harm. If other tables refer to this one, they do
// so by a column that we never change.
bool is_harmless_reference(const Trigger &trigger, table_shape &shape)
{
    const HeapTuple constraint = SearchSysCache1(CONSTROID, ObjectIdGetDatum(trigger.tgconstraint));
    if (!HeapTupleIsValid(constraint))
        return false;
    const auto *const form = reinterpret_cast<Form_pg_constraint>(GETSTRUCT(constraint));
    const bool is_foreign_key = trigger.tgisinternal && form->contype == CONSTRAINT_FOREIGN;
    const bool is_harmful = form->conrelid == shape.table && is_on_ours(constraint, shape);
    if (is_foreign_key && form->conrelid == shape.table)
        shape.has_foreign_keys = true;
    if (is_foreign_key && form->confrelid == shape.table)
        shape.is_referenced = true;
    ReleaseSysCache(constraint);
    return is_foreign_key && !is_harmful;
}

void check_triggers(Relation table, table_shape &shape)
{
    const TriggerDesc *const triggers = table->trigdesc;
    for (int i = 0; triggers && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (is_of_user(trigger))
            shape.has_triggers = true;
        else if (!is_protection(trigger) && !is_harmless_reference(trigger, shape))
            report_unusable(table, "it has triggers or foreign keys, which would not run",
                            "Drop the triggers and foreign keys (docs/operations.md says which may stay). Where Citus "
                            "made them: DROP EXTENSION IF EXISTS shedlock, SELECT undistribute_table('shedlock'), and "
                            "install shedlock again. Where pgactive did: use a database that it does not replicate.");
    }
}

// Calls `visit` with the name of each CHECK constraint that is enforced.
template <typename Visit> void visit_checks(Relation table, Visit visit)
{
    const TupleConstr *const constraints = RelationGetDescr(table)->constr;
    for (int i = 0; constraints && i < constraints->num_check; i++)
#if PG_VERSION_NUM >= 180000
        if (constraints->check[i].ccenforced)
#endif
            visit(constraints->check[i].ccname);
}

void check_constraints(Relation table, const table_shape &shape)
{
    visit_checks(table, [&](const char *name) {
        const Oid id = get_relation_constraint_oid(shape.table, name, false);
        const HeapTuple constraint = SearchSysCache1(CONSTROID, ObjectIdGetDatum(id));
        if (!HeapTupleIsValid(constraint) || is_on_ours(constraint, shape))
            report_unusable(table,
                            psprintf("constraint \"%s\" is on a column of the locks, and would not be checked", name),
                            "Drop the constraint.");
        ReleaseSysCache(constraint);
    });
}

// When a role queries the table, the planner evaluates constant parts of expressions in statistics objects with the
// rights of that role.
void check_statistics(Relation table)
{
    List *const all = RelationGetStatExtList(table);
    ListCell *cell;
    foreach (cell, all) {
        const HeapTuple tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (!HeapTupleIsValid(tuple))
            continue;
        if (!heap_attisnull(tuple, Anum_pg_statistic_ext_stxexprs, nullptr))
            report_unusable(table,
                            psprintf("the statistics object \"%s\" has expressions",
                                     NameStr(reinterpret_cast<Form_pg_statistic_ext>(GETSTRUCT(tuple))->stxname)),
                            "DROP STATISTICS.");
        ReleaseSysCache(tuple);
    }
}

// Whether the expression of a generated column uses a column that we write: then it would have to be computed anew.
bool is_generated_from_ours(Relation table, AttrNumber column, const table_shape &shape)
{
    const TupleConstr *const constraints = RelationGetDescr(table)->constr;
    for (int i = 0; i < constraints->num_defval; i++) {
        if (constraints->defval[i].adnum != column)
            continue;
        Bitmapset *used = nullptr;
        pull_varattnos(static_cast<Node *>(stringToNode(constraints->defval[i].adbin)), 1, &used);
        for (int each = -1; (each = bms_next_member(used, each)) >= 0;)
            if (is_ours(shape, static_cast<AttrNumber>(each + FirstLowInvalidHeapAttributeNumber)))
                return true;
        return false;
    }
    return true;
}

bool is_filled_by_insert(Form_pg_attribute column)
{
    return column->attnotnull || column->atthasdef || column->attgenerated || column->attidentity;
}

// Calls `visit` with each column that is none of ours.
template <typename Visit> void visit_others(Relation table, const table_shape &shape, Visit visit)
{
    const TupleDesc columns = RelationGetDescr(table);
    for (int i = 0; i < columns->natts; i++)
        if (const Form_pg_attribute column = TupleDescAttr(columns, i);
            !column->attisdropped && !is_ours(shape, column->attnum))
            visit(column);
}

void check_columns(Relation table, const table_shape &shape)
{
    visit_others(table, shape, [&](Form_pg_attribute column) {
        if (column->attgenerated && is_generated_from_ours(table, column->attnum, shape))
            report_unusable(table,
                            psprintf("the additional column \"%s\" is generated from a column of the locks",
                                     NameStr(column->attname)),
                            "Drop it, or compute it in a view.");
        // Any role may have written the functions of a type that is not built in, and a domain has checks and defaults.
        if (!is_built_in(TYPEOID, Anum_pg_type_typnamespace, column->atttypid) ||
            get_typtype(column->atttypid) == TYPTYPE_DOMAIN)
            report_unusable(table,
                            psprintf("the additional column \"%s\" is of type %s, which is a domain or not built in",
                                     NameStr(column->attname), format_type_be(column->atttypid)),
                            "Give it a built-in type, or keep it in another table.");
    });
}

[[noreturn]] void report_no_insert(Relation table, std::string_view name, const char *why)
{
    const char *const text = pnstrdup(name.data(), name.size());
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("lock \"%s\" has no row, and shedlock cannot insert one: %s", text, why),
                    errhint("Insert it as the owner of the table, with values for its other columns where needed: "
                            "INSERT INTO %s (name, lock_until, locked_at, locked_by) "
                            "VALUES (%s, '-infinity', '-infinity', '').",
                            qualified_name(table), quote_literal_cstr(text))));
    pg_unreachable();
}

} // namespace

void check_attachments(Relation table, table_shape &shape)
{
    if (table->rd_rules)
        report_unusable(table, "it has rules, which would not run", "Drop the rules.");
    check_triggers(table, shape);
    check_constraints(table, shape);
    check_statistics(table);
    check_columns(table, shape);
}

void require_insertable(Relation table, const table_shape &shape, std::string_view name)
{
    visit_others(table, shape, [&](Form_pg_attribute column) {
        if (is_filled_by_insert(column))
            report_no_insert(
                table, name,
                psprintf("column \"%s\" is NOT NULL, has a default or is generated", NameStr(column->attname)));
    });
    visit_checks(table, [&](const char *constraint) {
        report_no_insert(table, name, psprintf("constraint \"%s\" would not be checked", constraint));
    });
}

void require_checked(Relation table, const table_shape &shape, std::string_view name)
{
    if (!shape.has_foreign_keys || !AfterTriggerPendingOnRel(shape.table))
        return;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("lock \"%.*s\" cannot be changed: SQL of this transaction has changed table %s, whose foreign "
                    "keys have not been checked yet",
                    SV(name), RelationGetRelationName(table)),
             errhint("Commit that first.")));
}

void report_conflict(Relation table, Relation index, std::string_view name)
{
    report_no_insert(table, name, psprintf("index \"%s\" has such a row already", RelationGetRelationName(index)));
}

} // namespace shedlock
