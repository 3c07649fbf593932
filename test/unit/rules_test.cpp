#include "rules.hpp"

#include <gtest/gtest.h>

using namespace shedlock;
using namespace std::chrono_literals;

namespace {

constexpr duration microsecond = 1us;
constexpr instant noon{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + 12h};

constexpr lease held_for_a_minute{noon + 1min, noon, noon};
constexpr lease long_over{noon - 1h, noon - 2h, {}};
constexpr origin ours{origin::kinds::token, {}};
constexpr origin java{};

// Availability

TEST(availability, I1_is_held_until_the_very_end_of_the_lease)
{
    EXPECT_EQ(availability_of(held_for_a_minute, noon, {}), availability::taken);
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1min - 1us, {}), availability::taken);
}

TEST(availability, I1_is_free_at_the_instant_when_the_lease_ends)
{
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1min, {}), availability::free);
}

TEST(availability, infinity_is_held)
{
    EXPECT_EQ(availability_of({forever, noon, {}}, noon + 24h, {}), availability::taken);
}

TEST(availability, a_tick_has_one_turn)
{
    const history ran{noon, noon, noon};
    EXPECT_EQ(availability_of(long_over, noon, tick_request{noon, false}, ran), availability::not_due);
    EXPECT_EQ(availability_of(long_over, noon, tick_request{noon, true}, ran), availability::not_due);
    EXPECT_EQ(availability_of(long_over, noon, tick_request{noon + 1us, false}, ran), availability::free);
    EXPECT_EQ(availability_of(long_over, noon, tick_request{noon, false}, history{}), availability::free);
}

TEST(availability, a_tick_is_compared_with_ticks_and_not_with_clocks)
{
    // Yesterday's tick was run only this morning, and does not use up today's.
    const lease this_morning{noon - 1h, noon - 2h, {}};
    const history yesterdays{noon - 24h, noon - 24h, noon - 1h};
    EXPECT_EQ(availability_of(this_morning, noon, tick_request{noon - 3h, false}, yesterdays), availability::free);
    EXPECT_EQ(availability_of(this_morning, noon, tick_request{noon - 24h, true}, yesterdays), availability::not_due);
}

TEST(availability, an_earlier_tick_is_refused_for_good)
{
    for (const auto done : {std::optional<instant>{}, std::optional{noon - 1h}, std::optional{noon}})
        for (const bool retry : {false, true})
            EXPECT_EQ(availability_of(long_over, noon, tick_request{noon - 1us, retry}, {noon, done, {}}),
                      availability::not_due);
}

TEST(availability, a_tick_that_is_running_has_had_its_turn)
{
    const history running{noon, {}, {}};
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1s, tick_request{noon, false}, running), availability::not_due);
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1s, tick_request{noon + 1s, false}, running),
              availability::taken);
}

TEST(availability, with_retry_the_last_tick_is_due_until_it_is_done)
{
    const tick_request again{noon, true};
    for (const auto done : {std::optional<instant>{}, std::optional{noon - 1h}}) {
        EXPECT_EQ(availability_of(long_over, noon, again, {noon, done, {}}), availability::free);
        EXPECT_EQ(availability_of(long_over, noon, tick_request{noon, false}, {noon, done, {}}), availability::not_due);
    }
    EXPECT_EQ(availability_of(long_over, noon, again, {noon, noon, {}}), availability::not_due);
}

TEST(availability, a_tick_is_not_due_if_a_later_run_without_a_tick_was_done)
{
    const history done_by_hand{noon - 2h, noon - 1h, noon};
    for (const bool retry : {false, true}) {
        EXPECT_EQ(availability_of(long_over, noon, tick_request{noon - 2h, retry}, done_by_hand),
                  availability::not_due);
        EXPECT_EQ(availability_of(long_over, noon, tick_request{noon - 1h, retry}, done_by_hand),
                  availability::not_due);
        EXPECT_EQ(availability_of(long_over, noon, tick_request{noon - 1h + 1us, retry}, done_by_hand),
                  availability::free);
    }
}

TEST(availability, it_is_late_when_start_within_has_passed)
{
    const tick_request in_an_hour{noon, true, 1h};
    EXPECT_EQ(availability_of(long_over, noon + 1h, in_an_hour, {noon, {}, {}}), availability::free);
    EXPECT_EQ(availability_of(long_over, noon + 1h + 1us, in_an_hour, {noon, {}, {}}), availability::late);
    EXPECT_EQ(availability_of({noon + 2h, noon, noon}, noon + 1h + 1us, in_an_hour, {}), availability::late);
    EXPECT_EQ(availability_of(long_over, noon + 2h, in_an_hour, {noon, noon, {}}), availability::not_due)
        << "that it is done is said first";
}

