// ShedLock for PostgreSQL on your own libpqxx connection, for jobs that take less time than their lease.
//
//     pqxx::connection db;
//     bool ran = shedlock::run(db, "interest", {.at_most = 10min, .every = 24h, .retry = true}, [](pqxx::work &tx) {
//         tx.exec("UPDATE account SET balance = balance * 1.02");
//     }); // the work and the release were committed together; false: another host is running it, or has done it
//
// Needs libpqxx (6.4 to 8.0; 8.0 needs C++20), C++17, and the SQL functions, which are found by search_path. There is
// nothing else to link. CMake: shedlock::pqxx, pkg-config: shedlock-pqxx. Use shedlock.hpp to keep a lease alive, to
// interrupt a wait, or to find out what a lost reply said: that takes threads and further connections. Both headers may
// be used together.
//
// acquire(), try_acquire() and run() on a connection, and extend() and release() of a lock, run transactions of their
// own. If the connection already has an open transaction, they throw pqxx::usage_error and do nothing. (From version 7
// on libpqxx does not notice an open robusttransaction. Do not call them in one: they would end it.) A connection and
// its locks may be used by one thread at a time.
//
// Errors: lock_lost means that the lock is not ours any more. It is thrown if the server refuses an extend or release,
// and for SQLSTATE SL001 from this header's own statements and commits, which means that nothing was committed.
// usage_error (shedlock's) is thrown without asking the server, except for the work of run; in_doubt, with libpqxx's
// nested, if the connection broke during a commit, which may have succeeded. Then, if the run had a tick and retry, run
// the same tick again, without start_within: it is refused if the first run was committed. Save the tick for that,
// because by then options.every or options.cron may yield a later one. Every other error is libpqxx's, unchanged:
// pqxx::sql_error (22xxx) for arguments, which the server checks, for example.
#pragma once

#include "types.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <type_traits>

