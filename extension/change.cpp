#include "change.hpp"

#include "durability.hpp"
#include "locked_by.hpp"
#include "session.hpp"
#include "stats.hpp"

namespace shedlock {

namespace {

// Why an extend or a release was not done. A copy, because the page that it was read from is released.
struct obstacle {
    lock_name name;
    bool no_row;
    acquisition_state why;
    lease times;
    bool has_lost_its_session;
    origin::kinds kind;
    std::string_view holder;
};

enum class change_result { done, not_ours, busy, again };

// Whether another transaction is extending or releasing the same acquisition, or has just ended. Whether the lease is
// over depends on how that transaction ends.
bool is_being_extended(const row_finder &table, const seen_row &seen)
{
    return seen.state == seen_row::states::undecided && table.look_ahead(seen) == row_finder::changes::other;
}

std::optional<obstacle> find_obstacle(const row_finder &table, const seen_row &seen, const identity &who, instant now)
{
    if (seen.is_new())
        return obstacle{seen.name, true, acquisition_state::foreign, seen.times(), false, origin::kinds::java, {}};
    row current = table.row_of(seen);
    auto why = state_of(current, who, now, seen.stored.past);
    // The session is gone. at_least may still keep others away, but the owner has lost the lock.
    const bool has_lost_its_session = why == acquisition_state::live && current.from.ends_with_session &&
                                      is_session_alive(current.from.session) == false;
    if (has_lost_its_session)
        why = acquisition_state::expired;
    else if (why == acquisition_state::live || (why == acquisition_state::expired && is_being_extended(table, seen)))
        return std::nullopt;
    current.times = table.lease_of(seen, now);
    const auto holder = current.holder;
    return obstacle{seen.name,
                    false,
                    why,
                    current.times,
                    has_lost_its_session,
                    current.from.kind,
                    {pnstrdup(holder.data(), holder.size()), holder.size()}};
}

// The first obstacle that is not a release as done; if there is none, the first one at all. A lock that was released as
// done must not hide that another one is lost.
std::optional<obstacle> find_obstacle(const row_finder &table, std::span<const seen_row> all, const identity &who,
                                      instant now)
{
    std::optional<obstacle> released_as_done;
    for (const auto &seen : all) {
        const auto found = find_obstacle(table, seen, who, now);
        if (found && found->why != acquisition_state::done)
            return found;
        if (found && !released_as_done)
            released_as_done = found;
    }
    return released_as_done;
}

// Changes rows that are the caller's. If another transaction is changing one of them, waits for it and returns `again`:
// then all rows must be looked at again. With nowait, returns `busy` instead.
template <typename Change>
change_result change_all(const lock_table &table, std::span<seen_row> all, Change change, instant now, bool nowait)
{
    for (auto &seen : all)
        if (!seen.decided()) { // guarded by a transaction that is committing, or being changed by another session
            if (nowait)
                return change_result::busy;
            for (auto &each : all)
                table.unpin(each);
            table.wait_for_other(seen);
            return change_result::again;
        }
    const bool done = std::all_of(all.begin(), all.end(), [&](seen_row &seen) { return change(seen, now); });
    return done ? change_result::done : change_result::again;
}

// Tries once to change the rows of all names. `change` gives false if the row is no longer the one that was seen.
template <typename Change, typename Count>
change_result try_to_change(const lock_table &table, lock_names names, const identity &who, Change change,
                            Count count_change, bool nowait, std::optional<obstacle> &found)
{
    const std::span all{static_cast<seen_row *>(palloc(sizeof(seen_row) * names.size())), names.size()};
    for (size_t i = 0; i < all.size(); i++) {
        all[i] = table.look(names[i]);
        table.require_storable(all[i]);
    }
    PAUSE_POINT("looked");
    const instant now = pg::clock_now();
    found = find_obstacle(table, all, who, now);
    const auto result = found ? change_result::not_ours : change_all(table, all, change, now, nowait);
    for (auto &seen : all) {
        table.unpin(seen);
        if (result == change_result::done)
            count_change(seen.name, now - seen.times().locked_at);
    }
    return result;
}

const char *utc_text(instant t)
{
    pg_tm parts;
    fsec_t microseconds;
    if (t == never)
        return "-infinity";
    if (t == forever || timestamp2tm(pg::to_timestamp(t), nullptr, &parts, &microseconds, nullptr, nullptr) != 0)
        return "infinity";
    char *const out = static_cast<char *>(palloc(MAXDATELEN + 1));
    EncodeDateTime(&parts, microseconds, false, 0, nullptr, USE_ISO_DATES, out);
    return psprintf("%s UTC", out);
}

const char *explain(const obstacle &found, const identity &who)
{
    if (found.no_row)
        return "Nobody ever acquired it, or its row has been deleted.";
    if (found.why == acquisition_state::done && who.token && found.times.locked_at > *who.token)
        return "It has been released as done, and was acquired again since.";
    if (found.why == acquisition_state::done)
        return "It has been released before, as done.";
    if (found.why == acquisition_state::failed)
        return "It has been released before.";
    if (found.why == acquisition_state::expired && found.has_lost_its_session)
        return "Its lease ended with the session that acquired it.";
    if (found.why == acquisition_state::expired)
        return psprintf("Its lease ended at %s.", utc_text(found.times.lock_until));

    const char *const since = utc_text(found.times.locked_at);
    if (is_paused(found.times))
        return psprintf("It is paused: \"%.*s\", since %s.", SV(found.holder), since);
    if (who.token && found.times.locked_at < *who.token)
        return "No acquisition has had this token.";
    const bool is_its_token = who.token && found.times.locked_at == *who.token;
    if (is_its_token && found.kind == origin::kinds::session)
        return psprintf("That acquisition belongs to a session: \"%.*s\", since %s.", SV(found.holder), since);
    if (is_its_token)
        return psprintf("That token does not own the lock: \"%.*s\", since %s.", SV(found.holder), since);
    if (found.kind == origin::kinds::administrator)
        return psprintf("An administrator intervened: \"%.*s\", at %s.", SV(found.holder), since);
    if (who.token)
        return psprintf("It was taken over by \"%.*s\" at %s.", SV(found.holder), since);
    if (found.times.lock_until <= pg::clock_now())
        return psprintf("It is free. It was last acquired by \"%.*s\", at %s.", SV(found.holder), since);
    return psprintf("It is held, but not by this session: \"%.*s\", since %s.", SV(found.holder), since);
}

const char *advise(const obstacle &found, const identity &who)
{
    if (found.why == acquisition_state::expired && !found.has_lost_its_session)
        return "Choose a longer at_most, or extend the lock in time.";
    if (found.why == acquisition_state::foreign && !found.no_row && !who.token && !is_paused(found.times) &&
        found.kind != origin::kinds::administrator)
        return "Session functions change only what the same session acquired. Behind a connection pooler use "
               "shedlock_acquire_token and its token.";
    return nullptr;
}

// Whether shedlock_stats counts this as lost: the lease is over, another acquisition has followed, or the session does
// not hold the lock. A name without a row, a token that was never issued, and an earlier release do not count.
bool was_lost(const obstacle &found, const identity &who)
{
    if (found.no_row || found.why == acquisition_state::failed || found.why == acquisition_state::done)
        return false;
    return found.why == acquisition_state::expired || !who.token || found.times.locked_at > *who.token;
}

void warn(const obstacle &found, const identity &who, const char *participle)
{
    const char *const advice = advise(found, who);
    if (was_lost(found, who))
        stats::record(found.name, stats::counter::lost);
    // Not to the server's log, which a fleet whose at_most is too short would fill.
    ereport(WARNING_CLIENT_ONLY, (errcode(found.why == acquisition_state::done ? ERRCODE_LOCK_DONE : ERRCODE_LOCK_LOST),
                                  errmsg("lock \"%.*s\" was not %s", SV(found.name.bytes), participle),
                                  errdetail("%s", explain(found, who)), advice ? errhint("%s", advice) : 0));
}

// Without a participle there is no WARNING.
template <typename Change, typename Count>
std::optional<bool> change(lock_table &table, lock_names names, const identity &who, const char *participle,
                           Change change_one, Count count_change, bool nowait)
{
    std::optional<obstacle> found;
    auto result = change_result::again;
    while (result == change_result::again) {
        CHECK_FOR_INTERRUPTS();
        if (names.size() == 1)
            result = try_to_change(table, names, who, change_one, count_change, nowait, found);
        else
            pg::all_or_nothing([&] {
                result = try_to_change(table, names, who, change_one, count_change, nowait, found);
                return result == change_result::done;
            });
    }
    if (found && participle)
        warn(*found, who, participle);
    if (result == change_result::busy)
        return std::nullopt;
    return result == change_result::done;
}

// For administrators, who override any holder. If there is no row, the state is absent; for a name that no row could
// have, it fails as require_storable does (22023, 22001).
seen_row look_until_decided(const lock_table &table, const lock_name &name)
{
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        auto seen = table.look(name);
        table.require_storable(seen);
        if (seen.decided())
            return seen;
        table.wait_for_other(seen);
    }
}

} // namespace

