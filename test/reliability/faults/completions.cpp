// completions pqxx|client CONNECTION JOB FIRST LAST [POINT FILE]: completions.py in C++. With pqxx.hpp, the work and
// the release are one commit, in each of the ways that the header has. With the full client and a connection of the
// application, leases are short and kept alive, and locks are completed by commit() of pqxx.hpp or by the statement for
// other drivers.
#include "libpqxx.hpp"

#include <shedlock/pqxx.hpp>
#include <shedlock/shedlock.hpp>

#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

namespace {

using namespace std::chrono_literals;

shedlock::instant instant_of(int tick)
{
    constexpr std::chrono::seconds beginning_of_2020{1'577'836'800};
    return shedlock::instant{beginning_of_2020 + std::chrono::minutes{tick}};
}

class worker {
public:
    explicit worker(std::vector<std::string> words) : words_{std::move(words)} {}
    virtual ~worker() = default;

    // Ends when each tick is done, by any program.
    void work_through()
    {
        for (int tick = std::stoi(words_.at(3)); tick <= last(); ++tick)
            while (!gets_done(tick))
                std::this_thread::sleep_for(std::chrono::milliseconds{std::rand() % 20});
    }

protected:
    // Return whether the tick is now known to be done.
    virtual bool by_run(int tick) = 0;
    virtual bool by_lock(int tick) = 0;

    [[nodiscard]] const std::string &connection() const { return words_.at(1); }
    [[nodiscard]] const std::string &job() const { return words_.at(2); }
    [[nodiscard]] pqxx::connection &db() const { return *db_; }

    // Creates the file and stops the process, once, if this is the given point of the last tick. A stop without the
    // file has another cause.
    void at(const std::string &point, int tick)
    {
        if (words_.size() < 7 || point != words_[5] || tick != last())
            return;
        words_[5].clear();
        std::ofstream{words_[6]};
        ::raise(SIGSTOP);
    }

    void have_effect(pqxx::work &tx, int tick)
    {
        shedlock::libpqxx::exec(tx, "INSERT INTO effects VALUES ($1, $2::int)", {job(), std::to_string(tick)});
        at("worked", tick);
    }

private:
    [[nodiscard]] int last() const { return std::stoi(words_.at(4)); }

    bool attempt(int tick)
    {
        if (!db_)
            db_ = std::make_unique<pqxx::connection>(connection());
        if (is_done(tick))
            return true;
        at("ready", tick);
        return tick % 3 == 0 ? by_run(tick) : by_lock(tick);
    }

    bool is_done(int tick)
    {
        pqxx::nontransaction direct{*db_};
        const auto rows = shedlock::libpqxx::exec(
            direct,
            "SELECT last_done_tick >= '2020-01-01 00:00+00'::timestamptz + $2::int * interval '1 minute' FROM "
            "shedlock_locks WHERE name = $1",
            {job(), std::to_string(tick)});
        return !rows.empty() && !rows[0][0].is_null() && rows[0][0].as<bool>();
    }

    // A lost lock or connection is expected.
    bool gets_done(int tick)
    try {
        try {
            return attempt(tick);
        } catch (...) {
            db_.reset();
            throw;
        }
    } catch (const shedlock::lock_lost &) {
        return false;
    } catch (const shedlock::connection_error &) { // in_doubt, too
        return false;
    } catch (const pqxx::failure &failure) {
        const auto state = shedlock::libpqxx::sqlstate(failure);
        const bool is_broken = state.empty() || state.starts_with("57P") || state.starts_with("08");
        if (!is_broken && state != "SL001")
            throw;
        return false;
    }

    std::vector<std::string> words_;
    std::unique_ptr<pqxx::connection> db_;
};

class pqxx_worker final : public worker {
public:
    using worker::worker;

private:
    // Every other lease is long and ends with the session. The others are short, and may end before the work is done.
    static shedlock::pqxx_options options(int tick)
    {
        shedlock::pqxx_options how;
        how.ends_with_session = tick % 2 != 0;
        how.at_most = *how.ends_with_session ? std::chrono::microseconds{10min} : 300ms;
        how.tick = instant_of(tick);
        how.retry = true;
        return how;
    }

    bool by_run(int tick) override
    {
        const bool ran = shedlock::run(db(), job(), options(tick), [&](pqxx::work &tx) {
            at("begun", tick);
            have_effect(tx, tick);
            if (tick % 2 == 1) { // nothing forbids that
                tx.commit();
                at("completed", tick);
            }
        });
        if (ran)
            at("committed", tick);
        return ran;
    }

    bool by_lock(int tick) override
    {
        auto lock = shedlock::try_acquire(db(), job(), options(tick));
        if (!lock)
            return false;
        at("acquired", tick);
        pqxx::work tx{db()};
        at("begun", tick);
        have_effect(tx, tick);
        if (tick % 3 == 1) {
            shedlock::commit(*lock, tx);
        } else {
            shedlock::complete(tx, job(), lock->token());
            at("completed", tick);
            tx.commit();
            lock->completed();
        }
        at("committed", tick);
        return true;
    }
};

class client_worker final : public worker {
public:
    using worker::worker;

private:
    static shedlock::options options(int tick)
    {
        return {.at_most = 500ms, .tick = instant_of(tick), .retry = true, .keep_alive = true};
    }

    void work(shedlock::lock &lock, int tick)
    {
        at("acquired", tick);
        pqxx::work tx{db()};
        at("begun", tick);
        have_effect(tx, tick);
        if (tick % 3 == 1) {
            tx.exec(lock.complete_statement());
            at("completed", tick);
            tx.commit();
            lock.completed();
        } else {
            shedlock::commit(lock, tx);
        }
        at("committed", tick);
    }

    bool by_run(int tick) override
    {
        return locks_.run(job(), options(tick), [&](shedlock::lock &lock) { work(lock, tick); });
    }

    bool by_lock(int tick) override
    {
        auto lock = locks_.try_acquire(job(), options(tick));
        if (lock)
            work(*lock, tick);
        return lock.has_value();
    }

    shedlock::client locks_{connection(), {.timeout = 2s, .on_event = [](const shedlock::event &) {}}};
};

} // namespace

int main(int count, char **given)
try {
    const std::vector<std::string> words{given + 1, given + count};
    if (words.at(0) == "pqxx")
        pqxx_worker{words}.work_through();
    else
        client_worker{words}.work_through();
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 1;
}
