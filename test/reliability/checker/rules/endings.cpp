// Compares the history of runs with what is certain: each acquisition of ours that was committed and has ended has one
// row, which says how it ended; others have none. So the rows of outcome done are the effects of runs and completions,
// and the releases as done.
#include "effects.hpp"
#include "rules.hpp"

#include <algorithm>
#include <set>

namespace checker {

using history::action;
using history::ending;
using history::maker;
using history::result;

namespace {

struct expectation {
    std::set<ending> possible{};
    bool has_row = false; // certainly
};

bool may_be_a_run(const acquisition &one)
{
    return one.op->by != maker::java && one.fate.outcome != fates::undone;
}

bool may_come_after(const operation &event, const acquisition &mine)
{
    const bool is_over = event.result == result::yes || event.result == result::no;
    return !is_over || event.done.at >= mine.op->called.at;
}

// A library that was refused the release of several names may have released some of them one by one.
bool may_release(const world &world, const operation &op, const acquisition &mine)
{
    const bool is_partly_done = op.result == result::no && op.by == maker::library && op.names.size() > 1;
    return op.what == action::release && op.of == mine.op->number && !op.is_of_completion &&
           (is_partly_done || world.fate_of(op).outcome != fates::undone);
}

class ending_rules {
public:
    ending_rules(const world &world, const history::record &given, const std::vector<history::row> &rows, found &all)
        : world_{world}, given_{given}, rows_{rows}, all_{all}
    {
        const auto effects = effects_in(last_look(given));
        for (const auto &op : given.operations)
            if (effects.contains(op.number))
                for (const auto &name : op.names)
                    worked_.emplace(op.what == action::run ? op.number : op.of, name);
    }

    void judge(const std::string &name, const biography &about)
    {
        for (const auto &row : rows_)
            if (row.name == name && !has_run(about, row.token))
                report("a row of name " + name + " and token " + std::to_string(row.token) +
                           ", which no client acquired and committed",
                       {});
        for (const auto &mine : about.acquisitions)
            if (may_be_a_run(mine) && mine.op->token)
                compare(name, mine, expected(name, about, mine));
    }

private:
    static bool has_run(const biography &about, microseconds token)
    {
        return std::any_of(
                   about.acquisitions.begin(), about.acquisitions.end(),
                   [&](const auto &one) { return may_be_a_run(one) && one.op->token.value_or(token) == token; }) ||
               std::any_of(about.unknown.begin(), about.unknown.end(),
                           [](const auto *op) { return op->by != maker::java; });
    }

    // The effect of a run or a completion is committed with the row. Without the effect, there is no row of it either,
    // except that a run has failed.
    expectation expected(const std::string &name, const biography &about, const acquisition &mine) const
    {
        if (worked_.contains({mine.op->number, name}))
            return {{ending::done}, true};
        auto all = without_release(about, mine);
        for (const auto *const op : about.touched) {
            if (!may_release(world_, *op, mine))
                continue;
            const auto how = op->is_of_run || op->as == history::outcome::failed ? ending::failed : ending::done;
            const bool is_certain = has_certainly_released(*op);
            if (is_certain && op->by != maker::library)
                return {{how}, true};
            all.possible.insert(how);
            all.has_row |= is_certain;
        }
        return all;
    }

    // The library also reports a release if a completion or an earlier request of its own has released the lock.
    bool has_certainly_released(const operation &op) const
    {
        const auto &fate = world_.fate_of(op);
        return op.result == result::yes && fate.outcome == fates::kept && fate.by != ever &&
               (!op.is_of_run || has_reported_failure(op.of));
    }

    // The release of a run that failed may be lost in a crash.
    bool has_reported_failure(int run) const
    {
        return !given_.has_crashes &&
               std::any_of(given_.operations.begin(), given_.operations.end(),
                           [&](const auto &op) { return op.number == run && op.result == result::error; });
    }

    expectation without_release(const biography &about, const acquisition &mine) const
    {
        expectation all;
        for (const auto &other : about.acquisitions)
            if (may_be_a_run(other) && other.op->token.value_or(ever) > *mine.op->token) {
                all.possible.insert(ending::ran_out);
                all.has_row |= has_certainly_replaced(about, mine, other);
            }
        for (const auto *const other : about.unknown)
            if (other->by != maker::java)
                all.possible.insert(ending::ran_out);
        for (const auto *const event : about.revoked)
            if (event->what == action::force && may_come_after(*event, mine)) {
                if (event->result != result::no)
                    all.possible.insert(ending::freed);
                if (event->result != result::yes)
                    all.possible.insert(ending::ran_out);
            }
        return all;
    }

    // If a Java client was the first to replace it, or the row was deleted, nothing was recorded.
    static bool has_certainly_replaced(const biography &about, const acquisition &mine, const acquisition &other)
    {
        const auto may_be_java_between = [&](const operation *op) {
            return op->what == action::acquire && op->by == maker::java && op->result != result::no &&
                   op->result != result::error && may_come_after(*op, mine) && op->called.at <= other.op->done.at;
        };
        return other.op->token && mine.fate.outcome == fates::kept && other.fate.outcome == fates::kept &&
               !was_deleted_between(about, *mine.op, *other.op) &&
               std::none_of(about.touched.begin(), about.touched.end(), may_be_java_between);
    }

    void compare(const std::string &name, const acquisition &mine, const expectation &expected)
    {
        int count = 0;
        for (const auto &row : rows_) {
            if (row.name != name || row.token != *mine.op->token)
                continue;
            ++count;
            const auto how = static_cast<ending>(row.until);
            if (!expected.possible.contains(how))
                report(std::string{"the history says \""} + history::to_text(how) + "\" of a run that " +
                           (expected.possible.empty() ? "has not ended" : "has not ended like that"),
                       proof(mine));
        }
        if (count > 1)
            report("the history has " + std::to_string(count) + " rows of one run", proof(mine));
        if (count == 0 && expected.has_row)
            report("a run has ended, and the history has no row of it", proof(mine));
    }

    static std::vector<operation> proof(const acquisition &mine)
    {
        std::vector<operation> all{*mine.op};
        for (const auto &[change, may_be_earlier] : mine.changes)
            all.push_back(*change);
        return all;
    }

    void report(const std::string &what, const std::vector<operation> &proof)
    {
        all_.push_back({"history", what, proof});
    }

    const world &world_;
    const history::record &given_;
    const std::vector<history::row> &rows_;
    found &all_;
    std::set<std::pair<int, std::string>> worked_{}; // acquisitions whose work was done: the acquire or run, and a name
};

} // namespace

void endings_are_recorded(const world &world, const history::record &given, found &all)
{
    const auto *const look = last_look(given);
    if (!look || !look->endings)
        return;
    ending_rules rules{world, given, *look->endings, all};
    for (const auto &[name, about] : world.names)
        rules.judge(name, about);
}

} // namespace checker
