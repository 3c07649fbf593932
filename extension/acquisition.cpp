#include "acquisition.hpp"

#include "durability.hpp"
#include "history_table.hpp"
#include "locked_by.hpp"
#include "stats.hpp"
#include "table_finder.hpp"
#include "waiting.hpp"

namespace shedlock {

namespace {

// How often acquire_without_waiting looks at most: again whenever a row has changed between the look and the write. If
// that happens every time, many callers compete, and the lock is refused, or, with wait, waited for.
constexpr int max_rounds = 10;

struct acquire_result {
    enum class outcomes {
        granted,
        refused,
        refused_for_good, // this tick is not due any more, or it is too late for it
        changed,          // look again
    };
    outcomes outcome;
    instant token;
    instant now;     // the one reading of the clock that decided about all rows
    retry_hint hint; // when to look again at a lock that was refused
};

using outcomes = acquire_result::outcomes;

constexpr acquire_result not_granted(outcomes outcome, const retry_hint &hint = {})
{
    return {outcome, never, never, hint};
}

text *locked_by_of(const owner &who, instant token, const lock_table &table)
{
    return make_locked_by(who.holder, end_of(who.kind, token, who.ends_with_session), table.shape().locked_by_limit);
}

void require_finite(const lock_name &name, const lease &times)
{
    if (times.locked_at == forever)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("locked_at of lock \"%.*s\" is infinity, and no token is greater", SV(name.bytes)),
                        errhint("The row was probably edited by hand. Set its locked_at to the current time in UTC.")));
}

instant token_for(std::span<const seen_row> all, std::optional<instant> tick, instant now,
                  std::optional<instant> latest_previous, duration unit)
{
    auto token = new_token(now, latest_previous, unit);
    const auto is_tick = [&](const seen_row &seen) { return is_tick_of(seen.stored.past, token); };
    while (tick == token || std::any_of(all.begin(), all.end(), is_tick))
        token += unit;
    return token;
}

// Whether all rows that were seen are free and due at one instant. `granted` means that they may be taken with this
// token.
acquire_result availability_of_all(const row_finder &table, std::span<const seen_row> all,
                                   const acquire_request &request)
{
    for (size_t i = 0; i < all.size(); i++)
        if (!all[i].decided())
            return not_granted(outcomes::refused, {i});

    // The clock is read only here, after every row has been seen and none is being changed.
    const instant now = pg::clock_now();
    const bool is_waiting = request.wait > duration::zero();
    std::optional<instant> latest_previous;
    std::optional<retry_hint> held;
    for (size_t i = 0; i < all.size(); i++) {
        const bool is_absent = all[i].state == seen_row::states::absent;
        const auto times = is_absent ? lease{never, never, {}} : table.lease_of(all[i], now);
        const auto past = request.asked.tick && !is_absent ? table.history_of(all[i]) : history{};
        switch (availability_of(times, now, request.asked, past)) {
        case availability::not_due:
        case availability::late:
            return not_granted(outcomes::refused_for_good);
        case availability::taken:
            if (!held || held->lease_ends < times.lock_until)
                held = retry_hint{i, times.lock_until, is_waiting && !table.row_of(all[i]).from.is_java()};
            break;
        case availability::free:
            require_finite(request.names[i], times);
            latest_previous = std::max(latest_previous.value_or(never), times.locked_at);
            break;
        }
    }
    if (held)
        return not_granted(outcomes::refused, *held);
    return {outcomes::granted, token_for(all, request.asked.tick, now, latest_previous, table.shape().unit), now, {}};
}

// Inserts the rows that are missing. Returns false if another caller is inserting one, or was first.
bool make_rows(const lock_table &table, std::span<seen_row> all)
{
    for (auto &seen : all) {
        if (seen.state != seen_row::states::absent)
            continue;
        if (!table.insert(seen.name))
            return false;
        seen = table.look(seen.name);
    }
    return true;
}

// An acquisition of ours that its holder never released. A Java row does not say whether it was released.
bool was_abandoned(const lock_table &table, const seen_row &seen)
{
    return !is_released(seen.times()) && !table.row_of(seen).from.is_java();
}

