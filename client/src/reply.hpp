// What the server replies to a statement.
#pragma once

#include "clock.hpp"

namespace shedlock::internal {

// Parameters of a statement, or a row of its result: text as PostgreSQL reads and writes it, or nullopt for NULL.
using fields = std::vector<std::optional<std::string>>;

// Why an acquisition is not ours any more.
namespace sqlstate {
inline constexpr const char *lost = "SL001";
inline constexpr const char *released_as_done = "SL002";
} // namespace sqlstate

// A message that the server sent in addition to its answer.
struct notice {
    std::string text; // one line
    std::string sqlstate;
};

struct reply {
    std::vector<fields> rows;
    std::vector<notice> notices;
    clock::time_point sent; // the time just before the request was sent

    [[nodiscard]] std::string notice_text() const; // of all of them
};

} // namespace shedlock::internal
