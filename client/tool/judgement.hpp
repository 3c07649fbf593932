// Judges what is known of a job, for monitoring. Plain values: neither a server nor a clock.
#pragma once

#include "history.hpp"
#include "schedule.hpp"

namespace shedlock::tool {

struct thresholds {
    std::optional<std::chrono::microseconds> max_age;  // since a run was last done
    std::optional<std::chrono::microseconds> max_held; // by the present holder
    schedule runs;                                     // without ticks: not limited by a schedule
    std::optional<std::uint32_t> max_missed;           // ticks of the schedule that are not done
};

// The exit status of monitoring plugins.
enum class health { ok = 0, warning = 1, critical = 2, unknown = 3 };

// Times are in seconds before now.
struct lock_row {
    std::string state, last_outcome; // no state: there is no such row
    // Since it was done or may have been done, or for which it has been held. nullopt: never, or not held.
    std::optional<double> done, held_for, java_may_have_done;
    std::string holder;
    std::optional<double> begun, ended; // the last acquisition; its end is known only if the lock is free
    bool last_was_java = false;
};

// The tick of a job that is to be reported: the latest, or an earlier one whose run should be done by now.
struct due_run {
    bool is_too_early = false; // before `since`
    bool is_done = false;
    bool is_overdue = false; // not done, and older than the grace
    bool is_under_way = false;
    bool java_may_have_done = false;
    std::optional<double> last_done_tick; // seconds ago
    double late = 0;                      // seconds since the tick
    std::string tick, deadline, last_done, since;
};

// Everything that is known of a job. Without a limit for missed ticks, the last two are not asked for.
struct findings {
    lock_row lock;
    due_run run;
    missed_ticks missed;
    bool outlasts_its_schedule = false;
};

struct judgement {
    health is;
    std::string says; // what follows the name: " was done ...", or ": the run of ..."
};

// Critical is worse than warning, and that is worse than unknown.
bool is_worse(health, health);

// The worst of the judgements by these limits; of equally bad ones the first.
judgement judge(const findings &, const thresholds &);

// Performance data, each with a blank in front.
std::string measures(const std::string &name, const findings &, const thresholds &);

// Without line breaks, and without the character before which a text ends.
std::string plain(const std::string &);

} // namespace shedlock::tool
