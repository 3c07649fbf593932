#include "guard.hpp"

#include "change.hpp"
#include "durability.hpp"
#include "queue.hpp"
#include "stats.hpp"

namespace shedlock::guard {

struct guarded_lock {
    guarded_lock *next;
    bool is_to_complete;    // released as done by the commit
    SubTransactionId level; // the guard vanishes when this subtransaction is rolled back
    Oid table;
    lock_name name;
    instant token;
    origin from; // because in a column with few fractional digits a Java client can get the same locked_at

    bool is(const row &current) const { return token == current.times.locked_at && is(current.from); }
    bool is(const origin &other) const { return from.kind == other.kind && from.session == other.session; }
    bool is(const guarded_lock &other) const
    {
        return table == other.table && name.bytes == other.name.bytes && token == other.token && is(other.from);
    }
};

namespace {

// The guards of the current transaction, in TopTransactionContext. They are sorted by name, so that a transaction with
// several guards looks at the rows in the order in which others extend them. A completion comes before a guard of the
// same lock: if two transactions both share-locked the row before completing it, they would wait for each other.
guarded_lock *first = nullptr;

// The guards of the runs in progress, the innermost first. They join the others before each commit.
guarded_lock *runs = nullptr;

[[noreturn]] void fail(const lock_name &name, const char *detail, bool was_ours = true)
{
    if (was_ours)
        stats::record(name, stats::counter::lost);
    ereport(ERROR,
            (errcode(ERRCODE_LOCK_LOST), errmsg("lock \"%.*s\" is lost", SV(name.bytes)), errdetail("%s", detail),
             errhint("Acquire the lock again before you repeat the work: another run may be under way.")));
    pg_unreachable();
}

const char *describe_latest(const row &current)
{
    return psprintf(current.from.kind == origin::kinds::administrator ? "An administrator intervened: \"%.*s\"."
                                                                      : "Its latest acquisition is by \"%.*s\".",
                    SV(current.holder));
}

lock_name copy(const lock_name &name)
{
    return to_lock_name(pg::text_of(name.bytes));
}

std::string_view copy(std::string_view text)
{
    if (text.empty())
        return {};
    return {pnstrdup(text.data(), text.size()), text.size()};
}

void fail_if_changing_hands(const row_finder &table, const seen_row &seen)
{
    const auto what = table.look_ahead(seen);
    if (what == row_finder::changes::acquisition)
        fail(seen.name, "Another transaction is acquiring it.");
    if (what == row_finder::changes::deletion)
        fail(seen.name, "Another transaction is deleting its row.");
}

bool is_over(const row_finder &table, const seen_row &seen)
{
    const instant now = pg::clock_now();
    return table.lease_of(seen, now).lock_until <= now;
}

// Repeats until `seize` succeeds.
template <typename Seize> void seize_if_ours(const lock_table &table, const guarded_lock &guarded, Seize seize)
{
    for (;;) {
        auto seen = table.look(guarded.name);
        PAUSE_POINT("guard looked again");
        if (seen.is_new())
            fail(guarded.name, "Its row has been deleted.");
        if (const row current = table.row_of(seen); !guarded.is(current))
            fail(guarded.name, describe_latest(current));

        // Wait for an extend or a release in progress. But once the lease is over, the change in progress can be an
        // acquire or a deletion, whose transaction may take a long time: fail instead of waiting for it.
        if (seen.state == seen_row::states::undecided && is_over(table, seen))
            fail_if_changing_hands(table, seen);

        if (seen.state != seen_row::states::undecided && seize(seen))
            return;
        if (TransactionIdIsValid(seen.other))
            table.wait_for_other(seen);
        CHECK_FOR_INTERRUPTS();
    }
}

// Our own uncommitted extend or release keeps others away as a row lock would. Otherwise share-locks the row. Another
// guard of this acquisition does not prevent that; a FOR UPDATE by hand does.
bool keep_others_away(const lock_table &table, seen_row &seen)
{
    if (!row_finder::is_own(seen))
        return table.share_lock(seen);
    table.unpin(seen);
    return true;
}

// The link to the first guard of that name, or to where one belongs.
guarded_lock **link_to(const lock_name &name)
{
    guarded_lock **link = &first;
    while (*link && (*link)->name.bytes < name.bytes)
        link = &(*link)->next;
    return link;
}

// Whether there is such a guard already, so that joining again is a no-op: the subtransaction of the existing guard is
// still open, so that guard lasts at least as long.
bool has_joined(const guarded_lock &asked)
{
    for (const auto *known = *link_to(asked.name); known && known->name.bytes == asked.name.bytes; known = known->next)
        if (known->is(asked) && (known->is_to_complete || !asked.is_to_complete))
            return true;
    return false;
}

guarded_lock *copy(const guarded_lock &from, MemoryContext where)
{
    const MemoryContext caller = MemoryContextSwitchTo(where);
    auto *const made = static_cast<guarded_lock *>(palloc(sizeof(guarded_lock)));
    *made = from;
    made->name = copy(from.name);
    made->from.session = copy(from.from.session);
    MemoryContextSwitchTo(caller);
    return made;
}

void join(const guarded_lock &guarded)
{
    if (has_joined(guarded))
        return;
    auto *const added = copy(guarded, TopTransactionContext);
    guarded_lock **link = link_to(added->name);
    while (!added->is_to_complete && *link && (*link)->name.bytes == added->name.bytes)
        link = &(*link)->next;
    added->next = *link;
    *link = added;
}

void warn_of_overrun(const lock_name &name, duration by)
{
    Interval span{by.count(), 0, 0};
    const char *const text = DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&span)));
    ereport(WARNING,
            (errcode(ERRCODE_WARNING), errmsg("the run of lock \"%.*s\" overran its lease by %s", SV(name.bytes), text),
             errdetail("Nobody else has acquired the lock since, so the transaction can still commit."),
             errhint("Choose a longer at_most, or extend the lock in time.")));
}

