// jepsen CONNECTION NAME guarded|unguarded clients|sessions SECOND SECONDS: what Jepsen did to etcd's locks
// (https://jepsen.io/analyses/etcd-3.4.3; the program is lock.clj of github.com/jepsen-io/etcd). Five clients add
// elements to one set under a lock whose lease of 2 s is kept alive: they read the set, sleep for up to 2 s, and write
// it back with one more element. They never ask whether they still hold the lock; with `guarded` the transaction that
// writes is guarded. For 5 s out of every 10, processes are stopped: with `sessions` the server processes of the lock
// connections of one client or of all clients, as in the original; with `clients` one of the clients. The clients read
// and write the set over connections of their own, which are never stopped.
//
// A second lasts SECOND ms, so that a short test keeps the proportions; the test lasts at least SECONDS of these.
// Prints "added N lost L refused R pauses P": elements whose commit was acknowledged, how many of them are not in the
// set, attempts that the guard refused, and how often processes were stopped.
#include "libpqxx.hpp"
#include "processes.hpp"

#include "shedlock/pqxx.hpp"
#include "shedlock/shedlock.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <iostream>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

struct setting {
    std::string connection, name;
    bool is_guarded, stops_clients;
    microseconds second;

    [[nodiscard]] std::string connection_of(const std::string &whose) const
    {
        return connection + " application_name='" + name + '.' + whose + "'";
    }
    [[nodiscard]] std::string at_my_row() const { return " WHERE name = '" + name + "'"; }
};

// Shared by the processes. An element is the number of the attempt to add it.
struct tally {
    std::atomic<std::size_t> attempts{0};
    std::atomic<int> refused{0};
    std::array<std::atomic<bool>, 1 << 16> acknowledged{};
};

std::mt19937 random_bits{std::random_device{}()};

// ---- A client ----

class client_process {
public:
    client_process(const setting &how, int number, tally &all)
        : how_{how}, all_{all}, locks_{how.connection_of("locks" + std::to_string(number)),
                                       {.on_event = [](const shedlock::event &) {}}},
          data_{how.connection_of("data")}
    {
    }

    void add_one()
    try {
        auto lock = locks_.acquire(how_.name, {.at_most = 2 * how_.second, .keep_alive = true}, 20 * how_.second);
        if (!lock)
            return;
        const auto before =
            pqxx::nontransaction{data_}.exec("SELECT elements FROM added" + how_.at_my_row())[0][0].as<std::string>();
        std::this_thread::sleep_for(how_.second * std::uniform_int_distribution{0, 1999}(random_bits) / 1000);
        write(*lock, before);
        lock->release();
    } catch (const shedlock::lock_lost &) {        // the guard refused the write, or the release found the lock lost
    } catch (const shedlock::connection_error &) { // our session was stopped
    }

private:
    void write(const shedlock::lock &lock, const std::string &before)
    try {
        const auto element = all_.attempts++;
        pqxx::work work{data_};
        work.exec("UPDATE added SET elements = '" + before + "'::int[] || " + std::to_string(element) +
                  how_.at_my_row());
        shedlock::libpqxx::or_lost([&] {
            if (how_.is_guarded)
                shedlock::guard(lock, work);
            work.commit();
        });
        all_.acknowledged.at(element) = true;
    } catch (const shedlock::lock_lost &) {
        ++all_.refused;
        throw;
    }

    const setting &how_;
    tally &all_;
    shedlock::client locks_;
    pqxx::connection data_;
};

[[noreturn]] void be_client(const setting &how, int number, tally &all)
try {
    random_bits.seed(std::random_device{}());
    for (client_process one{how, number, all};;)
        one.add_one();
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    ::_exit(1);
}

// ---- Stopping processes ----

class stopper {
public:
    stopper(const setting &how, const std::vector<pid_t> &clients)
        : how_{how}, clients_{clients}, connection_{how.connection}
    {
    }
    ~stopper() { resume(); }

    void stop()
    {
        const auto number = std::uniform_int_distribution<std::size_t>{0, clients_.size() - 1}(random_bits);
        stopped_ = how_.stops_clients ? std::vector{clients_[number]}
                                      : sessions(random_bits() % 2 ? "locks" + std::to_string(number) : "locks%");
        for (const auto one : stopped_)
            ::kill(one, SIGSTOP);
    }

    void resume() noexcept
    {
        for (const auto one : stopped_)
            ::kill(one, SIGCONT);
        stopped_.clear();
    }

    std::vector<pid_t> sessions(const std::string &whose)
    {
        std::vector<pid_t> found;
        for (const auto &row : pqxx::nontransaction{connection_}.exec(
                 "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '" + how_.name + '.' + whose + "'"))
            found.push_back(row[0].as<pid_t>());
        return found;
    }

private:
    const setting &how_;
    const std::vector<pid_t> &clients_;
    pqxx::connection connection_;
    std::vector<pid_t> stopped_;
};

void report(const setting &how, const tally &all, int pauses)
{
    pqxx::connection connection{how.connection};
    std::vector<bool> is_there(all.acknowledged.size());
    for (const auto &row :
         pqxx::nontransaction{connection}.exec("SELECT unnest(elements) FROM added" + how.at_my_row()))
        is_there.at(row[0].as<std::size_t>()) = true;
    int added = 0, lost = 0;
    for (std::size_t i = 0; i < is_there.size(); ++i) {
        added += all.acknowledged[i];
        lost += all.acknowledged[i] && !is_there[i];
    }
    std::cout << "added " << added << " lost " << lost << " refused " << all.refused << " pauses " << pauses << '\n';
}

} // namespace

int main(int count, char **words)
try {
    const std::vector<std::string> given{words + 1, words + count};
    if (given.size() != 6)
        throw std::runtime_error{"jepsen CONNECTION NAME guarded|unguarded clients|sessions SECOND SECONDS"};
    const setting how{given[0], given[1], given[2] == "guarded", given[3] == "clients",
                      std::chrono::milliseconds{std::stoi(given[4])}};
    auto &all = processes::shared_memory<tally>();
    std::vector<pid_t> clients;
    for (int i = 0; i < 5; ++i)
        if (clients.push_back(::fork()); clients.back() == 0)
            be_client(how, i, all);

    int pauses = 0;
    stopper stops{how, clients};
    for (const auto end = std::chrono::steady_clock::now() + std::stoi(given[5]) * how.second;
         std::chrono::steady_clock::now() < end; ++pauses) {
        std::this_thread::sleep_for(5 * how.second);
        stops.stop();
        std::this_thread::sleep_for(5 * how.second);
        stops.resume();
    }
    const bool all_well = processes::end_all(clients);
    while (!stops.sessions("%").empty()) // until the server has carried out the last requests
        std::this_thread::sleep_for(50ms);
    report(how, all, pauses);
    return all_well ? 0 : 1;
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
