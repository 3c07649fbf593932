#include "history_shape.hpp"

#include "inspection.hpp"

namespace shedlock {

const char *const foreign_owner = "it does not belong to the owner of the lock table";

namespace {

const char *find_columns(Relation history, history_shape &shape)
{
    for (int i = 0; i < history_shape::column_count; i++) {
        const auto &wanted = history_shape::types[i];
        const Form_pg_attribute column = find_column(history, wanted.name);
        if (!column || column->atttypid != wanted.type || column->atttypmod != -1)
            return psprintf("it has no column \"%s\" of type %s", wanted.name, format_type_be(wanted.type));
        shape.numbers[i] = column->attnum;
    }
    return nullptr;
}

// We write NULL into columns that are not ours, and at times into those that are.
const char *find_unwritable_column(Relation history)
{
    const TupleDesc columns = RelationGetDescr(history);
    for (int i = 0; i < columns->natts; i++)
        if (const Form_pg_attribute column = TupleDescAttr(columns, i);
            !column->attisdropped &&
            (column->attgenerated || column->attnotnull || get_typtype(column->atttypid) == TYPTYPE_DOMAIN))
            return psprintf("column \"%s\" is NOT NULL, generated or of a domain", NameStr(column->attname));
    return nullptr;
}

bool is_for_reading(Relation index, const history_shape &shape)
{
    const auto *const form = index->rd_index;
    return form->indisvalid && form->indnkeyatts >= 2 && index->rd_indoption[0] == 0 && index->rd_indoption[1] == 0 &&
           form->indkey.values[0] == shape.numbers[history_shape::name] &&
           form->indkey.values[1] == shape.numbers[history_shape::ended_at];
}

const char *find_index(Relation history, history_shape &shape)
{
    shape.index = InvalidOid;
    List *const indexes = RelationGetIndexList(history);
    ListCell *cell;
    foreach (cell, indexes) {
        const Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        const bool is_fit = is_plain(index);
        const char *const name = pstrdup(RelationGetRelationName(index));
        if (is_for_reading(index, shape))
            shape.index = RelationGetRelid(index);
        index_close(index, AccessShareLock);
        if (!is_fit)
            return psprintf("index \"%s\" is unique, or not a plain btree", name);
    }
    return OidIsValid(shape.index) ? nullptr : "it has no index on (name, ended_at)";
}

} // namespace

const char *find_fault(Relation history, Oid owner, history_shape &shape)
{
    const Form_pg_class form = history->rd_rel;
    if (form->relowner != owner)
        return foreign_owner;
    if (form->relkind != RELKIND_RELATION || form->relpersistence != RELPERSISTENCE_PERMANENT ||
        form->relam != HEAP_TABLE_AM_OID)
        return "it is not an ordinary table";
    if (form->relispartition || form->relhassubclass || has_superclass(RelationGetRelid(history)) ||
        OidIsValid(form->reloftype))
        return "it is a partition or a typed table, or takes part in inheritance";
    const TupleConstr *const constraints = RelationGetDescr(history)->constr;
    if (history->rd_rules || history->trigdesc || (constraints && constraints->num_check > 0))
        return "it has rules, triggers, foreign keys or CHECK constraints, which would not run";
    if (const char *const fault = find_columns(history, shape))
        return fault;
    if (const char *const fault = find_unwritable_column(history))
        return fault;
    return find_index(history, shape);
}

} // namespace shedlock
