#include "lease.hpp"

#include <gtest/gtest.h>

using namespace shedlock;
using namespace std::chrono_literals;

namespace {

constexpr duration microsecond = 1us;
constexpr instant noon{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + 12h};

constexpr lease held_for_a_minute{noon + 1min, noon, noon};
constexpr origin ours{true, {}};
constexpr origin of_noon{true, noon}; // ours, for that tick
constexpr origin javas{false, {}};

// Availability

TEST(availability, I1_is_held_until_the_very_end_of_the_lease)
{
    EXPECT_EQ(availability_of(held_for_a_minute, noon, {}), availability::held);
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1min - 1us, {}), availability::held);
}

TEST(availability, I1_equal_is_free)
{
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1min, {}), availability::free);
}

TEST(availability, infinity_is_held)
{
    EXPECT_EQ(availability_of({forever, noon, {}}, noon + 24h, {}), availability::held);
}

TEST(availability, a_tick_has_one_turn)
{
    const lease ran{noon + 1s, noon, noon};
    EXPECT_EQ(availability_of(ran, noon + 2s, turn{noon, false}), availability::had_a_turn);
    EXPECT_EQ(availability_of(ran, noon + 2s, turn{noon - 1h, false}), availability::had_a_turn);
    EXPECT_EQ(availability_of(ran, noon + 2s, turn{noon + 1us, false}), availability::free);
}

TEST(availability, a_tick_that_is_running_has_had_its_turn)
{
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1s, turn{noon, false}), availability::had_a_turn);
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1s, turn{noon + 1s, false}), availability::held);
}

TEST(availability, with_retry_a_tick_is_due_until_it_is_done)
{
    const turn again{noon, true};
    const lease failed{noon + 5s, noon, never};
    const lease ran_out{noon + 1min, noon, noon + 5s};
    EXPECT_EQ(availability_of(failed, noon + 5s, again, of_noon), availability::free);
    EXPECT_EQ(availability_of(ran_out, noon + 1min, again, of_noon), availability::free);
    EXPECT_EQ(availability_of({noon + 5s, noon, {}}, noon + 5s, again, of_noon), availability::had_a_turn);
    EXPECT_EQ(availability_of(failed, noon + 5s, turn{noon, false}, of_noon), availability::had_a_turn);
}

TEST(availability, I5_a_retry_waits_for_at_least_and_for_who_is_at_it)
{
    const turn again{noon, true};
    EXPECT_EQ(availability_of({noon + 5s, noon, never}, noon + 5s - 1us, again, of_noon), availability::held);
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1s, again, of_noon), availability::held);
}

TEST(availability, what_java_ran_counts_as_done)
{
    // Whatever an earlier holder of ours has left in the column.
    for (const auto stale : {std::optional<instant>{}, std::optional{never}, std::optional{noon - 1h}})
        EXPECT_EQ(availability_of({noon + 5s, noon, stale}, noon + 1min, turn{noon, true}, javas),
                  availability::had_a_turn);
}

TEST(availability, the_failure_of_another_run_makes_no_tick_due)
{
    const lease failed{noon + 5s, noon, never};
    EXPECT_EQ(availability_of(failed, noon + 1min, turn{noon, true}, of_noon), availability::free);
    EXPECT_EQ(availability_of(failed, noon + 1min, turn{noon - 1h, true}, of_noon), availability::had_a_turn);
    EXPECT_EQ(availability_of(failed, noon + 1h, turn{noon, true}, origin{true, noon - 1h}), availability::free);
    // Started by hand, say, after the tick was done.
    EXPECT_EQ(availability_of(failed, noon + 1min, turn{noon, true}, ours), availability::had_a_turn);
}

TEST(availability, of_a_run_whose_session_is_gone_at_least_remains)
{
    EXPECT_EQ(ended(held_for_a_minute).lock_until, noon);
    EXPECT_EQ(ended({noon + 1min, noon, noon + 5s}).lock_until, noon + 5s);
    EXPECT_EQ(ended({noon + 1min, noon, noon + 5s}).lock_at_least_until, noon + 5s);
    // Released before it went, and kept.
    EXPECT_EQ(ended({noon + 5s, noon, {}}).lock_until, noon + 5s);
    EXPECT_EQ(ended({noon + 5s, noon, never}).lock_until, noon + 5s);
}

// Tokens

TEST(token, I6_is_the_time_of_the_acquisition)
{
    EXPECT_EQ(new_token(noon, {}, {}, microsecond), noon);
    EXPECT_EQ(new_token(noon, {}, noon - 1h, microsecond), noon);
}

TEST(token, I6_grows_when_the_clock_stands_still_or_steps_back)
{
    EXPECT_EQ(new_token(noon, {}, noon, microsecond), noon + 1us);
    EXPECT_EQ(new_token(noon, {}, noon + 1h, microsecond), noon + 1h + 1us);
}

