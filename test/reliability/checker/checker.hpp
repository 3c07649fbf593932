// Decides from a history alone whether the locks kept their promises (I1 ... in docs/guarantees.md). No database, no
// clock.
#pragma once

#include "history.hpp"

namespace checker {

struct violation {
    std::string rule; // I1, I5, tick, ...; unexplained: an error, a refusal or a row that nothing accounts for
    std::string why;  // for people
    std::vector<history::operation> proof; // their lines show it
};

// Empty: none. What the history leaves open counts in favour of the locks.
std::vector<violation> check(history::record const &);

std::string to_text(violation const &);

} // namespace checker
