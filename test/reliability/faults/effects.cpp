// effects CONNECTION TICKS kills|calm: schedulers, each a process of its own, of a job that is due once a tick and
// whose effect is a row of the table effects, which no constraint guards. Each asks for the tick that is due until its
// effect is there; a further process announces the ticks, and unless calm kills sessions meanwhile, most of them in the
// middle of the run. The leases are longer than anybody waits here: only because the lock of a dead session is free
// does it go on.
//
// Prints "tick N" when the Nth is announced, and at the end "count KEY N" lines. Fails if a tick takes a minute, or if
// anything but the loss of a session goes wrong.
#include "crowd.hpp"

#include "libpqxx.hpp"
#include "processes.hpp"

#include <iostream>
#include <unistd.h>

namespace {

using crowd::microseconds;

constexpr microseconds patience = 60'000'000;
constexpr int schedulers = 4;

// Through whatever becomes of sessions and servers.
class persistent {
public:
    explicit persistent(std::string where) : where_{std::move(where)} {}

    // Empty if the session was lost; whether the request was carried out, nobody knows.
    std::optional<pqxx::result> ask(std::string const &sql)
    try {
        if (!connection_) {
            connection_ = std::make_unique<pqxx::connection>(where_);
            shedlock::libpqxx::never_reconnect(*connection_);
        }
        return pqxx::nontransaction{*connection_}.exec(sql);
    } catch (pqxx::failure const &failure) {
        auto const state = shedlock::libpqxx::sqlstate(failure);
        if (!state.empty() && !state.starts_with("57P") && !state.starts_with("08") && connection_ &&
            connection_->is_open())
            throw;
        connection_.reset();
        crowd::pause(1000);
        return std::nullopt;
    }

    // Through losses.
    pqxx::result insist(std::string const &sql)
    {
        for (auto const end = crowd::now().at + patience; crowd::now().at < end;)
            if (auto const rows = ask(sql))
                return *rows;
        throw std::runtime_error{"no server"};
    }

private:
    std::string const where_;
    std::unique_ptr<pqxx::connection> connection_;
};

using due = std::atomic<microseconds>;

// Half of the runs are over in no time, so that they also die where they begin and end.
[[noreturn]] void be_scheduler(std::string const &where, due const &tick, std::uint64_t seed)
try {
    crowd::choices random{seed};
    for (persistent server{where};; crowd::pause(random.between(100, 2000))) {
        if (tick == 0)
            continue; // none so far
        auto const now = std::to_string(tick);
        auto const work = random.one_in(2) ? 0 : random.between(0, 10);
        server.ask("CALL shedlock_run('job', 'INSERT INTO effects VALUES (" + now + "); SELECT pg_sleep(0.001 * " +
                   std::to_string(work) + ")', '10 minutes', tick => to_timestamp(" + now +
                   "::numeric / 1000000), retry => true)");
    }
} catch (std::exception const &failure) {
    std::cerr << failure.what() << std::endl;
    ::_exit(1);
}

class season {
public:
    season(std::string const &where, due &tick, bool is_calm)
        : server_{where}, tick_{tick}, is_calm_{is_calm}, random_{std::random_device{}()}
    {
    }

    void have(int ticks)
    {
        for (int n = 1; n <= ticks; ++n) {
            announce();
            std::cout << "tick " << n << std::endl;
            see_through();
        }
        for (auto const &[what, number] :
             {std::pair{"terminated", terminated_}, {"killed", killed_}, {"longest", longest_}})
            std::cout << "count " << what << ' ' << number << '\n';
    }

private:
    // Later than the run before it, whose effect we have seen.
    void announce()
    {
        auto const rows = server_.insist("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
        tick_ = rows[0][0].as<microseconds>();
    }

    void see_through()
    {
        auto const begin = crowd::now().at;
        for (bool is_safe = is_calm_ || random_.one_in(4);; is_safe = true) {
            if (!is_safe)
                strike();
            else if (!server_.insist("SELECT FROM effects WHERE tick = " + std::to_string(tick_)).empty())
                break;
            if (crowd::now().at > begin + patience)
                throw std::runtime_error{"a tick that nobody gets done"};
        }
        longest_ = std::max(longest_, crowd::now().at - begin);
    }

    // One that runs, as soon as it is seen to, or a little later; or any, at any moment.
    void strike()
    {
        bool const at_random = random_.one_in(4);
        auto const victim = std::string{"SELECT pid FROM pg_stat_activity WHERE application_name = 'scheduler' AND pid "
                                        "<> pg_backend_pid() AND "} +
                            (at_random ? "state = 'active' ORDER BY random()"
                                       : "query LIKE 'CALL%' AND pid = (SELECT "
                                         "holder_pid FROM shedlock_locks WHERE name = 'job' AND state = 'held')") +
                            " LIMIT 1";
        crowd::pause(at_random || random_.one_in(2) ? random_.between(0, 5000) : 0);
        bool const kills = random_.one_in(40);
        for (auto const end = crowd::now().at + 20'000; crowd::now().at < end;) {
            auto const rows =
                server_.ask(kills ? victim : "SELECT pg_terminate_backend(pid) FROM (" + victim + ") one");
            if (!rows || rows->empty())
                continue;
            if (kills)
                killed_ += ::kill((*rows)[0][0].as<pid_t>(), SIGKILL) == 0;
            else
                ++terminated_;
            return;
        }
    }

    persistent server_;
    due &tick_;
    bool const is_calm_;
    crowd::choices random_;
    microseconds terminated_ = 0, killed_ = 0, longest_ = 0;
};

} // namespace

int main(int count, char **words)
try {
    if (count != 4)
        throw std::runtime_error{"effects CONNECTION TICKS kills|calm"};
    std::string const where = words[1];
    auto &tick = processes::shared_memory<due>();
    std::vector<pid_t> all;
    for (int i = 0; i < schedulers; ++i)
        if (all.push_back(::fork()); all.back() == 0)
            be_scheduler(where + " application_name=scheduler", tick, std::random_device{}());
    bool all_well = true;
    try {
        season{where, tick, std::string{words[3]} == "calm"}.have(std::stoi(words[2]));
    } catch (std::exception const &failure) {
        std::cerr << failure.what() << std::endl;
        all_well = false;
    }
    all_well &= processes::end_all(all);
    return all_well ? 0 : 1;
} catch (std::exception const &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