// Whether this transaction has already released it as done. Fails if another transaction released it, or if it was
// released as failed: a client that does not know how its commit ended does that, and then the commit must not succeed
// any more, because the tick will be run again.
bool has_released_as_done(const seen_row &seen, const guarded_lock &mine)
{
    const auto times = seen.times();
    if (is_paused(times)) // edited by hand; after shedlock_pause the row would have another acquisition
        fail(mine.name, "It is paused.", false);
    if (!is_released(times))
        return false;
    if (times.lock_at_least_until || !row_finder::is_own(seen))
        fail(mine.name, "It has been released before.", false);
    return true;
}

void complete(const lock_table &table, const guarded_lock &mine)
{
    auto before = lease{};
    instant now;
    bool is_done = false;
    PushActiveSnapshot(GetLatestSnapshot()); // for a locked_by that is stored out of line
    durability::before_release();
    auto history = history_table::open(table);
    seize_if_ours(table, mine, [&](seen_row &seen) {
        now = pg::clock_now();
        before = seen.times();
        is_done = has_released_as_done(seen, mine);
        return is_done ? keep_others_away(table, seen) : write_release(table, history, seen, now, true);
    });
    history.close(true);
    PopActiveSnapshot();
    if (is_done)
        return;
    durability::after_release();
    stats::record_release(mine.name, now - before.locked_at, true);
    // A lock_until that was edited by hand may be long before the acquisition, or -infinity.
    const auto end = std::max(before.lock_until, before.locked_at);
    if (end < now)
        warn_of_overrun(mine.name, now - end);
}

void enforce_all()
{
    for (const auto *run = runs; run; run = run->next)
        join(*run);
    for (const auto *guarded = first; guarded; guarded = guarded->next) {
        lock_table table = lock_table::open_table(guarded->table);
        if (guarded->is_to_complete)
            complete(table, *guarded);
        else
            seize_if_ours(table, *guarded, [&](seen_row &seen) { return keep_others_away(table, seen); });
        table.close(true);
    }
}

void at_event(XactEvent event, void *)
{
    switch (event) {
    case XACT_EVENT_PRE_COMMIT:
    case XACT_EVENT_PRE_PREPARE:
        PAUSE_POINT("commit");
        enforce_all();
        break;
    case XACT_EVENT_ABORT:
        // This session may be ending, and the lock of its run with it.
        for (const auto *run = runs; run; run = run->next)
            queue::wake_at(queue::ends::abort, run->table, run->name);
        [[fallthrough]];
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_PREPARE:
        first = nullptr; // the memory is freed with the transaction
        break;
    default:
        break;
    }
}