// The history, if a run that ran out has to be recorded. Nothing if that would have to wait.
std::optional<history_table> open_if_abandoned(const lock_table &table, std::span<const seen_row> all)
{
    if (std::any_of(all.begin(), all.end(), [&](const seen_row &seen) { return was_abandoned(table, seen); }))
        return history_table::open_nowait(table);
    return history_table{};
}

// Writes the acquisition over the rows. Returns false if one of them has changed since it was seen.
bool take_all(const lock_table &table, const history_table &history, std::span<seen_row> all,
              const acquire_request &request, const owner &who, const acquire_result &to_grant)
{
    const auto unit = table.shape().unit;
    const bool is_run = who.kind != origin::kinds::administrator;
    auto times = granted(to_grant.now, to_grant.token, request.at_most, request.at_least, unit);
    if (!is_run)
        times.lock_at_least_until = std::nullopt;
    text *const locked_by = locked_by_of(who, to_grant.token, table);
    const lock_name **abandoned = nullptr;
    size_t count = 0;
    for (auto &seen : all) {
        const auto before = table.history_of(seen);
        const auto past = is_run ? begun(before, request.asked.tick, to_grant.now, unit) : without_run(before);
        if (was_abandoned(table, seen)) {
            if (!abandoned)
                abandoned = static_cast<const lock_name **>(palloc(sizeof(lock_name *) * all.size()));
            abandoned[count++] = &seen.name;
        }
        const auto run = history.run_in(table, seen);
        if (!table.take(seen, {times, past}, locked_by))
            return false;
        history.add(run, endings::ran_out, to_grant.now);
    }
    for (size_t i = 0; i < count; i++)
        stats::record(*abandoned[i], stats::counter::expired);
    return true;
}

acquire_result grant(const lock_table &table, std::span<seen_row> all, const acquire_request &request, const owner &who)
{
    auto result = availability_of_all(table, all, request);
    const auto is_missing = [](const seen_row &seen) { return seen.state == seen_row::states::absent; };
    if (result.outcome == outcomes::granted && std::any_of(all.begin(), all.end(), is_missing)) {
        // Read the clock again: since the first reading, another acquisition may have happened and ended, and its row
        // may have been deleted.
        if (!make_rows(table, all))
            return not_granted(outcomes::changed);
        PAUSE_POINT("rows made");
        result = availability_of_all(table, all, request);
    }
    if (result.outcome != outcomes::granted)
        return result;

    auto history = open_if_abandoned(table, all);
    if (!history)
        return not_granted(outcomes::refused);
    const bool taken = take_all(table, *history, all, request, who, result);
    history->close(taken);
    return taken ? result : not_granted(outcomes::changed);
}

acquire_result look_and_grant(const lock_table &table, const acquire_request &request, const owner &who)
{
    const size_t count = request.names.size();
    auto *const seen = static_cast<seen_row *>(palloc(sizeof(seen_row) * count));
    for (size_t i = 0; i < count; i++) {
        seen[i] = table.glance(request.names[i]);
        table.require_storable(seen[i]);
    }
    PAUSE_POINT("looked");
    const auto result = grant(table, {seen, count}, request, who);
    for (size_t i = 0; i < count; i++)
        table.unpin(seen[i]);
    return result;
}

// In SERIALIZABLE a write fails with 40001 if other transactions have read the row and this one would close a cycle.
// Then only the row has been locked, which is rolled back, and the lock is refused. (There heap_update has no mode that
// does not look.)
acquire_result look_and_grant_in_subtransaction(const lock_table &table, const acquire_request &request,
                                                const owner &who)
{
    acquire_result result;
    ErrorData *const error = pg::in_subtransaction([&] {
        result = look_and_grant(table, request, who);
        return result.outcome == outcomes::granted;
    });
    if (error && error->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE)
        return not_granted(outcomes::refused);
    if (error)
        ReThrowError(error);
    return result;
}

