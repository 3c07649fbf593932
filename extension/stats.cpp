#include "stats.hpp"

namespace shedlock::stats {

namespace {

void raise_to(pg_atomic_uint64 *highest, uint64 value)
{
    uint64 current = pg_atomic_read_u64(highest);
    while (current < value && !pg_atomic_compare_exchange_u64(highest, &current, value))
        ;
}

template <typename Update> void with_entry(const lock_name &name, Update update)
{
    if (entry *const found = lock_entry(name)) {
        update(*found);
        unlock();
    }
}

void add_to(entry &to, counter what)
{
    pg_atomic_fetch_add_u64(&to.counters[static_cast<int>(what)], 1);
}

void require_available()
{
    if (!are_available())
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("shedlock counts nothing, because it has no shared memory"),
                        errhint("Add shedlock to shared_preload_libraries and restart the server.")));
}

} // namespace

void record(const lock_name &name, counter what)
{
    with_entry(name, [&](entry &to) { add_to(to, what); });
}

void record_attempt(const lock_name &name, bool granted, duration waited)
{
    with_entry(name, [&](entry &to) {
        add_to(to, counter::attempts);
        add_to(to, granted ? counter::acquired : counter::refused);
        if (waited > duration::zero())
            pg_atomic_fetch_add_u64(&to.waited, waited.count());
    });
}

void record_wait(const lock_name &name, duration waited)
{
    with_entry(name, [&](entry &to) { pg_atomic_fetch_add_u64(&to.waited, waited.count()); });
}

void record_release(const lock_name &name, duration held, bool done)
{
    // The token may be ahead of the clock.
    const uint64 microseconds = std::max(held, duration::zero()).count();
    with_entry(name, [&](entry &to) {
        add_to(to, counter::released);
        if (!done)
            add_to(to, counter::failed);
        pg_atomic_fetch_add_u64(&to.total_hold, microseconds);
        raise_to(&to.longest_hold, microseconds);
    });
}

void put_rows(FunctionCallInfo fcinfo)
{
    require_available();
    InitMaterializedSRF(fcinfo, 0);
    auto *const result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

    const auto interval = [](const pg_atomic_uint64 &microseconds) {
        auto *const made = static_cast<Interval *>(palloc0(sizeof(Interval)));
        made->time = static_cast<TimeOffset>(pg_atomic_read_u64(const_cast<pg_atomic_uint64 *>(&microseconds)));
        return IntervalPGetDatum(made);
    };
    for (auto &from : lock_entries()) {
        if (from.database != MyDatabaseId)
            continue;
        Datum values[1 + counter_count + 3];
        bool nulls[1 + counter_count + 3] = {};
        values[0] = PointerGetDatum(pg::text_of({from.name, from.length}));
        for (int k = 0; k < counter_count; k++)
            values[1 + k] = Int64GetDatum(static_cast<int64>(pg_atomic_read_u64(&from.counters[k])));
        values[1 + counter_count] = interval(from.waited);
        values[2 + counter_count] = interval(from.longest_hold);
        values[3 + counter_count] = interval(from.total_hold);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    unlock();
}

void reset()
{
    require_available();
    remove_entries_of_database();
}

} // namespace shedlock::stats
