#include "inspection.hpp"

#include "attachments.hpp"

namespace shedlock {

namespace {

// For columns without a length limit.
constexpr int usual_limit = 255;

void check_kind(Relation table)
{
    if (table->rd_rel->relkind != RELKIND_RELATION)
        report_unusable(table, "it is not an ordinary table", "Rename or drop it, and create the extension again.");
    if (table->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
        report_unusable(table, "it is temporary", "A lock must be seen by all sessions: create an ordinary table.");
    if (table->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
        ereport(WARNING, (errmsg("lock table \"%s\" is UNLOGGED: a server crash loses every lock",
                                 RelationGetRelationName(table)),
                          errhint("ALTER TABLE %s SET LOGGED.", RelationGetRelationName(table))));
    if (table->rd_rel->relispartition || table->rd_rel->relhassubclass || has_superclass(RelationGetRelid(table)) ||
        OidIsValid(table->rd_rel->reloftype))
        report_unusable(
            table, "it is a partition or a typed table, or takes part in inheritance",
            "Detach it: a lock's row must be in exactly one table, with columns of its own. If its child tables "
            "have been dropped, ANALYZE it: until then the catalog says that it has some.");
    if (table->rd_rel->relam != HEAP_TABLE_AM_OID)
        report_unusable(table, "its access method is not heap", "ALTER TABLE ... SET ACCESS METHOD heap.");
}

// The resolution of timestamp(p).
duration unit_of(int32 typmod)
{
    duration unit{1};
    for (int p = typmod < 0 ? MAX_TIMESTAMP_PRECISION : typmod; p < MAX_TIMESTAMP_PRECISION; p++)
        unit *= 10;
    return unit;
}

Form_pg_attribute require_column(Relation table, const char *column)
{
    const Form_pg_attribute attribute = find_column(table, column);
    if (!attribute)
        report_unusable(table, psprintf("it has no column \"%s\"", column),
                        "Its columns are name, lock_until, locked_at, locked_by, lock_at_least_until, last_tick, "
                        "last_done_tick, last_done_at and run_tick; see docs/operations.md.");
    if (attribute->attgenerated)
        report_unusable(table, psprintf("column \"%s\" is generated", column), "Make it an ordinary column.");
    return attribute;
}

void require_not_null(Relation table, Form_pg_attribute column)
{
    if (!pg::is_never_null(RelationGetDescr(table), column->attnum))
        report_unusable(table, psprintf("column \"%s\" may be NULL", NameStr(column->attname)),
                        psprintf("ALTER TABLE ... ALTER COLUMN %s SET NOT NULL.", NameStr(column->attname)));
}

Form_pg_attribute require_text(Relation table, const char *name)
{
    const Form_pg_attribute column = require_column(table, name);
    if (column->atttypid != VARCHAROID && column->atttypid != TEXTOID)
        report_unusable(table, psprintf("column \"%s\" is %s", name, format_type_be(column->atttypid)),
                        "It must be varchar or text.");
    require_not_null(table, column);
    return column;
}

int length_limit(Form_pg_attribute column)
{
    return column->atttypmod < static_cast<int32>(VARHDRSZ) ? usual_limit
                                                            : column->atttypmod - static_cast<int32>(VARHDRSZ);
}

void require_timestamp_type(Relation table, Form_pg_attribute column)
{
    if (column->atttypid == TIMESTAMPTZOID)
        report_unusable(
            table, psprintf("column \"%s\" is timestamp with time zone", NameStr(column->attname)),
            psprintf("Java ShedLock writes UTC times without a zone, and this type takes them for times in the "
                     "session's time zone. Set TimeZone to the time zone of the JVMs, and convert the column back: "
                     "SET TimeZone = '...'; ALTER TABLE ... ALTER COLUMN %s TYPE timestamp.",
                     NameStr(column->attname)));
    if (column->atttypid != TIMESTAMPOID)
        report_unusable(table,
                        psprintf("column \"%s\" is %s", NameStr(column->attname), format_type_be(column->atttypid)),
                        "It must be timestamp without time zone, in UTC.");
}

Form_pg_attribute require_time_column(Relation table, const char *name)
{
    const Form_pg_attribute column = require_column(table, name);
    require_timestamp_type(table, column);
    require_not_null(table, column);
    return column;
}

bool is_index_on(Form_pg_index index, AttrNumber column)
{
    return index->indnatts == 1 && index->indkey.values[0] == column;
}

// Whether the index compares its columns as PostgreSQL itself would: an operator class is code that runs with the
// rights of the role that writes the row. A varchar has the operator class of text.
bool is_compared_as_usual(Relation index)
{
    for (int i = 0; i < index->rd_index->indnkeyatts; i++) {
        const Oid usual = GetDefaultOpClass(index->rd_opcintype[i], BTREE_AM_OID);
        const Oid collation = index->rd_indcollation[i];
        if (!OidIsValid(usual) || !is_built_in(CLAOID, Anum_pg_opclass_opcnamespace, usual) ||
            get_opclass_family(usual) != index->rd_opfamily[i] ||
            (OidIsValid(collation) && !is_built_in(COLLOID, Anum_pg_collation_collnamespace, collation)))
            return false;
    }
    return true;
}

// Looks at the catalog's row, because RelationGetIndexExpressions would evaluate constant parts of the expressions.
bool has_expressions(Relation index)
{
    return !heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, nullptr) ||
           !heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr);
}

void check_index(Relation table, Relation index, const table_shape &shape)
{
    const Form_pg_index form = index->rd_index;
    const auto refuse = [&](const char *what, const char *remedy = "Drop the index.") {
        report_unusable(table, psprintf("index \"%s\" %s", RelationGetRelationName(index), what), remedy);
    };
    if (has_expressions(index))
        refuse("has an expression or a predicate");
    if (index->rd_rel->relam != BTREE_AM_OID)
        refuse("is not a btree");
    const bool is_on_name = is_index_on(form, shape.name);
    const auto *const keys = form->indkey.values;
    const auto is_of_lock = [&](AttrNumber column) { return is_ours(shape, column); };
    if (form->indisexclusion ||
        (form->indisunique && !is_on_name && std::any_of(keys, keys + form->indnkeyatts, is_of_lock)))
        refuse("is unique, but not on (name) alone", "Drop the index: it could refuse rows that the lock needs.");
    if (form->indisunique && is_on_name && !get_collation_isdeterministic(index->rd_indcollation[0]))
        report_unusable(table, "the collation of its names is nondeterministic",
                        "Names are compared byte by byte: ALTER TABLE ... ALTER COLUMN name TYPE ... COLLATE \"C\".");
    if (!is_compared_as_usual(index))
        refuse("has an operator class that is not the default, or a collation that did not come with PostgreSQL",
               "Drop the index, or create it again without them.");
}

// Returns the index that makes names unique, if there is one. Invalid indexes are allowed, because REINDEX CONCURRENTLY
// creates them; while it runs there are two unique indexes.
Oid check_indexes(Relation table, const table_shape &shape)
{
    Oid chosen = InvalidOid;
    List *const indexes = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, indexes) {
        const Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        const Form_pg_index form = index->rd_index;
        check_index(table, index, shape);
        if (form->indisunique && is_index_on(form, shape.name) && form->indisvalid && form->indisready &&
            form->indimmediate)
            chosen = RelationGetRelid(index);
        index_close(index, AccessShareLock);
    }
    return chosen;
}

// Like CheckCmdReplicaIdentity before an UPDATE and a DELETE (shedlock_forget): if subscribers cannot tell rows apart,
// their subscription breaks.
void check_publications(Relation table)
{
    PublicationDesc published;
    RelationBuildPublicationDesc(table, &published);
    if (!published.rf_valid_for_update || !published.cols_valid_for_update || !published.rf_valid_for_delete ||
        !published.cols_valid_for_delete || !pg::publishes_generated_columns(published))
        report_unusable(table,
                        "a publication filters it by columns outside its replica identity, or leaves out columns of "
                        "the replica identity",
                        "ALTER PUBLICATION ... SET TABLE without WHERE and without a list of columns. With generated "
                        "columns also ALTER TABLE ... REPLICA IDENTITY DEFAULT.");
    if ((published.pubactions.pubupdate || published.pubactions.pubdelete) &&
        table->rd_rel->relreplident != REPLICA_IDENTITY_FULL && !OidIsValid(RelationGetReplicaIndex(table)))
        report_unusable(table, "it is published, but has no replica identity",
                        "ALTER TABLE ... ADD PRIMARY KEY (name), or set REPLICA IDENTITY.");
}

// One of our nullable columns. Null if it is missing and about to be added.
Form_pg_attribute find_own(Relation table, purposes purpose, const char *name)
{
    if (purpose == purposes::adoption && !find_column(table, name))
        return nullptr;
    const Form_pg_attribute column = require_column(table, name);
    require_timestamp_type(table, column);
    if (column->attnotnull)
        report_unusable(table, psprintf("column \"%s\" is NOT NULL", name),
                        psprintf("It is NULL at times: ALTER TABLE ... ALTER COLUMN %s DROP NOT NULL.", name));
    return column;
}

AttrNumber number_of(Form_pg_attribute column)
{
    return column ? column->attnum : InvalidAttrNumber;
}

// One of the columns about runs. They need microsecond precision, because rounding would turn one tick into another.
AttrNumber find_run_column(Relation table, purposes purpose, const char *name)
{
    const Form_pg_attribute column = find_own(table, purpose, name);
    if (column && unit_of(column->atttypmod) > duration{1})
        report_unusable(
            table, psprintf("column \"%s\" is %s", name, format_type_with_typemod(column->atttypid, column->atttypmod)),
            psprintf("It needs microsecond precision: ALTER TABLE ... ALTER COLUMN %s TYPE timestamp.", name));
    if (column && column->atthasdef)
        report_unusable(table, psprintf("column \"%s\" has a default", name),
                        psprintf("It must be NULL in a new row: ALTER TABLE ... ALTER COLUMN %s DROP DEFAULT.", name));
    return number_of(column);
}

table_shape read_columns(Relation table, purposes purpose)
{
    const Form_pg_attribute name = require_text(table, "name");
    const Form_pg_attribute locked_by = require_text(table, "locked_by");
    const Form_pg_attribute lock_until = require_time_column(table, "lock_until");
    const Form_pg_attribute locked_at = require_time_column(table, "locked_at");
    const Form_pg_attribute at_least = find_own(table, purpose, "lock_at_least_until");
    if (length_limit(locked_by) < shortest_locked_by)
        report_unusable(table, psprintf("column \"locked_by\" holds only %d characters", length_limit(locked_by)),
                        "ALTER TABLE ... ALTER COLUMN locked_by TYPE varchar(255).");

    table_shape shape{};
    shape.table = RelationGetRelid(table);
    shape.name = name->attnum;
    shape.lock_until = lock_until->attnum;
    shape.locked_at = locked_at->attnum;
    shape.locked_by = locked_by->attnum;
    shape.lock_at_least_until = number_of(at_least);
    shape.last_tick = find_run_column(table, purpose, "last_tick");
    shape.last_done_tick = find_run_column(table, purpose, "last_done_tick");
    shape.last_done_at = find_run_column(table, purpose, "last_done_at");
    shape.run_tick = find_run_column(table, purpose, "run_tick");
    shape.name_limit = length_limit(name);
    shape.locked_by_limit = length_limit(locked_by);
    shape.unit = std::max(
        {unit_of(lock_until->atttypmod), unit_of(locked_at->atttypmod), unit_of(at_least ? at_least->atttypmod : -1)});
    return shape;
}

} // namespace

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

bool is_plain(Relation index)
{
    return !has_expressions(index) && index->rd_rel->relam == BTREE_AM_OID && !index->rd_index->indisexclusion &&
           !index->rd_index->indisunique && is_compared_as_usual(index);
}

table_shape inspect(Relation table, purposes purpose)
{
    check_kind(table);
    auto shape = read_columns(table, purpose);
    check_attachments(table, shape);
    if (purpose == purposes::use)
        check_publications(table);
    shape.index = check_indexes(table, shape);
    if (!OidIsValid(shape.index) && purpose == purposes::use)
        report_unusable(table, "it has no unique index on (name)", "ALTER TABLE ... ADD PRIMARY KEY (name).");
    return shape;
}

} // namespace shedlock
