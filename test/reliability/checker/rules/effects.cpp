// Checks the effects of runs and completions. The ledger has no constraint that would prevent wrong ones.
#include "effects.hpp"
#include "rules.hpp"

#include <algorithm>

namespace checker {

using history::action;
using history::operation;
using history::record;
using history::result;

namespace {

bool is_allowed(const record &given, const std::string &state)
{
    return std::find(given.allowed.begin(), given.allowed.end(), state) != given.allowed.end();
}

// Whether the effect must exist, must not, or may. (A cancel or a timeout may come just after the commit.)
enum class presence { needed, forbidden, possible };

presence presence_of_run(const record &given, const operation &run)
{
    if (run.result == result::yes)
        return presence::needed;
    const bool has_failed = run.result == result::no || (run.result == result::error && !is_allowed(given, run.state));
    return has_failed ? presence::forbidden : presence::possible;
}

presence presence_of_completion(const world &world, const record &given, const operation &op)
{
    if (op.result == result::error || op.result == result::no)
        return is_allowed(given, op.state) && op.tx == 0 ? presence::possible : presence::forbidden;
    const auto outcome = world.fate_of(op).outcome;
    if (outcome == fates::kept)
        return presence::needed;
    const auto *const commit = world.commit_of(op);
    const bool may_be_late = commit && commit->result == result::error && is_allowed(given, commit->state);
    return outcome == fates::undone && !may_be_late ? presence::forbidden : presence::possible;
}

// The acquisition to which the work belongs.
const operation *acquire_of(const record &given, const operation &op)
{
    if (op.what == action::run)
        return &op;
    const auto found = std::find_if(given.operations.begin(), given.operations.end(), [&](const auto &one) {
        return one.number == op.of && one.what == action::acquire;
    });
    return found == given.operations.end() ? nullptr : &*found;
}

struct effect {
    const operation *of;
    const operation *acquire;
};

class effect_rules {
public:
    effect_rules(const world &world, const record &given, found &all) : world_{world}, given_{given}, all_{all} {}

    void judge(const operation &op, std::size_t count)
    {
        const auto expected =
            op.what == action::run ? presence_of_run(given_, op) : presence_of_completion(world_, given_, op);
        if (count > 1)
            report("the effect of one operation exists " + std::to_string(count) + " times", {op});
        if (expected == presence::needed && count == 0)
            report("reported as done, but has no effect", {op});
        if (expected == presence::forbidden && count > 0)
            report("reported as not done, but has an effect", {op});
        const auto *const acquire = acquire_of(given_, op);
        if (count == 0 || !acquire)
            return;
        one_per_acquisition({&op, acquire});
        if (acquire->tick)
            one_per_tick({&op, acquire});
    }

private:
    // A transaction may complete an acquisition repeatedly.
    void one_per_acquisition(const effect &mine)
    {
        const auto [first, is_new] = by_acquisition_.try_emplace({mine.of->names.front(), mine.acquire->number}, mine);
        if (!is_new && !in_one_transaction(*first->second.of, *mine.of))
            report("one acquisition, two effects", {*mine.acquire, *first->second.of, *mine.of});
    }

    void one_per_tick(const effect &mine)
    {
        const auto &name = mine.of->names.front();
        const auto [first, is_new] = by_tick_.try_emplace({name, *mine.acquire->tick}, mine);
        if (!is_new && first->second.acquire != mine.acquire &&
            !was_deleted_between(world_.names.at(name), *first->second.acquire, *mine.acquire))
            report("one tick, two effects", {*first->second.of, *mine.of});
    }

    void report(const std::string &what, const std::vector<operation> &proof)
    {
        all_.push_back({"effect", what, proof});
    }

    const world &world_;
    const record &given_;
    found &all_;
    std::map<std::pair<std::string, int>, effect> by_acquisition_{};
    std::map<std::pair<std::string, history::microseconds>, effect> by_tick_{};
};

} // namespace

void effects_are_exact(const world &world, const record &given, found &all)
{
    const auto *const look = last_look(given);
    if (!look)
        return;
    const auto all_effects = effects_in(look);
    effect_rules rules{world, given, all};
    for (const auto &op : given.operations) {
        if (op.what != action::run && op.what != action::complete)
            continue;
        const auto own = all_effects.find(op.number);
        rules.judge(op, own == all_effects.end() ? 0 : own->second.size());
    }
}

} // namespace checker
