#include "forget.hpp"

#include "holder.hpp"

namespace shedlock {

namespace {

void warn_of_java(const lock_name &name, const char *holder)
{
    ereport(NOTICE, (errmsg("lock \"%.*s\" was last acquired by \"%s\", not by shedlock", SV(name.bytes), holder),
                     errhint("A JVM remembers that the row exists, and never inserts it again. If it still has a job "
                             "with this name, restart the JVM.")));
}

} // namespace

// Looks again if the row has changed since the look. Gives up if a transaction in progress has changed or locked it.
bool forget(lock_table &table, const lock_name &name)
{
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        auto seen = table.look(name);
        if (seen.state == sighting::states::absent)
            require_storable(name, table.shape().name_limit);
        PAUSE_POINT("looked");
        const instant now = pg::clock_now();
        if (seen.state != sighting::states::settled ||
            !is_past(table.lease_of(seen, now), seen.stored.past, now, table.shape().unit)) {
            table.unpin(seen);
            return false;
        }
        const bool is_java = table.row_of(seen).from.is_java();
        const auto holder = table.locked_by(seen);
        const char *const who = pnstrdup(holder.data(), holder.size());
        if (table.remove(seen)) {
            if (is_java)
                warn_of_java(name, who);
            return true;
        }
    }
}

} // namespace shedlock
