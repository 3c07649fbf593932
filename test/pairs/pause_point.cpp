// A part of the extension that test/pairs/check builds. The setting pairs.pause_at, "RUN:VISIT", says where to stop: at
// the VISIT-th point since that RUN was first seen. With VISIT 0 the session does not stop, but reports every point.
//
// A stopped session waits for an advisory lock that the driver holds, rather than for a latch or a buffer lock, because
// that wait can be seen and cancelled, and blocks no other session.
#include "pg.hpp"

extern "C" {
#include "tcop/tcopprot.h"
}

namespace shedlock {

void pause_point(const char *name)
{
    static char run[32];
    static int visits;
    const char *const pause_at = GetConfigOption("pairs.pause_at", true, false);
    const char *const visit = pause_at ? strchr(pause_at, ':') : nullptr;
    if (!visit || strncmp(debug_query_string, "SET", 3) == 0) // the commit of the SET itself does not count
        return;
    if (strcmp(run, pause_at) != 0) {
        strlcpy(run, pause_at, sizeof run);
        visits = 0;
    }
    visits++;
    const int wanted = atoi(visit + 1);
    if (wanted == 0 || wanted == visits)
        ereport(NOTICE, (errmsg_internal("pause point: %s", name))); // sent at once: the driver waits for it
    if (wanted != visits)
        return;
    LOCKTAG gate;
    SET_LOCKTAG_ADVISORY(gate, MyDatabaseId, 0, 1, 2); // pg_advisory_lock(0, 1)
    (void) LockAcquire(&gate, ShareLock, false, false);
    LockRelease(&gate, ShareLock, false);
}

} // namespace shedlock
