// ShedLock for PostgreSQL on your own libpqxx connection, for jobs that take less time than their lease.
//
//     pqxx::connection db;
//     bool ran = shedlock::run(db, "interest", {.at_most = 10min, .every = 24h, .retry = true}, [](pqxx::work &tx) {
//         tx.exec("UPDATE account SET balance = balance * 1.02");
//     }); // the work and the release were committed together; false: another host is running it, or has done it
//
// Needs libpqxx (6.4 to 8.0), C++17, and the SQL functions, which are found by search_path. There is nothing else to
// link. CMake: shedlock::pqxx, pkg-config: shedlock-pqxx. Use shedlock.hpp to keep a lease alive, to interrupt a wait,
// or to find out what a lost reply said: that takes threads and further connections. Both headers may be used together.
//
// acquire(), try_acquire() and run() on a connection, and extend() and release() of a lock, run transactions of their
// own. If the connection already has an open transaction, they throw pqxx::usage_error and do nothing. A connection
// and its locks may be used by one thread at a time.
//
// Errors: lock_lost means that the lock is not ours any more. It is thrown if the server refuses an extend or release,
// and for SQLSTATE SL001 from this header's own statements and commits, which means that nothing was committed.
// usage_error (shedlock's) is thrown without asking the server. Every other error is libpqxx's, unchanged:
// pqxx::sql_error (22xxx) for arguments, which the server checks; pqxx::in_doubt_error if the connection broke during a
// commit, which may have succeeded. If the run had a tick and retry, run the same tick again: it is refused if the
// first run was committed. Save the tick for that, because by then options.every may yield a later one.
#pragma once

#include "types.hpp"

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <type_traits>

namespace shedlock {

// {.at_most = 10min, .retry = true} in C++20. In C++17 {10min}, or a variable whose fields you set.
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
    // The time zone for `every`; giving it without `every` is an error. Default: empty, which means UTC
    std::string zone{};
    // If true, only a run that is done uses up its tick: a tick whose last run failed, or was never released, is still
    // due. Needs tick or every. Default: false
    bool retry = false;
    // The lease also ends when the server session that acquired it ends (but not before at_least). Set it to false
    // behind a pooler in transaction mode, where sessions belong to the pooler. Default: true for run, false for
    // everything else
    std::optional<bool> ends_with_session{};
    // The name of the holder in views and messages. Default: empty, which means application_name@client_addr
    std::string holder{};
};

