// completions.py with pqxx.hpp: the work and the release are one commit, in each of the ways that the header has.
#include "completions.hpp"

#include <memory>

namespace {

using completions::program;
using namespace std::chrono_literals;

class worker {
public:
    explicit worker(program &mine) : mine_{mine} {}

    bool attempt(int tick)
    try {
        if (!db_)
            db_ = std::make_unique<pqxx::connection>(mine_.connection);
        if (completions::is_done(*db_, mine_.job, tick))
            return true;
        mine_.at("ready", tick);
        return tick % 3 == 0 ? by_run(tick) : by_lock(tick);
    } catch (...) {
        db_.reset();
        throw;
    }

private:
    static shedlock::pqxx_options options(int tick)
    {
        shedlock::pqxx_options how;
        how.at_most = completions::is_long(tick) ? std::chrono::microseconds{10min} : 300ms;
        how.tick = completions::instant_of(tick);
        how.retry = true;
        how.ends_with_session = completions::is_long(tick);
        return how;
    }

    void work(pqxx::work &tx, int tick)
    {
        mine_.at("begun", tick);
        completions::have_effect(tx, mine_.job, tick);
        mine_.at("worked", tick);
    }

    bool by_run(int tick)
    {
        const bool ran = shedlock::run(*db_, mine_.job, options(tick), [&](pqxx::work &tx) {
            work(tx, tick);
            if (tick % 2 == 1) { // nothing forbids that
                tx.commit();
                mine_.at("completed", tick);
            }
        });
        if (ran)
            mine_.at("committed", tick);
        return ran;
    }

    bool by_lock(int tick)
    {
        auto lock = shedlock::try_acquire(*db_, mine_.job, options(tick));
        if (!lock)
            return false;
        mine_.at("acquired", tick);
        pqxx::work tx{*db_};
        work(tx, tick);
        if (tick % 3 == 1) {
            shedlock::commit(*lock, tx);
        } else {
            shedlock::complete(tx, mine_.job, lock->token());
            mine_.at("completed", tick);
            tx.commit();
            lock->completed();
        }
        mine_.at("committed", tick);
        return true;
    }

    program &mine_;
    std::unique_ptr<pqxx::connection> db_;
};

} // namespace

int main(int count, char **words)
{
    return completions::run(count, words, [](program &mine) {
        worker one{mine};
        return mine.work_through([&](int tick) { return one.attempt(tick); });
    });
}