TEST(token, I6_grows_in_coarse_columns)
{
    EXPECT_EQ(new_token(noon + 200ms, {}, noon, 1s), noon + 1s);
    EXPECT_EQ(new_token(noon + 1700ms, {}, noon, 1s), noon + 1s);
    EXPECT_EQ(new_token(noon + 1700ms, {}, noon + 5ms, 1ms), noon + 1700ms);
}

TEST(token, is_never_before_its_tick)
{
    EXPECT_EQ(new_token(noon, noon + 30s, {}, microsecond), noon + 30s);
    EXPECT_EQ(new_token(noon + 5min, noon, {}, microsecond), noon + 5min);
    // Cut to the column's seconds it would be, and the tick would be free once more.
    EXPECT_EQ(new_token(noon + 700ms, noon + 500ms, {}, 1s), noon + 1s);
}

TEST(token, serves_its_tick_once_in_any_unit)
{
    for (const duration unit : {duration{1us}, duration{1ms}, duration{1s}})
        for (const duration ahead : {duration{-3h}, duration{-1ms}, duration{0}, duration{1234us}, duration{59s}}) {
            const auto tick = noon + ahead;
            const auto token = new_token(noon, tick, noon - 1h, unit);
            EXPECT_EQ(availability_of({token, token, {}}, noon + 2h, turn{tick, false}), availability::had_a_turn);
        }
}

TEST(token, before_1970_is_rounded_down_too)
{
    const instant early{duration{-1500ms}};
    EXPECT_EQ(new_token(early, {}, {}, 1s), instant{duration{-2s}});
}

// Grants

TEST(grant, lasts_at_most_and_is_kept_at_least)
{
    const auto given = granted(noon, noon + 1us, 10min, 1min, microsecond);
    EXPECT_EQ(given.lock_until, noon + 10min);
    EXPECT_EQ(given.locked_at, noon + 1us);
    EXPECT_EQ(given.lock_at_least_until, noon + 1min);
}

TEST(grant, is_not_shortened_by_a_coarse_column)
{
    const auto given = granted(noon + 400ms, noon, 300ms, 200ms, 1s);
    EXPECT_EQ(given.lock_until, noon + 1s);
    EXPECT_EQ(given.lock_at_least_until, noon + 1s);
}

TEST(grant, without_at_least_keeps_nothing_in_a_coarse_column)
{
    const auto given = granted(noon + 400ms, noon, 300ms, 0s, 1s);
    EXPECT_EQ(released(given, noon + 500ms, true, 1s).lock_until, noon);
}

// Ownership

constexpr std::string_view mine = "/42.17";

TEST(standing, I4_session_owns_by_the_end_of_locked_by)
{
    const claim session{mine, {}};
    EXPECT_EQ(standing_of({held_for_a_minute, "job@host/42.17"}, session, noon), standing::ours);
    EXPECT_EQ(standing_of({held_for_a_minute, "job@host/42.18"}, session, noon), standing::foreign);
    EXPECT_EQ(standing_of({held_for_a_minute, "host"}, session, noon), standing::foreign);
    EXPECT_EQ(standing_of({held_for_a_minute, "/42.17#99"}, session, noon), standing::foreign);
}

TEST(standing, I4_token_owns_by_its_suffix_and_locked_at)
{
    const claim holder{"#99", noon};
    EXPECT_EQ(standing_of({held_for_a_minute, "job#99"}, holder, noon), standing::ours);
    EXPECT_EQ(standing_of({held_for_a_minute, "job#98"}, holder, noon), standing::foreign);
    // A Java client took the row over: locked_at is another, or by chance the same.
    EXPECT_EQ(standing_of({{noon + 1min, noon + 1us, noon}, "job#99"}, holder, noon), standing::foreign);
    EXPECT_EQ(standing_of({held_for_a_minute, "java-host"}, holder, noon), standing::foreign);
}

TEST(standing, I1_a_lease_that_has_ended_is_not_ours_any_more)
{
    EXPECT_EQ(standing_of({held_for_a_minute, mine}, {mine, {}}, noon + 1min - 1us), standing::ours);
    EXPECT_EQ(standing_of({held_for_a_minute, mine}, {mine, {}}, noon + 1min), standing::expired);
}

TEST(standing, I1_a_released_lease_is_not_ours_any_more_even_if_it_is_kept)
{
    const lease kept{noon + 1min, noon, {}};
    EXPECT_EQ(standing_of({kept, mine}, {mine, {}}, noon + 1s), standing::released);
}

TEST(standing, a_pause_is_nobodys_to_release)
{
    EXPECT_EQ(standing_of({{forever, noon, noon}, "x#99"}, {"#99", noon}, noon), standing::foreign);
}

// Intervention

TEST(force_release, frees_now_and_takes_the_token_away)
{
    const lease kept{noon + 10min, noon, noon + 5min};
    const auto after = freed(kept, ours, noon + 1s, microsecond);
    EXPECT_EQ(availability_of(after, noon + 1s, {}), availability::free);
    EXPECT_GT(after.locked_at, kept.locked_at);
    EXPECT_TRUE(is_released(after));
}

