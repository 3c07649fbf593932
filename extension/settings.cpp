#include "settings.hpp"

namespace shedlock::settings {

namespace {

int default_at_most_ms = 0;
bool release_asynchronously = true;
int most_tracked = 1000;
char *tick_of_run = nullptr;

} // namespace

void define()
{
    DefineCustomIntVariable("shedlock.default_at_most",
                            "How long a lock may last when at_most is NULL. 0: at_most must be given.", nullptr,
                            &default_at_most_ms, 0, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("shedlock.async_release",
                             "The commit of a transaction that did nothing but release does not wait for the disk.",
                             "A crash can then undo the release, and the lock lasts until its lease ends. The "
                             "commit always waits if a tick was released as done, or a lock by force.",
                             &release_asynchronously, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    // Any role may set it, because nothing depends on it. PGC_INTERNAL would not reach parallel workers.
    DefineCustomStringVariable("shedlock.tick", "The tick of the shedlock_run whose command this session executes.",
                               "Empty when there is none.", &tick_of_run, "", PGC_USERSET,
                               GUC_NO_RESET_ALL | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, nullptr, nullptr, nullptr);
    // The memory is allocated once, so a running server cannot change it.
    if (process_shared_preload_libraries_in_progress)
        DefineCustomIntVariable("shedlock.max_tracked", "For how many lock names there are counters in shedlock_stats.",
                                "Beyond that, names not used lately are dropped.", &most_tracked, 1000, 20, 1000000,
                                PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    MarkGUCPrefixReserved("shedlock");
}

std::optional<duration> default_at_most()
{
    if (default_at_most_ms == 0)
        return std::nullopt;
    return std::chrono::milliseconds{default_at_most_ms};
}

uint32 max_tracked()
{
    return static_cast<uint32>(most_tracked);
}

const char *tick()
{
    return tick_of_run;
}

void set_tick(const char *text)
{
    SetConfigOption("shedlock.tick", text, PGC_USERSET, PGC_S_SESSION);
}

bool async_release()
{
    return release_asynchronously;
}

} // namespace shedlock::settings
