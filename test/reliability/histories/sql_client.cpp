// Clients that send SQL: our functions by session or by token, or the statements of ShedLock for Java.
#include "crowd.hpp"
#include "statements.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace crowd {

using history::action;
using history::maker;
using history::result;

namespace {

struct held {
    int number; // of the acquire
    std::vector<std::string> names;
    std::optional<microseconds> token;
    microseconds at_least;
};

// The row can be read back only where each statement has its own snapshot.
struct isolation_level {
    const char *name;
    bool sees_row;
    history::level level;
};
constexpr isolation_level levels[] = {{"READ COMMITTED", true, history::level::committed},
                                      {"REPEATABLE READ", false, history::level::repeatable},
                                      {"SERIALIZABLE", false, history::level::serializable}};

// A run whose reply was lost.
struct orphan {
    int number;
    int process; // of its session
    microseconds begun;
};

struct link {
    explicit link(const std::string &where) : to_server{where} { shedlock::libpqxx::never_reconnect(to_server); }
    pqxx::connection to_server;
    shedlock::libpqxx::notices notices{to_server};
};

// How many acquisitions a client remembers, to extend or release them; most of them were lost long ago.
constexpr std::size_t most_remembered = 8;

bool is_reply_lost(const pqxx::failure &failure, const link *connection)
{
    const auto state = shedlock::libpqxx::sqlstate(failure);
    return state.empty() || state.starts_with("08") || state.starts_with("57P") || !connection ||
           !connection->to_server.is_open();
}

} // namespace

class sql_client final : public client {
public:
    sql_client(const scene &scene, recorder &recorder, maker by, std::uint64_t seed)
        : scene_{scene}, recorder_{recorder}, by_{by}, random_{seed}
    {
    }

    void run() override
    {
        while (recorder_.may_go_on())
            if (connection_ || connect())
                step();
    }

private:
    // A client forgets its locks when its connection ends. Then it is another session and another host.
    bool connect()
    try {
        held_.clear();
        host_ = "c" + std::to_string(recorder_.client()) + "." + std::to_string(++connections_);
        connection_ = std::make_unique<link>(scene_.connection);
        if (random_.one_in(8) && !scene_.through_pooler)
            send("SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', "
                 "'debug_parallel_query')");
        return true;
    } catch (const pqxx::failure &) {
        connection_.reset();
        pause(5000);
        return false;
    }

    void step()
    {
        if (scene_.has_timeouts && random_.one_in(3))
            set_timeouts();
        if (scene_.is_shared && by_ == maker::token) {
            take_part();
            if (!held_.empty() && !random_.one_in(20))
                return static_cast<void>(random_.one_in(80) ? complete(0) : random_.one_in(2) ? change(0) : guard(0));
        }
        if (orphan_)
            return check_whether_gone();
        if (scene_.has_runs && by_ != maker::java && random_.one_in(8))
            return run_something();
        const auto dice = random_.between(1, 100);
        if (dice <= 60 || (scene_.needs_leases && dice <= 75))
            attempt(0, levels[0]);
        else if (dice <= 79)
            change(0);
        else if (dice <= 82)
            complete(0);
        else if (dice <= 84)
            pause(random_.between(100, 3000));
        else
            transact();
    }

    // Remembers the token that was last shared for a name, which is usually another client's.
    void take_part()
    {
        const auto index = random_.between(0, static_cast<std::int64_t>(scene_.names.size()) - 1);
        const auto &name = scene_.names[static_cast<std::size_t>(index)];
        const auto [number, token] = recorder_.shared(static_cast<std::size_t>(index));
        if (number > std::exchange(latest_seen_[name], number))
            hold({number, {name}, token, 0});
    }

    void let_others_take_part(const operation &op)
    {
        const auto name = std::find(scene_.names.begin(), scene_.names.end(), op.names[0]);
        if (by_ == maker::token && !op.tx && name != scene_.names.end())
            recorder_.share(static_cast<std::size_t>(name - scene_.names.begin()), op);
    }

    void set_timeouts()
    {
        const auto time = [&] { return random_.one_in(3) ? "0" : std::to_string(random_.between(1, 50)); };
        if (!send_unrecorded("SET statement_timeout = " + time()))
            return;
        send_unrecorded("SET lock_timeout = " + time());
    }

    // Sends a statement that is not part of the history. Returns false if it failed; a transaction must be rolled back
    // then.
    bool send_unrecorded(const std::string &sql)
    try {
        send(sql);
        return true;
    } catch (const pqxx::failure &failure) {
        if (is_reply_lost(failure, connection_.get()))
            connection_.reset();
        return false;
    }

