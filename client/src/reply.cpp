#include "reply.hpp"

namespace shedlock::internal {

std::string reply::notice_text() const
{
    std::string all;
    for (const auto &one : notices)
        all += (all.empty() ? "" : "; ") + one.text;
    return all;
}

} // namespace shedlock::internal