TEST(availability, I5_a_retry_waits_for_at_least_and_for_a_run_in_progress)
{
    const tick_request again{noon, true};
    const history not_done{noon, {}, {}};
    EXPECT_EQ(availability_of({noon + 5s, noon, never}, noon + 5s - 1us, again, not_done), availability::taken);
    EXPECT_EQ(availability_of(held_for_a_minute, noon + 1s, again, not_done), availability::taken);
}

// History

TEST(history, of_java_counts_as_done_for_ticks_up_to_its_acquisition)
{
    const lease javas{noon + 1h, noon, {}};
    const auto after_failure = history_of({noon - 1h, noon - 2h, noon - 90min}, javas, java);
    EXPECT_EQ(after_failure.last_tick, noon - 1h);
    EXPECT_EQ(after_failure.last_done_tick, noon);
    EXPECT_EQ(after_failure.last_done_at, noon - 90min); // Java does not record whether it succeeded
    const auto of_ours = history_of({noon - 1h, noon - 2h, noon - 90min}, javas, ours);
    EXPECT_EQ(of_ours.last_tick, noon - 1h);
    EXPECT_EQ(of_ours.last_done_tick, noon - 2h);
}

TEST(history, of_java_takes_nothing_back)
{
    // The run of a tick ahead of the clock failed, and a Java client ran before that tick was due. The Java run counts
    // as done for the ticks up to its acquisition, and leaves the failed tick to be retried.
    const auto counts = history_of({noon + 30s, noon - 1h, {}}, {noon + 1h, noon, {}}, java);
    EXPECT_EQ(counts.last_tick, noon + 30s);
    EXPECT_EQ(counts.last_done_tick, noon);
}

TEST(history, of_a_new_row_is_empty)
{
    for (const auto nobodys : {never, forever}) {
        const auto counts = history_of({}, {nobodys, nobodys, {}}, java);
        EXPECT_FALSE(counts.last_tick);
        EXPECT_FALSE(counts.last_done_tick);
    }
}

TEST(history, of_a_run_has_its_tick_and_is_done_when_it_is_released_as_done)
{
    const history before{noon - 1h, noon - 2h, noon - 90min};
    const auto running = begun(before, noon - 30min, noon, microsecond);
    EXPECT_EQ(running.last_tick, noon - 30min);
    EXPECT_EQ(running.last_done_tick, noon - 2h);
    EXPECT_EQ(running.last_done_at, noon - 90min);
    EXPECT_EQ(running.run_tick, noon - 30min);
    const auto after = done(running, noon + 1s);
    EXPECT_EQ(after.last_tick, noon - 30min);
    EXPECT_EQ(after.last_done_tick, noon - 30min);
    EXPECT_EQ(after.last_done_at, noon + 1s);
}

TEST(history, of_a_run_without_a_tick_counts_for_the_ticks_before_it_only_if_it_is_done)
{
    const history before{noon - 1h, noon - 2h, noon - 90min};
    const auto running = begun(before, {}, noon, microsecond);
    EXPECT_EQ(running.last_tick, noon - 1h);
    EXPECT_EQ(running.last_done_tick, noon - 2h);
    EXPECT_EQ(running.run_tick, noon);
    const auto after = done(running, noon + 1s);
    EXPECT_EQ(after.last_tick, noon - 1h);
    EXPECT_EQ(after.last_done_tick, noon);
    EXPECT_EQ(after.last_done_at, noon + 1s);
    EXPECT_EQ(begun({}, {}, noon + 200ms, 1s).run_tick, noon);
}

TEST(history, takes_no_done_tick_back)
{
    EXPECT_EQ(done(begun({{}, noon + 1h, {}}, {}, noon, microsecond), noon).last_done_tick, noon + 1h);
}

TEST(history, shows_whether_the_run_has_a_tick)
{
    for (const duration unit : {duration{1us}, duration{1s}}) {
        const auto running = begun({noon, {}, {}}, {}, noon, unit);
        EXPECT_EQ(running.run_tick, noon - unit);
        EXPECT_EQ(begun({noon, {}, {}}, noon, noon, unit).run_tick, noon);
    }
}

TEST(history, of_a_row_without_a_run_tick_is_read_as_before_there_was_one)
{
    EXPECT_EQ(done({noon, noon - 1h, {}}, noon + 1s).last_done_tick, noon);
    EXPECT_EQ(without_run(begun({}, noon, noon, microsecond)).run_tick, std::nullopt);
}

TEST(history, has_ticks_if_there_ever_was_one)
{
    EXPECT_FALSE(has_ticks(done(begun({}, {}, noon, microsecond), noon)));
    EXPECT_TRUE(has_ticks(begun(begun({}, noon, noon, microsecond), {}, noon, microsecond)));
}

