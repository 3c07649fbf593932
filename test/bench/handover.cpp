// Measures how long it takes from the release of a lock until a waiter has it. Run by `measure` with PG* variables.
//
//   handover COUNT ROUNDS SIDE   one holds the lock, and COUNT others wait for it; the holder, then each that gets it,
//                                releases it. SIDE is ours, advisory or library. Prints for each hand-over the
//                                milliseconds from just before the release was sent until the waiter had its answer
//   handover COUNT idle WHO      COUNT waiters wait for a lock that stays held: sessions, clients of the library, or
//                                threads of one client. Prints "waiting"; ends when its standard input ends
#include "shedlock/shedlock.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <libpq-fe.h>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

struct party {
    std::function<void()> acquire; // waits until it has the lock
    std::function<void()> release;
};

party in_sql(const char *acquire, const char *release)
{
    const std::shared_ptr<PGconn> session{PQconnectdb(""), PQfinish};
    for (const auto &[name, statement] : {std::pair{"acquire", acquire}, {"release", release}})
        PQclear(PQprepare(session.get(), name, statement, 0, nullptr)); // if this fails, so will its call
    const auto call = [session](const char *name) {
        PGresult *const answer = PQexecPrepared(session.get(), name, 0, nullptr, nullptr, nullptr, 0);
        const bool good = PQresultStatus(answer) == PGRES_TUPLES_OK && *PQgetvalue(answer, 0, 0) == 't';
        PQclear(answer);
        if (!good)
            throw std::runtime_error{std::string{name} + ": " + PQerrorMessage(session.get())};
    };
    return {[call] { call("acquire"); }, [call] { call("release"); }};
}

party in_library(const std::shared_ptr<shedlock::client> &client)
{
    const auto lock = std::make_shared<std::optional<shedlock::lock>>();
    return {[=] { lock->emplace(client->acquire("handover", {.at_most = 1h}, 10min).value()); },
            [=] { (*lock)->release(); }};
}

party make_party(const std::string &side)
{
    if (side == "library")
        return in_library(std::make_shared<shedlock::client>());
    if (side == "advisory")
        return in_sql("SELECT true FROM pg_advisory_lock(hashtextextended('handover', 0))",
                      "SELECT pg_advisory_unlock(hashtextextended('handover', 0))");
    return in_sql("SELECT shedlock_acquire('handover', '1 h', wait => '10 min')",
                  "SELECT shedlock_release('handover')");
}

void hand_over(int count, int rounds, const std::string &side)
{
    const party holder = make_party(side);
    std::vector<party> waiters;
    for (int i = 0; i < count; i++)
        waiters.push_back(make_party(side));
    std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution pause{0, 50}; // the waits of the library have a rhythm
    std::atomic<steady::time_point> released;   // written by whoever holds the lock
    for (int round = 0; round < rounds; round++) {
        holder.acquire();
        std::vector<std::jthread> threads;
        for (const party &waiter : waiters)
            threads.emplace_back([&] {
                waiter.acquire();
                std::printf("%f\n", std::chrono::duration<double, std::milli>{steady::now() - released.load()}.count());
                released = steady::now();
                waiter.release();
            });
        std::this_thread::sleep_for(10ms * count + 1ms * pause(random)); // by then all of them wait
        released = steady::now();
        holder.release();
    }
}

void idle(int count, const std::string &who)
{
    const party holder = make_party("ours");
    holder.acquire();
    const auto client = std::make_shared<shedlock::client>();
    std::vector<std::jthread> waiters;
    for (int i = 0; i < count; i++) {
        const party waiter = who == "threads" ? in_library(client) : make_party(who == "clients" ? "library" : "ours");
        waiters.emplace_back(waiter.acquire);
    }
    std::cout << "waiting" << std::endl;
    std::cin.ignore(1);
    std::_Exit(0); // destructors would wait for the threads, whose waits last ten minutes
}

} // namespace

int main(int, char **arguments)
{
    if (arguments[2] == std::string{"idle"})
        idle(std::stoi(arguments[1]), arguments[3]);
    else
        hand_over(std::stoi(arguments[1]), std::stoi(arguments[2]), arguments[3]);
}
