#include "forget.hpp"

#include "history_table.hpp"

namespace shedlock {

namespace {

void warn_of_java(const lock_name &name, const char *holder)
{
    ereport(NOTICE, (errmsg("lock \"%.*s\" was last acquired by \"%s\", not by shedlock", SV(name.bytes), holder),
                     errhint("A JVM remembers that the row exists, and never inserts it again. If it still has a job "
                             "with this name, restart the JVM.")));
}

void require_unreferenced(const lock_table &table, const lock_name &name)
{
    if (table.shape().is_referenced)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("cannot forget lock \"%.*s\": foreign keys of other tables refer to the lock table",
                        SV(name.bytes)),
                 errhint("DELETE the row as the owner of the table, while the lock is free. That checks them.")));
}

} // namespace

// Looks again if the row has changed since the look. Gives up if a transaction in progress has changed or locked it, or
// the history.
bool forget(lock_table &table, const lock_name &name)
{
    require_unreferenced(table, name);
    auto history = history_table::open_nowait(table);
    if (!history)
        return false;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        auto seen = table.look(name);
        table.require_storable(seen);
        PAUSE_POINT("looked");
        const instant now = pg::clock_now();
        if (seen.state != seen_row::states::settled || seen.is_referenced ||
            !is_past(table.lease_of(seen, now), seen.stored.past, now, table.shape().unit)) {
            table.unpin(seen);
            history->close(false);
            return false;
        }
        const auto run = history->run_in(table, seen);
        const bool is_java = table.row_of(seen).from.is_java();
        const auto holder = table.locked_by(seen);
        const char *const who = pnstrdup(holder.data(), holder.size());
        if (table.remove(seen)) {
            history->add(run, endings::ran_out, now);
            history->close(true);
            if (is_java)
                warn_of_java(name, who);
            return true;
        }
    }
}

} // namespace shedlock
