#include "pg.hpp"

namespace shedlock::pg {

namespace {

memory_size requested_size;
memory_started started_with;
shmem_request_hook_type next_request;
shmem_startup_hook_type next_startup;

void request()
{
    if (next_request)
        next_request();
    RequestAddinShmemSpace(requested_size());
}

void startup()
{
    if (next_startup)
        next_startup();
    bool found;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    void *const memory = ShmemInitStruct("shedlock", requested_size(), &found);
    started_with(memory, !found);
    LWLockRelease(AddinShmemInitLock);
}

} // namespace

void request_shared_memory(memory_size size, memory_started started)
{
    if (!process_shared_preload_libraries_in_progress)
        return;
    requested_size = size;
    started_with = started;
    next_request = shmem_request_hook;
    shmem_request_hook = request;
    next_startup = shmem_startup_hook;
    shmem_startup_hook = startup;
}

} // namespace shedlock::pg
