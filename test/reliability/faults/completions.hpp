// The common part of the programs for completions.pl: their arguments, the point at which they stop, and the loop that
// ends when each tick is done. See completions.py.
#pragma once

#include "libpqxx.hpp"

#include <shedlock/pqxx.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

namespace completions {

class program {
public:
    program(int count, char **words)
    {
        if (count < 5)
            throw std::runtime_error{"CONNECTION JOB FIRST LAST [POINT FILE]"};
        connection = words[1];
        job = words[2];
        first_ = std::atoi(words[3]);
        last_ = std::atoi(words[4]);
        if (count > 6) {
            point_ = words[5];
            file_ = words[6];
        }
    }

    // Creates the file and stops the process, once, if this is the given point of the last tick. A stop without the
    // file has another cause.
    void at(const std::string &point, int tick)
    {
        if (point != point_ || tick != last_)
            return;
        point_.clear();
        std::ofstream{file_};
        ::raise(SIGSTOP);
    }

    // Works until each tick is done. `attempt` returns whether its tick is now known to be done; an exception because
    // the lock or a connection was lost counts as no.
    int work_through(const std::function<bool(int tick)> &attempt)
    {
        for (int tick = first_; tick <= last_; ++tick)
            while (!gets_done([&] { return attempt(tick); }))
                std::this_thread::sleep_for(std::chrono::milliseconds{std::rand() % 20});
        return 0;
    }

    std::string connection;
    std::string job;

private:
    static bool gets_done(const std::function<bool()> &attempt)
    try {
        return attempt();
    } catch (const shedlock::lock_lost &) {
        return false;
    } catch (const shedlock::connection_error &) { // in_doubt, too
        return false;
    } catch (const pqxx::in_doubt_error &) {
        return false;
    } catch (const pqxx::failure &failure) {
        const auto state = shedlock::libpqxx::sqlstate(failure);
        const bool is_broken = state.empty() || state.starts_with("57P") || state.starts_with("08");
        if (!is_broken && state != "SL001")
            throw;
        return false;
    }

    int first_ = 0;
    int last_ = 0;
    std::string point_;
    std::string file_;
};

inline shedlock::instant instant_of(int tick)
{
    constexpr std::chrono::seconds beginning_of_2020{1'577'836'800};
    return shedlock::instant{beginning_of_2020 + std::chrono::minutes{tick}};
}

// For leases that are not kept alive: every other one is long and ends with the session; the others are short, and may
// end before the work is done.
inline bool is_long(int tick)
{
    return tick % 2 != 0;
}

inline bool is_done(pqxx::connection &db, const std::string &job, int tick)
{
    pqxx::nontransaction direct{db};
    const auto rows = shedlock::libpqxx::exec(
        direct,
        "SELECT last_done_tick >= '2020-01-01 00:00+00'::timestamptz + $2::int * interval '1 minute' FROM "
        "shedlock_locks WHERE name = $1",
        {job, std::to_string(tick)});
    return !rows.empty() && !rows[0][0].is_null() && rows[0][0].as<bool>();
}

template <typename Tx> void have_effect(Tx &tx, const std::string &job, int tick)
{
    shedlock::libpqxx::exec(tx, "INSERT INTO effects VALUES ($1, $2::int)", {job, std::to_string(tick)});
}

// Runs the program, and prints a failure that has ended work_through.
inline int run(int count, char **words, const std::function<int(program &)> &work)
try {
    program mine{count, words};
    return work(mine);
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 1;
}

} // namespace completions
