// A history: what a crowd of clients asked of the locks and what they were told, in the order in which it was written
// down. Plain text, a line when an operation is called and a line when its answer is there:
//
//     history seed=17 clients=4 allow=57014 standby=yes
//     call 5 client=2 tx=0 do=acquire by=token names=a,b at_most=50000 at_least=0 wait=0 at=1000 wall=1700000000001000
//     done 5 result=yes token=1700000000001200 before=.. after=.. until=.. at=1400 wall=1700000000001400
//
// Times are microseconds. at: the harness's monotonic clock, the same for all clients. wall: its wall clock, which is
// the server's, too, since both are on one machine. before, after: the server's clock in the same statement, just
// before and after the call. A call without an answer may or may not have happened; so may one with result=lost.
//
//     do          start commit rollback prepare (a commit that follows it is COMMIT PREPARED); savepoint keep undo:
//     SAVEPOINT,
//                 RELEASE and ROLLBACK TO it; acquire extend release; guard: and a row written to the ledger in the
//                 same statement; look: what the rows say; revoke: rows deleted; force: released by force
//                 run: shedlock_run of a command that writes a row to the ledger; gone: the session of a run whose
//                 reply was lost was seen to be no more; complete: and a row written to the ledger in the same
//                 statement; effects: what runs and completions have left in the ledger
//     by          session token java library: whose functions
//     tx          of this client; 0: a transaction of its own
//     of          extend, release, guard, complete: the number of the acquire that is meant; 0: none; gone: of the run
//     done        no: released as not done; a command that is told to fail
//     result      yes no error lost. no: refused, not ours, not held (force), or no row to delete
//     allow       codes of errors that are to be expected, besides those that the rules know
//     standby     missing: no commit can be acknowledged, for the synchronous standby is not there
//     crashes     yes: the server crashed meanwhile, which may take back a release that was acknowledged
//     edition     portable: see rules/portable.cpp for what may differ; otherwise the extension
//     level       start: repeatable or serializable; otherwise each statement has a snapshot of its own
//     until       the lock_until of the row, when the acquire saw it
//     ledger      rows of guarded transactions with smaller tokens that whoever was granted the lock could see at once
//     trust       until when (monotonic clock) the client library trusts its lease; release: its holder counted on it
//     begun,      run: the server's clock at the beginning and at the end of its command, whatever became of it
//     ended
//     rows        look: name:token:lock_until,... effects: name:token:number of the run or completion,...
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
enum class level { committed, repeatable, serializable };

struct moment {
    microseconds at = 0;
    microseconds wall = 0;
};

struct row {
    std::string name;
    microseconds token;
    microseconds until; // of an effect: the number of what left it
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
    bool retry = false;
    bool keep_alive = false;
    int of = 0;
    history::level level = history::level::committed;
    outcome as = outcome::done;    // release
    bool is_of_run = false;        // what the checker makes of a run
    bool is_of_completion = false; // ... of a completion
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
    std::vector<row> rows{};
    moment done{};

    std::string call_line{};
    std::string done_line{};
};

struct record {
    std::vector<std::string> allowed{}; // codes of errors
    bool standby_missing = false;
    bool has_crashes = false;
    bool is_portable = false;
    std::vector<operation> operations{}; // in the order of their calls

    // What the library says is then its answer to the last of several requests.
    [[nodiscard]] bool loses_replies() const { return !allowed.empty(); }
};

std::string head_line(record const &, std::string const &seed, int clients);
std::string call_line(operation const &);
std::string done_line(operation const &);

// Throws std::runtime_error, with the line, for what it can't read.
record read(std::istream &);

char const *to_text(action);
char const *to_text(result);

} // namespace history