    pqxx::result send(const std::string &sql, const shedlock::libpqxx::parameters &values = {})
    {
        pqxx::nontransaction direct{connection_->to_server};
        return values.empty() ? direct.exec(sql) : shedlock::libpqxx::exec(direct, sql, values);
    }

    // Sends the request, and records the answer. Returns false if the transaction, if there is one, has to be rolled
    // back.
    template <typename Ask> bool recorded(operation &op, const Ask &ask)
    {
        recorder_.call(op);
        connection_->notices.forget();
        try {
            op.result = result::yes;
            ask();
        } catch (const pqxx::failure &failure) {
            op.result = is_reply_lost(failure, connection_.get()) ? result::lost : result::error;
            op.state = state_of(shedlock::libpqxx::sqlstate(failure), failure.what());
        }
        hear(op);
        if (op.result == result::lost)
            connection_.reset();
        recorder_.done(op);
        return op.result == result::yes || op.result == result::no;
    }

    // The command of a run reports in notices when it begins and ends, which arrive even if the run fails.
    void hear(operation &op)
    {
        long long time = 0, token = 0;
        for (const auto &text : connection_->notices.since_forgotten())
            if (std::sscanf(text.c_str(), "INFO:  begun %lld %d %lld", &time, &process_, &token) == 3) {
                op.begun = time;
                if (token)
                    op.token = token;
            } else if (std::sscanf(text.c_str(), "INFO:  ended %lld", &time) == 1) {
                op.ended = time;
            } else if (text.find(" was not released") != text.npos) {
                op.is_kept = true;
            }
    }

    bool statement_of(operation &op, std::optional<microseconds> token, const manner &manner)
    {
        return recorded(op, [&] {
            const auto made = make_statement(op, token, manner); // not earlier: now the operation has its number
            auto rows = send(made.sql, made.values);
            if (manner.how == wrapping::cursor) {
                rows = send("FETCH FROM one_row");
                send("CLOSE one_row");
            }
            read_answer(op, rows);
        });
    }

    bool attempt(int tx, const isolation_level &level)
    {
        auto op = random_acquire(random_, scene_, by_, by_ != maker::java && random_.one_in(6));
        op.tx = tx;
        manner manner{host_, level.sees_row, by_ == maker::java && !known_[op.names[0]], wrapping::none};
        if (tx && by_ != maker::java && random_.one_in(6))
            manner.how = wrapping::cursor;
        else if (by_ == maker::token && random_.one_in(10))
            manner.how = wrapping::exception_block;
        const bool went_well = statement_of(op, {}, manner);
        known_[op.names[0]] |= went_well;
        if (op.result == result::yes) {
            remember(op);
            let_others_take_part(op);
        }
        if (!went_well && op.result == result::error && !tx)
            look(op.names);
        return went_well;
    }