// Callbacks run in reverse order of registration, and some do irreversible things: postgres_fdw, which registers when
// it first connects, commits on the other server. So ours is registered again with every guard. (The new registration
// comes first, because memory may run out. No callback calls this function: xact.c does not allow that.)
void be_first_at_commit()
{
    static uintptr_t registrations = 0;
    RegisterXactCallback(at_event, reinterpret_cast<void *>(registrations + 1));
    UnregisterXactCallback(at_event, reinterpret_cast<void *>(registrations));
    registrations++;
}

// Fails unless the row's latest acquisition is this caller's. Its lease may be over.
void require_latest(const row &current, const lock_name &name, const identity &who)
{
    if (who.token && current.times.locked_at < *who.token)
        fail(name, "No acquisition has had this token.", false);
    if (who.token && current.times.locked_at == *who.token && current.from.kind == origin::kinds::session)
        fail(name,
             psprintf("That acquisition belongs to a session, and only that session can guard or complete it: "
                      "\"%.*s\".",
                      SV(current.holder)),
             false);
    if (!is_owner(current, who))
        fail(name, describe_latest(current));
}

// Fails unless this caller, whose acquisition it is, may release it.
void require_completable(const seen_row &seen, const row &current, const identity &who)
{
    const auto why = state_of(current, who, pg::clock_now());
    if (is_paused(current.times))
        fail(seen.name, "It is paused.", false);
    if (why == acquisition_state::failed || (why == acquisition_state::done && !row_finder::is_own(seen)))
        fail(seen.name, "It has been released before.", false);
}

void add(const lock_table &table, const lock_name &name, const identity &who, bool is_to_complete)
{
    auto seen = table.look(name);
    PAUSE_POINT("guard looked");
    if (seen.is_new()) {
        require_storable(name, table.shape().name_limit);
        fail(name, "Nobody ever acquired it, or its row has been deleted.", false);
    }
    const row current = table.row_of(seen);
    require_latest(current, name, who);
    if (is_to_complete)
        require_completable(seen, current, who);

    be_first_at_commit();
    join({nullptr, is_to_complete, GetCurrentSubTransactionId(), table.shape().table, name, current.times.locked_at,
          current.from});
    table.unpin(seen);
}

} // namespace

void add(const lock_table &table, const lock_name &name, const identity &who)
{
    add(table, name, who, false);
}

void add_completion(const lock_table &table, const lock_name &name, const identity &who)
{
    add(table, name, who, true);
}

guarded_lock *lock_of_run(Oid table, const lock_name &name, const identity &who)
{
    be_first_at_commit();
    return copy(
        {nullptr, false, TopSubTransactionId, table, name, *who.token, {origin::kinds::session, who.session, true}},
        CurrentMemoryContext);
}

// In memory of its own: when a session ends by FATAL, its portals are freed before the callbacks are called.
void begin_run(const guarded_lock &mine)
{
    const MemoryContext own = AllocSetContextCreate(CurrentMemoryContext, "shedlock run", ALLOCSET_SMALL_SIZES);
    auto *const made = copy(mine, own);
    MemoryContextSetParent(own, TopMemoryContext);
    made->next = runs;
    runs = made;
}

void complete_run(const guarded_lock &mine)
{
    auto completion = mine;
    completion.is_to_complete = true;
    be_first_at_commit(); // again: the command may have used postgres_fdw for the first time
    join(completion);
}

void end_run()
{
    auto *const ended = runs;
    runs = ended->next;
    MemoryContextDelete(GetMemoryChunkContext(ended));
}

void end_all_runs()
{
    while (runs)
        end_run();
}

void at_subtransaction_end(SubTransactionId ended, SubTransactionId parent, bool committed)
{
    guarded_lock **link = &first;
    while (guarded_lock *const guarded = *link) {
        if (guarded->level == ended && !committed) {
            *link = guarded->next;
            continue;
        }
        if (guarded->level == ended)
            guarded->level = parent;
        link = &guarded->next;
    }
}

} // namespace shedlock::guard
