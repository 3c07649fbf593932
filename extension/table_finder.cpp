#include "table_finder.hpp"

#include "inspection.hpp"

namespace shedlock {

namespace {

constexpr const char *usual_name = "shedlock";

// What this backend knows about the lock table. The extension exists at most once in a database, so there is one table.
struct remembered_table {
    table_shape shape;
    bool is_valid; // shape is that of the lock table

    // Since the last search began: the table that it found, and whether anything has changed.
    Oid found;
    bool has_changed;

    // The schema of the functions. If the table is elsewhere, Java clients might use another table that is called
    // shedlock in this schema, so check_name looks for one.
    Oid home;
    uint32 hash_of_name; // in the cache of relations by name

    // The table in which Citus keeps the number of this node, if Citus is installed.
    Oid citus_group;

    void forget()
    {
        is_valid = false;
        has_changed = true;
    }

    void begin_search()
    {
        found = InvalidOid;
        has_changed = false;
    }

    // From now on a change of this table counts.
    void begin_inspection(Oid table)
    {
        is_valid = false; // in case the inspection fails
        shape.table = table;
    }

    // Once something has changed, there may be another extension, in another schema and with another table. So a table
    // that a guard looked up before the change must not be remembered. Our lock on the table does not keep functions or
    // other relations from changing during the inspection. If they do, the shape is used this time but not remembered,
    // and the next call looks again. (With debug_discard_caches everything changes all the time.)
    void end_inspection(const table_shape &inspected)
    {
        shape = inspected;
        is_valid = !has_changed && found == inspected.table;
    }
};
remembered_table remembered;

void on_relation_change(Datum, Oid relation)
{
    if (relation == InvalidOid || relation == remembered.shape.table || relation == remembered.citus_group)
        remembered.forget();
}

// CREATE, DROP and ALTER EXTENSION change functions. Afterwards the lock table may be another one, and Citus may have
// been installed.
void on_function_change(Datum, pg::cache_identifier, uint32)
{
    remembered.forget();
}

// A relation of that name has been created or dropped.
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
    CacheRegisterSyscacheCallback(PROCOID, on_function_change, 0);
    CacheRegisterSyscacheCallback(RELNAMENSP, on_name_change, 0);
    watching = true;
}

// ALTER EXTENSION … SET SCHEMA moves the view together with the functions. The table is not a member of the extension,
// so it is not moved, but the view still refers to it. A view of that name that is not a member of our extension was
// planted: it could lead to any table.
Oid look_for_table(Oid function)
{
    const Oid extension = getExtensionOfObject(ProcedureRelationId, function);
    const Oid home = get_func_namespace(function);
    remembered.home = home;
    remembered.hash_of_name = GetSysCacheHashValue2(RELNAMENSP, CStringGetDatum(usual_name), ObjectIdGetDatum(home));
    const Oid view_id = OidIsValid(home) ? get_relname_relid("shedlock_link", home) : InvalidOid;
    const Relation view = OidIsValid(view_id) ? try_relation_open(view_id, AccessShareLock) : nullptr;
    if (view && view->rd_rules && OidIsValid(extension) &&
        getExtensionOfObject(RelationRelationId, view_id) == extension) {
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
                    errmsg("the view shedlock_link, which leads to the lock table, is missing"),
                    errhint("Drop the extension shedlock and create it again.")));
    pg_unreachable();
}

// After ALTER TABLE ... RENAME the functions would follow the table, and Java clients the name, so they would use two
// tables.
void check_name(Relation table)
{
    if (namestrcmp(&table->rd_rel->relname, usual_name) != 0)
        report_unusable(
            table, "it has been renamed, and Java clients use whatever is called shedlock",
            "Rename it back; or DROP EXTENSION shedlock, and create it again for the table that has the name now.");
    const Oid home = remembered.home;
    const Oid namesake = OidIsValid(home) ? get_relname_relid(usual_name, home) : InvalidOid;
    if (OidIsValid(namesake) && namesake != RelationGetRelid(table))
        report_unusable(table,
                        psprintf("%s is another relation of that name",
                                 quote_qualified_identifier(get_namespace_name(home), usual_name)),
                        "Only one can be used. Rename or drop that one; or DROP EXTENSION shedlock, and create it "
                        "again in the schema of that one.");
}

