#include "protection.hpp"

#include "lock_table.hpp"
#include "table_finder.hpp"

namespace shedlock {

namespace {

Oid find_trigger_function(Oid function)
{
    const Oid found =
        GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(protection_function),
                        PointerGetDatum(buildoidvector(nullptr, 0)), ObjectIdGetDatum(get_func_namespace(function)));
    if (!OidIsValid(found) ||
        getExtensionOfObject(ProcedureRelationId, found) != getExtensionOfObject(ProcedureRelationId, function))
        report_dropped();
    return found;
}

Oid find_trigger(const TriggerDesc *triggers, Oid function)
{
    for (int i = 0; triggers && i < triggers->numtriggers; i++)
        if (triggers->triggers[i].tgfoid == function && strcmp(triggers->triggers[i].tgname, protection_trigger) == 0)
            return triggers->triggers[i].tgoid;
    return InvalidOid;
}

void create_trigger(Oid table, Oid function)
{
    auto *const statement = makeNode(CreateTrigStmt);
    statement->trigname = pstrdup(protection_trigger);
    statement->row = true;
    statement->timing = TRIGGER_TYPE_BEFORE;
    statement->events = TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE;
    const ObjectAddress made = CreateTrigger(statement, nullptr, table, InvalidOid, InvalidOid, InvalidOid, function,
                                             InvalidOid, nullptr, false, false);
    // Otherwise the trigger would keep the extension from being dropped.
    const ObjectAddress extension = {ExtensionRelationId, getExtensionOfObject(ProcedureRelationId, function), 0};
    recordDependencyOn(&made, &extension, DEPENDENCY_AUTO_EXTENSION);
}

} // namespace

void protect(Oid function, bool on)
{
    lock_table locks = lock_table::open(function, on ? ShareRowExclusiveLock : AccessExclusiveLock);
    const Oid trigger_function = find_trigger_function(function);
    const Oid trigger = find_trigger(locks.triggers(), trigger_function);
    const Oid table = locks.shape().table;
    locks.close(true); // a trigger cannot be dropped while its table is open
    if (on && !OidIsValid(trigger))
        create_trigger(table, trigger_function);
    if (!on && OidIsValid(trigger)) {
        const ObjectAddress dropped = {TriggerRelationId, trigger, 0};
        performDeletion(&dropped, DROP_RESTRICT, 0);
    }
}

} // namespace shedlock
