// extends CONNECTION SECONDS CLIENTS: keep-alive concurrently with guarded jobs. For each lock, which is never
// released, some clients extend the lease and others commit guarded work, while an old snapshot elsewhere keeps every
// version of the row. Prints "extends N guarded M lost L": how many succeeded, and how many reported that the lock was
// lost.
#include "libpqxx.hpp"
#include "processes.hpp"

#include <atomic>
#include <chrono>
#include <iostream>
#include <unistd.h>
#include <vector>

namespace {

struct tally {
    std::atomic<int> extends{0};
    std::atomic<int> guarded{0};
    std::atomic<int> lost{0};
};

constexpr int locks = 2;

// The name and the token of one of the locks, as arguments. The rows are long, so that they move to other pages often.
std::string acquire(pqxx::connection &connection, int number)
{
    pqxx::nontransaction direct{connection};
    const auto name =
        "'keeping " + std::to_string(::getpid()) + '.' + std::to_string(number) + std::string(200, 'x') + "'";
    const auto answer = direct.exec("SELECT shedlock_acquire_token(" + name + ", '1 day', holder => repeat('x', 255))");
    return name + ", " + answer[0][0].c_str();
}

void extend(pqxx::connection &connection, const std::string &lock, tally &all)
{
    pqxx::nontransaction direct{connection};
    const bool done = direct.exec("SELECT shedlock_extend_token(" + lock + ", '1 day')")[0][0].as<bool>();
    ++(done ? all.extends : all.lost);
}

void work(pqxx::connection &connection, const std::string &lock, tally &all)
try {
    pqxx::nontransaction{connection}.exec("INSERT INTO work SELECT 1 FROM shedlock_guard_token(" + lock + ")");
    ++all.guarded;
} catch (const pqxx::sql_error &failure) {
    if (shedlock::libpqxx::sqlstate(failure) != "SL001")
        throw;
    ++all.lost;
}

[[noreturn]] void be_client(const std::string &where, int number, const std::string &lock, tally &all)
try {
    pqxx::connection connection{where};
    for (;;)
        number / locks % 2 ? extend(connection, lock, all) : work(connection, lock, all);
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    ::_exit(1);
}

} // namespace

int main(int count, char **words)
try {
    if (count != 4)
        throw std::runtime_error{"extends CONNECTION SECONDS CLIENTS"};
    pqxx::connection connection{words[1]};
    pqxx::nontransaction{connection}.exec("CREATE TABLE IF NOT EXISTS work (one int)");
    std::vector<std::string> held;
    for (int i = 0; i < locks; ++i)
        held.push_back(acquire(connection, i));
    for (const auto *const sql : {"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"})
        pqxx::nontransaction{connection}.exec(sql);

    auto &all = processes::shared_memory<tally>();
    std::vector<pid_t> clients;
    for (int i = 0; i < std::stoi(words[3]); ++i)
        if (clients.push_back(::fork()); clients.back() == 0)
            be_client(words[1], i, held[static_cast<std::size_t>(i % locks)], all);
    ::sleep(static_cast<unsigned>(std::stoi(words[2])));
    for (int i = 0; i < 3600 && all.lost == 0 && (all.extends == 0 || all.guarded == 0);
         ++i) // a busy machine may need longer
        ::usleep(50'000);
    const bool all_well = processes::end_all(clients);
    std::cout << "extends " << all.extends << " guarded " << all.guarded << " lost " << all.lost << '\n';
    return all_well ? 0 : 1;
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
