#include "shape.hpp"

namespace shedlock {

bool is_ours(const table_shape &shape, AttrNumber column)
{
    return column <= 0 || column == shape.name || column == shape.lock_until || column == shape.locked_at ||
           column == shape.locked_by || column == shape.lock_at_least_until || column == shape.last_tick ||
           column == shape.last_done_tick || column == shape.last_done_at || column == shape.run_tick;
}

const char *qualified_name(Relation table)
{
    return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)), RelationGetRelationName(table));
}

void report_unusable(Relation table, const char *what, const char *remedy)
{
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("table \"%s\" cannot serve as the lock table: %s", qualified_name(table), what),
                    errhint("%s", remedy)));
    pg_unreachable();
}

bool is_built_in(pg::cache_identifier cache, AttrNumber schema_column, Oid object)
{
    return GetSysCacheOid1(cache, schema_column, ObjectIdGetDatum(object)) == PG_CATALOG_NAMESPACE;
}

void require_value(bool is_null, const char *column)
{
    if (is_null)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("column \"%s\" of the lock table is NULL in a row", column),
                        errhint("The table was probably edited by hand. Set the column, or delete the row.")));
}

} // namespace shedlock