namespace pqxx_details {

// Accepts pqxx::work, transaction<...> and robusttransaction<...>. Rejects nontransaction, which commits each
// statement; subtransaction, whose commit commits nothing; and the base classes, which may be any of these.
template <pqxx::isolation_level Level, auto Writes> std::true_type commits(pqxx::transaction<Level, Writes> const *);
template <pqxx::isolation_level Level> std::true_type commits(pqxx::robusttransaction<Level> const *);
std::false_type commits(void const *);
template <class Tx> using needs_transaction = std::enable_if_t<decltype(commits(static_cast<Tx *>(nullptr)))::value>;

// Statements are pure ASCII, so that no client_encoding can change a name, and contain no backslashes, so that
// standard_conforming_strings does not matter.
struct sql {
    static std::string constant(std::string const &utf8)
    {
        std::string hex;
        bool is_plain = true;
        for (unsigned char const byte : utf8) {
            is_plain = is_plain && byte >= ' ' && byte <= '~' && byte != '\'' && byte != '\\';
            hex += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
        }
        return is_plain ? typed(utf8, "text")
                        : "pg_catalog.convert_from(pg_catalog.decode('" + hex + "', 'hex'), 'UTF8')";
    }
    // One name is passed as text, several as text[], so that the server's errors mention a name or an array, whichever
    // the caller gave.
    static std::string constant(names const &what)
    {
        std::string all;
        for (auto const &name : what.list()) {
            details::require_storable(name);
            all += (all.empty() ? "" : ", ") + constant(name);
        }
        return what.list().size() == 1 ? all : "ARRAY[" + all + "]::pg_catalog.text[]";
    }
    static std::string constant(token id) { return typed(std::to_string(static_cast<std::int64_t>(id)), "int8"); }
    static std::string constant(std::chrono::microseconds duration)
    {
        return typed(std::to_string(duration.count()) + " microseconds", "interval");
    }
    static std::string typed(std::string const &value, char const *type)
    {
        return '\'' + value + "'::pg_catalog." + type;
    }
    static std::string call(std::string const &function, names const &what, token id)
    {
        return "shedlock_" + function + "_token(" + constant(what) + ", " + constant(id);
    }
    static std::string complete(names const &what, token id) { return "SELECT " + call("complete", what, id) + ')'; }
    static std::string guard(names const &what, token id)
    {
        if (what.list().empty())
            throw usage_error{"give at least one name", "22023"};
        std::string calls;
        for (auto const &name : what.list())
            calls += (calls.empty() ? "SELECT " : ", ") + call("guard", name, id) + ')';
        return calls;
    }
    static std::string tick(pqxx_options const &how)
    {
        if ((how.tick && how.every) || (!how.every && !how.zone.empty()))
            throw usage_error{"give tick, or every, or every and zone"};
        if (how.every)
            return "shedlock_tick(" + constant(*how.every) + ", " + constant(how.zone.empty() ? "UTC" : how.zone) + ')';
        return how.tick ? "'1970-01-01 00:00:00+00'::pg_catalog.timestamptz OPERATOR(pg_catalog.+) " +
                              constant(how.tick->time_since_epoch())
                        : "NULL::pg_catalog.timestamptz";
    }
};

template <class Tx> void execute(Tx &tx, std::string const &statement, bool and_commit = false)
try {
    tx.exec(statement);
    if (and_commit)
        tx.commit();
} catch (pqxx::sql_error const &failure) {
    if (failure.sqlstate() == "SL001")
        throw lock_lost{failure.what(), "SL001"};
    throw;
}

// The token and the tick, or nullopt if refused.
template <class Tx>
std::optional<std::pair<token, std::optional<instant>>> acquire(Tx &tx, names const &what, pqxx_options const &how,
                                                                std::chrono::microseconds wait)
{
    auto const rows = tx.exec(
        "SELECT shedlock_acquire_token(" + sql::constant(what) + ", at_most => " + sql::constant(how.at_most) +
        ", at_least => " + sql::constant(how.at_least) + ", wait => " + sql::constant(wait) +
        ", tick => tick, retry => " + (how.retry ? "true" : "false") + ", holder => " + sql::constant(how.holder) +
        ", ends_with_session => " + (how.ends_with_session.value_or(false) ? "true" : "false") +
        "), (extract(epoch FROM tick) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 FROM (SELECT " + sql::tick(how) +
        " AS tick OFFSET 0) AS due");
    auto const number = [&rows](int column) { return std::strtoll(rows[0][column].c_str(), nullptr, 10); };
    if (rows[0][0].is_null())
        return std::nullopt;
    std::optional<instant> tick;
    if (!rows[0][1].is_null())
        tick.emplace(std::chrono::microseconds{number(1)});
    return std::pair{token{number(0)}, tick};
}

} // namespace pqxx_details

// An acquisition. Move-only. Its connection must outlive it, and must not be moved. Once released or completed it is
// inert: names, token and tick can be read, release() and completed() do nothing, everything else throws usage_error.
// If it is destroyed or assigned to before that, it is released as FAILED: only release(), commit() and
// complete_statement() report the work as done. The destructor never throws. It reports a failure to
// connection.process_notice(), and the lease ends by itself.
class pqxx_lock {
public:
    // Takes over an acquisition that is already committed: one made by try_acquire(tx, ...), or by another process.
    pqxx_lock(pqxx::connection &connection, shedlock::names what, shedlock::token id, std::optional<instant> tick = {})
        : mine_{new acquisition{&connection, std::move(what), id, tick}}
    {
    }

    // Must not be called on a lock that was moved from. The tick is the one that was given, or that the server
    // computed.
    [[nodiscard]] shedlock::names const &names() const noexcept { return mine_->names; }
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
    void release(outcome how = outcome::done)
    {
        if (!is_live())
            return;
        bool const was_ours = mine_->ask("release", how == outcome::done ? "true" : "false");
        completed();
        if (!was_ours)
            throw lost("released");
    }

    // For guard() and commit(). Call completed() after the commit of a transaction that executed complete_statement().
    // completed() makes the lock inert.
    [[nodiscard]] std::string guard_statement() const { return pqxx_details::sql::guard(live().names, token()); }
    [[nodiscard]] std::string complete_statement() const { return pqxx_details::sql::complete(live().names, token()); }
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

        ~acquisition()
        {
            try {
                if (connection)
                    ask("release", "false");
            } catch (std::exception const &failure) {
                report(failure.what());
            }
        }
        bool ask(char const *function, std::string const &arguments)
        {
            pqxx::work tx{*connection};
            auto const rows =
                tx.exec("SELECT " + pqxx_details::sql::call(function, names, token) + ", " + arguments + ')');
            tx.commit();
            return *rows[0][0].c_str() == 't';
        }
        void report(char const *why) const noexcept
        try {
            connection->process_notice(
                names.to_text() + " was not released, and its lease ends by itself: " + details::printable(why) + '\n');
        } catch (...) { // no memory for the text
        }
    };

    bool is_live() const { return mine_ && mine_->connection; }
    acquisition &live() const
    {
        return is_live() ? *mine_ : throw usage_error{"this lock was released, completed or moved from"};
    }
    lock_lost lost(char const *what) const
    {
        return lock_lost{names().to_text() + " is lost, and was not " + what + "; the server's WARNING says why",
                         "SL001"};
    }

    std::unique_ptr<acquisition> mine_;
};

