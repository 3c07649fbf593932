// Many clients of one server. Each is a process that makes random requests about a few locks, and records its requests
// and the server's answers. The seed determines the random numbers. The answers depend on the timing, and the next
// requests on the answers.
#pragma once

#include "history.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <random>

namespace crowd {

using history::microseconds;
using history::operation;

inline constexpr microseconds slot = 500'000; // between two ticks

history::moment now();
void pause(microseconds);

// The parameters of one history.
struct scene {
    std::string connection;
    std::uint64_t seed = 0;
    int clients = 0;
    int operations = 0;
    std::vector<std::string> names{};
    std::vector<std::string> tick_names{}; // not for the Java clients, since Java ShedLock has no ticks
    microseconds shortest = 0;             // leases
    microseconds longest = 0;
    bool has_timeouts = false; // clients set their own statement_timeout and lock_timeout
    bool only_library = false;
    bool has_java = true;
    bool has_guards = true;
    bool has_runs = true;
    bool through_pooler = false;
    bool needs_leases = false;     // the faults concern locks that are held, so clients release less often
    bool is_shared = false;        // clients use each other's tokens, mostly to extend and to guard
    bool has_index = false;        // there is another index, on lock_until, so that no update is HOT
    bool has_old_snapshot = false; // another session holds one, so that nothing is pruned
    bool keeps_history = false;    // of runs
};

// Shared by the processes of a history.
struct tally {
    std::atomic<int> next_number{1};
    std::atomic<int> left{0};
    std::array<std::atomic<int>, 32> latest{}; // of each name: the number of an acquire whose token others may use
    std::array<std::atomic<microseconds>, 1 << 15> tokens{}; // by the number of the acquire
    std::array<std::atomic<int>, 1 << 12> ending{}; // of each client: the transaction that it prepared and will end
};

class choices {
public:
    explicit choices(std::uint64_t seed) : random_{seed} {}
    std::int64_t between(std::int64_t low, std::int64_t high);
    bool one_in(int count) { return between(1, count) == 1; }
    microseconds lease(const scene &); // each order of magnitude is equally likely
    template <typename Some> const auto &one_of(const Some &some)
    {
        return some[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(some.size()) - 1))];
    }

private:
    std::mt19937_64 random_;
};

// Numbers operations, reads the clocks, and appends lines to the file that all clients share.
class recorder {
public:
    recorder(int file, tally &, int client);
    [[nodiscard]] bool may_go_on(); // false once the history is over
    void call(operation &);
    void done(operation &);
    // The latest token that clients share for a name, and the number of its acquire. index: of the name in
    // scene::names.
    void share(std::size_t index, const operation &granted);
    [[nodiscard]] std::pair<int, microseconds> shared(std::size_t index) const;
    [[nodiscard]] int client() const { return client_; }
    // The transaction that the client prepares and will end itself. Others end it only if the client dies. 0: none.
    void will_end(int tx) { tally_.ending[static_cast<std::size_t>(client_) % tally_.ending.size()] = tx; }

private:
    void write(const std::string &line);
    int file_;
    tally &tally_;
    int client_;
};

using unique_client = std::unique_ptr<class client>;

class client {
public:
    virtual ~client() = default;
    virtual void run() = 0; // until the history is over
};

unique_client make_sql_client(const scene &, recorder &, history::maker, std::uint64_t seed);
unique_client make_library_client(const scene &, recorder &, std::uint64_t seed);

// An acquire with random arguments; with_tick: with a tick if there are names for ticks.
operation random_acquire(choices &, const scene &, history::maker, bool with_tick);

} // namespace crowd
