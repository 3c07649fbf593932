#include "guard.hpp"

#include "holder.hpp"
#include "lost.hpp"
#include "stats.hpp"

namespace shedlock::guard {

namespace {

struct guarded_lock {
    guarded_lock *next;
    SubTransactionId level; // vanishes when this subtransaction is rolled back
    Oid table;
    instant token;
    std::string_view locked_by; // a Java client can get the same locked_at, where the column's precision is coarse
    lock_name name;
};

// Of the current transaction, in TopTransactionContext; sorted by name, so that those who guard several locks look at
// them in the order in which others extend them.
guarded_lock *first = nullptr;

bool is_ours(const lock_table &table, const sighting &seen, const claim &who)
{
    if (seen.state == sighting::states::absent)
        return false;
    // Guarding asks who acquired last, not whether the lease still runs.
    const auto locked_by = table.locked_by(seen);
    return who.token ? seen.times.locked_at == *who.token && is_of_ours(locked_by) : locked_by.ends_with(who.suffix);
}

[[noreturn]] void fail(const lock_name &name, const char *detail)
{
    stats::record(name, stats::counter::lost);
    ereport(ERROR,
            (errcode(ERRCODE_LOCK_LOST), errmsg("lock \"%.*s\" is lost", SV(name.bytes)), errdetail("%s", detail),
             errhint("The guarded transaction is rolled back, since another run may be under way.")));
    pg_unreachable();
}

lock_name copy(const lock_name &name)
{
    text *const datum = pg::text_of(name.bytes);
    return {datum, pg::view_of(datum)};
}

std::string_view copy(std::string_view text)
{
    return {pnstrdup(text.data(), text.size()), text.size()};
}

void check(const lock_table &table, const guarded_lock &guarded)
{
    for (;;) {
        auto seen = table.look(guarded.name);
        if (seen.state == sighting::states::absent)
            fail(guarded.name, "Its row has been deleted.");
        if (seen.times.locked_at != guarded.token || table.locked_by(seen) != guarded.locked_by)
            fail(guarded.name, "It has been acquired by another since.");

        // While the lease runs nobody can acquire, so an undecided row is being extended or released: microseconds.
        // After that it is being acquired. Waiting for how that ends could last as long as the other's transaction.
        if (seen.state == sighting::states::undecided && seen.times.lock_until <= pg::clock_now())
            fail(guarded.name, "Another transaction is acquiring it.");

        // Our own uncommitted extend or release keeps the others away as a lock would.
        if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(seen.tuple.t_data))) {
            table.forget(seen);
            return;
        }
        // Locked by another guard of this acquisition is no obstacle; locked FOR UPDATE by hand is.
        if (seen.state != sighting::states::undecided && table.share_lock(seen))
            return;
        if (TransactionIdIsValid(seen.other))
            table.wait_for_other(seen);
        CHECK_FOR_INTERRUPTS();
    }
}

} // namespace

void add(const lock_table &table, const lock_name &name, const claim &who)
{
    auto seen = table.look(name);
    if (!is_ours(table, seen, who)) {
        if (seen.state == sighting::states::absent)
            fail(name, "Nobody ever acquired it, or its row has been deleted.");
        fail(name, psprintf("Its latest acquisition is by \"%.*s\".", SV(holder_of(table.locked_by(seen)))));
    }
    const MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    auto *const added = static_cast<guarded_lock *>(palloc(sizeof(guarded_lock)));
    const auto locked_by = copy(table.locked_by(seen));
    *added = {nullptr, GetCurrentSubTransactionId(), table.shape().table, seen.times.locked_at, locked_by, copy(name)};
    MemoryContextSwitchTo(caller);
    table.forget(seen);

    guarded_lock **place = &first;
    while (*place && (*place)->name.bytes < name.bytes)
        place = &(*place)->next;
    added->next = *place;
    *place = added;
}

void at_pre_commit()
{
    for (const guarded_lock *guarded = first; guarded; guarded = guarded->next) {
        lock_table table = lock_table::open_table(guarded->table);
        check(table, *guarded);
        table.close(true);
    }
}

void at_end()
{
    first = nullptr; // the memory went with the transaction
}

void at_subtransaction_end(SubTransactionId ended, SubTransactionId parent, bool committed)
{
    guarded_lock **place = &first;
    while (guarded_lock *const guarded = *place) {
        if (guarded->level == ended && !committed) {
            *place = guarded->next;
            continue;
        }
        if (guarded->level == ended)
            guarded->level = parent;
        place = &guarded->next;
    }
}

} // namespace shedlock::guard
