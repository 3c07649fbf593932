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

struct value {
    unsigned type; // its OID
    std::optional<std::string> bytes;
    std::string shown;
};
value text_value(const std::optional<std::string> &);
value text_array(const std::vector<std::optional<std::string>> &, std::int32_t dimensions = 1,
                 std::int32_t lower_bound = 1);

struct call {
    std::string_view function;
    std::vector<std::pair<std::string_view, value>> arguments{}; // by their names
    std::vector<std::string> names{};                            // those in the arguments
};
std::string to_text(const call &);

// What a hostile or careless caller knows.
struct knowledge {
    std::string encoding;
    std::size_t name_limit;
    std::vector<std::string> names; // used again and again, so that locks are met in every state
    std::string its_moment;         // a name whose lease, for example, ends about now; or empty
    const rows &known;
    moment now;
    std::vector<std::string> sessions; // as locked_by has them, "/pid.start.server"
};

// Text that could be taken for a session in locked_by, and may be one.
std::string near_session(random_numbers &, const knowledge &);

// Text that could be taken for the locked_by of one of our acquisitions, and may be a genuine one.
std::string near_ours(random_numbers &, const knowledge &, const row *);

call random_call(random_numbers &, const knowledge &);
