// What became of the runs and the ticks of a job, by the rows of its history and by its lock. Only plain values:
// neither a server nor a clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shedlock::tool {

using instant = std::chrono::sys_time<std::chrono::microseconds>;

struct past_run {
    std::int64_t token = 0;
    std::optional<instant> tick;
    std::string holder;
    instant acquired_at;
    std::optional<instant> ended_at; // none: `running`, or `abandoned`
    std::string outcome; // as in the history; or `running`; or `abandoned`, until somebody acquires the lock
    std::optional<std::string> detail;
};

struct job {
    std::vector<past_run> runs = {};                        // of the history, in any order
    bool has_row = false;                                   // in the lock table
    std::optional<past_run> current = {};                   // the run of that row, if it is running or abandoned
    std::optional<instant> last_tick = {}, done_up_to = {}; // by that row, only later ticks can be due
    std::optional<instant> java_ran_at = {}; // by that row, if a Java client ran since our last run that was done
};

struct period {
    instant from, to;
};

// The history was switched on, or off.
struct marker {
    instant at;
    bool is_on = false;
};

struct timeline {
    instant now, since;
    std::vector<instant> ticks; // from since on, ascending; the last one may be ahead of now, by looks_ahead at most
    std::chrono::microseconds looks_ahead{};
    std::vector<period> recorded; // when the history was on
};

// A line of the history. Its state is the outcome of a run, or `due`, `not run`, `unknown` or `no record`.
struct entry {
    std::optional<instant> tick;
    bool is_scheduled = false; // the tick is one of the schedule
    std::string state;
    std::vector<past_run> runs; // in the order in which they began
};

// When the history was on. `earliest` is when the earliest row known was written. Older rows, and markers, may have
// been deleted.
std::vector<period> recorded(std::vector<marker>, std::optional<instant> earliest);

// One for each run, in the order in which they began. Those that ended before `since` are left out.
std::vector<entry> by_run(const job &, instant since);

// One for each tick, and for each run that belongs to none, in the order of these instants. A run without a tick that
// is done belongs to the latest tick before it, unless that is done. Runs of earlier ticks than `since` are left out.
//
// `unknown`: a Java client may have done it, and leaves no record. Only the last Java run is known, and it may have
// done any tick since our last run before it, as may earlier Java runs. `no record`: nothing is recorded, and the
// history was not on all the time until the next tick. `due`: nobody has tried the last tick yet.
std::vector<entry> by_tick(const job &, const timeline &);

// "done 28, failed 1, ran out 0, not run 1". Other states follow if there are any.
std::string summary(const std::vector<entry> &, bool by_tick);

// The ticks of a schedule up to some instant. Missed is what is not done, except what is running, and what is `unknown`
// or has `no record`.
struct missed_ticks {
    std::int64_t ticks = 0;
    std::int64_t missed = 0;
    std::map<std::string, std::int64_t> by_state; // those missed
};
missed_ticks count_missed(const std::vector<entry> &, instant until);

// Whether each of the last ten runs that had a tick took longer than it was from this tick to the next one. False if
// fewer are known.
bool outlasts_its_schedule(const job &, const std::vector<instant> &ticks);

} // namespace shedlock::tool
