// Decides from a history alone, without a database or a clock, whether the locks kept their promises (I1 ... in
// docs/guarantees.md).
#pragma once

#include "history.hpp"

namespace checker {

struct violation {
    std::string rule; // I1, I5, tick, ...; "unexplained" is an error, an answer "no" or a row without a reason
    std::string why;  // in words
    std::vector<history::operation> proof; // the operations that show it
};

// Returns all violations. What the history leaves open is decided in favour of the locks.
std::vector<violation> check(const history::record &);

std::string to_text(const violation &);

} // namespace checker
