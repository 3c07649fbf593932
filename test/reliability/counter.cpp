// counter CONNECTION guarded|unguarded SECONDS: read, sleep, write of a number under a lock, by clients that are
// stopped beyond their leases. Prints "done N lost M stopped S": how many increments were committed, how many of them
// are not in the number, and how often a client was stopped.
#include "libpqxx.hpp"
#include "processes.hpp"

#include <array>
#include <chrono>
#include <iostream>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

constexpr auto lease = 40ms;

// One increment, if the lock is to be had. What a guard refuses has not been counted.
void increment(pqxx::connection &connection, bool guarded)
try {
    pqxx::nontransaction direct{connection};
    auto const acquired =
        direct.exec("SELECT shedlock_acquire_token('counter', '" + std::to_string(lease.count()) + " ms')");
    auto const token = acquired[0][0]; // in libpqxx 8.0 a reference into the result
    if (token.is_null())
        return std::this_thread::sleep_for(2ms);
    auto const old = direct.exec("SELECT n FROM counter")[0][0].as<int>();
    std::this_thread::sleep_for(5ms);
    direct.exec("BEGIN");
    if (guarded)
        direct.exec(std::string{"SELECT shedlock_guard_token('counter', "} + token.c_str() + ")");
    direct.exec("UPDATE counter SET n = " + std::to_string(old + 1));
    direct.exec("INSERT INTO increment VALUES (1)");
    direct.exec("COMMIT");
    direct.exec(std::string{"SELECT shedlock_release_token('counter', "} + token.c_str() + ")");
} catch (pqxx::sql_error const &failure) {
    if (shedlock::libpqxx::sqlstate(failure) != "SL001")
        throw;
    pqxx::nontransaction{connection}.exec("ROLLBACK");
}

[[noreturn]] void be_client(std::string const &where, bool guarded)
try {
    pqxx::connection connection{where};
    for (;;)
        increment(connection, guarded);
} catch (std::exception const &failure) {
    std::cerr << failure.what() << std::endl;
    ::_exit(1);
}

} // namespace

int main(int count, char **words)
try {
    if (count != 4)
        throw std::runtime_error{"counter CONNECTION guarded|unguarded SECONDS"};
    bool const guarded = std::string{words[2]} == "guarded";
    {
        pqxx::connection connection{words[1]};
        pqxx::nontransaction{connection}.exec("DROP TABLE IF EXISTS counter, increment; CREATE TABLE counter AS SELECT "
                                              "0 AS n; CREATE TABLE increment (one int)");
    }
    std::array<pid_t, 4> clients{};
    for (auto &client : clients)
        if (client = ::fork(); client == 0)
            be_client(words[1], guarded);

    // In turns: asleep for one and a half leases, which somebody else takes over meanwhile.
    int stopped = 0;
    for (auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{std::stoi(words[3])};
         std::chrono::steady_clock::now() < end;) {
        auto const victim = clients.at(static_cast<std::size_t>(stopped) % clients.size());
        std::this_thread::sleep_for(7ms);
        ::kill(victim, SIGSTOP);
        std::this_thread::sleep_for(lease * 3 / 2);
        ::kill(victim, SIGCONT);
        ++stopped;
    }
    bool const all_well = processes::end_all(clients);
    // What was sent is still carried out.
    pqxx::connection connection{words[1]};
    pqxx::nontransaction direct{connection};
    for (int others = 1; others > 0; std::this_thread::sleep_for(50ms))
        others = direct
                     .exec("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counter' AND pid <> "
                           "pg_backend_pid()")[0][0]
                     .as<int>();
    auto const sums = direct.exec("SELECT (SELECT count(*) FROM increment), (SELECT n FROM counter)");
    std::cout << "done " << sums[0][0].as<int>() << " lost " << sums[0][0].as<int>() - sums[0][1].as<int>()
              << " stopped " << stopped << '\n';
    return all_well ? 0 : 1;
} catch (std::exception const &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
