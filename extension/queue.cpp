#include "queue.hpp"

namespace shedlock::queue {

namespace {

// There is one place for every session that can exist, and these for sessions that wait for several locks at once. Such
// a session takes at most one place for each name that an array may have, and one more in shedlock_wait_any. So there
// is room for about eight sessions with the longest arrays.
constexpr uint32 places_for_several = 8192;

// A bucket is walked under the one LWLock of all queues, so the walk must be short. When all places are taken, a bucket
// has about eight on average, and one more for each thousand sessions that the server allows, whatever the names are,
// because the hash is salted. A bucket has more if many sessions wait for the same lock.
constexpr uint32 bucket_count = 1024;

// If the last look of the first in a queue is longer ago than this, it may be suspended, and the others look instead.
constexpr duration lately = poll_interval * 3 / 2;

constexpr uint32 none = 0; // places are counted from 1

struct waiter {
    key what;
    Latch *latch;
    duration looked; // when it last looked, by pg::steady_now
    uint32 next;     // the next place in its bucket, or among the vacant places
    uint32 previous;
    bool is_woken; // and has not noticed yet
    bool is_satisfied;
};

struct bucket {
    uint32 first;
    uint32 last;
};

// The places follow it in memory.
struct shared_state {
    // For everything but the salt. Without the lock a session only reads bucket.first and its own waiter.is_woken, and
    // writes its own waiter.looked. Held at most while the buckets of one session's keys are walked.
    LWLock lock;
    uint64 salt; // for the keys, so that no user can choose names that share a bucket
    uint32 vacant;
    uint32 vacant_count;
    bucket buckets[bucket_count];
};

shared_state *state = nullptr;

// One of this session's places in the queues.
struct ticket {
    uint32 place;
    bool was_woken; // what was_woken() last returned
};
ticket *mine = nullptr;
size_t mine_count = 0;

// A lock whose first waiter is woken when this transaction ends.
struct wakeup {
    key what;
    ends when;
};
constexpr size_t few = 32;
wakeup few_to_wake[few];
wakeup *to_wake = few_to_wake;
size_t to_wake_room = few;
size_t to_wake_count = 0;

uint32 capacity()
{
    return static_cast<uint32>(MaxBackends) + places_for_several;
}

waiter &at(uint32 place)
{
    return reinterpret_cast<waiter *>(reinterpret_cast<char *>(state) + MAXALIGN(sizeof(shared_state)))[place - 1];
}

bucket &bucket_of(key what)
{
    return state->buckets[what % bucket_count];
}

uint32 find_sleeper(uint32 from, key what)
{
    while (from != none && (at(from).what != what || at(from).is_woken))
        from = at(from).next;
    return from;
}

bool wake_from(uint32 place, key what)
{
    const uint32 found = find_sleeper(place, what);
    if (found == none)
        return false;
    at(found).is_woken = true;
    SetLatch(at(found).latch);
    return true;
}

uint32 first_of(key what)
{
    uint32 place = bucket_of(what).first;
    while (place != none && at(place).what != what)
        place = at(place).next;
    return place;
}

// A session that takes several places leaves one vacant for every session that can exist. So a session that waits for
// one lock always finds a place, because each session takes at most one of these.
bool has_room_for(size_t count)
{
    return count + (count > 1 ? MaxBackends : 0) <= state->vacant_count;
}

uint64 make_salt()
{
    uint64 salt;
    return pg_strong_random(&salt, sizeof salt) ? salt : pg_prng_uint64(&pg_global_prng_state);
}

uint64 salted(uint64 seed)
{
    return state ? seed ^ state->salt : seed;
}

uint32 take_place(key what)
{
    const uint32 place = state->vacant;
    waiter &me = at(place);
    bucket &queue = bucket_of(what);
    state->vacant = me.next;
    state->vacant_count--;
    me = {what, MyLatch, pg::steady_now(), none, queue.last, false, false};
    (queue.last == none ? queue.first : at(queue.last).next) = place;
    queue.last = place;
    return place;
}

void leave_place(uint32 place)
{
    waiter &me = at(place);
    bucket &queue = bucket_of(me.what);
    if (!me.is_satisfied && (me.is_woken || first_of(me.what) == place))
        wake_from(me.next, me.what);
    (me.previous == none ? queue.first : at(me.previous).next) = me.next;
    (me.next == none ? queue.last : at(me.next).previous) = me.previous;
    me.next = state->vacant;
    state->vacant = place;
    state->vacant_count++;
}

} // namespace

Size size()
{
    return MAXALIGN(sizeof(shared_state)) + MAXALIGN(sizeof(waiter) * capacity());
}

void initialize(void *memory, int tranche)
{
    auto *const made = static_cast<shared_state *>(memory);
    auto *const places = reinterpret_cast<waiter *>(static_cast<char *>(memory) + MAXALIGN(sizeof(shared_state)));
    LWLockInitialize(&made->lock, tranche);
    made->salt = make_salt();
    std::fill_n(made->buckets, bucket_count, bucket{none, none});
    made->vacant = 1;
    made->vacant_count = capacity();
    for (uint32 place = 1; place <= capacity(); place++)
        places[place - 1].next = place < capacity() ? place + 1 : none;
}

void use(void *memory)
{
    state = static_cast<shared_state *>(memory);
}

key key_of(Oid table, const lock_name &name)
{
    return pg::hash_of(name.bytes, salted(static_cast<uint64>(MyDatabaseId) << 32 | table));
}

// The seed is that of a table with OID 0. There is no such table, so this is not the key of any lock.
key key_of_wait(int64 wait_id)
{
    return pg::hash_of({reinterpret_cast<const char *>(&wait_id), sizeof wait_id},
                       salted(static_cast<uint64>(MyDatabaseId) << 32));
}

void wake_at(ends which, Oid table, const lock_name &name)
{
    if (!state)
        return;
    if (to_wake_count == to_wake_room) {
        auto *const more =
            static_cast<wakeup *>(MemoryContextAlloc(TopTransactionContext, 2 * to_wake_room * sizeof(wakeup)));
        std::copy_n(to_wake, to_wake_count, more);
        to_wake = more;
        to_wake_room *= 2;
    }
    to_wake[to_wake_count++] = {key_of(table, name), which};
}

// A session that waits joins the queue before it looks, and we look into the queue after the end of our transaction
// has become visible. So either the waiter sees the change, or we see the waiter.
void at_end(ends which)
{
    if (to_wake_count == 0)
        return;
    pg_memory_barrier();
    for (size_t i = 0; i < to_wake_count; i++)
        if (to_wake[i].when == ends::any || which == ends::abort)
            wake(to_wake[i].what);
    to_wake = few_to_wake;
    to_wake_room = few;
    to_wake_count = 0;
}

bool wake(key what)
{
    // Most locks have no waiters. A session that is joining an empty bucket now will look afterwards, and see the
    // change.
    if (!state || *const_cast<volatile uint32 *>(&bucket_of(what).first) == none)
        return false;
    LWLockAcquire(&state->lock, LW_EXCLUSIVE);
    const bool found = wake_from(bucket_of(what).first, what);
    LWLockRelease(&state->lock);
    return found;
}

void enter(std::span<const key> what)
{
    mine_count = 0;
    if (!state)
        return;
    mine = static_cast<ticket *>(palloc(sizeof(ticket) * what.size()));
    LWLockAcquire(&state->lock, LW_EXCLUSIVE);
    if (has_room_for(what.size()))
        for (const key one : what)
            mine[mine_count++] = {take_place(one), false};
    LWLockRelease(&state->lock);
}

void leave()
{
    if (mine_count == 0)
        return;
    LWLockAcquire(&state->lock, LW_EXCLUSIVE);
    while (mine_count > 0)
        leave_place(mine[--mine_count].place);
    LWLockRelease(&state->lock);
}

bool is_queued()
{
    return mine_count > 0;
}

bool was_woken(size_t i)
{
    if (i >= mine_count)
        return false;
    mine[i].was_woken = *const_cast<volatile bool *>(&at(mine[i].place).is_woken);
    if (mine[i].was_woken) {
        LWLockAcquire(&state->lock, LW_EXCLUSIVE);
        at(mine[i].place).is_woken = false;
        LWLockRelease(&state->lock);
    }
    return mine[i].was_woken;
}

size_t count_ahead(size_t i)
{
    size_t count = 0;
    if (i >= mine_count)
        return count;
    LWLockAcquire(&state->lock, LW_SHARED);
    const waiter &me = at(mine[i].place);
    for (uint32 place = me.previous; place != none; place = at(place).previous)
        count += at(place).what == me.what;
    LWLockRelease(&state->lock);
    return count;
}

void note_look(size_t i)
{
    if (i < mine_count)
        at(mine[i].place).looked = pg::steady_now();
}

bool is_looked_after(size_t i)
{
    if (i >= mine_count)
        return false;
    LWLockAcquire(&state->lock, LW_SHARED);
    const uint32 first = first_of(at(mine[i].place).what);
    const bool is = first != mine[i].place && pg::steady_now() - at(first).looked < lately;
    LWLockRelease(&state->lock);
    return is;
}

void pass_on(size_t i)
{
    if (i >= mine_count || !mine[i].was_woken)
        return;
    const waiter &me = at(mine[i].place);
    LWLockAcquire(&state->lock, LW_EXCLUSIVE);
    wake_from(me.next, me.what);
    LWLockRelease(&state->lock);
}

void satisfy(size_t i)
{
    if (i >= mine_count)
        return;
    LWLockAcquire(&state->lock, LW_EXCLUSIVE);
    at(mine[i].place).is_satisfied = true;
    LWLockRelease(&state->lock);
}

} // namespace shedlock::queue
