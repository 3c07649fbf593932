// Judges an answer, and the contents of the table after it, by the rules in extension/rules.hpp.
#pragma once

#include "session.hpp"

#include <array>
#include <map>
#include <optional>
#include <span>

enum class verb {
    acquire, // of one name or several
    pause,
    extend,
    release,
    force_release,
    resume,
    forget,
    guard,
    guard_and_release, // in one transaction
    complete,
    run,
    java_acquire,
    java_update, // Java's acquire of a row that it knows
    java_unlock,
    java_extend,
    by_hand,
    maintenance, // changes no row
};

struct operation {
    verb what;
    std::string sql;                         // with {name}, {other}, {token}
    bool by_token = false;                   // not by the session
    bool of_both = false;                    // {name} and {other}
    std::optional<shedlock::instant> tick{}; // of an acquire, with retry
    bool is_done = true;                     // of a release
};

struct record {
    shedlock::lease times;
    std::string locked_by;
    shedlock::history past{};
};

constexpr std::size_t names = 2; // {name}, {other}
using state = std::array<std::optional<record>, names>;

std::string describe(const state &);

// What is known apart from the states.
struct circumstances {
    std::string mark;                            // of the session, in locked_by
    shedlock::instant token;                     // {token}
    std::array<shedlock::instant, names> latest; // for each name, the greatest token of the acquisitions so far
    bool may_collide = false;                    // another call was about to write, or had written and not committed
    shedlock::duration blur{};                   // how inexactly `before` is known, if it could not be observed
    std::optional<shedlock::instant> ran;        // the token that a run was seen to have acquired before it was stopped
};

// `during`: every state that was committed at some instant of the call. `before`: the latest of these, to which the
// call must have been applied if it changed anything. `after`: as observed; absent if it could not be observed.
// `problem` describes what is wrong; it is empty if nothing is.
struct verdict {
    std::string problem;
    state after; // as observed; otherwise as it must be, with times known only to within the duration of the call
};
verdict judge(const operation &, const answer &, const circumstances &, std::span<const state> during,
              const state &before, const std::optional<state> &after);

constexpr std::chrono::minutes at_most{10}, at_most_of_extend{20};
constexpr shedlock::duration unit{1};