// Whoever owns the extension can make its functions write the table, if only by replacing the view that leads there
// after REASSIGN OWNED. So it must have the rights of the table's owner.
void check_owner(Relation table)
{
    const Oid extension = get_extension_oid("shedlock", true);
    const Oid installer = OidIsValid(extension) ? owner_of_extension(extension) : table->rd_rel->relowner;
    if (!has_privs_of_role(installer, table->rd_rel->relowner))
        report_unusable(
            table,
            psprintf("it belongs to role \"%s\", whose rights the owner of the extension, \"%s\", does not have",
                     GetUserNameFromId(table->rd_rel->relowner, false), GetUserNameFromId(installer, false)),
            "ALTER TABLE ... OWNER TO the owner of the extension, or GRANT it the role.");
}

// The coordinator is number 0. Only superusers can create a table in pg_catalog, so no other role can imitate
// pg_dist_local_group. When the number changes, Citus invalidates that table (by a trigger).
citus_roles find_citus_role()
{
    const Oid groups_id = get_relname_relid("pg_dist_local_group", PG_CATALOG_NAMESPACE);
    remembered.citus_group = groups_id;
    const Relation groups = OidIsValid(groups_id) ? try_table_open(groups_id, AccessShareLock) : nullptr;
    if (!groups)
        return citus_roles::none;
    const SysScanDesc scan = systable_beginscan(groups, InvalidOid, false, nullptr, 0, nullptr);
    const HeapTuple row = systable_getnext(scan); // none during pg_upgrade
    bool is_null;
    const bool is_worker =
        HeapTupleIsValid(row) && DatumGetInt32(heap_getattr(row, 1, RelationGetDescr(groups), &is_null)) != 0;
    systable_endscan(scan);
    table_close(groups, AccessShareLock);
    return is_worker ? citus_roles::worker : citus_roles::coordinator;
}

// Citus's list of tables, in whose first column each of them is.
bool is_distributed(Relation table)
{
    const Oid list_id = get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
    const Relation list = OidIsValid(list_id) ? try_table_open(list_id, AccessShareLock) : nullptr;
    if (!list)
        return false;
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationGetRelid(table)));
    const SysScanDesc scan = systable_beginscan(list, InvalidOid, false, nullptr, 1, &key);
    const bool found = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(list, AccessShareLock);
    return found;
}

} // namespace

Oid owner_of_extension(Oid extension)
{
    // The syscache for extensions is missing in older minor releases.
    const Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
    const SysScanDesc scan = systable_beginscan(extensions, ExtensionOidIndexId, true, nullptr, 1, &key);
    const HeapTuple tuple = systable_getnext(scan);
    const Oid owner =
        HeapTupleIsValid(tuple) ? reinterpret_cast<Form_pg_extension>(GETSTRUCT(tuple))->extowner : InvalidOid;
    systable_endscan(scan);
    table_close(extensions, AccessShareLock);
    if (!OidIsValid(owner))
        report_dropped();
    return owner;
}

void report_dropped()
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the extension shedlock has been dropped"),
                    errhint("Run CREATE EXTENSION shedlock; or, if that has been done since, try again.")));
    pg_unreachable();
}

Oid find_table(Oid function)
{
    watch_for_changes();
    if (remembered.is_valid)
        return remembered.shape.table;
    remembered.begin_search();
    remembered.found = look_for_table(function);
    return remembered.found;
}

void require_not_dropped(Oid function)
{
    if (!remembered.is_valid && !SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(function)))
        report_dropped();
}

table_shape shape_of(Relation table)
{
    if (remembered.is_valid && remembered.shape.table == RelationGetRelid(table))
        return remembered.shape;
    remembered.begin_inspection(RelationGetRelid(table));
    check_name(table);
    check_owner(table);
    auto shape = inspect(table, purposes::use);
    shape.citus = find_citus_role();
    if (shape.citus != citus_roles::none && is_distributed(table))
        report_unusable(table, "it is distributed by Citus, or in its metadata",
                        "SELECT * FROM shedlock_doctor() says what to do.");
    remembered.end_inspection(shape);
    return shape;
}

void report_worker()
{
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("cannot acquire a lock on a Citus worker"),
             errdetail("The lock table of a worker is its own: what is locked here is locked nowhere else."),
             errhint("Connect to the coordinator.")));
    pg_unreachable();
}

} // namespace shedlock
