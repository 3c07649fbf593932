#include "counter_table.hpp"

#include "settings.hpp"

namespace shedlock::stats {

namespace {

// Followed in memory by the slots, a hash table with linear probing (0: empty, otherwise an entry's number plus one),
// and by the entries. It is one flat piece of memory, so that it is the same in a named segment and in the memory that
// the server starts with.
struct shared_state {
    LWLock lock;            // shared for counting, exclusive for adding, evicting and resetting
    pg_atomic_uint64 clock; // advances with every use
    uint32 capacity;
    uint32 used;
    uint32 slot_count;
    uint32 hand; // where the next eviction begins
};

shared_state *state = nullptr;

uint32 slots_for(uint32 capacity)
{
    return pg_nextpower2_32(capacity) * 2;
}

uint32 *slots()
{
    return reinterpret_cast<uint32 *>(reinterpret_cast<char *>(state) + MAXALIGN(sizeof(shared_state)));
}

entry *entries()
{
    return reinterpret_cast<entry *>(reinterpret_cast<char *>(slots()) + MAXALIGN(sizeof(uint32) * state->slot_count));
}

void put_into_slot(uint32 number)
{
    const uint32 mask = state->slot_count - 1;
    uint32 slot = static_cast<uint32>(entries()[number].hash) & mask;
    while (slots()[slot] != 0)
        slot = (slot + 1) & mask;
    slots()[slot] = number + 1;
}

entry *find(uint64 hash, std::string_view name)
{
    const uint32 mask = state->slot_count - 1;
    for (uint32 slot = static_cast<uint32>(hash) & mask; slots()[slot] != 0; slot = (slot + 1) & mask) {
        entry &candidate = entries()[slots()[slot] - 1];
        if (candidate.hash == hash && candidate.database == MyDatabaseId &&
            std::string_view{candidate.name, candidate.length} == name)
            return &candidate;
    }
    return nullptr;
}

// Empties the slot of this entry, and moves back the entries behind it that find() would no longer reach, because it
// stops at an empty slot.
void empty_slot_of(uint32 number)
{
    const uint32 mask = state->slot_count - 1;
    uint32 gap = static_cast<uint32>(entries()[number].hash) & mask;
    while (slots()[gap] != number + 1)
        gap = (gap + 1) & mask;
    for (uint32 next = (gap + 1) & mask; slots()[next] != 0; next = (next + 1) & mask) {
        const uint32 home = static_cast<uint32>(entries()[slots()[next] - 1].hash) & mask;
        if (((next - home) & mask) < ((next - gap) & mask))
            continue;
        slots()[gap] = slots()[next];
        gap = next;
    }
    slots()[gap] = 0;
}

// Makes space for one entry by evicting, of the next few, the least recently used. To find the oldest of all, every
// entry would have to be visited under a lock that every session needs, and each visit is a cache miss. The oldest of
// a few is good enough: usually most of the names that are kept were used later than the evicted one.
uint32 evict()
{
    constexpr uint32 few = 5; // shedlock.max_tracked is at least 20
    uint32 oldest = state->hand;
    for (uint32 i = 1; i < few; i++) {
        const uint32 candidate = (state->hand + i) % state->capacity;
        if (pg_atomic_read_u64(&entries()[candidate].last_used) < pg_atomic_read_u64(&entries()[oldest].last_used))
            oldest = candidate;
    }
    state->hand = (state->hand + few) % state->capacity;
    empty_slot_of(oldest);
    return oldest;
}

entry *add(uint64 hash, std::string_view name)
{
    const uint32 number = state->used < state->capacity ? state->used++ : evict();
    entry &added = entries()[number];
    added.hash = hash;
    added.database = MyDatabaseId;
    added.length = static_cast<uint32>(name.size());
    memcpy(added.name, name.data(), name.size());
    pg_atomic_init_u64(&added.last_used, 0);
    for (auto &one : added.counters)
        pg_atomic_init_u64(&one, 0);
    for (auto *one : {&added.waited, &added.longest_hold, &added.total_hold})
        pg_atomic_init_u64(one, 0);
    put_into_slot(number);
    return &added;
}

// Across a clean restart the counters are kept in a file, like those of pg_stat_statements. If the file is not exactly
// as expected (another PostgreSQL version or another layout, for example), the counters start from zero.
constexpr const char *file_name = "pg_stat/shedlock.stat";

struct file_header {
    uint32 version;
    uint32 entry_size;
    uint32 used;
};

// The file's version is made of two: the server's major version, and the version of the shared memory's layout.
uint32 file_version(uint32 layout_version)
{
    return pg::major_version * 100 + layout_version;
}

void save(int code, Datum layout_version)
{
    if (code != 0 || !state)
        return;
    FILE *const file = AllocateFile(file_name, PG_BINARY_W);
    if (!file) {
        ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", file_name)));
        return;
    }
    const file_header header{file_version(DatumGetUInt32(layout_version)), sizeof(entry), state->used};
    const bool written = fwrite(&header, sizeof header, 1, file) == 1 &&
                         fwrite(entries(), sizeof(entry), state->used, file) == state->used;
    if (FreeFile(file) != 0 || !written) {
        ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", file_name)));
        unlink(file_name);
    }
}

void load(uint32 layout_version)
{
    FILE *const file = AllocateFile(file_name, PG_BINARY_R);
    if (!file)
        return;
    file_header header{};
    if (fread(&header, sizeof header, 1, file) == 1 && header.version == file_version(layout_version) &&
        header.entry_size == sizeof(entry) && header.used <= state->capacity &&
        fread(entries(), sizeof(entry), header.used, file) == header.used) {
        uint64 latest = 0;
        for (uint32 i = 0; i < header.used; i++) {
            put_into_slot(i);
            latest = std::max(latest, pg_atomic_read_u64(&entries()[i].last_used));
        }
        state->used = header.used;
        pg_atomic_write_u64(&state->clock, latest + 1);
    }
    FreeFile(file);
    unlink(file_name); // if the server crashes, the next start must not find old counters
}

} // namespace

Size size()
{
    const uint32 capacity = settings::max_tracked();
    return MAXALIGN(sizeof(shared_state)) + MAXALIGN(sizeof(uint32) * slots_for(capacity)) +
           MAXALIGN(sizeof(entry) * capacity);
}

void initialize(void *memory, int tranche)
{
    auto *const made = static_cast<shared_state *>(memory);
    LWLockInitialize(&made->lock, tranche);
    pg_atomic_init_u64(&made->clock, 0);
    made->capacity = settings::max_tracked();
    made->used = 0;
    made->hand = 0;
    made->slot_count = slots_for(made->capacity);
    memset(static_cast<char *>(memory) + MAXALIGN(sizeof(shared_state)), 0, sizeof(uint32) * made->slot_count);
}

void use(void *memory)
{
    state = static_cast<shared_state *>(memory);
}

void keep_over_restarts(uint32 layout_version)
{
    if (!IsUnderPostmaster)
        on_shmem_exit(save, UInt32GetDatum(layout_version));
    load(layout_version);
}

bool are_available()
{
    return state != nullptr;
}

entry *lock_entry(const lock_name &name)
{
    if (!state || name.bytes.size() > longest_name)
        return nullptr;
    const uint64 hash = hash_combine64(name.hash, MyDatabaseId);
    LWLockAcquire(&state->lock, LW_SHARED);
    entry *found = find(hash, name.bytes);
    if (!found) {
        LWLockRelease(&state->lock);
        LWLockAcquire(&state->lock, LW_EXCLUSIVE);
        found = find(hash, name.bytes);
        if (!found)
            found = add(hash, name.bytes);
    }
    pg_atomic_write_u64(&found->last_used, pg_atomic_fetch_add_u64(&state->clock, 1));
    return found;
}

std::span<entry> lock_entries()
{
    LWLockAcquire(&state->lock, LW_SHARED);
    return {entries(), state->used};
}

void unlock()
{
    LWLockRelease(&state->lock);
}

void remove_entries_of_database()
{
    LWLockAcquire(&state->lock, LW_EXCLUSIVE);
    uint32 kept = 0;
    for (uint32 i = 0; i < state->used; i++) {
        if (entries()[i].database == MyDatabaseId)
            continue;
        if (kept != i)
            memcpy(&entries()[kept], &entries()[i], sizeof(entry));
        kept++;
    }
    state->used = kept;
    memset(slots(), 0, sizeof(uint32) * state->slot_count);
    for (uint32 i = 0; i < kept; i++)
        put_into_slot(i);
    LWLockRelease(&state->lock);
}

} // namespace shedlock::stats
