#include "waiting.hpp"

#include "lock_table.hpp"
#include "stats.hpp"
#include "table_finder.hpp"

namespace shedlock {

namespace {

using namespace std::chrono_literals;

constexpr duration poll_interval_alone = 50ms; // when no session will wake us
constexpr duration longest_sleep = 1h;         // WaitLatch counts milliseconds in an int

// A lock that at least one caller waits for. Its index in waiters::locks is also its index for the functions of
// queue.hpp.
struct wanted {
    lock_name name;
    bool is_known;
    bool is_free;   // at the last look
    bool is_of_use; // it is free, and so are all the other locks of one of its waiters
    backoff delays;
    duration due; // when to look next: the time from the beginning of the wait
};

struct need {
    int32 waiter; // its number
    size_t lock;
};

struct waiters {
    std::span<wanted> locks;
    std::span<need> needs; // grouped by waiter
};

void look_at(const lock_table &table, wanted &one, size_t index, duration elapsed)
{
    queue::note_look(index);
    auto seen = table.glance(one.name);
    retry_hint hint{index};
    one.is_free = seen.state == seen_row::states::absent;
    if (seen.state == seen_row::states::settled) {
        const auto now = pg::clock_now();
        const auto times = table.lease_of(seen, now);
        one.is_free =
            availability_of(times, now) != availability::taken && !table.is_held_until_workers_commit(one.name);
        hint = {index, times.lock_until, !table.row_of(seen).from.is_java()};
    }
    table.unpin(seen);
    one.is_known = true;
    one.due = elapsed + one.delays.next(hint);
}

duration next_due(std::span<const wanted> locks)
{
    return std::min_element(locks.begin(), locks.end(), [](const auto &a, const auto &b) { return a.due < b.due; })
        ->due;
}

// When one lock is due, also looks at those that will be due soon, so that a session that waits for many locks does not
// wake up for each.
void look_where_due(Oid function, std::span<wanted> locks, duration elapsed)
{
    const auto until = next_due(locks) <= elapsed ? elapsed + queue::poll_interval / 4 : elapsed;
    lock_table table = lock_table::open(function);
    for (size_t i = 0; i < locks.size(); i++) {
        auto &one = locks[i];
        const bool woken = queue::was_woken(i);
        if (woken)
            one.delays.restart();
        if (woken || (one.due <= until && !(one.is_known && queue::is_looked_after(i))))
            look_at(table, one, i, elapsed);
        else if (one.due <= until)
            one.due = elapsed + queue::poll_interval;
    }
    table.close(false);
}

// The waiters whose locks are all free. If this session was woken for a lock that it has no use for, it wakes the next
// session in that queue.
size_t collect(const waiters &all, Datum *found)
{
    size_t count = 0;
    for (size_t begin = 0, end; begin < all.needs.size(); begin = end) {
        bool is_free = true;
        for (end = begin; end < all.needs.size() && all.needs[end].waiter == all.needs[begin].waiter; end++)
            is_free = is_free && all.locks[all.needs[end].lock].is_free;
        if (!is_free)
            continue;
        found[count++] = Int32GetDatum(all.needs[begin].waiter);
        for (const auto &one : all.needs.subspan(begin, end - begin))
            all.locks[one.lock].is_of_use = true;
    }
    for (size_t i = 0; i < all.locks.size(); i++)
        if (all.locks[i].is_of_use)
            queue::satisfy(i);
        else if (all.locks[i].is_free)
            queue::pass_on(i);
    return count;
}

// Lists each lock once, however many waiters it has, because a session takes only one place in the queue of a lock.
waiters make_waiters(const wait_request &request)
{
    const auto &names = request.names;
    auto *const locks = static_cast<wanted *>(palloc(sizeof(wanted) * names.size()));
    auto *const needs = static_cast<need *>(palloc(sizeof(need) * names.size()));
    for (size_t i = 0; i < names.size(); i++)
        needs[i] = {request.which[i], i};
    std::sort(needs, needs + names.size(),
              [&](const need &a, const need &b) { return names[a.lock].bytes < names[b.lock].bytes; });
    size_t count = 0;
    for (size_t i = 0; i < names.size(); i++) {
        const auto &name = names[needs[i].lock];
        if (count == 0 || locks[count - 1].name.bytes != name.bytes)
            locks[count++] = {name, false, false, false, {}, duration::zero()};
        needs[i].lock = count - 1;
    }
    std::sort(needs, needs + names.size(), [](const need &a, const need &b) { return a.waiter < b.waiter; });
    return {{locks, count}, {needs, names.size()}};
}

// The keys of the locks, and last the one of shedlock_end_wait.
std::span<queue::key> keys_of(Oid table, std::span<const wanted> locks, int64 wait_id)
{
    auto *const keys = static_cast<queue::key *>(palloc(sizeof(queue::key) * (locks.size() + 1)));
    *std::transform(locks.begin(), locks.end(), keys,
                    [&](const wanted &one) { return queue::key_of(table, one.name); }) = queue::key_of_wait(wait_id);
    return {keys, locks.size() + 1};
}

} // namespace

duration backoff::next(const retry_hint &hint)
{
    const double spread = 0.5 + 0.5 * pg_prng_double(&pg_global_prng_state);
    if (const size_t ahead = queue::count_ahead(hint.index))
        return std::chrono::duration_cast<duration>(queue::poll_interval * std::min(ahead, most_ahead) * spread);

    const auto longest = queue::is_queued() && hint.will_wake ? queue::poll_interval : poll_interval_alone;
    const auto delay = std::chrono::duration_cast<duration>(std::min(next_, longest) * spread);
    next_ = std::min(2 * next_, queue::poll_interval);
    const auto now = pg::clock_now();
    return hint.lease_ends > now ? std::min(delay, duration{*hint.lease_ends - now}) : delay;
}

// The time is negative if its end has already passed, because a look took longer than that. For WaitLatch a negative
// timeout means no timeout.
void sleep(duration time)
{
    const auto limited = std::clamp(time, duration::zero(), longest_sleep);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limited).count();
    (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, static_cast<long>(milliseconds),
                     PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

std::span<queue::key> keys_of(Oid table, lock_names names)
{
    auto *const keys = static_cast<queue::key *>(palloc(sizeof(queue::key) * names.size()));
    std::transform(names.begin(), names.end(), keys, [&](const lock_name &name) { return queue::key_of(table, name); });
    return {keys, names.size()};
}

ArrayType *wait_for_any(Oid function, const wait_request &request)
{
    const stopwatch watch;
    const auto all = make_waiters(request);
    const size_t end_of_wait = all.locks.size(); // its index
    const auto keys = keys_of(find_table(function), all.locks, request.wait_id);
    const MemoryContext caller = CurrentMemoryContext;
    const MemoryContext scratch = AllocSetContextCreate(caller, "shedlock wait", ALLOCSET_DEFAULT_SIZES);
    auto *const found = static_cast<Datum *>(palloc(sizeof(Datum) * all.needs.size()));
    std::optional<size_t> count;

    queue::while_queued(keys, [&] {
        while (queue::is_queued()) {
            MemoryContextReset(scratch);
            MemoryContextSwitchTo(scratch);
            look_where_due(function, all.locks, watch.elapsed());
            MemoryContextSwitchTo(caller);
            count = collect(all, found);
            const auto elapsed = watch.elapsed();
            if (*count > 0 || queue::was_woken(end_of_wait) || elapsed >= request.wait)
                return;
            sleep(std::min(request.wait, next_due(all.locks)) - elapsed);
        }
    });
    if (!count)
        return nullptr;
    const auto waited = watch.elapsed();
    for (const auto &one : all.needs)
        stats::record_wait(all.locks[one.lock].name, waited);
    return construct_array(found, static_cast<int>(*count), INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

} // namespace shedlock
