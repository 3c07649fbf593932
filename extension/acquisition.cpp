#include "acquisition.hpp"

#include "durability.hpp"
#include "holder.hpp"
#include "settings.hpp"
#include "stats.hpp"

namespace shedlock {

namespace {

// How often an attempt begins anew because a row changed between the look and the write. Each time somebody else got
// something done, so this many in a row means a crowd, and a crowd is a reason to refuse.
constexpr int max_rounds = 10;

struct attempt_result {
    enum class outcomes {
        granted,
        refused,
        refused_for_good, // this tick has had its turn
        changed,          // look again
    };
    outcomes outcome;
    instant token;
    instant now;          // when the rows were judged
    instant worth_a_look; // when a refused lock may become free, if nobody releases it
};

using outcomes = attempt_result::outcomes;

constexpr attempt_result not_granted(outcomes outcome, instant worth_a_look = never)
{
    return {outcome, never, never, worth_a_look};
}

text *signature(const owner &who, std::optional<instant> tick, instant token, const lock_table &table)
{
    const auto suffix = who.kind == owner::kinds::token ? token_suffix(token) : session_suffix();
    return make_locked_by(who.holder, with_remarks(suffix, who.kind == owner::kinds::run, tick),
                          table.shape().locked_by_limit);
}

void require_finite(const lock_name &name, const lease &times)
{
    if (times.locked_at == forever)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("locked_at of lock \"%.*s\" is infinity, and no token is greater", SV(name.bytes)),
                        errhint("Somebody edited the row by hand. Set its locked_at to the current time in UTC.")));
}

// Judges what was seen of all names at one instant. Granted means: may be taken, with this token.
attempt_result judge(const lock_table &table, std::span<const sighting> all, const acquire_request &request)
{
    for (const auto &seen : all)
        if (!seen.decided())
            return not_granted(outcomes::refused);

    // The one reading of the clock, after every row was seen decided.
    const instant now = pg::clock_now();
    std::optional<instant> latest_previous;
    std::optional<instant> held_until;
    for (size_t i = 0; i < all.size(); i++) {
        if (all[i].state == sighting::states::absent)
            continue;
        const auto times = lease_of(table, all[i], now);
        const auto from = request.asked.retry ? origin_of(table.row_of(all[i])) : origin{};
        switch (availability_of(times, now, request.asked, from)) {
        case availability::had_a_turn:
            return not_granted(outcomes::refused_for_good);
        case availability::held:
            held_until = std::max(held_until.value_or(never), times.lock_until);
            break;
        case availability::free:
            require_finite(request.names[i], times);
            latest_previous = std::max(latest_previous.value_or(never), times.locked_at);
            break;
        }
    }
    if (held_until)
        return not_granted(outcomes::refused, *held_until);
    return {outcomes::granted, new_token(now, request.asked.tick, latest_previous, table.shape().unit), now, never};
}

// Makes the rows that are missing. False when others are at it.
bool make_rows(const lock_table &table, std::span<sighting> all)
{
    for (auto &seen : all) {
        if (seen.state != sighting::states::absent)
            continue;
        if (!table.insert(seen.name))
            return false;
        seen = table.look(seen.name);
    }
    return true;
}

// Judges what was seen, and takes it if that is granted.
attempt_result decide(const lock_table &table, std::span<sighting> all, const acquire_request &request,
                      const owner &who)
{
    auto result = judge(table, all, request);
    const auto is_missing = [](const sighting &seen) { return seen.state == sighting::states::absent; };
    if (result.outcome == outcomes::granted && std::any_of(all.begin(), all.end(), is_missing)) {
        // The clock once more: an acquisition since the first reading may be over, and its row deleted.
        if (!make_rows(table, all))
            return not_granted(outcomes::changed);
        PAUSE_POINT("rows made");
        result = judge(table, all, request);
    }
    if (result.outcome != outcomes::granted)
        return result;

    auto times = granted(result.now, result.token, request.at_most, request.at_least, table.shape().unit);
    auto tick = request.asked.tick;
    if (request.at_most == without_end) { // a pause, of one name
        const auto &seen = all.front();
        const auto last = last_run_of(seen.times, origin_of(table.row_of(seen)));
        times.lock_at_least_until = last.outcome;
        tick = last.tick;
    }
    text *const locked_by = signature(who, tick, result.token, table);
    for (auto &seen : all) {
        // One of ours, which its holder never released. Java's rows don't tell.
        const bool was_abandoned = !is_released(seen.times) && origin_of(table.row_of(seen)).is_ours;
        if (!table.take(seen, times, locked_by))
            return not_granted(outcomes::changed);
        if (was_abandoned)
            stats::record(seen.name, stats::counter::expired);
    }
    return result;
}

