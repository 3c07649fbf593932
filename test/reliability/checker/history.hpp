// A history: the requests of many clients and the answers to them, in the order in which they were recorded. It is
// plain text, with one line when an operation is called and one line when its answer has arrived:
//
//     history seed=17 clients=4 allow=57014 standby=yes crashes=no
//     call 5 client=2 tx=0 do=acquire by=token names=a,b at_most=50000 at_least=0 wait=0 at=1000 wall=1700000000001000
//     done 5 result=yes token=1700000000001200 before=.. after=.. until=.. at=1400 wall=1700000000001400
//
// Times are in microseconds. at: the monotonic clock, the same for all clients. wall: the wall clock, which is also the
// server's, because both are on one machine. before, after: the server's clock in the same statement, just before and
// after the call. A call without an answer, or with result=lost, may or may not have happened.
//
//     do          start commit rollback prepare: of a transaction; a commit after prepare is COMMIT PREPARED
//                 savepoint keep undo: SAVEPOINT, RELEASE, ROLLBACK TO
//                 acquire extend release
//                 guard, complete: the same transaction also writes a row to the ledger
//                 run: shedlock_run with a command that writes a row to the ledger
//                 gone: the reply to a run was lost, and its session was seen to be gone
//                 look: the contents of the rows. revoke: rows are deleted. force: released by force
//                 effects: what runs and completions have left in the ledger
//     by          session token java library: whose functions are used
//     tx          the number of the client's transaction; 0: the operation is a separate transaction
//     of          extend, release, guard, complete: the number of the acquire, 0: none; gone: the number of the run
//     done        no: released as not done, or a command that fails on purpose
//     result      yes no error lost. no: refused, not ours, not held (force), or no row to delete
//     allow       SQLSTATEs that are expected in addition to those that the rules know
//     standby     missing: no commit can be acknowledged, because there is no synchronous standby
//     crashes     yes: the server crashed during the history, which may undo a release that was acknowledged
//     edition     portable: see rules/portable.cpp for the differences; otherwise the extension
//     level       start: repeatable or serializable; otherwise each statement has its own snapshot
//     until       the lock_until of the row, if the acquire saw it
//     ledger      the number of rows of guarded transactions with smaller tokens that the new holder could see at once
//     trust       until when (monotonic clock) the library trusts its lease; release: when its holder last relied
//                 on the lock
//     begun,      run: the server's clock at the beginning and at the end of its command, whatever becomes of the run;
//     ended       no `ended` if the command itself failed
//     tick        acquire, run: the tick, if any. start_within: if given. retry, keep_alive: yes, or absent
//     state       result=error or lost: the SQLSTATE, if any; "usage": an error of the library without one
//     kept        yes: a run that failed warned that its lock was not released
//     rows        look: name:token:lock_until,... effects: name:token:number of the run or completion,...
//     endings     effects: what shedlock_history said at that moment, name:token:1,...; 1 done, 2 failed, 3 ran out,
//                 4 freed. Absent if no history is kept
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace history {

using microseconds = std::int64_t;

enum class action {
    start,
    commit,
    rollback,
    prepare,
    savepoint,
    keep,
    undo,
    acquire,
    extend,
    release,
    guard,
    look,
    revoke,
    force,
    run,
    gone,
    effects,
    complete
};
enum class maker { session, token, java, library };
enum class result { none, yes, no, error, lost };
enum class outcome { done, failed, unknown };
enum class ending { done = 1, failed, ran_out, freed };
enum class level { committed, repeatable, serializable };

struct moment {
    microseconds at = 0;
    microseconds wall = 0;
};

struct row {
    std::string name;
    microseconds token;
    microseconds until; // for an effect: the number of the run or completion; for an ending: which
};

struct operation {
    int number = 0;
    int client = 0;
    int tx = 0;
    action what = action::look;
    maker by = maker::token;
    std::vector<std::string> names{};
    microseconds at_most = 0;
    std::optional<microseconds> at_least{};
    microseconds wait = 0;
    std::optional<microseconds> tick{};
    std::optional<microseconds> start_within{};
    bool retry = false;
    bool keep_alive = false;
    int of = 0;
    history::level level = history::level::committed;
    outcome as = outcome::done;    // release, run; unknown: only in what the checker has derived from a run
    bool is_of_run = false;        // the checker has derived it from a run
    bool is_of_completion = false; // ... or a completion
    moment called{};

    // The answer.
    history::result result = result::none;
    std::string state{}; // SQLSTATE of an error
    std::optional<microseconds> token{};
    std::optional<microseconds> before{};
    std::optional<microseconds> after{};
    std::optional<microseconds> until{};
    std::optional<microseconds> trust{};
    std::optional<int> ledger{};
    std::optional<microseconds> begun{};
    std::optional<microseconds> ended{};
    bool is_kept = false;
    std::vector<row> rows{};
    std::optional<std::vector<row>> endings{};
    moment done{};

    std::string call_line{};
    std::string done_line{};
};

struct record {
    std::vector<std::string> allowed{}; // SQLSTATEs
    bool standby_missing = false;
    bool has_crashes = false;
    bool is_portable = false;
    bool has_timeouts = false;           // of the library's requests, which wait two seconds for a reply
    std::vector<operation> operations{}; // in the order of their calls

    // Whether replies may have been lost. Then the library repeats the request, and reports the last answer.
    [[nodiscard]] bool loses_replies() const { return has_timeouts || !allowed.empty(); }
};

std::string head_line(const record &, const std::string &seed, int clients);
std::string call_line(const operation &);
std::string done_line(const operation &);

// Throws std::runtime_error with the line that it cannot read.
record read(std::istream &);

const char *to_text(action);
const char *to_text(result);
const char *to_text(ending);

} // namespace history
