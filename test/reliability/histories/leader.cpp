// Candidates for one leadership, which all use the same holder, as two processes of one host behind a pooler do. A
// candidate that is granted the lock leads until it retires or may no longer rely on it. Then it continues for a while
// as if it had not noticed: it may extend, works, and in the end releases a lock that another may have acquired long
// ago. In the history, the release says until when the candidate led.
#include "crowd.hpp"
#include "statements.hpp"

#include "shedlock/pqxx.hpp"
#include "shedlock/shedlock.hpp"

namespace crowd {

using history::action;
using history::maker;
using history::result;

namespace {

const char *const common_holder = "web-1"; // the holder they all use

class leader : public client {
public:
    leader(const scene &scene, recorder &recorder, maker by, std::uint64_t seed)
        : scene_{scene}, recorder_{recorder}, by_{by}, random_{seed}
    {
    }

    void run() override
    {
        while (recorder_.may_go_on())
            if (connect() && acquire())
                lead();
            else
                pause(random_.between(2'000, 15'000));
    }

protected:
    virtual void ask_to_acquire(operation &) = 0;
    virtual void ask_to_extend(operation &) = 0;
    virtual void guard_and_commit(operation &) = 0;
    virtual void complete_and_commit(operation &) = 0;
    virtual void ask_to_release(operation &) = 0;
    virtual bool still_leads() = 0; // extends, unless the library does that itself

    void recorded(operation &op, const std::function<void()> &ask)
    {
        record(recorder_, op, ask);
        if (op.result == result::lost)
            connection_.reset();
    }

    operation extend()
    {
        auto op = about_term(action::extend);
        op.at_most = term_.at_most;
        recorded(op, [&] { ask_to_extend(op); });
        return op;
    }

    operation about_term(action what) { return {.what = what, .by = by_, .names = scene_.names, .of = term_.number}; }

    bool connect()
    try {
        if (!connection_) {
            connection_ = std::make_unique<pqxx::connection>(scene_.connection);
            shedlock::libpqxx::never_reconnect(*connection_);
        }
        return true;
    } catch (const pqxx::failure &) {
        return false;
    }

    pqxx::result send(const statement &one)
    {
        pqxx::nontransaction direct{*connection_};
        return shedlock::libpqxx::exec(direct, one.sql, one.values);
    }

    operation term_{};                             // its acquire
    std::unique_ptr<pqxx::connection> connection_; // the application's

private:
    bool acquire()
    {
        term_ = {.what = action::acquire,
                 .by = by_,
                 .names = scene_.names,
                 .at_most = random_.lease(scene_),
                 .at_least = 0,
                 .keep_alive = by_ == maker::library};
        recorded(term_, [&] { ask_to_acquire(term_); });
        return term_.result == result::yes;
    }

    void lead()
    {
        std::optional<microseconds> last; // none if the lease had ended when the answer arrived
        const auto retires = term_.done.at + random_.between(1, 8) * term_.at_most / 4;
        for (auto time = now().at; time < retires && recorder_.may_go_on() && still_leads(); time = now().at) {
            last = time;
            if (random_.one_in(10))
                guard();
            pause(random_.between(1'000, 5'000));
        }
        pause(random_.between(0, 2 * term_.at_most));
        if (random_.one_in(2))
            extend();
        random_.one_in(2) ? guard() : complete();
        auto release = about_term(action::release);
        release.trust = last;
        recorded(release, [&] { ask_to_release(release); });
    }

    void guard()
    {
        auto guarded = about_term(action::guard);
        if (connect())
            recorded(guarded, [&] { guard_and_commit(guarded); });
    }

    // After this there is nothing to release.
    void complete()
    {
        auto completed = about_term(action::complete);
        if (connect())
            recorded(completed, [&] { complete_and_commit(completed); });
    }