attempt_result attempt(const lock_table &table, const acquire_request &request, const owner &who)
{
    const size_t count = request.names.size();
    auto *const seen = static_cast<sighting *>(palloc(sizeof(sighting) * count));
    for (size_t i = 0; i < count; i++) {
        seen[i] = table.glance(request.names[i]);
        if (seen[i].state == sighting::states::absent)
            require_storable(request.names[i], table.shape().name_limit);
    }
    PAUSE_POINT("looked");
    const auto result = decide(table, {seen, count}, request, who);
    for (size_t i = 0; i < count; i++)
        table.forget(seen[i]);
    return result;
}

attempt_result try_to_acquire(Oid function, const acquire_request &request, const owner &who)
{
    lock_table table = lock_table::open(function);
    auto result = not_granted(outcomes::changed);
    for (int round = 0; round < max_rounds && result.outcome == outcomes::changed; round++) {
        if (request.names.size() == 1)
            result = attempt(table, request, who);
        else
            pg::all_or_nothing([&] {
                result = attempt(table, request, who);
                return result.outcome == outcomes::granted;
            });
    }
    table.close(result.outcome == outcomes::granted);
    return result;
}

// Sleeps until the lock may have become free: its lease ends or the next poll is due. Polls are spread, so that many
// hosts waiting for one lock don't ask in step.
void sleep_before_next_try(instant worth_a_look, duration budget)
{
    const double spread = 0.5 + 0.5 * pg_prng_double(&pg_global_prng_state);
    const auto poll = std::chrono::duration_cast<duration>(settings::poll_interval() * spread);
    auto nap = std::min(poll, budget);
    const auto now = pg::clock_now();
    if (worth_a_look > now)
        nap = std::min(nap, duration{worth_a_look - now});

    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(nap).count();
    (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, static_cast<long>(milliseconds),
                     PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

// On a clock that does not step, unlike the one that leases are measured by.
class stopwatch {
public:
    stopwatch() { INSTR_TIME_SET_CURRENT(start_); }
    duration elapsed() const
    {
        instr_time now;
        INSTR_TIME_SET_CURRENT(now);
        INSTR_TIME_SUBTRACT(now, start_);
        return duration{INSTR_TIME_GET_MICROSEC(now)};
    }

private:
    instr_time start_;
};

std::optional<instant> wait_to_acquire(Oid function, const acquire_request &request, const owner &who)
{
    const stopwatch watch;
    const MemoryContext caller = CurrentMemoryContext;
    const MemoryContext scratch = AllocSetContextCreate(caller, "shedlock wait", ALLOCSET_DEFAULT_SIZES);
    for (;;) {
        // An hour's wait is tens of thousands of tries.
        MemoryContextReset(scratch);
        MemoryContextSwitchTo(scratch);
        const auto result = try_to_acquire(function, request, who);
        MemoryContextSwitchTo(caller);
        const auto budget = request.wait - watch.elapsed();
        if (result.outcome == outcomes::granted)
            return result.token;
        if (result.outcome == outcomes::refused_for_good || budget <= duration::zero())
            return std::nullopt;
        sleep_before_next_try(result.worth_a_look, budget);
    }
}

} // namespace

lease lease_of(const lock_table &table, const sighting &seen, instant now)
{
    const bool is_held = seen.times.lock_until > now;
    return is_held && is_of_dead_run(table.locked_by(seen)) ? ended(seen.times) : seen.times;
}

std::optional<instant> acquire(Oid function, const acquire_request &request, const owner &who)
{
    std::optional<instant> token;
    auto waited = duration::zero();
    if (request.wait > duration::zero()) {
        const stopwatch watch;
        token = wait_to_acquire(function, request, who);
        waited = watch.elapsed();
    } else {
        const auto result = try_to_acquire(function, request, who);
        if (result.outcome == outcomes::granted)
            token = result.token;
    }
    if (token)
        durability::required();
    for (const auto &name : request.names)
        stats::record_attempt(name, token.has_value(), waited);
    return token;
}

} // namespace shedlock
