// A long job in steps. The lease is short, so that another host takes over soon if this one dies; keep_alive extends it
// while the job runs. If this process is paused until another host has taken over, the guard keeps its late
// transaction from committing. The last step completes the lock: its commit also releases it.
#include <iostream>
#include <pqxx/pqxx>
#include <shedlock/pqxx.hpp>
#include <shedlock/shedlock.hpp>

using namespace std::chrono_literals;

// Before: CREATE TABLE imported (batch int PRIMARY KEY)
int main()
{
    try {
        shedlock::client locks;
        pqxx::connection application;
        const bool ran = locks.run("import", {.at_most = 30s, .keep_alive = true}, [&](shedlock::lock &lock) {
            const auto stop = lock.stop_token(); // requested before the lease ends, if it cannot be extended
            for (int batch = 1; batch <= 3 && !stop.stop_requested(); ++batch) {
                pqxx::work transaction{application};
                // What was committed before a failure is done again.
                transaction.exec("INSERT INTO imported VALUES (" + std::to_string(batch) + ") ON CONFLICT DO NOTHING");
                if (batch == 3) {
                    shedlock::commit(lock, transaction);
                } else {
                    shedlock::guard(lock,
                                    transaction); // it commits only if no other caller has acquired the lock since
                    transaction.commit();
                }
                std::cout << "imported batch " << batch << '\n';
            }
        });
        if (!ran)
            std::cout << "skipped: another host imports\n";
    } catch (const std::exception &failure) { // SQLSTATE SL001: the lock was lost, and the transaction rolled back
        std::cerr << failure.what() << '\n';
        return 1;
    }
}
