// Histories written by hand. Each rule has one that breaks it, and some that almost do. (A line without the wall
// clock's time gets that of the monotonic clock.)
#pragma once

#include "checker.hpp"

#include <gtest/gtest.h>
#include <set>
#include <sstream>

namespace by_hand {

inline std::string with_wall_clock(const std::string &text)
{
    std::istringstream in{text};
    std::string whole;
    for (std::string line; std::getline(in, line);) {
        const auto at = line.find(" at=");
        if (at != line.npos && line.find(" wall=") == line.npos)
            line += " wall=" + line.substr(at + 4, line.find(' ', at + 4) - at - 4);
        whole += line + '\n';
    }
    return whole;
}

// Returns the broken rules, each once: "I1 I6", or "" for none.
inline std::string broken(const std::string &text)
{
    std::istringstream in{with_wall_clock(text)};
    std::set<std::string> rules;
    for (const auto &one : checker::check(history::read(in)))
        rules.insert(one.rule);
    std::string all;
    for (const auto &rule : rules)
        all += (all.empty() ? "" : " ") + rule;
    return all;
}

// Client 1 is granted lock a at 110, until 1110.
inline const std::string first = R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 1 result=yes token=110 before=105 after=115 until=1110 at=120
)";

inline std::string second(const std::string &token, int at)
{
    const auto text = [](int time) { return std::to_string(time); };
    return "call 2 client=2 do=acquire by=token names=a at_most=1000 at_least=0 at=" + text(at) +
           "\ndone 2 result=yes token=" + token + " before=" + text(at + 5) + " after=" + text(at + 15) +
           " at=" + text(at + 20) + '\n';
}

inline std::string asks_for_tick(int tick, const char *retry, const char *answer, int at = 300)
{
    const auto text = [](int number) { return std::to_string(number); };
    return "call 3 client=2 do=acquire by=token names=a at_most=50 at_least=0 tick=" + text(tick) + retry +
           " at=" + text(at) + "\ndone 3 result=" + answer + " at=" + text(at + 20) + '\n';
}

inline std::string guarded(int commit_at, const std::string &commit_result)
{
    const auto t = std::to_string(commit_at);
    return R"(call 11 client=1 tx=1 do=start at=900
done 11 result=yes at=910
call 12 client=1 tx=1 do=guard by=token names=a of=1 at=920
done 12 result=yes at=930
call 13 client=1 tx=1 do=commit at=)" +
           t + "\ndone 13 " + commit_result + " at=" + std::to_string(commit_at + 10) + '\n';
}

} // namespace by_hand
