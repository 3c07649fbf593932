// What a history proves: which operations took effect and when, and until when each acquisition lasted. Where the
// history leaves something open, for example because a reply was lost, both possibilities are considered, so every
// conclusion is certain.
#pragma once

#include "history.hpp"

#include <limits>
#include <map>

namespace checker {

using history::microseconds;
using history::operation;

bool in_one_transaction(const operation &, const operation &);

// By how much the wall clock stepped or drifted during the history.
microseconds drift(const history::record &);

inline constexpr microseconds ever = std::numeric_limits<microseconds>::max();
inline constexpr microseconds beginning = std::numeric_limits<microseconds>::min();

enum class fates { kept, undone, unknown };

// The fate of an operation. If the operation was refused or failed, only `settled` says something about it.
struct fate {
    fates outcome;
    microseconds from; // for other clients it takes effect at some time between `from` and `by`; ever: it does not
    microseconds by;
    microseconds until; // from then on it may be undone; ever if it is not
    // From then on its transaction certainly neither locks a row nor has an uncommitted version of one.
    microseconds settled;
};

// Limits of the row's times, on the wall clock.
struct lease {
    microseconds until_low;
    microseconds until_high;
    microseconds kept_low; // at_least
    microseconds kept_high;
    bool is_released; // possibly
};

// An extend or release that may have taken effect.
struct change {
    const operation *op;
    bool may_be_earlier; // another client had called a change that was not answered yet, and this one may have happened
                         // before that
};

// One name granted by an acquire. An acquire of several names has one of these for each.
struct acquisition {
    const operation *op;
    checker::fate fate;
    std::vector<change> changes; // in the order of their calls
};

// Everything that happened to one name.
struct biography {
    std::vector<acquisition> acquisitions;  // granted, in the order of their calls
    std::vector<const operation *> unknown; // acquires whose answer was lost
    std::vector<const operation *> revoked; // operations that may have taken the lock away by hand
    std::vector<const operation *>
        touched; // operations that may have locked the row or left an uncommitted version of it
};

class world {
public:
    explicit world(const history::record &);
    world(const world &) = delete;
    world &operator=(const world &) = delete;

    [[nodiscard]] const fate &fate_of(const operation &) const;
    // The operation's COMMIT, if there was one, or the operation itself if it was a separate transaction.
    [[nodiscard]] const operation *commit_of(const operation &) const;
    [[nodiscard]] const acquisition *acquisition_of(const operation &change, const std::string &name) const;

    // From then on it certainly neither locks a row nor has an uncommitted version of one.
    [[nodiscard]] microseconds settled_at(const operation &) const;

    // The lease of this acquisition, as that operation, which may be any client's, could have found it.
    [[nodiscard]] lease lease_at(const acquisition &, const operation &observer) const;

    // The server's clock at the moment of the decision; for an acquire that was granted, as exact as the token.
    [[nodiscard]] microseconds earliest(const operation &) const;
    [[nodiscard]] microseconds latest(const operation &) const;

    [[nodiscard]] bool loses_replies() const { return record_.loses_replies(); }
    [[nodiscard]] bool is_portable() const { return record_.is_portable; }
    [[nodiscard]] history::level level_of(const operation &) const; // of its transaction

    std::map<std::string, biography> names;
    const microseconds tolerance; // the drift

private:
    void find_fates();
    void close_transaction(const std::vector<const operation *> &);
    void undo(const std::vector<std::size_t> &indexes, std::size_t first, microseconds when);
    void fill_names();
    void fill_name(const std::string &, const operation &);
    [[nodiscard]] bool is_exact(const operation &) const; // its token is the time at which it happened
    [[nodiscard]] bool may_be_lost_in_a_crash(const operation &release) const;
    [[nodiscard]] bool had_a_tick(const operation &release) const;
    [[nodiscard]] lease granted(const operation &) const;
    void apply(lease &, const operation &change) const;

    const history::record &record_;
    std::vector<fate> fates_;                                // by the index of the operation
    std::vector<const operation *> commits_;                 // by the index of the operation
    std::map<int, std::size_t> index_of_;                    // by its number
    std::map<std::pair<int, int>, const operation *> begun_; // client, tx: the start of a transaction
};

} // namespace checker
