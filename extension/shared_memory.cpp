#include "shared_memory.hpp"

#include "counter_table.hpp"
#include "queue.hpp"

namespace shedlock::shared_memory {

namespace {

bool is_settled = false; // attached, or attaching has failed: a session tries only once
shmem_request_hook_type next_request;
shmem_startup_hook_type next_startup;

Size size()
{
    return stats::size() + queue::size();
}

void use(void *memory)
{
    stats::use(memory);
    queue::use(static_cast<char *>(memory) + stats::size());
    is_settled = true;
}

void initialize(void *memory)
{
    const int tranche = pg::new_tranche();
    stats::initialize(memory, tranche);
    queue::initialize(static_cast<char *>(memory) + stats::size(), tranche);
}

void request()
{
    if (next_request)
        next_request();
    RequestAddinShmemSpace(size());
}

void start()
{
    if (next_startup)
        next_startup();
    bool found;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    void *const memory = ShmemInitStruct("shedlock", size(), &found);
    use(memory);
    if (!found) {
        initialize(memory);
        stats::keep_over_restarts(layout_version);
    }
    LWLockRelease(AddinShmemInitLock);
}

} // namespace

void prepare()
{
    if (!process_shared_preload_libraries_in_progress)
        return;
    next_request = shmem_request_hook;
    shmem_request_hook = request;
    next_startup = shmem_startup_hook;
    shmem_startup_hook = start;
}

void attach()
{
    if (is_settled || !pg::has_named_memory)
        return;
    is_settled = true;
    const char *const name = psprintf("shedlock.%u.%zu.%zu", layout_version, stats::size(), queue::size());
    const auto find_or_make = [&] {
        use(pg::named_memory(name, size(), initialize));
        return true;
    };
    if (const ErrorData *const error = pg::in_subtransaction(find_or_make))
        ereport(LOG, (errcode(error->sqlerrcode), errmsg("this session does without shared memory \"%s\"", name),
                      errdetail_internal("%s", error->message)));
}

} // namespace shedlock::shared_memory
