// Splits a completion into a guard and a release, which the other rules handle. However often a transaction completes
// an acquisition, it releases it once: the extension does so when the transaction commits or is prepared, the portable
// edition at the call.
#include "rules.hpp"

#include <algorithm>
#include <map>

namespace checker {

using namespace history;

namespace {

struct release {
    operation asked; // a completion, or a release as done
    bool is_explicit;

    [[nodiscard]] bool is_of(int of, const std::string &name) const
    {
        return asked.of == of && std::find(asked.names.begin(), asked.names.end(), name) != asked.names.end();
    }
};

// The releases that a transaction makes if it commits now.
struct transaction {
    std::vector<release> releases{};
    std::vector<std::size_t> savepoints{}; // the number of releases before each

    void undo()
    {
        const auto kept = savepoints.empty() ? 0 : savepoints.back();
        releases.erase(releases.begin() + static_cast<std::ptrdiff_t>(kept), releases.end());
    }

    [[nodiscard]] bool has_released(int of, const std::string &name) const
    {
        return std::any_of(releases.begin(), releases.end(), [&](const auto &one) { return one.is_of(of, name); });
    }

    [[nodiscard]] bool has_released_itself(int of, const std::string &name) const
    {
        return std::any_of(releases.begin(), releases.end(),
                           [&](const auto &one) { return one.is_explicit && one.is_of(of, name); });
    }
};

class dissection {
public:
    explicit dissection(const record &given)
    {
        made_ = given;
        made_.operations.clear();
        for (const auto &op : given.operations) {
            if (op.tx && (op.what == action::commit || op.what == action::prepare))
                release_all(op);
            if (op.what == action::complete)
                take_apart(op);
            else
                made_.operations.push_back(op);
            if (op.tx)
                follow(op);
        }
    }

    [[nodiscard]] const record &made() const { return made_; }

private:
    void take_apart(const operation &op)
    {
        auto guard = op;
        guard.what = action::guard;
        guard.is_of_completion = true;
        made_.operations.push_back(guard);
        if (op.result == result::error || op.result == result::no)
            return;
        auto asked = op;
        if (op.tx)
            std::erase_if(asked.names, [&](const auto &name) { return of(op).has_released(op.of, name); });
        if (asked.names.empty())
            return;
        if (op.tx == 0 || made_.is_portable)
            made_.operations.push_back(release_by(asked, op));
        if (op.tx && op.result == result::yes)
            of(op).releases.push_back({asked, false});
    }

    // The release happens at `end`: the end of the transaction, or the completion itself.
    static operation release_by(operation made, const operation &end)
    {
        made.number = -2 * made.number;
        made.what = action::release;
        made.is_of_completion = true;
        made.result = end.result;
        made.state.clear();
        made.called = end.called;
        made.done = end.done;
        return made;
    }

    void release_all(const operation &end)
    {
        auto &mine = of(end);
        for (const auto &one : mine.releases) {
            auto asked = one.asked;
            std::erase_if(asked.names, [&](const auto &name) { return mine.has_released_itself(asked.of, name); });
            if (!asked.names.empty() && !made_.is_portable && end.result != result::error)
                made_.operations.push_back(release_by(asked, end));
        }
        mine.releases.clear(); // a later commit is COMMIT PREPARED
    }

    void follow(const operation &op)
    {
        auto &mine = of(op);
        if (op.what == action::savepoint) {
            mine.savepoints.push_back(mine.releases.size());
        } else if (op.what == action::keep && !mine.savepoints.empty()) {
            mine.savepoints.pop_back();
        } else if (op.result == result::error || op.what == action::undo) {
            mine.undo();
        } else if (op.what == action::release && op.result == result::yes && op.as == outcome::done) {
            mine.releases.push_back({op, true});
        }
    }

    transaction &of(const operation &op) { return open_[{op.client, op.tx}]; }

    std::map<std::pair<int, int>, transaction> open_; // by client and tx
    record made_;
};

} // namespace

record with_completions_taken_apart(const record &given)
{
    return dissection{given}.made();
}

} // namespace checker
