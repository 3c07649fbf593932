#include "lateness.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace crowd {

using namespace history;

std::vector<microseconds> lateness(record const &record)
{
    std::set<int> changed;
    std::map<std::string, std::map<microseconds, operation const *>> grants; // by token
    for (auto const &op : record.operations) {
        changed.insert(op.of);
        if (op.what == action::acquire && op.result == result::yes && op.token)
            for (auto const &name : op.names)
                grants[name][*op.token] = &op;
    }
    std::vector<microseconds> all;
    for (auto const &[name, by_token] : grants) {
        operation const *before = nullptr;
        for (auto const &[token, op] : by_token) {
            bool const waited = before && op->wait > 0 && before->until && !changed.contains(before->number) &&
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