std::optional<bool> extend(lock_table &table, const extend_request &request, const identity &who, bool nowait)
{
    const auto unit = table.shape().unit;
    const auto done = change(
        table, request.names, who, "extended",
        [&](seen_row &seen, instant now) {
            const auto times = extended(seen.times(), now, request.at_most, request.at_least, unit);
            return table.rewrite(seen, {times, seen.stored.past}, nullptr);
        },
        [](const lock_name &name, duration) { stats::record(name, stats::counter::extended); }, nowait);
    // If a crash undid it, another session could acquire the lock while the owner still relies on it.
    if (done == true)
        durability::require();
    return done;
}

bool write_release(const lock_table &table, const history_table &history, seen_row &seen, instant now, bool done,
                   std::string_view detail)
{
    const auto run = history.run_in(table, seen);
    const auto times = released(seen.times(), now, done, table.shape().unit);
    const auto past = done ? shedlock::done(seen.stored.past, now) : seen.stored.past;
    // If a crash undid it, ticks that were done would be due again.
    if (done && has_ticks(seen.stored.past))
        durability::require();
    if (!table.rewrite(seen, {times, past}, nullptr))
        return false;
    history.add(run, done ? endings::done : endings::failed, now, detail);
    return true;
}

std::optional<bool> release(lock_table &table, const release_request &request, const identity &who, bool tell)
{
    durability::before_release();
    auto history = history_table::open(table);
    const auto released = change(
        table, request.names, who, tell ? "released" : nullptr,
        [&](seen_row &seen, instant now) {
            return write_release(table, history, seen, now, request.done, request.detail);
        },
        [&](const lock_name &name, duration held) { stats::record_release(name, held, request.done); }, request.nowait);
    history.close(released == true);
    if (released == true)
        durability::after_release();
    return released;
}

