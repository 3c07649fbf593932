// completions.py with the full client and a connection of the application: leases are short and kept alive, and
// locks are completed by commit() of pqxx.hpp or by the statement for other drivers.
#include "completions.hpp"

#include <shedlock/shedlock.hpp>

#include <memory>

namespace {

using completions::program;
using namespace std::chrono_literals;

class worker {
public:
    explicit worker(program &mine)
        : mine_{mine}, locks_{mine.connection, {.timeout = 2s, .on_event = [](const shedlock::event &) {}}}
    {
    }

    bool attempt(int tick)
    try {
        if (!application_)
            application_ = std::make_unique<pqxx::connection>(mine_.connection);
        if (completions::is_done(*application_, mine_.job, tick))
            return true;
        mine_.at("ready", tick);
        return tick % 3 == 0 ? by_run(tick) : by_lock(tick);
    } catch (...) {
        application_.reset();
        throw;
    }

private:
    static shedlock::options options(int tick)
    {
        return {.at_most = 500ms, .tick = completions::instant_of(tick), .retry = true, .keep_alive = true};
    }

    void work(shedlock::lock &lock, int tick)
    {
        mine_.at("acquired", tick);
        pqxx::work tx{*application_};
        mine_.at("begun", tick);
        completions::have_effect(tx, mine_.job, tick);
        mine_.at("worked", tick);
        if (tick % 3 == 1) {
            tx.exec(lock.complete_statement());
            mine_.at("completed", tick);
            tx.commit();
            lock.completed();
        } else {
            shedlock::commit(lock, tx);
        }
        mine_.at("committed", tick);
    }

    bool by_run(int tick)
    {
        return locks_.run(mine_.job, options(tick), [&](shedlock::lock &lock) { work(lock, tick); });
    }

    bool by_lock(int tick)
    {
        auto lock = locks_.try_acquire(mine_.job, options(tick));
        if (lock)
            work(*lock, tick);
        return lock.has_value();
    }

    program &mine_;
    shedlock::client locks_;
    std::unique_ptr<pqxx::connection> application_;
};

} // namespace

int main(int count, char **words)
{
    return completions::run(count, words, [](program &mine) {
        worker one{mine};
        return mine.work_through([&](int tick) { return one.attempt(tick); });
    });
}
