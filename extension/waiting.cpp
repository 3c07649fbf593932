#include "waiting.hpp"

#include "holder.hpp"
#include "lock_table.hpp"
#include "stats.hpp"
#include "whereabouts.hpp"

namespace shedlock {

namespace {

using namespace std::chrono_literals;

constexpr duration longest_nap_alone = 50ms; // where nobody will wake us
constexpr duration longest_sleep = 1h;       // WaitLatch counts milliseconds in int

// A lock that one of several waiters waits for.
struct wanted {
    lock_name name;
    int32 which;
    size_t place;
    bool is_known;
    bool is_free; // when last looked at
    naps pauses;
    duration due; // to be looked at again
};

void look_at(const lock_table &table, wanted &one, duration elapsed)
{
    queue::note_look(one.place);
    auto seen = table.glance(one.name);
    outlook next{one.place};
    one.is_free = seen.state == sighting::states::absent;
    if (seen.state == sighting::states::settled) {
        const auto now = pg::clock_now();
        const auto times = table.lease_of(seen, now);
        one.is_free = availability_of(times, now) != availability::held;
        next = {one.place, times.lock_until, origin_of(table.row_of(seen)).is_ours};
    }
    table.forget(seen);
    one.is_known = true;
    one.due = elapsed + one.pauses.next(next);
}

duration next_due(std::span<const wanted> all)
{
    return std::min_element(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.due < b.due; })->due;
}

// When one is due, those that soon will be are looked at as well: one who waits for many locks need not get up for
// each.
void look_where_due(Oid function, std::span<wanted> all, duration elapsed)
{
    const auto until = next_due(all) <= elapsed ? elapsed + queue::longest_nap / 4 : elapsed;
    lock_table table = lock_table::open(function);
    for (auto &one : all) {
        const bool woken = queue::was_woken(one.place);
        if (woken)
            one.pauses.start_anew();
        if (woken || (one.due <= until && !(one.is_known && queue::is_looked_after(one.place))))
            look_at(table, one, elapsed);
        else if (one.due <= until)
            one.due = elapsed + queue::longest_nap;
    }
    table.close(false);
}

// `use` is told of the locks of each waiter, and whether all of them are free.
template <typename Use> void for_each_waiter(std::span<wanted> all, Use use)
{
    for (size_t begin = 0, end; begin < all.size(); begin = end) {
        bool is_free = true;
        for (end = begin; end < all.size() && all[end].which == all[begin].which; end++)
            is_free = is_free && all[end].is_free;
        use(all.subspan(begin, end - begin), is_free);
    }
}

// The waiters all of whose locks are free. What another one was woken for is passed on to the next in the queue.
size_t collect(std::span<wanted> all, Datum *found)
{
    size_t count = 0;
    for_each_waiter(all, [&](std::span<wanted> locks, bool is_free) {
        if (is_free)
            found[count++] = Int32GetDatum(locks.front().which);
        for (const auto &one : locks)
            if (is_free)
                queue::satisfy(one.place);
            else if (one.is_free)
                queue::pass_on(one.place);
    });
    return count;
}

std::span<wanted> make_wanted(const wait_request &request)
{
    const size_t count = request.names.size();
    auto *const all = static_cast<wanted *>(palloc(sizeof(wanted) * count));
    for (size_t i = 0; i < count; i++)
        all[i] = {request.names[i], request.which[i], i, false, false, {}, duration::zero()};
    std::sort(all, all + count, [](const wanted &a, const wanted &b) { return a.which < b.which; });
    return {all, count};
}

} // namespace

duration naps::next(const outlook &what)
{
    const double spread = 0.5 + 0.5 * pg_prng_double(&pg_global_prng_state);
    if (const size_t ahead = queue::count_ahead(what.place))
        return std::chrono::duration_cast<duration>(queue::longest_nap * std::min(ahead, most_ahead) * spread);

    const auto longest = queue::is_standing() && what.will_wake ? queue::longest_nap : longest_nap_alone;
    const auto nap = std::chrono::duration_cast<duration>(std::min(next_, longest) * spread);
    next_ = std::min(2 * next_, queue::longest_nap);
    const auto now = pg::clock_now();
    return what.lease_ends > now ? std::min(nap, duration{what.lease_ends - now}) : nap;
}

// A nap that is already over is negative: its end was computed before a look that took longer. To WaitLatch a negative
// timeout means no timeout.
void sleep(duration nap)
{
    const auto limited = std::clamp(nap, duration::zero(), longest_sleep);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limited).count();
    (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, static_cast<long>(milliseconds),
                     PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

std::span<queue::key> keys_of(Oid table, lock_names names, size_t more)
{
    auto *const keys = static_cast<queue::key *>(palloc(sizeof(queue::key) * (names.size() + more)));
    std::transform(names.begin(), names.end(), keys, [&](const lock_name &name) { return queue::key_of(table, name); });
    return {keys, names.size() + more};
}

ArrayType *wait_for_any(Oid function, const wait_request &request)
{
    const stopwatch watch;
    const auto all = make_wanted(request);
    const size_t room = all.size();
    const auto keys = keys_of(find_table(function), request.names, 1);
    keys[room] = queue::key_of_room(request.room);
    const MemoryContext caller = CurrentMemoryContext;
    const MemoryContext scratch = AllocSetContextCreate(caller, "shedlock wait", ALLOCSET_DEFAULT_SIZES);
    auto *const found = static_cast<Datum *>(palloc(sizeof(Datum) * all.size()));
    std::optional<size_t> count;

    queue::while_standing(keys, [&] {
        while (queue::is_standing()) {
            MemoryContextReset(scratch);
            MemoryContextSwitchTo(scratch);
            look_where_due(function, all, watch.elapsed());
            MemoryContextSwitchTo(caller);
            count = collect(all, found);
            const auto elapsed = watch.elapsed();
            if (*count > 0 || queue::was_woken(room) || elapsed >= request.wait)
                return;
            sleep(std::min(request.wait, next_due(all)) - elapsed);
        }
    });
    if (!count)
        return nullptr;
    const auto waited = watch.elapsed();
    for (const auto &one : all)
        stats::record_wait(one.name, waited);
    return construct_array(found, static_cast<int>(*count), INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

} // namespace shedlock
