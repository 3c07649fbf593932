#include "refusal.hpp"

#include <ctime>

namespace shedlock {

namespace {

using namespace std::chrono_literals;

// In one unit, cut: 350 ms, 42 s, 4 min, 5 h, 3 d.
std::string duration(std::chrono::microseconds time)
{
    struct unit {
        std::chrono::microseconds size;
        char const *name;
    };
    for (auto const &one : {unit{24h, " d"}, unit{1h, " h"}, unit{1min, " min"}, unit{1s, " s"}})
        if (time >= 2 * one.size)
            return std::to_string(time / one.size) + one.name;
    return std::to_string(time / 1ms) + " ms";
}

std::string instant(refusal::time time)
{
    auto const seconds = std::time_t{std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count()};
    tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[64];
    std::strftime(text, sizeof text, "%F %T UTC", &parts);
    return text;
}

} // namespace

std::string refusal::to_text() const
{
    auto const lock = "lock \"" + name + '"';
    auto const end = until ? ", until " + instant(*until) + " at the latest" : std::string{};
    switch (why) {
    case reason::held:
        return holder + " has held " + lock + " for " + duration(held_for) + end;
    case reason::kept:
        return lock + " was released by " + holder + ", and is kept for its at_least" + end;
    case reason::paused:
        return lock + " is " + holder; // it begins with "paused"
    case reason::had_run:
        return lock + " had its run" + (since ? " at " + instant(*since) : "") + ", by " + holder;
    case reason::undecided:
        break;
    }
    return "another transaction was about to acquire or release " + lock;
}

std::string internal::without_mark(std::string const &holder)
{
    bool const has_mark = holder.size() > 9 && holder[8] == ' ' && holder.find_first_not_of("0123456789abcdef") == 8;
    return has_mark ? holder.substr(9) : holder;
}

} // namespace shedlock
