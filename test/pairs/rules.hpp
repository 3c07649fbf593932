// What an answer must be, and what must stand in the table after it, by the rules of lease.hpp.
#pragma once

#include "session.hpp"

#include <array>
#include <map>
#include <optional>
#include <span>

enum class verb {
    acquire, // also of several names
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

std::string describe(state const &);

// What is known beside the states.
struct circumstances {
    std::string mark;                            // of the session, in locked_by
    shedlock::instant token;                     // {token}
    std::array<shedlock::instant, names> latest; // token of any acquisition that has ended, for each name
    bool may_collide = false;                    // another call was about to write, or had written and not committed
    shedlock::duration blur{};                   // how exactly `before` is known, where it could not be observed
    std::optional<shedlock::instant> ran; // token with which a run was seen to have acquired before it was stopped
};

// `during`: every state that was committed at some instant of the call. `before`: what it must have been applied to, if
// it changed anything: the latest of these. `after`: as observed; absent where it could not be. Words for what is
// wrong, or none.
struct verdict {
    std::string problem;
    state after; // the one observed, or as it must have been, within the time that the call took
};
verdict judge(operation const &, answer const &, circumstances const &, std::span<state const> during,
              state const &before, std::optional<state> const &after);

constexpr std::chrono::minutes at_most{10}, at_most_of_extend{20};
constexpr shedlock::duration unit{1};
