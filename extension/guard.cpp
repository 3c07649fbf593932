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

    bool is(Oid other_table, const lock_name &other_name, const row &current) const
    {
        return table == other_table && name.bytes == other_name.bytes && token == current.times.locked_at &&
               locked_by == current.locked_by;
    }
};

// Of the current transaction, in TopTransactionContext; sorted by name, so that those who guard several locks look at
// them in the order in which others extend them.
guarded_lock *first = nullptr;

// Guarding asks who acquired last, not whether the lease still runs.
bool is_ours(const row &current, const claim &who)
{
    return who.token ? current.times.locked_at == *who.token && is_of_ours(current)
                     : current.locked_by.ends_with(who.suffix);
}

[[noreturn]] void fail(const lock_name &name, const char *detail, bool was_ours = true)
{
    if (was_ours)
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

void fail_if_changing_hands(const lock_table &table, const sighting &seen)
{
    const auto what = table.look_ahead(seen);
    if (what == lock_table::changes::acquisition)
        fail(seen.name, "Another transaction is acquiring it.");
    if (what == lock_table::changes::deletion)
        fail(seen.name, "Another transaction is deleting its row.");
}

void check(const lock_table &table, const guarded_lock &guarded)
{
    for (;;) {
        auto seen = table.look(guarded.name);
        PAUSE_POINT("guard looked again");
        if (seen.is_new())
            fail(guarded.name, "Its row has been deleted.");
        if (!guarded.is(table.shape().table, guarded.name, {seen.times, table.locked_by(seen)}))
            fail(guarded.name, "It has been acquired by another since.");

        // An extend or a release is waited for. How an acquire ends, which there can be once the lease is over, could
        // take as long as the other's transaction.
        if (seen.state == sighting::states::undecided && seen.times.lock_until <= pg::clock_now())
            fail_if_changing_hands(table, seen);

        // Our own uncommitted extend or release keeps the others away as a lock would.
        if (lock_table::is_own(seen)) {
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

void check_all()
{
    for (const auto *guarded = first; guarded; guarded = guarded->next) {
        lock_table table = lock_table::open_table(guarded->table);
        check(table, *guarded);
        table.close(true);
    }
}

void at_event(XactEvent event, void *)
{
    switch (event) {
    case XACT_EVENT_PRE_COMMIT:
    case XACT_EVENT_PRE_PREPARE:
        PAUSE_POINT("commit");
        check_all();
        break;
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_ABORT:
    case XACT_EVENT_PREPARE:
        first = nullptr; // the memory goes with the transaction
        break;
    default:
        break;
    }
}

// Callbacks run in the opposite order of their registration, and others do in theirs what cannot be taken back:
// postgres_fdw, which registers when it first connects, commits on the other server. So ours is registered anew with
// every guard. (The new one first: memory may run out. From a callback nobody can call us; xact.c rules that out.)
void be_first_at_commit()
{
    static uintptr_t registrations = 0;
    RegisterXactCallback(at_event, reinterpret_cast<void *>(registrations + 1));
    UnregisterXactCallback(at_event, reinterpret_cast<void *>(registrations));
    registrations++;
}

// Where a guard of that name is or belongs.
guarded_lock **place_of(const lock_name &name)
{
    guarded_lock **place = &first;
    while (*place && (*place)->name.bytes < name.bytes)
        place = &(*place)->next;
    return place;
}

} // namespace

void add(const lock_table &table, const lock_name &name, const claim &who)
{
    auto seen = table.look(name);
    PAUSE_POINT("guard looked");
    if (seen.is_new()) {
        require_storable(name, table.shape().name_limit);
        fail(name, "Nobody ever acquired it, or its row has been deleted.", false);
    }
    const row current{seen.times, table.locked_by(seen)};
    if (who.token && seen.times.locked_at < *who.token)
        fail(name, "No acquisition has had this token.", false);
    if (!is_ours(current, who))
        fail(name, psprintf("Its latest acquisition is by \"%.*s\".", SV(holder_of(current))));

    // The same guard once more says nothing new: the level of the one that is there is still open, so it lasts as long.
    guarded_lock **const place = place_of(name);
    for (const auto *known = *place; known && known->name.bytes == name.bytes; known = known->next)
        if (known->is(table.shape().table, name, current)) {
            table.forget(seen);
            return;
        }
    const MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    be_first_at_commit();
    auto *const added = static_cast<guarded_lock *>(palloc(sizeof(guarded_lock)));
    *added = {
        *place,    GetCurrentSubTransactionId(), table.shape().table, current.times.locked_at, copy(current.locked_by),
        copy(name)};
    *place = added;
    MemoryContextSwitchTo(caller);
    table.forget(seen);
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
