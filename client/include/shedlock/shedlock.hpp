// ShedLock for PostgreSQL: lease locks for scheduled jobs. At most one run at a time across all hosts; the others skip.
//
//     shedlock::client locks{"dbname=app"};
//     const bool ran = locks.run("nightly", {.at_most = 10min, .at_least = 1min}, [](shedlock::lock &) { work(); });
//
// The terms (at_most, at_least, holder, token, tick, lost) are those of the SQL functions; see docs/reference.md. The
// extension is found in whatever schema it was created in, the portable edition by search_path. Strings are UTF-8. Link
// shedlock::shedlock (CMake) or `pkg-config shedlock`. The library needs libpq only: no type of libpqxx crosses its
// ABI, so a program may have any libpqxx.
//
// After fork() the child's copies are inert: held() is false, destructors and completed() do nothing, and everything
// else but deadline() and stop_token() throws usage_error. A child that needs locks makes a client of its own.
#pragma once

#include "types.hpp"

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace shedlock {

// ---- Values ----

// The clock by which leases are trusted. It goes on while the machine is suspended, and cannot be set (CLOCK_BOOTTIME).
struct SHEDLOCK_EXPORT clock {
    using duration = std::chrono::microseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;
    static time_point now() noexcept;
};

// The fields up to holder are those of `pqxx_options` (pqxx.hpp), in the same order.
struct options {
    // How long the lease lasts if it is not released. Required; at least 1 ms.
    std::chrono::microseconds at_most{};
    // How long the lock is kept, even if it is released earlier.
    std::chrono::microseconds at_least{};
    // The instant at which this run is due: without retry, at most one acquisition per name and tick.
    std::optional<instant> tick{};
    // Instead of a tick: the period of the schedule. The tick is then the server's shedlock_tick(every, zone) at the
    // moment of the call.
    std::optional<std::chrono::microseconds> every{};
    // Instead of a tick or a period: the schedule as a crontab expression ("30 2 * * 1-5", "@daily"). The tick is then
    // the server's shedlock_tick(cron, zone) at the moment of the call: the latest instant of the expression that has
    // come, or comes within 30 seconds. An interval as text is also accepted, and may have months ("1 month"). Default:
    // empty, which means none
    std::string cron{};
    // The time zone of the schedule, by the name that the server knows (Europe/Berlin): days begin at midnight there,
    // and times of day are local. Needs every or cron. Default: empty, which means UTC
    std::string zone{};
    // If true, only a run that is done uses up its tick: a tick whose last run failed, or was never released, is still
    // due, until a later tick is acquired. Needs tick, every or cron.
    bool retry = false;
    // How long after its tick a run may begin. Later it is refused for good, as late; by default at any time, until the
    // next tick. Needs tick, every or cron.
    std::optional<std::chrono::microseconds> start_within{};
    // The name of the holder in views and messages, after eight random hexadecimal digits, by which the client
    // recognises its own acquisition when a reply was lost. Default: program@host:pid
    std::string holder{};
    // A thread, one for all locks of the client, extends the lease whenever a third of at_most has passed. It opens a
    // connection of its own for that, and uses the client's as long as the server grants no other.
    bool keep_alive = false;
};

// Why an acquire was refused. Times are by the server's clock.
struct SHEDLOCK_EXPORT refusal {
    enum class reason {
        held,         // another caller holds it
        kept,         // released, or its session is gone, but its at_least has not passed
        paused,       // by an administrator
        had_run,      // the tick has had its run
        done_by_hand, // a run without a tick, or of a Java client, began after the tick and was done
        late,         // the tick is longer ago than start_within
        undecided,    // a transaction in progress has changed its row, or it became free at that moment
    };
    using time = instant;

    reason why = reason::undecided;
    std::string name; // of several, one that could not be acquired
    // For had_run, done_by_hand and kept: the last holder; empty if that was another one than the one that was done by
    // hand. For paused: who paused it, and the reason.
    std::string holder{};
    std::optional<time> since{}; // when it was acquired; for done_by_hand: by the run that was done
    std::optional<time> until{}; // at the latest; nullopt: no end is known; for late: until when it could begin
    std::chrono::microseconds held_for{};

    [[nodiscard]] std::string to_text() const; // for messages
};

// Problems that no caller can catch: in keep-alive, in destructors, and while a call waits for a server.
struct event {
    enum class kind {
        extend_failing,   // keep-alive could not extend one or several leases, and goes on trying until their deadlines
        extend_recovered, // keep-alive can extend them again
        lost,             // the lease is not ours any more, or it is about to end: the work under it must stop
        not_released,     // the request was not sent, failed, its reply was lost, or the row stayed locked by another
                          // transaction: the lease ends by itself
        release_unclear,  // as failed, after a lost reply: we do not hold it any more, perhaps because another caller
                          // does
        not_reported,     // a lock that was held was destroyed without release(): recorded as failed
        // Once for all calls that wait for a server which cannot be reached:
        acquire_failing,   // acquire or pause with a wait goes on trying, less and less often
        acquire_recovered, // the server can be reached again
    };
    kind what;
    names lock;       // empty: several locks, or there was no memory for it
    std::string text; // a message that names the lock, or says how many locks it is about
};

// What a client and its locks have done, for metrics. Failures are not activities: they are events or exceptions.
struct activity {
    enum class kind {
        acquired,
        refused,
        extended,  // by keep-alive, too
        released,  // by us; `how` is done if another owner of the token had completed it
        completed, // lock::completed() was called
    };
    kind what;
    const names &lock;                      // while the callback runs
    std::optional<shedlock::token> token{}; // none if refused
    std::optional<instant> tick{};          // of the acquisition; options.tick if refused; none with only a token
    std::optional<outcome> how{};           // of released
    std::chrono::microseconds took{};       // by the call, including its wait; for keep-alive, by the request
    std::chrono::microseconds held_for{};   // since it was acquired; zero if only the token is known
};

// Of the functions in the database.
struct edition {
    std::string name; // extension or portable
    std::string version;
};

struct client_settings {
    // How long a call may take, including the time it waits for other calls of this client; acquire and pause may take
    // their wait as well. If the server has not answered by then, the connection is closed. A connection that broke is
    // opened again within this time. Opening cannot be interrupted. A call stops waiting for it after this time, but
    // the destructor of the last owner of a client and its locks waits for connect_timeout per address at most, and for
    // name lookups; and after an acquire in doubt up to 5 s, to release what may have been granted. Default of
    // connect_timeout: this time for all hosts together, but at least 2 s for each.
    std::chrono::milliseconds timeout = std::chrono::seconds{5};
    // Called by any thread, perhaps by several at once. It must not throw. It must be brief and extend no lock, because
    // keep-alive waits for it. It is not called any more once the client and its locks are gone, unless the last of
    // them was destroyed in a callback. Default: writes a line to stderr, or as much of it as
    // that takes without waiting
    std::function<void(const event &)> on_event{};
    // Called under the same rules, by the thread that did it. Nothing is allocated for it. Default: empty, not called
    std::function<void(const activity &)> on_activity{};
};

// ---- Lock ----

namespace internal {
struct core;
struct limits;
struct tool_access;
class lease;
} // namespace internal

// An acquisition. Move-only. Once moved from, released, completed or detached it is inert: held() is false, release()
// and completed() do nothing, and everything else but deadline() and stop_token() throws usage_error. It may outlive
// its client. Any thread may call held(), deadline() and stop_token() while another thread uses the lock, but not while
// another moves or destroys it. Everything else may be called by one thread at a time.
class SHEDLOCK_EXPORT lock {
public:
    lock(lock &&) noexcept;
    lock &operator=(lock &&) noexcept; // releases the acquisition that it had, as the destructor does
    // Releases the lock as failed: only release(), client::run and a committed completion report the work as done. If
    // no exception ends its scope, the lock was held, and complete_statement() was not called, that is an event
    // (not_reported), since the release() was probably forgotten. Never throws: a failure is reported to on_event, and
    // the lease ends by itself. Waits for the server half as long as client_settings::timeout. If the server does not
    // answer, the next destructor waits half as long, and so on, so that many locks together take no longer than one
    // call.
    ~lock();

    // Whether the lease can be trusted now, by our own clock, without asking the server. Once false it stays false,
    // even if the lease is extended. It is also false once keep-alive or extend() has learned that another program with
    // the token has released the lock as done (shedlock_complete_token), because other callers may hold it by then.
    // Several names count as released as done only when all of them are; until then the others are kept alive.
    [[nodiscard]] bool held() const noexcept;
    // Until when the lease can be trusted. It is counted from before the request was sent, and is earlier than the
    // server's lock_until by min(at_most / 10, 6 s) + at_most / 1000, to allow for clocks that run at different rates
    // and for stopping the work. If the lock was lost, released, completed, detached or moved from, it is in the past,
    // and deadline() - clock::now() is negative and does not overflow.
    [[nodiscard]] clock::time_point deadline() const noexcept;
    // The stop is requested at the deadline, or as soon as keep-alive or extend() learns that the lock is lost. A
    // release does not request it, and neither does the news that the lock was released as done. Callbacks run on a
    // thread of the library, which blocks signals, and so does a program that they start, unless they unblock them. A
    // slow callback does not delay those of other locks.
    [[nodiscard]] std::stop_token stop_token() const noexcept;

    [[nodiscard]] shedlock::token token() const;
    [[nodiscard]] const shedlock::names &names() const;
    // options.tick, or what the server computed for options.every or options.cron.
    [[nodiscard]] std::optional<instant> tick() const;

    // The lease lasts for at_most from now, and the lock is kept for at_least from now if that is given. From now on
    // keep-alive extends by at_most, too. Throws lock_lost, with SQLSTATE SL002 if the lock was released as done
    // before; connection_error if it did not happen; in_doubt if it may have. If the request may have been sent, the
    // shorter of the old and the new lease is trusted. Because the request may still be carried out, even after later
    // ones, no later extend is trusted for longer than this at_most, and keep-alive extends often enough for that.
    void extend(std::chrono::microseconds at_most, std::optional<std::chrono::microseconds> at_least = std::nullopt);

    // Throws lock_lost if the lease had ended or another caller has acquired the lock. Throws connection_error if the
    // request could not be sent or the row stayed locked by another transaction, and in_doubt if its reply was lost and
    // no later try settled it: none came through, or the lock was not ours any more, so that "done" may not have been
    // recorded. The lease then ends by itself. If the lock was already released as done, the call succeeds, and the
    // lock stays done whatever outcome is given. The lock is inert in any case, except that release() may be called
    // again after connection_error and in_doubt.
    //
    // detail: a text about the run, such as why it failed. It is kept, up to 1000 characters of it, in
    // shedlock_history, if the administrator has a history kept (shedlock_keep_history); bytes that cannot be stored as
    // \xNN. Default: none
    void release(outcome = outcome::done, std::string_view detail = {});

    // Statements that the application executes in its own transactions, with any driver. (For libpqxx,
    // <shedlock/pqxx.hpp> has shedlock::guard(lock, tx) and shedlock::commit(lock, tx).) Each is one line, in ASCII if
    // the name of the schema is. SQLSTATE SL001, from the statement or from the commit, means that the lock was lost
    // and nothing was committed.
    //
    // From this statement on, the transaction commits only if no other acquisition of these locks has happened since
    // ours.
    [[nodiscard]] std::string guard_statement() const;
    // The same, and the commit releases the lock as done. Execute it last, and call completed() when the commit has
    // succeeded. If it failed, the lock is still held, and another transaction may complete it.
    //
    // From this call on, the work is done only if such a commit has succeeded, which the client cannot see. So
    // client::run releases as failed, as the destructor does, which changes nothing after the commit. Keep-alive goes
    // on, in case the commit fails. But an extend that fails may be the effect of the commit, so keep-alive reports
    // neither trouble nor loss, and requests no stop; held() is then false.
    [[nodiscard]] std::string complete_statement();
    // The transaction has committed: the lock is inert from now on.
    void completed() noexcept;

    // Hands the acquisition over, without releasing it, to whoever uses the token from now on. Ends keep-alive, and
    // waits for an extend that it has already sent, but no longer than client_settings::timeout.
    shedlock::token detach();

private:
    friend class client;
    friend struct internal::tool_access;
    lock(std::shared_ptr<internal::core>, std::shared_ptr<internal::lease>) noexcept;
    internal::lease &require() const;
    bool end() noexcept;
    void release_quietly(bool may_be_forgotten) noexcept;
    bool give_back(outcome, std::string_view detail = {});
    void fail(const std::exception *why) noexcept;
    void report_unreleased(const std::exception &) const noexcept;

    std::shared_ptr<internal::core> core_;
    std::shared_ptr<internal::lease> lease_;
};

// ---- Client ----

// A client has one connection, which is opened when it is first needed and again whenever it has broken; a second one
// while leases are extended, a third one while a caller waits for a lock, and a fourth one after an acquire in doubt.
// Nothing depends on their sessions, so they may go through PgBouncer in any pooling mode. Any thread may call anything
// at any time, but not while another moves or destroys the client. Requests are sent one after the other, but a call
// that waits for a lock does not hold up the others. Once the client is moved from, every function throws usage_error.
//
// Every function can throw connection_error, usage_error (the server checks the arguments) and error.
class SHEDLOCK_EXPORT client {
public:
    // A libpq connection string or URI; PG* variables and service files supply what it leaves out. Of several hosts,
    // the one that accepts writes is used (target_session_attrs=read-write unless you say otherwise).
    explicit client(const std::string &connection = {}, client_settings settings = {});

    // The function supplies the connection string whenever a connection is opened, for credentials that change. It is
    // called by threads of the library (see lock::stop_token), perhaps by several at once; if it throws, that becomes a
    // connection_error.
    template <std::invocable Source>
    requires std::convertible_to<std::invoke_result_t<Source &>, std::string>
    explicit client(Source source, client_settings settings = {}) : core_{make_core(std::move(source), settings)} {}
    client(client &&) noexcept;
    client &operator=(client &&) noexcept;
    ~client();

    // The lock, or nullopt if refused. If why is given it is filled in.
    // Never waits for another holder or transaction. Throws in_doubt, too; and lock_lost when the lease ended before
    // the client knew that it had the lock, because a reply was lost or late, or this machine was suspended.
    [[nodiscard]] std::optional<lock> try_acquire(const names &, const options &, refusal *why = nullptr);

    // Waits until granted, until wait has passed, or until a stop is requested, and does not ask again after a stop,
    // unless a reply was lost. The server wakes the callers; one connection, with next to no load, serves all callers
    // that wait through this client. Where the server cannot wake them (behind a pooler; on the portable edition; up to
    // PostgreSQL 16 without shared_preload_libraries), each asks every 50 to 100 ms. Also waits for a server that
    // cannot be reached: connection_error is thrown only when wait has passed or a stop was requested. A tick that has
    // had its run is refused at once; with retry, only if that run is known to be done, or if a later tick has been
    // acquired.
    [[nodiscard]] std::optional<lock> acquire(const names &, const options &, std::chrono::microseconds wait,
                                              std::stop_token stop = {}, refusal *why = nullptr);

    // Runs work(lock) under the lock, releases it, and returns true; returns false if refused. The work returns
    // nothing, which means done, or an outcome. If it throws, the lock is released as failed, with the first line of a
    // std::exception's what() as the detail, and the exception passes through. If the lock was not held until the end
    // of the work, it is also released as failed, and lock_lost is thrown, unless the lock was released as done before.
    // If it was held, but the server does not answer or the row stays locked, that is an event (not_released); other
    // errors of the release are thrown.
    template <std::invocable<lock &> Work> [[nodiscard]] bool run(const names &what, const options &how, Work &&work)
    {
        auto acquired = try_acquire(what, how);
        if (!acquired)
            return false;
        try {
            finish(*acquired, details::result_of(std::forward<Work>(work), *acquired));
        } catch (const std::exception &failure) {
            acquired->fail(&failure); // now: if nobody catches the exception, no destructor runs any more
            throw;
        } catch (...) {
            acquired->fail(nullptr);
            throw;
        }
        return true;
    }

    // For acquisitions of which only the token is known. They throw what lock::extend and lock::release throw.
    void extend(const names &, token, std::chrono::microseconds at_most,
                std::optional<std::chrono::microseconds> at_least = std::nullopt);
    void release(const names &, token, outcome = outcome::done, std::string_view detail = {});

    // For administrators. They throw in_doubt, too. force_release: true if the lock was not free; its holder's token is
    // then lost. pause: false if after wait the lock is still held, kept, or paused already, or another transaction has
    // its row. resume: false if it was not paused.
    bool force_release(const std::string &name);
    bool pause(const std::string &name, const std::optional<std::string> &reason = std::nullopt,
               std::chrono::microseconds wait = {});
    bool resume(const std::string &name);

    // The edition that the database has now. It may be replaced while the client is connected.
    [[nodiscard]] shedlock::edition edition();

private:
    friend struct internal::tool_access;
    std::optional<lock> acquire(const names &, const options &, const internal::limits &, refusal *why);
    // A function rather than a constructor. For a constructor, {} could mean a connection string or a function.
    static std::shared_ptr<internal::core> make_core(std::function<std::string()>, const client_settings &);
    internal::core &require() const;
    static void finish(lock &, outcome);
    std::shared_ptr<internal::core> core_;
};

} // namespace shedlock