namespace shedlock {

// {.at_most = 10min, .retry = true} in C++20. In C++17 {10min}, or a variable whose fields you set. The fields up to
// holder are those of `options` (shedlock.hpp), in the same order.
struct pqxx_options {
    // How long the lease lasts if it is not released: longer than the work can take, at least 1 ms. Required: the
    // default, 0, is an error
    std::chrono::microseconds at_most{};
    // How long the lock is kept, even if it is released earlier. Default: 0
    std::chrono::microseconds at_least{};
    // The instant at which this run is due: without retry, at most one acquisition per name and tick. Default: none
    std::optional<instant> tick{};
    // The period of the schedule, given instead of a tick. The tick is then the server's shedlock_tick(every, zone) at
    // the time of the call. Default: none
    std::optional<std::chrono::microseconds> every{};
    // The schedule as a crontab expression ("30 2 * * 1-5", "@daily"), given instead of a tick or a period. The tick is
    // then the server's shedlock_tick(cron, zone) at the time of the call. An interval as text is also accepted, and
    // may have months ("1 month"). Default: empty, which means none
    std::string cron{};
    // The time zone of the schedule; giving it without `every` or `cron` is an error. Default: empty, which means UTC
    std::string zone{};
    // If true, only a run that is done uses up its tick: a tick whose last run failed, or was never released, is still
    // due. Needs tick, every or cron. Default: false
    bool retry = false;
    // How long after its tick a run may begin; later it is refused. Needs tick, every or cron. Default: at any time,
    // until the next tick
    std::optional<std::chrono::microseconds> start_within{};
    // The name of the holder in views and messages. Default: empty, which means application_name@client_addr. libpqxx
    // sets no application_name; without one it is the role
    std::string holder{};
    // The lease also ends when the server session that acquired it ends (but not before at_least). Set it to false
    // behind a pooler in transaction mode, where sessions belong to the pooler. Default: true for run, false for
    // everything else
    std::optional<bool> ends_with_session{};
};

// What try_acquire(tx, ...) has acquired. Save the tick for another try of the same run.
struct pqxx_grant {
    shedlock::token token;
    std::optional<instant> tick; // the one that was given, or that the server computed
};

namespace pqxx_details {

// The base classes are rejected because they may be a nontransaction or a subtransaction.
template <pqxx::isolation_level Level, auto Writes> std::true_type commits(const pqxx::transaction<Level, Writes> *);
template <pqxx::isolation_level Level> std::true_type commits(const pqxx::robusttransaction<Level> *);
std::false_type commits(const void *);
template <class Tx> struct requires_transaction {
    static_assert(decltype(commits(static_cast<Tx *>(nullptr)))::value,
                  "use a pqxx::work, pqxx::transaction<...> or pqxx::robusttransaction<...>: a nontransaction commits "
                  "each statement by itself, and the commit of a subtransaction commits nothing");
};

struct sql : details::sql {
    // Whether this acquisition was the last one of each name; whether it was that, and was released as done.
    static std::string is_last_and_done(const names &what, token id)
    {
        const bool is_one = what.list().size() == 1;
        const auto are_all = " OPERATOR(pg_catalog.=) " + std::to_string(what.list().size());
        return "SELECT pg_catalog.count(*)" + are_all +
               ", pg_catalog.count(*) FILTER (WHERE l.last_outcome OPERATOR(pg_catalog.=) 'done')" + are_all +
               " FROM shedlock_locks(" + (is_one ? array(constant(what)) : constant(what)) +
               ") l WHERE l.token OPERATOR(pg_catalog.=) " + constant(id);
    }
    // When the transaction began, by which a transaction is recognised.
    static std::string began() { return in_microseconds("pg_catalog.now()"); }
    // For a run on the portable edition, where the transaction has the row locked: the session of a host that vanished
    // ends after at_most without a statement, unless a smaller limit is set.
    static std::string limit_idleness(std::chrono::microseconds at_most)
    {
        const auto limit = std::min<std::chrono::microseconds::rep>(at_most.count() / 1000 + 1, 2147483647);
        const auto milliseconds = std::to_string(limit);
        return "CASE WHEN edition OPERATOR(pg_catalog.=) 'portable' AND (idle OPERATOR(pg_catalog.=) '0' OR "
               "idle::pg_catalog.interval OPERATOR(pg_catalog.>) " +
               typed(milliseconds + " milliseconds", "interval") +
               ") THEN pg_catalog.set_config('idle_in_transaction_session_timeout', '" + milliseconds +
               "', true) END FROM shedlock_version(), "
               "pg_catalog.current_setting('idle_in_transaction_session_timeout') AS idle";
    }
};

// Makes SQLSTATE SL001 a lock_lost, with libpqxx's error nested.
template <class Call> auto noticing_loss(const Call &call)
try {
    return call();
} catch (const pqxx::sql_error &failure) {
    if (failure.sqlstate() == "SL001")
        std::throw_with_nested(lock_lost{failure.what(), "SL001"});
    throw;
}

template <class Tx> pqxx::result execute(Tx &tx, const std::string &statement)
{
    return noticing_loss([&] { return pqxx::result{tx.exec(statement)}; });
}

// Throws our in_doubt: a C++20 program cannot construct libpqxx's if the library was built as C++17, as Ubuntu 24.04's
// is (undefined reference). A robusttransaction that has lost its connection can return normally although it was rolled
// back.
template <class Tx> void commit(Tx &tx)
try {
    noticing_loss([&] { tx.commit(); });
    if (!tx.conn().is_open())
        throw in_doubt{"the connection was lost during the commit, which may have succeeded"};
} catch (const pqxx::in_doubt_error &failure) {
    std::throw_with_nested(in_doubt{failure.what()});
}

template <class Tx>
std::optional<pqxx_grant> acquire(Tx &tx, const names &what, const pqxx_options &how, std::chrono::microseconds wait)
{
    sql::require_one_tick(how);
    const auto rows = tx.exec("SELECT shedlock_acquire_token(" + sql::constant(what) + ", " +
                              sql::acquire_arguments(how, how.holder, how.ends_with_session.value_or(false), wait) +
                              "), " + sql::in_microseconds("tick") + sql::due(how));
    const auto number = [&rows](int column) { return std::strtoll(rows[0][column].c_str(), nullptr, 10); };
    if (rows[0][0].is_null())
        return std::nullopt;
    std::optional<instant> tick;
    if (!rows[0][1].is_null())
        tick.emplace(std::chrono::microseconds{number(1)});
    return pqxx_grant{token{number(0)}, tick};
}

} // namespace pqxx_details

// An acquisition. Move-only. Its connection must outlive it, and must not be moved. Once released or completed it is
// inert: names, token and tick can be read, release() and completed() do nothing, everything else throws usage_error.
// If it is destroyed or assigned to before that, it is released as failed: only release(), run, and a completion that
// is committed report the work as done. The destructor never throws. It reports to connection.process_notice() that no
// release() was called, unless an exception ended the scope or complete_statement() was called; and that the release
// failed, in which case the lease ends by itself. A child process must not use or destroy what its parent had before
// fork(): that would speak on the parent's connection.
class pqxx_lock {
public:
    // Takes over an acquisition that is already committed: one made by try_acquire(tx, ...), or by another process.
    pqxx_lock(pqxx::connection &connection, shedlock::names what, shedlock::token id, std::optional<instant> tick = {})
        : mine_{new acquisition{&connection, std::move(what), id, tick}}
    {
    }