bool force_release(lock_table &table, const lock_name &name)
{
    auto history = history_table::open(table);
    for (;;) {
        auto seen = look_until_decided(table, name);
        if (seen.state == seen_row::states::absent) {
            history.close(false);
            return false;
        }
        PAUSE_POINT("decided");
        const instant now = pg::clock_now();
        const bool was_held = availability_of(table.lease_of(seen, now), now) == availability::taken;
        const auto run = history.run_in(table, seen);
        const auto times = freed(seen.times(), now, table.shape().unit);
        const auto holder = psprintf("released by force: %s", session_role());
        const auto end = end_of(origin::kinds::administrator, times.locked_at);
        if (table.rewrite(seen, {times, without_run(table.history_of(seen))},
                          make_locked_by(holder, end, table.shape().locked_by_limit))) {
            history.add(run, was_held ? endings::freed : endings::ran_out, now);
            history.close(true);
            durability::require(); // otherwise a crash could give the old holder its token back
            return was_held;
        }
    }
}

bool resume(lock_table &table, const lock_name &name)
{
    for (;;) {
        auto seen = look_until_decided(table, name);
        PAUSE_POINT("decided");
        if (seen.state == seen_row::states::absent || !is_paused(seen.times())) {
            table.unpin(seen);
            ereport(WARNING, (errcode(ERRCODE_WARNING), errmsg("lock \"%.*s\" was not resumed", SV(name.bytes)),
                              errdetail("It is not paused.")));
            return false;
        }
        if (table.rewrite(seen, {resumed(seen.times(), pg::clock_now(), table.shape().unit), seen.stored.past},
                          nullptr))
            return true;
    }
}

} // namespace shedlock
