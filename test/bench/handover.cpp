// Measures how long it takes from the release of a lock until a waiter has it. Run by Waits.pm with PG* variables.
//
//   handover pairs ROUNDS SIDE...   one holds, another waits, the first releases; the sides in turn, ROUNDS times
//   handover queue COUNT SIDE       COUNT sessions wait for one lock; the holder, then each that gets it, releases it
//   handover vain COUNT WHO         COUNT waiters wait for a lock that stays held: sessions, clients of the library, or
//                                   threads of one client. Prints "waiting"; ends when its standard input ends.
//
// A side is ours, advisory or (in pairs only) library. For each hand-over a line is printed: the side, and the
// microseconds from just before the release was sent until the waiter had its answer.
#include "shedlock/shedlock.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <iostream>
#include <libpq-fe.h>
#include <memory>
#include <optional>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

const shedlock::options lease{.at_most = 1h};
constexpr auto long_enough = 10min; // for a wait that gets the lock

void tell(const std::string &side, clock_type::duration took)
{
    std::cout << side << '\t' << std::chrono::duration<double, std::micro>{took}.count() << '\n';
}

// ---- The parties that acquire and release ----

struct statements {
    const char *acquire;
    const char *release;
};
const statements ours{"SELECT shedlock_acquire('handover', '1 h', wait => '10 min')",
                      "SELECT shedlock_release('handover')"};
const statements advisory{"SELECT true FROM pg_advisory_lock(hashtextextended('handover', 0))",
                          "SELECT pg_advisory_unlock(hashtextextended('handover', 0))"};

class session {
public:
    explicit session(const statements &how) : connection_{PQconnectdb("")}
    {
        prepare("acquire", how.acquire);
        prepare("release", how.release);
    }

    void send(const char *statement)
    {
        require(PQsendQueryPrepared(connection_.get(), statement, 0, nullptr, nullptr, nullptr, 0) == 1);
    }
    void finish() // checks that the lock was granted, or released
    {
        while (const auto result = answer{PQgetResult(connection_.get())})
            require(PQresultStatus(result.get()) == PGRES_TUPLES_OK && PQgetvalue(result.get(), 0, 0)[0] == 't');
    }
    bool answered() // does not wait
    {
        require(PQconsumeInput(connection_.get()) == 1);
        return PQisBusy(connection_.get()) == 0;
    }
    [[nodiscard]] int socket() const { return PQsocket(connection_.get()); }

private:
    template <auto Free> struct freed {
        template <typename T> void operator()(T *what) const { Free(what); }
    };
    using answer = std::unique_ptr<PGresult, freed<PQclear>>;

    void require(bool good) const
    {
        if (!good)
            throw std::runtime_error{"not granted, or not released: " + std::string{PQerrorMessage(connection_.get())}};
    }
    void prepare(const char *name, const char *statement)
    {
        const answer result{PQprepare(connection_.get(), name, statement, 0, nullptr)};
        require(PQresultStatus(result.get()) == PGRES_COMMAND_OK);
    }

    std::unique_ptr<PGconn, freed<PQfinish>> connection_;
};

struct party {
    std::function<void()> acquire; // waits until it has the lock
    std::function<void()> release;
};

party in_sql(const statements &how)
{
    const auto on = std::make_shared<session>(how);
    const auto call = [on](const char *statement) {
        return [=] {
            on->send(statement);
            on->finish();
        };
    };
    return {call("acquire"), call("release")};
}

party in_library()
{
    struct holding {
        shedlock::client locks;
        std::optional<shedlock::lock> lock;
    };
    const auto mine = std::make_shared<holding>();
    return {[=] { mine->lock.emplace(mine->locks.acquire("handover", lease, long_enough).value()); },
            [=] { mine->lock->release(); }};
}

party make_party(const std::string &side)
{
    return side == "library" ? in_library() : in_sql(side == "advisory" ? advisory : ours);
}

// ---- One holds, another waits ----

clock_type::duration hand_over(const party &holder, const party &waiter, clock_type::duration pause)
{
    holder.acquire();
    auto granted = std::async(std::launch::async, [&] {
        waiter.acquire();
        return clock_type::now();
    });
    std::this_thread::sleep_for(pause); // even the shortest pause is long enough for the waiter to begin
    const auto released = clock_type::now();
    holder.release();
    const auto took = granted.get() - released;
    waiter.release();
    return took;
}

void pairs(int rounds, const std::vector<std::string> &sides)
{
    std::vector<party> holders;
    std::vector<party> waiters;
    for (const auto &side : sides) {
        holders.push_back(make_party(side));
        waiters.push_back(make_party(side));
    }
    std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution pause{10'000, 60'000};
    for (int round = 0; round < rounds; round++)
        for (std::size_t side = 0; side < sides.size(); side++)
            tell(sides[side], hand_over(holders[side], waiters[side], std::chrono::microseconds{pause(random)}));
}

// ---- A queue ----

std::size_t next_granted(std::vector<session> &waiters, std::vector<pollfd> &sockets)
{
    for (;;) {
        ::poll(sockets.data(), sockets.size(), -1);
        for (std::size_t i = 0; i < sockets.size(); i++)
            if (sockets[i].revents != 0 && waiters[i].answered())
                return i;
    }
}

void queue(int count, const std::string &side)
{
    const auto &how = side == "advisory" ? advisory : ours;
    session holder{how};
    holder.send("acquire");
    holder.finish();
    std::vector<session> waiters;
    std::vector<pollfd> sockets;
    for (int i = 0; i < count; i++) {
        sockets.push_back({waiters.emplace_back(how).socket(), POLLIN, 0});
        waiters.back().send("acquire");
    }
    std::this_thread::sleep_for(1s); // by then all sessions wait
    auto released = clock_type::now();
    holder.send("release");
    for (int i = 0; i < count; i++) {
        const auto next = next_granted(waiters, sockets);
        tell(side, clock_type::now() - released);
        waiters[next].finish();
        sockets[next].fd = -1;
        released = clock_type::now();
        waiters[next].send("release");
    }
}

// ---- In vain ----

void vain(int count, const std::string &who)
{
    session holder{ours};
    holder.send("acquire");
    holder.finish();
    std::vector<session> sessions;
    std::vector<std::shared_ptr<shedlock::client>> clients;
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; i++) {
        if (who == "sessions") {
            sessions.emplace_back(ours).send("acquire");
            continue;
        }
        if (who == "clients" || clients.empty())
            clients.push_back(std::make_shared<shedlock::client>());
        threads.emplace_back([locks = clients.back()] { (void) locks->acquire("handover", lease, long_enough); });
    }
    std::cout << "waiting" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
    }
    std::_Exit(0); // destructors would wait for the threads, whose waits last ten minutes
}

} // namespace

int main(int count, char **arguments)
try {
    const std::vector<std::string> given(arguments + 1, arguments + count);
    const auto &what = given.at(0);
    const int number = std::stoi(given.at(1));
    if (what == "pairs")
        pairs(number, {given.begin() + 2, given.end()});
    else if (what == "queue")
        queue(number, given.at(2));
    else
        vain(number, given.at(2));
    return 0;
} catch (const std::exception &failure) {
    std::cerr << "handover: " << failure.what() << '\n';
    return 1;
}
