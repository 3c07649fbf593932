#include "lateness.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace crowd {

using namespace history;

std::vector<microseconds> lateness(const record &record)
{
    std::set<int> changed;
    std::map<std::string, std::map<microseconds, const operation *>> grants; // by token
    for (const auto &op : record.operations) {
        changed.insert(op.of);
        if (op.what == action::acquire && op.result == result::yes && op.token)
            for (const auto &name : op.names)
                grants[name][*op.token] = &op;
    }
    std::vector<microseconds> all;
    for (const auto &[name, by_token] : grants) {
        const operation *before = nullptr;
        for (const auto &[token, op] : by_token) {
            const bool waited = before && op->wait > 0 && before->until && !changed.contains(before->number) &&
                                op->called.wall < *before->until && token >= *before->until;
            if (waited && !op->tick)
                all.push_back(token - *before->until);
            before = op;
        }
    }
    return all;
}

microseconds percentile_99(std::vector<microseconds> all)
{
    if (all.empty())
        return 0;
    std::sort(all.begin(), all.end());
    return all[(all.size() - 1) * 99 / 100];
}

} // namespace crowd