TEST(ended_lease, keeps_at_least_when_the_session_of_a_run_is_gone)
{
    EXPECT_EQ(ended(held_for_a_minute).lock_until, noon);
    EXPECT_EQ(ended({noon + 1min, noon, noon + 5s}).lock_until, noon + 5s);
    EXPECT_EQ(ended({noon + 1min, noon, noon + 5s}).lock_at_least_until, noon + 5s);
    // Released before the session ended, and kept.
    EXPECT_EQ(ended({noon + 5s, noon, {}}).lock_until, noon + 5s);
    EXPECT_EQ(ended({noon + 5s, noon, never}).lock_until, noon + 5s);
    EXPECT_EQ(ended({noon + 5s, noon, noon + 1min}).lock_until, noon + 5s) << "edited by hand";
}

// Tokens

TEST(token, I6_is_the_time_of_the_acquisition)
{
    EXPECT_EQ(new_token(noon, {}, microsecond), noon);
    EXPECT_EQ(new_token(noon, noon - 1h, microsecond), noon);
}

TEST(token, I6_grows_when_the_clock_stops_or_steps_back)
{
    EXPECT_EQ(new_token(noon, noon, microsecond), noon + 1us);
    EXPECT_EQ(new_token(noon, noon + 1h, microsecond), noon + 1h + 1us);
}

TEST(token, I6_grows_in_coarse_columns)
{
    EXPECT_EQ(new_token(noon + 200ms, noon, 1s), noon + 1s);
    EXPECT_EQ(new_token(noon + 1700ms, noon, 1s), noon + 1s);
    EXPECT_EQ(new_token(noon + 1700ms, noon + 5ms, 1ms), noon + 1700ms);
}

TEST(token, is_a_tick_of_a_row_if_it_was_acquired_or_done)
{
    EXPECT_TRUE(is_tick_of({noon, {}, {}}, noon));
    EXPECT_TRUE(is_tick_of({{}, noon, {}}, noon));
    EXPECT_FALSE(is_tick_of({noon, noon - 1h, noon + 1us, noon + 1us}, noon + 1us));
}