acquire_result acquire_without_waiting(Oid function, const acquire_request &request, const owner &who)
{
    lock_table table = lock_table::open(function);
    if (table.shape().citus == citus_roles::worker)
        report_worker();
    auto result = not_granted(outcomes::changed);
    const bool is_simple = request.names.size() == 1 && !IsolationIsSerializable();
    for (int round = 0; round < max_rounds && result.outcome == outcomes::changed; round++)
        result =
            is_simple ? look_and_grant(table, request, who) : look_and_grant_in_subtransaction(table, request, who);
    table.close(result.outcome == outcomes::granted);
    return result;
}

bool is_final(const acquire_result &result)
{
    return result.outcome == outcomes::granted || result.outcome == outcomes::refused_for_good;
}

bool was_woken(size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= queue::was_woken(i);
    return any;
}

// Returns when there is a reason to try again, or when the time is over. Before the first sleep, too, it asks whether
// the session was woken: the latch may have been set during the try, and reset by another wait (for a page, for
// example).
void sleep_before_retry(const retry_hint &hint, backoff &delays, const acquire_request &request, const stopwatch &watch)
{
    for (bool has_slept = false;; has_slept = true) {
        if (was_woken(request.names.size()))
            return delays.restart();
        const auto budget = request.wait - watch.elapsed();
        if (budget <= duration::zero() || (has_slept && !queue::is_looked_after(hint.index)))
            return;
        sleep(std::min(budget, delays.next(hint)));
    }
}

// A wait is over, at the latest, when it is too late for the tick.
duration time_to_wait(const acquire_request &request, const stopwatch &watch)
{
    if (!request.asked.start_within)
        return request.wait;
    const auto left = *request.asked.tick + *request.asked.start_within - pg::clock_now();
    return std::min(request.wait, watch.elapsed() + std::max(left, duration::zero()));
}

// Joins the queues and tries until the lock is granted, until it cannot be granted any more, or until the time is over.
acquire_result wait_to_acquire(Oid function, acquire_request request, const owner &who, const stopwatch &watch)
{
    request.wait = time_to_wait(request, watch);
    const MemoryContext caller = CurrentMemoryContext;
    const MemoryContext scratch = AllocSetContextCreate(caller, "shedlock wait", ALLOCSET_DEFAULT_SIZES);
    const size_t count = request.names.size();
    auto result = not_granted(outcomes::changed);
    queue::while_queued(keys_of(find_table(function), request.names), [&] {
        for (backoff delays;;) {
            for (size_t i = 0; i < count; i++)
                queue::note_look(i);
            MemoryContextReset(scratch);
            MemoryContextSwitchTo(scratch);
            result = acquire_without_waiting(function, request, who);
            MemoryContextSwitchTo(caller);
            if (is_final(result) || watch.elapsed() >= request.wait)
                break;
            for (size_t i = 0; i < count && count > 1; i++)
                queue::pass_on(i); // this lock may be free while another of them is not
            sleep_before_retry(result.hint, delays, request, watch);
        }
        for (size_t i = 0; i < count && result.outcome == outcomes::granted; i++)
            queue::satisfy(i); // the next waiter would find it taken
    });
    return result;
}

} // namespace

const char *why_not_due(Oid function, const lock_name &name, const tick_request &asked)
{
    lock_table table = lock_table::open(function);
    auto seen = table.look(name);
    const auto past = seen.state == seen_row::states::absent ? history{} : table.history_of(seen);
    const auto found = availability_of(seen.times(), pg::clock_now(), asked, past);
    table.unpin(seen);
    table.close(false);
    return found == availability::not_due ? "had run" : found == availability::late ? "late" : nullptr;
}

std::optional<instant> acquire(Oid function, const acquire_request &request, const owner &who)
{
    auto waited = duration::zero();
    std::optional<stopwatch> watch;
    if (request.wait > duration::zero())
        watch.emplace(); // costs a reading of the clock
    auto result = acquire_without_waiting(function, request, who);
    if (watch) {
        if (!is_final(result))
            result = wait_to_acquire(function, request, who, *watch);
        waited = watch->elapsed();
    }
    std::optional<instant> token;
    if (result.outcome == outcomes::granted)
        token = result.token;
    if (token)
        durability::require();
    for (const auto &name : request.names)
        stats::record_attempt(name, token.has_value(), waited);
    return token;
}

} // namespace shedlock