// The lock, or nullopt if refused: after wait, or at once if the tick is not due. The statement waits on the server.
[[nodiscard]] inline std::optional<pqxx_lock> acquire(pqxx::connection &connection, names const &what,
                                                      pqxx_options const &how, std::chrono::microseconds wait)
{
    // Outlives tx: if the commit fails, the lock may have been acquired, and the destructor tries to release it.
    std::optional<pqxx_lock> mine;
    pqxx::work tx{connection};
    if (auto const granted = pqxx_details::acquire(tx, what, how, wait)) {
        mine.emplace(connection, what, granted->first, granted->second);
        tx.commit();
    }
    return mine;
}

// The lock, or nullopt if refused. Waits neither for another holder nor for other transactions.
[[nodiscard]] inline std::optional<pqxx_lock> try_acquire(pqxx::connection &connection, names const &what,
                                                          pqxx_options const &how)
{
    return acquire(connection, what, how, {});
}

// From now on tx commits only if there has been no other acquisition of the lock since ours. Lock is pqxx_lock, or
// shedlock::lock of shedlock.hpp. Throws lock_lost if the lock is lost already; if that is found only by your
// tx.commit(), it throws pqxx::sql_error with SQLSTATE SL001. On the portable edition the row is locked from now until
// the end of tx, so keep-alive cannot extend the lease in the meantime.
template <class Lock, class Tx, class = pqxx_details::needs_transaction<Tx>> void guard(Lock const &lock, Tx &tx)
{
    pqxx_details::execute(tx, lock.guard_statement());
}

// Commits tx and releases the lock as done, both or neither. Throws lock_lost. The lock is inert only after success;
// otherwise its destructor releases it as failed, provided that tx is gone by then.
template <class Lock, class Tx, class = pqxx_details::needs_transaction<Tx>> void commit(Lock &lock, Tx &tx)
{
    pqxx_details::execute(tx, lock.complete_statement(), true);
    lock.completed();
}

// Acquires in a transaction that the caller commits; if it is rolled back, nothing was acquired. Returns the token, or
// nullopt if refused. To release the lock, call complete(), or make a pqxx_lock of the token after the commit.
template <class Tx, class = pqxx_details::needs_transaction<Tx>>
[[nodiscard]] std::optional<token> try_acquire(Tx &tx, names const &what, pqxx_options const &how)
{
    auto const granted = pqxx_details::acquire(tx, what, how, {});
    return granted ? std::optional{granted->first} : std::nullopt;
}

// Like guard(lock, tx).
template <class Tx, class = pqxx_details::needs_transaction<Tx>> void guard(Tx &tx, names const &what, token id)
{
    pqxx_details::execute(tx, pqxx_details::sql::guard(what, id));
}

// Like commit(lock, tx), but the caller commits, as the next statement. If the lock is lost only after this call, that
// commit throws pqxx::sql_error with SQLSTATE SL001.
template <class Tx, class = pqxx_details::needs_transaction<Tx>> void complete(Tx &tx, names const &what, token id)
{
    pqxx_details::execute(tx, pqxx_details::sql::complete(what, id));
}

// Acquires the lock, calls work(tx) or work(tx, lock), where lock is a pqxx_lock const &, commits tx and the release
// together, and returns true. If refused, returns false and does not call work. If work throws, tx is rolled back, the
// lock is released as failed, and the exception passes through. Throws lock_lost if tx was rolled back because the lock
// is lost. work must not end tx.
template <class Tx = pqxx::work, class Work, class = pqxx_details::needs_transaction<Tx>>
bool run(pqxx::connection &connection, names const &what, pqxx_options how, Work &&work)
{
    how.ends_with_session = how.ends_with_session.value_or(true);
    auto lock = try_acquire(connection, what, how);
    if (!lock)
        return false;
    Tx tx{connection}; // gone before the lock is released
    if constexpr (std::is_invocable_v<Work, Tx &, pqxx_lock const &>)
        std::invoke(std::forward<Work>(work), tx, std::as_const(*lock));
    else
        std::invoke(std::forward<Work>(work), tx);
    commit(*lock, tx);
    return true;
}

} // namespace shedlock