TEST(force_release, I6_grows_when_the_clock_has_stepped_back)
{
    EXPECT_EQ(freed(held_for_a_minute, ours, noon - 1h, microsecond).locked_at, noon + 1us);
}

TEST(force_release, repairs_an_infinite_token)
{
    EXPECT_EQ(freed({forever, forever, {}}, ours, noon, microsecond).locked_at, noon);
}

TEST(pause, has_no_end)
{
    const auto paused = granted(noon, noon, without_end, 0s, 1s);
    EXPECT_TRUE(is_paused(paused));
    EXPECT_EQ(availability_of(paused, noon + 24h * 365, {}), availability::held);
    EXPECT_EQ(availability_of(resumed(paused, noon + 1h, 1s), noon + 1h, {}), availability::free);
    EXPECT_FALSE(is_paused(held_for_a_minute));
}

// Extend and release

TEST(extend, moves_the_end_and_keeps_the_token)
{
    const auto later = extended(held_for_a_minute, noon + 30s, 5min, {}, microsecond);
    EXPECT_EQ(later.lock_until, noon + 30s + 5min);
    EXPECT_EQ(later.locked_at, noon);
    EXPECT_EQ(later.lock_at_least_until, noon);
}

TEST(extend, I5_does_not_undercut_at_least)
{
    const lease kept{noon + 10min, noon, noon + 5min};
    EXPECT_EQ(extended(kept, noon + 1s, 1s, {}, microsecond).lock_until, noon + 5min);
    EXPECT_EQ(extended(kept, noon + 1s, 1s, {}, microsecond).lock_at_least_until, noon + 5min);
}

TEST(extend, replaces_at_least_when_given)
{
    const lease kept{noon + 10min, noon, noon + 5min};
    EXPECT_EQ(extended(kept, noon + 1s, 1min, 30s, microsecond).lock_at_least_until, noon + 31s);
}

TEST(release, frees_now)
{
    const auto freed = released(held_for_a_minute, noon + 10s, true, microsecond);
    EXPECT_EQ(freed.lock_until, noon + 10s);
    EXPECT_EQ(freed.locked_at, noon);
    EXPECT_FALSE(freed.lock_at_least_until);
    EXPECT_EQ(availability_of(freed, noon + 10s, {}), availability::free);
}

TEST(release, I5_keeps_for_at_least)
{
    const lease kept{noon + 10min, noon, noon + 5min};
    EXPECT_EQ(released(kept, noon + 1min, true, microsecond).lock_until, noon + 5min);
    EXPECT_EQ(released(kept, noon + 6min, true, microsecond).lock_until, noon + 6min);
}

TEST(release, is_free_at_once_in_a_coarse_column)
{
    const lease running{noon + 1min, noon, noon};
    const auto now = noon + 10s + 600ms;
    EXPECT_EQ(availability_of(released(running, now, true, 1s), now, {}), availability::free);
}

TEST(release, says_whether_it_was_done)
{
    EXPECT_EQ(released(held_for_a_minute, noon + 10s, true, microsecond).lock_at_least_until, std::nullopt);
    const auto failed = released(held_for_a_minute, noon + 10s, false, microsecond);
    EXPECT_EQ(failed.lock_at_least_until, never);
    EXPECT_EQ(failed.lock_until, noon + 10s);
    EXPECT_EQ(standing_of({failed, mine}, {mine, {}}, noon + 10s), standing::released);
}

// Pause, resume and force_release are no runs

std::optional<instant> outcome_after(const lease &current, const origin &from)
{
    return last_run_of(current, from).outcome;
}

TEST(outcome, of_the_last_run_stands_through_what_is_none)
{
    EXPECT_EQ(outcome_after({noon, noon, {}}, ours), std::nullopt);
    EXPECT_EQ(outcome_after({noon, noon, never}, ours), never);
    EXPECT_EQ(outcome_after({noon, noon, noon}, ours), never); // ran out
    EXPECT_EQ(outcome_after({noon, noon, noon}, javas), std::nullopt);
    EXPECT_EQ(outcome_after({never, never, {}}, javas), never); // a new row: nothing ran

    EXPECT_EQ(last_run_of({noon, noon, noon}, of_noon).tick, noon);
    EXPECT_FALSE(last_run_of({noon, noon, noon}, ours).tick);
    EXPECT_EQ(last_run_of({never, never, {}}, javas).tick, instant{}); // every tick is later

    for (const auto outcome : {std::optional<instant>{}, std::optional{never}}) {
        EXPECT_EQ(freed({noon, noon, outcome}, ours, noon + 1s, microsecond).lock_at_least_until, outcome);
        EXPECT_EQ(resumed({forever, noon, outcome}, noon + 1s, microsecond).lock_at_least_until, outcome);
    }
    EXPECT_EQ(freed(held_for_a_minute, ours, noon + 1s, microsecond).lock_at_least_until, never);
    EXPECT_EQ(freed(held_for_a_minute, javas, noon + 1s, microsecond).lock_at_least_until, std::nullopt);
}

} // namespace
