// One call of a public function, with any arguments.
#pragma once

#include "text.hpp"

#include <map>
#include <optional>
#include <vector>

// Microseconds since 2000 in UTC, as PostgreSQL has them; a token counts from 1970.
using moment = std::int64_t;
inline constexpr moment infinity = INT64_MAX;
inline constexpr moment minus_infinity = INT64_MIN;
inline constexpr std::int64_t second = 1'000'000;
inline constexpr std::int64_t epoch_difference = 946'684'800 * second;

struct row {
    moment lock_until;
    moment locked_at;
    std::string locked_by;
    std::optional<moment> lock_at_least_until;
    std::optional<moment> last_tick{}, last_done_tick{}, last_done_at{}, run_tick{};
    bool operator==(const row &) const = default;
};
using rows = std::map<std::string, row>;

struct interval {
    std::int64_t microseconds;
    std::int32_t days;
    std::int32_t months;
};

enum class function {
    acquire,
    acquire_token,
    extend,
    extend_token,
    release,
    release_token,
    guard,
    guard_token,
    complete,
    complete_token,
    run,
    pause,
    resume,
    force_release,
};
inline constexpr int functions = 14;

// Arguments by letter: n name, k token, m at_most, l at_least, w wait, t tick, r retry, s start_within, d done,
// e ends_with_session, x holder, reason or command.
struct signature {
    const char *name;
    std::string_view arguments;
    bool takes_arrays;
};
const signature &signature_of(function);

struct call {
    function what;
    bool is_array = false;
    bool name_is_null = false;
    std::int32_t dimensions = 1; // of the array
    std::int32_t lower_bound = 1;
    std::vector<std::optional<std::string>> names{};
    std::optional<interval> at_most{}, at_least{}, wait{}, start_within{};
    std::optional<moment> tick{};
    std::optional<bool> retry{}, done{}, ends_with_session{};
    std::optional<std::int64_t> token{};
    std::optional<std::string> text{};
};

std::string description(const call &);

// A readable description of the row of that name, if there is one.
std::string description(const rows &, const std::string &name);

struct command {
    const char *sql;
    const char *sqlstate;              // null if it works
    const char *on_portable = nullptr; // if it differs there
};
const command &any_command(random_numbers &);
const char *sqlstate_of_command(const std::string &sql, bool is_portable);

// What a hostile or careless caller knows.
struct knowledge {
    encoding of_database;
    std::size_t name_limit;
    std::vector<std::string> names; // used again and again, so that locks are met in every state
    const rows &known;
    moment now;
    std::vector<std::string> sessions; // as locked_by has them, "/pid.start.server"
};

// Text that could be taken for a session in locked_by, and may be one.
std::string near_session(random_numbers &, const knowledge &);

// Text that could be taken for the locked_by of one of our acquisitions, and may be a genuine one.
std::string near_ours(random_numbers &, const knowledge &, const row *);

call random_call(random_numbers &, const knowledge &);