    // Histories without guards have sessions that do not wait for the disk (Crowd.pm). A crash can lose any run of
    // theirs without a tick, so none is made.
    void run_something()
    {
        auto op = random_acquire(random_, scene_, maker::session, !scene_.has_guards || random_.one_in(2));
        if (!scene_.has_guards && !op.tick)
            return;
        op.what = action::run;
        op.names.resize(1);
        if (random_.one_in(4))
            op.as = history::outcome::failed;
        const manner manner{.host = host_, .work = random_.one_in(2) ? 0 : random_.between(0, 20'000)};
        recorded(op, [&] {
            const auto made = make_statement(op, {}, manner);
            read_answer(op, send(made.sql, made.values));
        });
        if (op.result == result::lost && op.begun)
            orphan_ = orphan{op.number, process_, *op.begun};
        if (by_ == maker::session)
            std::erase_if(held_, [&](const auto &one) { return one.names[0] == op.names[0]; });
    }

    // Even a terminated session takes some time before it is gone.
    void check_whether_gone()
    {
        operation op{.what = action::gone, .by = maker::session, .of = orphan_->number};
        recorded(op, [&] {
            const auto rows = send("SELECT FROM pg_stat_activity WHERE pid = $1::int AND backend_start < "
                                   "to_timestamp($2::float8 / 1000000)",
                                   {std::to_string(orphan_->process), std::to_string(orphan_->begun)});
            op.result = rows.empty() ? result::yes : result::no;
        });
        if (op.result == result::yes)
            orphan_.reset();
        else
            pause(2000);
    }

    // A session or a Java host owns only its latest acquisition of a name; tokens are independent of each other.
    void remember(const operation &op)
    {
        if (by_ != maker::token)
            std::erase_if(held_, [&](const auto &one) { return one.names == op.names; });
        auto names = op.names;
        if (by_ == maker::session && names.size() > 1) {
            for (const auto &name : names) {
                std::erase_if(held_, [&](const auto &one) { return one.names[0] == name; });
                hold({op.number, {name}, op.token, op.at_least.value_or(0)});
            }
        } else {
            hold({op.number, names, op.token, op.at_least.value_or(0)});
        }
    }

    void hold(const held &one)
    {
        held_.push_back(one);
        if (held_.size() > most_remembered)
            held_.erase(held_.begin());
    }

    bool chooses_to_extend()
    {
        return scene_.is_shared ? !random_.one_in(50) : random_.one_in(scene_.needs_leases ? 2 : 4);
    }

    held one_of_mine() { return random_.one_in(3) ? random_.one_of(held_) : held_.back(); }

    // Clients that share a token forget it as soon as it is lost, because they test more while it is held.
    void forget_lost(const operation &op)
    {
        const bool is_lost = op.result == result::no || op.state == "SL001";
        if (scene_.is_shared && is_lost && !op.tx)
            std::erase_if(held_, [&](const auto &one) { return one.number == op.of; });
    }

    bool change(int tx)
    {
        if (held_.empty())
            return true;
        const auto mine = one_of_mine();
        operation op{.tx = tx, .what = chooses_to_extend() ? action::extend : action::release, .by = by_};
        if (op.what == action::release && by_ != maker::java && random_.one_in(3))
            op.as = history::outcome::failed;
        op.names = random_.one_in(4) ? std::vector{mine.names[0]} : mine.names;
        op.of = mine.number;
        if (op.what == action::extend) {
            op.at_most = random_.lease(scene_);
            if (by_ != maker::java && !scene_.is_shared && random_.one_in(3))
                op.at_least = op.at_most / random_.between(2, 10) / 1000 * 1000;
        } else if (by_ == maker::java) {
            op.at_least = mine.at_least;
        }
        const bool went_well = statement_of(op, mine.token, {.host = host_});
        forget_lost(op);
        return went_well;
    }

    bool guard(int tx)
    {
        if (held_.empty() || by_ == maker::java || !scene_.has_guards)
            return true;
        const auto mine = one_of_mine();
        if (!mine.token)
            return true;
        operation op{.tx = tx, .what = action::guard, .by = by_, .names = {mine.names[0]}, .of = mine.number};
        const bool went_well = statement_of(op, mine.token, {});
        forget_lost(op);
        return went_well;
    }

    // One statement inserts a row, which is the work, and releases the lock as done.
    bool complete(int tx)
    {
        if (held_.empty() || by_ == maker::java || !scene_.has_guards)
            return true;
        const auto mine = one_of_mine();
        if (!mine.token)
            return true;
        operation op{.tx = tx, .what = action::complete, .by = by_, .of = mine.number};
        op.names = random_.one_in(4) ? std::vector{mine.names[0]} : mine.names;
        const bool went_well = statement_of(op, mine.token, {});
        // Sometimes the client completes it again later, which must fail once the first completion is committed.
        if (went_well && op.names == mine.names && !random_.one_in(4))
            std::erase_if(held_, [&](const auto &one) { return one.number == mine.number && one.names == mine.names; });
        forget_lost(op);
        return went_well;
    }

    bool control(int tx, action what, const std::string &sql, history::level level = history::level::committed)
    {
        operation op{.tx = tx, .what = what, .by = by_, .level = level};
        return recorded(op, [&] { send(sql); });
    }

    void transact()
    {
        const auto &level = levels[random_.one_in(3) ? random_.between(1, 2) : 0];
        const auto before = held_;
        const int tx = ++transactions_;
        if (!control(tx, action::start, std::string{"BEGIN ISOLATION LEVEL "} + level.name, level.level)) {
            if (connection_ && !send_unrecorded("ROLLBACK")) // a cancelled BEGIN may have begun a transaction
                connection_.reset();
            return;
        }
        bool went_well = !random_.one_in(20) || send_unrecorded("SELECT many_subtransactions()");
        for (auto count = random_.between(1, 4); went_well && count > 0; --count)
            went_well = act_within(tx, level);
        if (!connection_)
            return;
        if (!went_well || random_.one_in(4))
            return roll_back(tx, before);
        finish(tx, before);
    }

    bool act_within(int tx, const isolation_level &level)
    {
        const auto dice = random_.between(1, 100);
        if (dice <= 35)
            return attempt(tx, level);
        if (dice <= 55)
            return change(tx);
        if (dice <= 67)
            return guard(tx);
        if (dice <= 80)
            return complete(tx);
        if (dice <= 90)
            return savepoint(tx, level);
        pause(random_.between(0, 2000));
        return true;
    }

    bool savepoint(int tx, const isolation_level &level)
    {
        const auto before = held_;
        if (!control(tx, action::savepoint, "SAVEPOINT one"))
            return false;
        const bool went_well = random_.one_in(2) ? attempt(tx, level) : random_.one_in(2) ? change(tx) : complete(tx);
        if (!connection_)
            return false;
        if (went_well && random_.one_in(2))
            return control(tx, action::keep, "RELEASE SAVEPOINT one");
        const bool undone = control(tx, action::undo, "ROLLBACK TO SAVEPOINT one");
        restore(before);
        // Releases the savepoint, so that the next one in this transaction has the depth that the checker counts.
        return undone && control(tx, action::keep, "RELEASE SAVEPOINT one");
    }

    // After a rollback, a session or a Java host owns its previous acquisition again. A token that was rolled back is
    // forgotten: if the clock does not advance, the next acquisition may get the same one.
    void restore(const std::vector<held> &before)
    {
        if (connection_)
            held_ = before;
    }

    void roll_back(int tx, const std::vector<held> &before)
    {
        if (!control(tx, action::rollback, "ROLLBACK"))
            connection_.reset(); // even the ROLLBACK was cancelled
        restore(before);
    }

    void finish(int tx, const std::vector<held> &before)
    {
        if (!scene_.has_timeouts && random_.one_in(6))
            return prepare(tx, before);
        // Makes the commit slow.
        if (random_.one_in(2) && !scene_.through_pooler &&
            !send_unrecorded("SET LOCAL commit_delay = 1000; SET LOCAL commit_siblings = 0")) {
            if (connection_)
                roll_back(tx, before);
            return;
        }
        if (connection_ && !control(tx, action::commit, "COMMIT")) {
            if (connection_ &&
                !send_unrecorded("ROLLBACK")) // a COMMIT cancelled before it began leaves a failed transaction
                connection_.reset();
            restore(before);
        }
    }

    void prepare(int tx, const std::vector<held> &before)
    {
        const auto name = "'" + std::to_string(scene_.seed) + "." + std::to_string(recorder_.client()) + "." +
                          std::to_string(tx) + "'";
        recorder_.will_end(tx);
        if (control(tx, action::prepare, "PREPARE TRANSACTION " + name))
            end_prepared(tx, name);
        else if (connection_)
            roll_back(tx, before);
        recorder_.will_end(0);
    }

    void end_prepared(int tx, const std::string &name)
    {
        // Java ShedLock's statements would wait for the prepared transaction of their own client.
        for (auto count = by_ == maker::java ? 0 : random_.between(0, 3); connection_ && count > 0; --count)
            random_.one_in(2) ? pause(random_.between(0, 2000)) : static_cast<void>(attempt(0, levels[0]));
        if (!connection_)
            return;
        if (random_.one_in(4)) {
            insist(tx, action::rollback, "ROLLBACK PREPARED " + name);
            held_.clear();
        } else {
            insist(tx, action::commit, "COMMIT PREPARED " + name);
        }
    }

    // If the attempt to end a prepared transaction is cancelled, the transaction is still there.
    void insist(int tx, action what, const std::string &sql)
    {
        for (int tries = 0; connection_ && tries < 5; ++tries)
            if (control(tx, what, sql))
                return;
        connection_.reset();
    }

    void look(const std::vector<std::string> &names)
    {
        operation op{.what = action::look, .by = by_, .names = names};
        recorded(op, [&] { read_rows(op); });
    }

    void read_rows(operation &op)
    {
        for (const auto &name : op.names)
            for (const auto &row : send("SELECT (extract(epoch FROM locked_at) * 1000000)::bigint, (extract(epoch FROM "
                                        "lock_until) * 1000000)::bigint"
                                        " FROM shedlock WHERE name = $1",
                                        {name}))
                op.rows.push_back({name, row[0].as<microseconds>(), row[1].as<microseconds>()});
    }

    const scene &scene_;
    recorder &recorder_;
    maker by_;
    choices random_;
    std::unique_ptr<link> connection_;
    int process_ = 0; // the backend that ran the last command
    std::optional<orphan> orphan_;
    int connections_ = 0;
    int transactions_ = 0;
    std::string host_;
    std::vector<held> held_;
    std::map<std::string, int> latest_seen_; // by name: the number of the last shared acquisition we used
    std::map<std::string, bool> known_;      // names for which an acquire was answered, so there is a row
};

unique_client make_sql_client(const scene &scene, recorder &recorder, maker by, std::uint64_t seed)
{
    return std::make_unique<sql_client>(scene, recorder, by, seed);
}

} // namespace crowd
