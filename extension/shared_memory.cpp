#include "shared_memory.hpp"

#include "queue.hpp"
#include "stats.hpp"

namespace shedlock::shared_memory {

namespace {

bool is_attached = false;

Size size()
{
    return stats::size() + queue::size();
}

void use(void *memory)
{
    stats::use(memory);
    queue::use(static_cast<char *>(memory) + stats::size());
    is_attached = true;
}

void initialize(void *memory)
{
    const int tranche = pg::new_tranche();
    stats::initialize(memory, tranche);
    queue::initialize(static_cast<char *>(memory) + stats::size(), tranche);
}

void at_server_start(void *memory, bool is_new)
{
    use(memory);
    if (!is_new)
        return;
    initialize(memory);
    stats::keep_over_restarts();
}

} // namespace

void prepare()
{
    pg::request_shared_memory(size, at_server_start);
}

void attach()
{
    static bool tried = false; // an attempt that failed is not repeated at every call
    if (is_attached || tried)
        return;
    tried = true;
    const char *const name = psprintf("shedlock.%u.%zu.%zu", layout_version, stats::size(), queue::size());
    if (void *const memory = pg::attach_shared_memory(name, size(), initialize))
        use(memory);
}

} // namespace shedlock::shared_memory