    // Must not be called on a lock that was moved from. The tick is the one that was given, or that the server
    // computed.
    [[nodiscard]] const shedlock::names &names() const noexcept { return mine_->names; }
    [[nodiscard]] shedlock::token token() const noexcept { return mine_->token; }
    [[nodiscard]] std::optional<instant> tick() const noexcept { return mine_->tick; }

    // The lease lasts for at_most from now, and the lock is kept for at_least from now if given. Throws lock_lost.
    void extend(std::chrono::microseconds at_most, std::optional<std::chrono::microseconds> at_least = {})
    {
        using pqxx_details::sql;
        if (!live().ask("extend", sql::constant(at_most) + (at_least ? ", " + sql::constant(*at_least) : "")))
            throw lost("extended");
    }

    // Throws lock_lost if the lease had ended, another holder has acquired the lock, or another program has released it
    // by its token, even as done; this lock is then inert, too.
    // After any other error it is not inert, and the destructor tries again, as failed.
    //
    // detail: as in shedlock.hpp, a text that is kept in shedlock_history, if there is one. Default: none
    void release(outcome how = outcome::done, std::string_view detail = {})
    {
        if (!is_live())
            return;
        mine_->has_outcome = true;
        const bool was_ours = mine_->release(how == outcome::done ? "true" : "false", detail);
        completed();
        if (!was_ours)
            throw lost("released");
    }

    // For guard() and commit(). Call completed() after the commit of a transaction that executed complete_statement().
    // completed() makes the lock inert.
    [[nodiscard]] std::string guard_statement() const { return pqxx_details::sql::guard(live().names, token()); }
    [[nodiscard]] std::string complete_statement()
    {
        live().has_outcome = true;
        return pqxx_details::sql::complete(names(), token());
    }
    void completed() noexcept
    {
        if (mine_)
            mine_->connection = nullptr;
    }

private:
    struct acquisition {
        pqxx::connection *connection; // null: inert
        shedlock::names names;
        shedlock::token token;
        std::optional<instant> tick;
        bool has_outcome = false;                    // release() or complete_statement() was called
        int exceptions = std::uncaught_exceptions(); // when it was acquired

        ~acquisition()
        {
            const bool unwinding = std::uncaught_exceptions() > exceptions;
            try {
                if (connection && ask("release", "false") && !unwinding && !has_outcome)
                    report(details::not_reported(names, tick.has_value()));
            } catch (const std::exception &failure) {
                report_unreleased(failure.what());
            }
        }
        bool ask(const char *function, const std::string &arguments)
        {
            pqxx::work tx{*connection};
            const auto rows =
                tx.exec("SELECT " + pqxx_details::sql::call(function, names, token) + ", " + arguments + ')');
            pqxx_details::commit(tx);
            return *rows[0][0].c_str() == 't';
        }
        bool release(const std::string &done, std::string_view detail)
        try {
            return ask("release", done + pqxx_details::sql::detail(detail));
        } catch (const pqxx::sql_error &failure) {
            if (detail.empty() || failure.sqlstate() != "42883")
                throw;
            return ask("release", done); // functions older than this header keep no detail
        }
        void report(const std::string &text) const { connection->process_notice(text + '\n'); }
        void report_unreleased(const char *why) const noexcept
        try {
            report(names.to_text() + " was not released, and its lease ends by itself: " + details::printable(why));
        } catch (...) { // no memory for the text
        }
    };

    bool is_live() const { return mine_ && mine_->connection; }
    acquisition &live() const
    {
        return is_live() ? *mine_ : throw usage_error{"this lock was released, completed or moved from"};
    }
    lock_lost lost(const char *what) const
    {
        return lock_lost{names().to_text() + " is lost, and was not " + what + "; the server's WARNING says why",
                         "SL001"};
    }

