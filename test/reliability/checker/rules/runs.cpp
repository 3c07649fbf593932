// Splits a run into an acquire, a guard and a release.
#include "effects.hpp"
#include "rules.hpp"

#include <algorithm>
#include <map>

namespace checker {

using namespace history;

namespace {

bool is_answered(const operation &run)
{
    return run.result == result::yes || run.result == result::no || run.result == result::error;
}

class dissection {
public:
    explicit dissection(const record &given)
        : look_{last_look(given)}, effects_{effects_in(look_)}, slack_{drift(given)}
    {
        for (const auto &op : given.operations)
            if (op.what == action::gone && op.result == result::yes)
                gone_[op.of] = &op;
        made_ = given;
        made_.operations.clear();
        for (const auto &op : given.operations)
            if (op.what == action::run)
                take_apart(op);
            else
                made_.operations.push_back(op);
    }

    [[nodiscard]] const record &made() const { return made_; }

private:
    // The moment at which the server's clock, which is the history's wall clock, showed this time. `at` is derived from
    // the moment of the call; `slack` allows for a monotonic clock that has drifted from the wall clock since.
    static moment at_server(const operation &run, microseconds wall, microseconds slack)
    {
        return {wall - run.called.wall + run.called.at + slack, wall};
    }

    // When the run had ended, if that is known. A session that is gone has ended its transaction.
    [[nodiscard]] moment end_of(const operation &run) const
    {
        if (is_answered(run))
            return run.done;
        if (const auto found = gone_.find(run.number); found != gone_.end())
            return found->second->done;
        return effects_.contains(run.number) ? look_->called : moment{};
    }

    void take_apart(const operation &run)
    {
        made_.operations.push_back(acquire_of(run));
        if (run.result == result::no)
            return;
        const auto guard = guard_of(run);
        made_.operations.push_back(guard);
        if (run.state != "SL001")
            made_.operations.push_back(release_of(run, guard));
    }

    // If the command began, the lock had been granted and the grant committed.
    [[nodiscard]] operation acquire_of(const operation &run) const
    {
        auto made = run;
        made.what = action::acquire;
        made.is_of_run = true;
        made.as = outcome::done;
        made.state.clear();
        const auto effect = effects_.find(run.number);
        if (!made.token && effect != effects_.end())
            made.token = effect->second.front().token;
        if (run.result != result::no)
            made.result = run.begun || is_done(run) ? result::yes : result::lost;
        made.done = run.begun ? at_server(run, *run.begun, slack_) : end_of(run);
        return made;
    }

    [[nodiscard]] operation guard_of(const operation &run) const
    {
        operation made{.number = -2 * run.number, .client = run.client, .what = action::guard, .by = run.by};
        made.names = run.names;
        made.of = run.number;
        made.is_of_run = true;
        // The portable edition locks the row during the whole command, the extension only after its end.
        const auto since = run.ended && !made_.is_portable ? run.ended : run.begun;
        made.called = since ? at_server(run, *since, -slack_) : run.called;
        made.result = is_done(run) ? result::yes : is_answered(run) ? result::error : result::lost;
        made.state = run.state;
        made.done = end_of(run);
        made.call_line = run.call_line;
        made.done_line = run.done_line;
        return made;
    }

    // A run whose command failed on purpose has released the lock, unless it warned that it had not (while the
    // extension is dropped and created again, for example). After another error it may not have released it. If its
    // session is gone, that counts as a release.
    [[nodiscard]] operation release_of(const operation &run, operation made) const
    {
        --made.number;
        made.what = action::release;
        const bool is_gone = gone_.contains(run.number);
        const bool failed_as_told = run.as == outcome::failed && run.state == "22012" && !run.is_kept;
        made.result = is_done(run) || is_gone || failed_as_told ? result::yes : result::lost;
        made.state.clear();
        made.as = is_done(run)                                        ? outcome::done
                  : is_answered(run) || (is_gone && look_ != nullptr) ? outcome::failed
                                                                      : outcome::unknown;
        return made;
    }

    [[nodiscard]] bool is_done(const operation &run) const
    {
        return run.result == result::yes || effects_.contains(run.number);
    }

    const operation *look_;
    effects effects_;
    microseconds slack_;
    std::map<int, const operation *> gone_; // by the number of the run
    record made_;
};

} // namespace

record with_runs_taken_apart(const record &given)
{
    return dissection{given}.made();
}

} // namespace checker