TEST(token, before_1970_is_rounded_down_too)
{
    const instant early{duration{-1500ms}};
    EXPECT_EQ(new_token(early, {}, 1s), instant{duration{-2s}});
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

constexpr origin mine{origin::kinds::session, "/42.17"};
constexpr identity session{"/42.17", {}};

TEST(acquisition_state, I4_a_session_owns_what_it_acquired)
{
    EXPECT_EQ(state_of({held_for_a_minute, mine, "job"}, session, noon), acquisition_state::live);
    EXPECT_EQ(state_of({held_for_a_minute, {origin::kinds::session, "/42.17", true}, "job"}, session, noon),
              acquisition_state::live);
    EXPECT_EQ(state_of({held_for_a_minute, {origin::kinds::session, "/42.18"}, "job"}, session, noon),
              acquisition_state::foreign);
    EXPECT_EQ(state_of({held_for_a_minute, ours, "/42.17"}, session, noon), acquisition_state::foreign);
    EXPECT_EQ(state_of({held_for_a_minute, java, "/42.17"}, session, noon), acquisition_state::foreign);
}

TEST(acquisition_state, I4_a_token_owns_a_row_that_was_acquired_by_token_and_still_has_this_token)
{
    const identity holder{{}, noon};
    EXPECT_EQ(state_of({held_for_a_minute, ours, "job"}, holder, noon), acquisition_state::live);
    EXPECT_EQ(state_of({{noon + 1min, noon + 1us, noon}, ours, "job"}, holder, noon), acquisition_state::foreign);
    // A Java client took the row over and happened to write the same locked_at.
    EXPECT_EQ(state_of({held_for_a_minute, java, "job"}, holder, noon), acquisition_state::foreign);
    EXPECT_EQ(state_of({held_for_a_minute, mine, "job"}, holder, noon), acquisition_state::foreign);
    EXPECT_EQ(state_of({held_for_a_minute, {origin::kinds::administrator, {}}, "job"}, holder, noon),
              acquisition_state::foreign);
}

TEST(acquisition_state, a_run_is_owned_by_its_session_and_its_token)
{
    const identity run{"/42.17", noon};
    EXPECT_EQ(state_of({held_for_a_minute, {origin::kinds::session, "/42.17", true}, "job"}, run, noon),
              acquisition_state::live);
    EXPECT_EQ(state_of({{noon + 1min, noon + 1us, noon}, {origin::kinds::session, "/42.17", true}, "job"}, run, noon),
              acquisition_state::foreign);
}

TEST(acquisition_state, I1_a_lease_that_has_ended_is_no_longer_ours)
{
    EXPECT_EQ(state_of({held_for_a_minute, mine, {}}, session, noon + 1min - 1us), acquisition_state::live);
    EXPECT_EQ(state_of({held_for_a_minute, mine, {}}, session, noon + 1min), acquisition_state::expired);
}

TEST(acquisition_state, I1_a_released_lease_is_no_longer_ours_even_if_it_is_kept)
{
    EXPECT_EQ(state_of({{noon + 1min, noon, never}, mine, {}}, session, noon + 1s), acquisition_state::failed);
    EXPECT_EQ(state_of({{noon + 1min, noon, {}}, mine, {}}, session, noon + 1s), acquisition_state::done);
}

TEST(acquisition_state, a_token_that_was_released_as_done_is_known_until_a_later_one_is_released_as_done)
{
    const identity holder{{}, noon};
    const lease next{noon + 1min, noon + 1us, noon};
    EXPECT_EQ(state_of({next, ours, "job"}, holder, noon, {noon + 1us, noon, noon}), acquisition_state::done);
    EXPECT_EQ(state_of({next, java, "job"}, holder, noon, {noon, noon, noon}), acquisition_state::done);
    EXPECT_EQ(state_of({next, ours, "job"}, holder, noon, {noon + 1us, noon + 1us, noon}), acquisition_state::foreign);
    EXPECT_EQ(state_of({next, ours, "job"}, holder, noon, {noon + 1us, noon - 1us, noon}), acquisition_state::foreign);
    EXPECT_EQ(state_of({next, ours, "job"}, holder, noon, {noon + 1us, {}, {}}), acquisition_state::foreign);
    // The row still has the token, so its own state decides.
    EXPECT_EQ(state_of({held_for_a_minute, ours, "job"}, holder, noon, {noon, noon, noon}), acquisition_state::live);
}

TEST(acquisition_state, a_token_whose_lease_ends_with_a_session_is_not_owned_by_that_session)
{
    const row current{held_for_a_minute, {origin::kinds::token, "/42.17", true}, "job"};
    EXPECT_EQ(state_of(current, session, noon), acquisition_state::foreign);
    EXPECT_EQ(state_of(current, {{}, noon}, noon), acquisition_state::live);
}

TEST(acquisition_state, nobody_can_release_a_pause)
{
    EXPECT_EQ(state_of({{forever, noon, noon}, ours, {}}, {{}, noon}, noon), acquisition_state::foreign);
}

// Intervention

TEST(force_release, frees_now_and_invalidates_the_token)
{
    const lease kept{noon + 10min, noon, noon + 5min};
    const auto after = freed(kept, noon + 1s, microsecond);
    EXPECT_EQ(availability_of(after, noon + 1s, {}), availability::free);
    EXPECT_GT(after.locked_at, kept.locked_at);
    EXPECT_TRUE(is_released(after));
}

TEST(force_release, I6_grows_when_the_clock_has_stepped_back)
{
    EXPECT_EQ(freed(held_for_a_minute, noon - 1h, microsecond).locked_at, noon + 1us);
}

TEST(force_release, repairs_an_infinite_token)
{
    EXPECT_EQ(freed({forever, forever, {}}, noon, microsecond).locked_at, noon);
}

TEST(pause, has_no_end)
{
    const auto paused = granted(noon, noon, std::nullopt, 0s, 1s);
    EXPECT_TRUE(is_paused(paused));
    EXPECT_EQ(availability_of(paused, noon + 24h * 365, {}), availability::taken);
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
    EXPECT_EQ(state_of({failed, mine, {}}, session, noon + 10s), acquisition_state::failed);
}

TEST(past, is_a_row_that_is_free_and_older_than_anything_that_may_follow)
{
    const auto now = noon + 1h;
    const lease free{noon, noon, std::nullopt};
    EXPECT_TRUE(is_past(free, {}, now, microsecond));
    EXPECT_TRUE(is_past(free, {noon, noon, noon}, now, microsecond));
    EXPECT_TRUE(is_past({now, noon, std::nullopt}, {}, now, microsecond)) << "the lease has just ended";
    EXPECT_FALSE(is_past({now + microsecond, noon, noon}, {}, now, microsecond)) << "held";
    EXPECT_FALSE(is_past({forever, noon, std::nullopt}, {}, now, microsecond)) << "paused";
    EXPECT_FALSE(is_past({noon, now, std::nullopt}, {}, now, microsecond)) << "I6: the next token would be the same";
    EXPECT_FALSE(is_past({noon, now, std::nullopt}, {}, now + 9s, 10s)) << "I6, in a coarse column";
    EXPECT_FALSE(is_past(free, {now, {}, {}}, now, microsecond)) << "a tick that is not past yet";
    EXPECT_FALSE(is_past(free, {{}, now, {}}, now, microsecond)) << "done for ticks that are not past yet";
}

} // namespace