    std::unique_ptr<acquisition> mine_;
};

// The lock, or nullopt if refused: after wait, or at once if the tick is not due. The statement waits on the server.
[[nodiscard]] inline std::optional<pqxx_lock> acquire(pqxx::connection &connection, const names &what,
                                                      const pqxx_options &how, std::chrono::microseconds wait)
{
    // Outlives tx: if the commit fails, the lock may have been acquired, and the destructor tries to release it.
    std::optional<pqxx_lock> mine;
    pqxx::work tx{connection};
    if (const auto granted = pqxx_details::acquire(tx, what, how, wait)) {
        mine.emplace(connection, what, granted->token, granted->tick);
        pqxx_details::commit(tx);
    }
    return mine;
}

// The lock, or nullopt if refused. Waits neither for another holder nor for other transactions.
[[nodiscard]] inline std::optional<pqxx_lock> try_acquire(pqxx::connection &connection, const names &what,
                                                          const pqxx_options &how)
{
    return acquire(connection, what, how, {});
}

// From now on tx commits only if there has been no other acquisition of the lock since ours. Lock is pqxx_lock, or
// shedlock::lock of shedlock.hpp. Throws lock_lost if the lock is lost already; if that is found only by your
// tx.commit(), it throws pqxx::sql_error with SQLSTATE SL001. On the portable edition the row is locked from now until
// the end of tx, so keep-alive cannot extend the lease in the meantime.
template <class Lock, class Tx> void guard(const Lock &lock, Tx &tx)
{
    (void) pqxx_details::requires_transaction<Tx>{};
    pqxx_details::execute(tx, lock.guard_statement());
}

// Commits tx and releases the lock as done, both or neither. Throws lock_lost. The lock is inert only after success;
// otherwise its destructor releases it as failed, provided that tx is gone by then.
template <class Lock, class Tx> void commit(Lock &lock, Tx &tx)
{
    (void) pqxx_details::requires_transaction<Tx>{};
    pqxx_details::execute(tx, lock.complete_statement());
    pqxx_details::commit(tx);
    lock.completed();
}

// Acquires in a transaction that the caller commits; if it is rolled back, nothing was acquired. Returns nullopt if
// refused. To release the lock, call complete(), or make a pqxx_lock of the token after the commit.
template <class Tx, class = std::enable_if_t<!std::is_base_of_v<pqxx::connection, Tx>>>
[[nodiscard]] std::optional<pqxx_grant> try_acquire(Tx &tx, const names &what, const pqxx_options &how)
{
    (void) pqxx_details::requires_transaction<Tx>{};
    return pqxx_details::acquire(tx, what, how, {});
}

// Like guard(lock, tx).
template <class Tx> void guard(Tx &tx, const names &what, token id)
{
    (void) pqxx_details::requires_transaction<Tx>{};
    pqxx_details::execute(tx, pqxx_details::sql::guard(what, id));
}

// Like commit(lock, tx), but the caller commits, as the next statement. If the lock is lost only after this call, that
// commit throws pqxx::sql_error with SQLSTATE SL001.
template <class Tx> void complete(Tx &tx, const names &what, token id)
{
    (void) pqxx_details::requires_transaction<Tx>{};
    pqxx_details::execute(tx, pqxx_details::sql::complete(what, id));
}

namespace pqxx_details {

// Rolls back what is left of tx, and returns whether libpqxx has seen a commit of it. Throws in_doubt if that was in
// doubt.
template <class Tx> bool has_seen_commit(Tx &tx)
{
    try {
        tx.abort();
    } catch (const pqxx::usage_error &) { // libpqxx has no other way to tell
        return true;
    }
    try {
        pqxx_details::commit(tx);
    } catch (const pqxx::usage_error &) { // it was aborted
    }
    return false;
}

// For a transaction of run that the work may have ended. Rolls back what is left of it, and returns whether it was
// committed, which has released the lock as done; otherwise the lock is released as failed. Throws lock_lost if it was
// not committed and the lease is over; in_doubt if it is not known. libpqxx may have missed a COMMIT. The one that it
// has seen counts, unless the row shows that the server answered it by a rollback, because a statement had failed.
template <class Tx>
bool was_committed(pqxx::connection &connection, Tx &tx, pqxx_lock &lock, std::string_view detail = {})
{
    const bool is_seen = has_seen_commit(tx);
    try {
        lock.release(outcome::failed, detail);
        return false;
    } catch (const lock_lost &) {
        bool is_last = false, is_done = false;
        try {
            pqxx::work now{connection};
            const auto found = now.exec(sql::is_last_and_done(lock.names(), lock.token())); // a row only refers to it
            is_last = *found[0][0].c_str() == 't';
            is_done = *found[0][1].c_str() == 't';
        } catch (const std::exception &) { // functions older than this header
            if (!is_seen)
                std::throw_with_nested(
                    in_doubt{"the work ended the transaction of shedlock::run, which may have been committed"});
        }
        if (is_last && !is_done)
            throw;
        if (!is_done && !is_seen)
            std::throw_with_nested(in_doubt{"the work ended the transaction of shedlock::run, which may have been "
                                            "committed: the lock has been acquired since"});
    } catch (const std::exception &) { // what the work did after its commit is not part of the run
        if (!is_seen)
            throw;
        lock.completed();
    }
    return true;
}

// Also if the statement cannot be executed, because the transaction is over, or an earlier statement has failed.
template <class Tx> bool is_empty(Tx &tx, const std::string &query)
try {
    return execute(tx, query).empty();
} catch (const std::exception &) {
    return true;
}

// Calls the work of run, and commits.
template <class Tx, class Work>
void run(pqxx::connection &connection, pqxx_lock &lock, std::chrono::microseconds at_most, Work &&work)
{
    Tx tx{connection}; // gone before the lock is released
    const auto complete = lock.complete_statement() + ", " + sql::began();
    const std::string began = execute(tx, complete + ", " + sql::limit_idleness(at_most))[0][1].c_str();
    const auto result = noticing_loss([&] {
        if constexpr (std::is_invocable_v<Work, Tx &, const pqxx_lock &>)
            return details::result_of(std::forward<Work>(work), tx, std::as_const(lock));
        else
            return details::result_of(std::forward<Work>(work), tx);
    });
    const std::string if_same = " WHERE " + sql::began() + " OPERATOR(pg_catalog.=) " + began;
    if (result == outcome::failed) {
        if (is_empty(tx, "SELECT 1" + if_same)) {
            was_committed(connection, tx, lock); // then it stays done
        } else {
            tx.abort();
            lock.release(outcome::failed);
        }
        return;
    }

    // libpqxx 6 ends a transaction of which a statement has failed.
    const char *const misuse = "the work of shedlock::run must not end its transaction, leave a stream open in it, or "
                               "go on after a statement has failed";
    try {
        // What the work did since then may need another completion. In another transaction this does nothing.
        if (!execute(tx, complete + if_same).empty()) {
            pqxx_details::commit(tx);
            lock.completed();
            return;
        }
    } catch (const pqxx::usage_error &) { // the transaction is closed
        if (was_committed(connection, tx, lock, misuse))
            return;
        std::throw_with_nested(usage_error{misuse});
    }
    if (!was_committed(connection, tx, lock, misuse))
        throw usage_error{misuse};
}

} // namespace pqxx_details

// Acquires the lock, calls work(tx) or work(tx, lock), where lock is a const pqxx_lock &, commits tx and the release
// together, and returns true. If refused, returns false and does not call work. The work returns nothing, which means
// done, or an outcome. If it is failed, or work throws, tx is rolled back and the lock is released as failed; an
// exception passes through. Throws lock_lost, and tx is rolled back, if the lock is lost. Of a std::exception, also of
// the commit, the first line of what() is the detail of the release. Settings that work makes with SET LOCAL hold for
// the completion, too: the functions must be found by search_path, and the role be allowed to call them.
//
// tx completes the lock before it is given to work, and once more afterwards. So if work commits tx itself, that commit
// releases the lock as done, whatever work does then, and what it does on the connection afterwards is not part of the
// run. If work ends tx in another way, or leaves a stream open in it, usage_error is thrown, and the lock is released
// as failed; in_doubt if it is not known whether tx was committed. The same if work goes on after a statement has
// failed: with libpqxx 6 that is usage_error, and later pqxx::sql_error (25P02).
//
// Not the first statement of work: SET TRANSACTION (25001); the isolation level is that of Tx. On the portable edition
// the row is locked until tx ends. A guard or an extend from another connection waits for that, and an extend in tx
// fails. There the server also ends the session when it has had no statement for at_most.
template <class Tx = pqxx::work, class Work>
bool run(pqxx::connection &connection, const names &what, pqxx_options how, Work &&work)
{
    (void) pqxx_details::requires_transaction<Tx>{};
    how.ends_with_session = how.ends_with_session.value_or(true);
    auto lock = try_acquire(connection, what, how);
    if (!lock)
        return false;
    // Now: if nobody catches the exception, no destructor runs.
    const auto fail = [&](std::string_view why) {
        try {
            lock->release(outcome::failed, why);
        } catch (const std::exception &) { // the lock is lost, or its destructor tries again and reports what happens
        }
    };
    try {
        pqxx_details::run<Tx>(connection, *lock, how.at_most, std::forward<Work>(work));
    } catch (const std::exception &failure) {
        fail(details::first_line(failure.what()));
        throw;
    } catch (...) {
        fail({});
        throw;
    }
    return true;
}

} // namespace shedlock
