#include "keeping.hpp"

#include "history_table.hpp"
#include "lock_table.hpp"

namespace shedlock {

namespace {

// COLLATE "C", as for the names of the lock table.
TupleDesc make_columns()
{
    const TupleDesc columns = CreateTemplateTupleDesc(history_shape::column_count);
    for (AttrNumber number = 1; const auto &column : history_shape::types) {
        TupleDescInitEntry(columns, number, column.name, column.type, -1, 0);
        if (column.type == TEXTOID)
            TupleDescInitEntryCollation(columns, number, C_COLLATION_OID);
        number++;
    }
    pg::finalize(columns);
    return columns;
}

AlterTableCmd *command(AlterTableType kind, void *what)
{
    auto *const made = makeNode(AlterTableCmd);
    made->subtype = kind;
    made->def = static_cast<Node *>(what);
    return made;
}

IndexElem *index_column(const char *name)
{
    auto *const made = makeNode(IndexElem);
    made->name = pstrdup(name);
    return made;
}

// CREATE INDEX ON ... (name, ended_at); and REPLICA IDENTITY FULL, so that rows can be deleted although a publication
// has the table; and vacuum_truncate = false, as for the lock table.
List *finishing_touches()
{
    auto *const index = makeNode(IndexStmt);
    index->accessMethod = pstrdup("btree");
    index->indexParams = list_make2(index_column("name"), index_column("ended_at"));
    index->transformed = true;
    auto *const identity = makeNode(ReplicaIdentityStmt);
    identity->identity_type = REPLICA_IDENTITY_FULL;
    auto *const option =
        makeDefElem(pstrdup("vacuum_truncate"), reinterpret_cast<Node *>(makeString(pstrdup("false"))), -1);
    return list_make3(command(AT_AddIndex, index), command(AT_ReplicaIdentity, identity),
                      command(AT_SetRelOptions, list_make1(option)));
}

// Event triggers are not told. If this call is part of a DDL command (CREATE TABLE AS SELECT shedlock_keep_history()),
// the server would otherwise look for the record of an ALTER TABLE that has not begun, and crash.
void alter_silently(Oid table, List *commands)
{
    EventTriggerInhibitCommandCollection();
    PG_TRY();
    {
        AlterTableInternal(table, commands, false);
    }
    PG_FINALLY();
    {
        EventTriggerUndoInhibitCommandCollection();
    }
    PG_END_TRY();
}

// Not by CREATE TABLE, which would look up the schema by its name, run event triggers (one that switches on row
// security, for example) and give the rights of default privileges.
Oid make_history(const lock_table &locks)
{
    const Oid schema = get_rel_namespace(locks.shape().table);
    LockDatabaseObject(NamespaceRelationId, schema, 0, AccessShareLock); // a DROP SCHEMA would overlook the new table
    const Oid made = heap_create_with_catalog(history_shape::usual_name, schema, InvalidOid, InvalidOid, InvalidOid,
                                              InvalidOid, locks.owner(), HEAP_TABLE_AM_OID, make_columns(), NIL,
                                              RELKIND_RELATION, RELPERSISTENCE_PERMANENT, false, false, ONCOMMIT_NOOP,
                                              Datum{0}, /* use_user_acl */ false, false, false, InvalidOid, nullptr);
    CommandCounterIncrement();
    NewRelationCreateToastTable(made, Datum{0});
    CommandCounterIncrement();
    alter_silently(made, finishing_touches());
    CommandCounterIncrement();
    return made;
}

// GRANT knows the table by its name only. If that meant another one by now, ours has not changed, and all is undone.
void set_kept(Oid history, Oid owner, bool on)
{
    const char *const table =
        quote_qualified_identifier(get_namespace_name(get_rel_namespace(history)), get_rel_name(history));
    SPI_connect();
    const int result = SPI_execute(psprintf(on ? "GRANT INSERT ON TABLE %s TO %s" : "REVOKE INSERT ON TABLE %s FROM %s",
                                            table, quote_identifier(GetUserNameFromId(owner, false))),
                                   false, 0);
    SPI_finish();
    CommandCounterIncrement();
    if (result < 0 || history_table::is_kept(history) != on)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table %s was replaced meanwhile", table), errhint("Try again.")));
}

void tell_if_published(Oid table)
{
    const Relation history = relation_open(table, AccessShareLock);
    PublicationDesc published;
    RelationBuildPublicationDesc(history, &published);
    if (published.pubactions.pubinsert)
        ereport(NOTICE, (errmsg("a publication includes table %s", RelationGetRelationName(history)),
                         errhint("Create the table on the subscribers, too: their subscription fails without it.")));
    relation_close(history, AccessShareLock);
}

} // namespace

void keep_history(Oid function, bool on)
{
    // One at a time. Not locked any stronger yet, because somebody may be creating a table of that name, or have locked
    // ours.
    lock_table locks = lock_table::open(function, ShareUpdateExclusiveLock);
    Oid table = history_table::find(locks.shape().table);
    const bool is_new = !OidIsValid(table);
    if (is_new && !on)
        return locks.close(true);
    if (is_new)
        table = make_history(locks);
    auto history = history_table::open_any(table, locks, RowExclusiveLock);
    if (is_new || history_table::is_kept(table) != on) {
        // Waits for transactions that may know since before that no history is kept.
        LockRelationOid(locks.shape().table, ShareRowExclusiveLock);
        if (!is_new)
            set_kept(table, locks.owner(), on);
        history.add_marker(on, pg::clock_now());
    }
    if (is_new)
        tell_if_published(table);
    history.close(true);
    locks.close(true);
}

void put_history(Oid function, const history_request &request, ReturnSetInfo *result)
{
    lock_table locks = lock_table::open(function);
    const Oid table = history_table::find(locks.shape().table);
    if (!OidIsValid(table))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("there is no history of runs"),
                        errhint("An administrator can call shedlock_keep_history().")));
    auto history = history_table::open_any(table, locks, AccessShareLock);
    pg::with_snapshot_after_lock([&] { history.put_rows(request, result); });
    history.close(true);
    locks.close(false);
}

} // namespace shedlock
