// Clients that use the C++ library.
#include "crowd.hpp"
#include "statements.hpp"

#include "shedlock/pqxx.hpp"
#include "shedlock/shedlock.hpp"

namespace crowd {

using history::action;
using history::maker;
using history::result;

namespace {

struct held {
    int number;
    shedlock::lock lock;
    bool may_be_completed = false; // the reply to a COMMIT was lost
};

std::int64_t number_of(shedlock::token token)
{
    return static_cast<std::int64_t>(token);
}

std::chrono::sys_time<std::chrono::microseconds> time_of(microseconds tick)
{
    return std::chrono::sys_time<std::chrono::microseconds>{std::chrono::microseconds{tick}};
}

// By the clock of the histories.
microseconds trusted_until(const shedlock::lock &lock)
{
    return now().at + (lock.deadline() - shedlock::clock::now()).count();
}

// A time at which the client certainly relied on the lock, if that is now.
std::optional<microseconds> last_relied_on(const held &mine)
{
    const auto time = now().at;
    return mine.lock.held() && !mine.may_be_completed ? std::optional{time} : std::nullopt;
}

constexpr std::size_t most_held = 4;

} // namespace

class library_client final : public client {
public:
    library_client(const scene &scene, recorder &recorder, std::uint64_t seed)
        : scene_{scene}, recorder_{recorder}, random_{seed}, locks_{scene.connection,
                                                                    {.timeout = std::chrono::seconds{2},
                                                                     .on_event = [](const shedlock::event &) {}}}
    {
    }

    void run() override
    {
        while (recorder_.may_go_on()) {
            const auto dice = random_.between(1, 100);
            if (dice <= 60)
                attempt();
            else if (dice <= 80 && !held_.empty())
                change();
            else if (dice <= 90 && !held_.empty() && scene_.has_guards)
                work(random_.one_in(3) ? action::complete : action::guard);
            else
                pause(random_.between(100, 3000));
        }
        drop(0);
    }

private:
    void attempt()
    {
        auto op = random_acquire(random_, scene_, maker::library, random_.one_in(6));
        op.keep_alive = random_.one_in(scene_.is_shared ? 2 : 8);
        shedlock::options how{.at_most = std::chrono::microseconds{op.at_most},
                              .at_least = std::chrono::microseconds{*op.at_least},
                              .keep_alive = op.keep_alive};
        if (op.tick)
            how.tick = time_of(*op.tick);
        std::optional<shedlock::lock> lock;
        record(recorder_, op, [&] {
            lock = op.wait ? locks_.acquire(op.names, how, std::chrono::microseconds{op.wait})
                           : locks_.try_acquire(op.names, how);
            op.result = lock ? result::yes : result::no;
            if (lock) {
                op.token = number_of(lock->token());
                op.trust = trusted_until(*lock);
            }
        });
        if (lock)
            held_.push_back({op.number, std::move(*lock)});
        drop(most_held);
    }

    // A destructor releases as failed, and does not report whether it has released the lock.
    void drop(std::size_t most)
    {
        while (held_.size() > most) {
            operation op{.what = action::release,
                         .by = maker::library,
                         .names = held_.front().lock.names().list(),
                         .of = held_.front().number,
                         .as = history::outcome::failed};
            op.trust = last_relied_on(held_.front());
            record(recorder_, op, [&] {
                held_.erase(held_.begin());
                op.result = result::lost;
            });
        }
    }

    void change()
    {
        const auto index = random_.between(0, static_cast<std::int64_t>(held_.size()) - 1);
        const auto mine = held_.begin() + index;
        operation op{
            .what = random_.one_in(4) ? action::extend : action::release, .by = maker::library, .of = mine->number};
        op.names = mine->lock.names().list();
        if (op.what == action::extend) {
            op.at_most = random_.lease(scene_);
            record(recorder_, op, [&] {
                mine->lock.extend(std::chrono::microseconds{op.at_most});
                op.trust = trusted_until(mine->lock);
            });
            return;
        }
        op.trust = last_relied_on(*mine);
        record(recorder_, op, [&] {
            mine->lock.release();
            if (mine->may_be_completed)
                op.result = result::lost; // the lock is not ours any more, but perhaps not because of this request
        });
        held_.erase(mine);
    }

    // Guarded work, or work that completes the lock, in a transaction of the application.
    void work(action how)
    {
        auto &mine = held_.back();
        const int tx = ++transactions_;
        operation start{.tx = tx, .what = action::start, .by = maker::library};
        operation working{
            .tx = tx, .what = how, .by = maker::library, .names = mine.lock.names().list(), .of = mine.number};
        operation end{.tx = tx, .what = action::commit, .by = maker::library};
        std::unique_ptr<pqxx::connection> application;
        std::unique_ptr<pqxx::work> work;
        record(recorder_, start, [&] {
            application = std::make_unique<pqxx::connection>(scene_.connection);
            work = std::make_unique<pqxx::work>(*application);
        });
        if (start.result == result::yes)
            record(recorder_, working, [&] { work_within(*work, mine.lock, working); });
        if (working.result != result::yes)
            end.what = action::rollback;
        if (work)
            record(recorder_, end, [&] { end.what == action::commit ? work->commit() : work->abort(); });
        if (how != action::complete || end.what != action::commit)
            return;
        if (end.result == result::lost)
            mine.may_be_completed = true;
        if (end.result == result::yes) {
            mine.lock.completed();
            held_.pop_back();
        }
    }

    // The work is a row of the ledger. If it completes the lock, the row has the number of the completion.
    static void work_within(pqxx::work &work, shedlock::lock &lock, const operation &op)
    {
        shedlock::libpqxx::parameters values{op.names[0], std::to_string(number_of(lock.token())), std::nullopt};
        if (op.what == action::guard) {
            shedlock::guard(lock, work);
        } else {
            work.exec(lock.complete_statement());
            values.back() = std::to_string(op.number);
        }
        shedlock::libpqxx::exec(work, "INSERT INTO ledger VALUES ($1, $2, $3)", values);
    }

    const scene &scene_;
    recorder &recorder_;
    choices random_;
    shedlock::client locks_;
    int transactions_ = 0;
    std::vector<held> held_;
};

unique_client make_library_client(const scene &scene, recorder &recorder, std::uint64_t seed)
{
    return std::make_unique<library_client>(scene, recorder, seed);
}

} // namespace crowd