    const scene &scene_;
    recorder &recorder_;
    const maker by_;
    choices random_;
};

// Extends whenever a third of the lease has passed, and leads until the lease ends, counted from the request.
class token_leader final : public leader {
public:
    using leader::leader;

private:
    void ask_to_acquire(operation &op) override
    {
        read_answer(op, send(make_statement(op, {}, {.host = common_holder})));
        leads_until_ = op.called.at + op.at_most;
        due_ = op.called.at + op.at_most / 3;
    }

    bool still_leads() override
    {
        if (now().at >= due_)
            hear_of(extend());
        return now().at < leads_until_;
    }

    void hear_of(const operation &op)
    {
        if (op.result == result::yes)
            leads_until_ = op.called.at + op.at_most;
        else if (op.result == result::no)
            leads_until_ = 0;
        due_ = now().at + op.at_most / (op.result == result::yes ? 3 : 20);
    }

    void ask_to_extend(operation &op) override { change(op); }
    void ask_to_release(operation &op) override { change(op); }

    void change(operation &op)
    {
        if (!connect())
            throw shedlock::connection_error{"no server"};
        read_answer(op, send(make_statement(op, term_.token, {})));
    }

    void guard_and_commit(operation &op) override { read_answer(op, send(make_statement(op, term_.token, {}))); }
    void complete_and_commit(operation &op) override { guard_and_commit(op); }

    microseconds leads_until_ = 0;
    microseconds due_ = 0;
};

class library_leader final : public leader {
public:
    library_leader(const scene &scene, recorder &recorder, std::uint64_t seed)
        : leader{scene, recorder, maker::library, seed}, locks_{scene.connection,
                                                                {.timeout = std::chrono::seconds{2},
                                                                 .on_event = [this](const shedlock::event &event) {
                                                                     if (event.what ==
                                                                         shedlock::event::kind::release_unclear)
                                                                         is_unclear_ = true;
                                                                 }}}
    {
    }

private:
    void ask_to_acquire(operation &op) override
    {
        lock_ = locks_.try_acquire(
            op.names, {.at_most = std::chrono::microseconds{op.at_most}, .holder = common_holder, .keep_alive = true});
        op.result = lock_ ? result::yes : result::no;
        is_completed_ = false;
        if (lock_)
            op.token = static_cast<microseconds>(lock_->token());
    }

    bool still_leads() override { return lock_->held(); }
    void ask_to_extend(operation &op) override { lock_->extend(std::chrono::microseconds{op.at_most}); }

    void guard_and_commit(operation &op) override
    {
        pqxx::work work{*connection_};
        shedlock::libpqxx::exec(work, "INSERT INTO ledger VALUES ($1, $2)",
                                {op.names[0], std::to_string(term_.token.value())});
        shedlock::libpqxx::or_lost([&] {
            shedlock::guard(*lock_, work);
            work.commit();
        });
    }

    void complete_and_commit(operation &op) override
    {
        pqxx::work work{*connection_};
        shedlock::libpqxx::exec(work, "INSERT INTO ledger VALUES ($1, $2, $3)",
                                {op.names[0], std::to_string(term_.token.value()), std::to_string(op.number)});
        shedlock::commit(*lock_, work);
        is_completed_ = true;
    }

    void ask_to_release(operation &op) override
    {
        is_unclear_ = false;
        lock_->release();
        if (is_unclear_)
            op.result = result::lost; // asked twice: no longer ours, but perhaps not because of this release
        if (is_completed_)
            op.result = result::no; // the completion had released the lock
    }

    std::atomic<bool> is_unclear_ = false; // set by any thread of the library
    shedlock::client locks_;
    std::optional<shedlock::lock> lock_;
    bool is_completed_ = false;
};

} // namespace

unique_client make_leader(const scene &scene, recorder &recorder, maker by, std::uint64_t seed)
{
    if (by == maker::library)
        return std::make_unique<library_leader>(scene, recorder, seed);
    return std::make_unique<token_leader>(scene, recorder, by, seed);
}

} // namespace crowd
