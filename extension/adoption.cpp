#include "adoption.hpp"

#include "inspection.hpp"
#include "table_finder.hpp"

namespace shedlock {

namespace {

// COLLATE "C": names are compared byte by byte, so a new libc that sorts differently cannot corrupt the index.
//
// vacuum_truncate: truncating empty pages takes an ACCESS EXCLUSIVE lock, for which every acquire would wait.
//
// fillfactor: leaves space for a row's next version on its own page, so that nearly every update is HOT, writes less
// WAL, and dead versions are pruned before autovacuum comes, whose default settings suffice.
//
// The table is not a member of the extension: DROP EXTENSION would also drop the rows of Java clients. It belongs to
// the role that creates the extension, although in a trusted installation the script runs as a superuser.
constexpr const char *definition =
    "CREATE TABLE %1$s ("
    " name varchar(255) COLLATE pg_catalog.\"C\" PRIMARY KEY,"
    " lock_until timestamp NOT NULL,"
    " locked_at timestamp NOT NULL,"
    " locked_by varchar(255) NOT NULL,"
    " lock_at_least_until timestamp,"
    " last_tick timestamp,"
    " last_done_tick timestamp,"
    " last_done_at timestamp,"
    " run_tick timestamp"
    ") WITH (fillfactor = 90, vacuum_truncate = false);"
    "COMMENT ON TABLE %1$s IS 'One row per lock; also used by Java ShedLock. All times are UTC.';"
    "COMMENT ON COLUMN %1$s.name IS 'The lock.';"
    "COMMENT ON COLUMN %1$s.lock_until IS 'Held while this is later than now.';"
    "COMMENT ON COLUMN %1$s.locked_at IS 'The identity of the acquisition; in microseconds since 1970 it is the "
    "token.';"
    "COMMENT ON COLUMN %1$s.locked_by IS 'The holder, then the owner of the acquisition: #token; "
    "/pid.start.server:token for a session, with ! or & instead of : if the lease ends with the session; *token for a "
    "pause or a release by force.';"
    "COMMENT ON COLUMN %1$s.lock_at_least_until IS 'The lock is kept until then, even if it is released earlier. Once "
    "released: NULL if the work was done, -infinity if not.';"
    "COMMENT ON COLUMN %1$s.last_tick IS 'The tick of the last run that had one.';"
    "COMMENT ON COLUMN %1$s.last_done_tick IS 'All ticks up to this one are done.';"
    "COMMENT ON COLUMN %1$s.last_done_at IS 'When the last run that was done was released.';"
    "COMMENT ON COLUMN %1$s.run_tick IS 'What last_done_tick becomes if the current run is done: its tick or, without "
    "one, when it was acquired.';"
    "ALTER EXTENSION shedlock DROP TABLE %1$s;"
    "ALTER TABLE %1$s OWNER TO %2$s";

void execute(const char *sql)
{
    SPI_connect();
    if (SPI_execute(sql, false, 0) < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not execute: %s", sql)));
    SPI_finish();
    CommandCounterIncrement();
}

// In a trusted installation the script runs as a superuser, which may act as any owner. The role that creates the
// extension may not.
void require_rights_of_owner(Relation table, Oid installer)
{
    const Oid owner = table->rd_rel->relowner;
    if (!has_privs_of_role(installer, owner))
        ereport(ERROR,
                (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                 errmsg("cannot adopt table \"%s\": it belongs to role \"%s\", whose rights role \"%s\" does not have",
                        RelationGetRelationName(table), GetUserNameFromId(owner, false),
                        GetUserNameFromId(installer, false)),
                 errhint("Whoever owns the table could do as they like with the locks. Have a member of that "
                         "role create the extension, or use another schema.")));
}

// `found`: the numbers of the columns, in the order of own_columns; invalid if missing. One statement adds them all.
void add_missing_columns(const char *table, std::initializer_list<AttrNumber> found)
{
    const char *additions = "";
    const char *const *column = own_columns;
    for (const AttrNumber number : found) {
        if (!AttributeNumberIsValid(number))
            additions = psprintf("%s%s ADD COLUMN %s timestamp", additions, *additions ? "," : "", *column);
        column++;
    }
    if (*additions)
        execute(psprintf("ALTER TABLE %s%s", table, additions));
}

// Waits for transactions that use the table. Meanwhile another one may have got its name, which is what the statements
// of the script mean.
void adopt(Oid table_id, Oid schema, const char *name)
{
    const Relation table = relation_open(table_id, AccessExclusiveLock);
    if (get_relname_relid("shedlock", schema) != table_id)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table %s was renamed or replaced while the extension waited for it", name)));
    require_rights_of_owner(table, owner_of_extension(CurrentExtensionObject));
    const auto shape = inspect(table, purposes::adoption);
    const char *const owner = GetUserNameFromId(table->rd_rel->relowner, false);
    relation_close(table, NoLock);

    // CREATE EXTENSION silences notices while its script runs. This one must be seen.
    const int level = client_min_messages;
    client_min_messages = std::min(level, NOTICE);
    ereport(NOTICE, (errmsg("adopting the existing table %s, owned by role \"%s\"", name, owner)));
    client_min_messages = level;
    if (!OidIsValid(shape.index))
        ereport(WARNING,
                (errmsg("table %s has no unique index on (name) yet", name),
                 errhint("Until it has one, every acquire fails. ALTER TABLE %s ADD PRIMARY KEY (name), unless "
                         "a dump that is being restored is about to do so.",
                         name)));
    if (shape.has_triggers)
        ereport(WARNING, (errmsg("table %s has triggers, which do not fire when shedlock changes a lock", name),
                          errhint("They fire for the SQL of other clients. Drop them, unless that is meant. For a "
                                  "history of runs call shedlock_keep_history().")));
    add_missing_columns(
        name, {shape.lock_at_least_until, shape.last_tick, shape.last_done_tick, shape.last_done_at, shape.run_tick});
}

// With this dependency DROP TABLE is refused while the extension exists, and pg_dump restores the table before it
// creates the extension, which then adopts it.
void record_dependency(Oid extension, Oid table)
{
    const ObjectAddress dependent = {ExtensionRelationId, extension, 0};
    const ObjectAddress needed = {RelationRelationId, table, 0};
    recordDependencyOn(&dependent, &needed, DEPENDENCY_NORMAL);
}

} // namespace

void make_or_adopt_table(Oid schema)
{
    if (!creating_extension)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("this function runs only inside CREATE EXTENSION")));
    const char *const name = quote_qualified_identifier(get_namespace_name(schema), "shedlock");
    const Oid existing = get_relname_relid("shedlock", schema);
    if (OidIsValid(existing))
        adopt(existing, schema, name);
    else
        execute(psprintf(definition, name,
                         quote_identifier(GetUserNameFromId(owner_of_extension(CurrentExtensionObject), false))));
    record_dependency(CurrentExtensionObject, get_relname_relid("shedlock", schema));
}

void record_dependency_again(Oid table)
{
    const Oid extension = get_extension_oid("shedlock", false);
    LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
    if (get_extension_oid("shedlock", true) != extension)
        report_dropped(); // while this session waited
    deleteDependencyRecordsForSpecific(ExtensionRelationId, extension, DEPENDENCY_NORMAL, RelationRelationId, table);
    record_dependency(extension, table);
}

} // namespace shedlock
