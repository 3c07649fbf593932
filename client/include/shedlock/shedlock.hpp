// ShedLock for PostgreSQL: lease locks for scheduled jobs. At most one run at a time across all hosts; the others skip.
//
//     shedlock::client locks{"dbname=app"};
//     if (auto lock = locks.try_acquire("nightly", {.at_most = 10min, .at_least = 1min})) {
//         work();
//     } // released here
//
// The words (at_most, at_least, holder, token, tick, lost) are those of the SQL functions; see docs/reference.md. The
// extension is found in whatever schema it was created in, the portable edition by search_path. Strings are UTF-8. Link
// shedlock::shedlock (CMake) or `pkg-config shedlock`. It stands on libpq alone: no type of libpqxx crosses its ABI, so
// a program may have any libpqxx.
//
// After fork() the child's copies are inert: held() is false, destructors do nothing, all else throws usage_error. A
// child that needs locks makes a client of its own.
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

// The clock that leases are trusted by: it goes on while the machine is suspended, and nobody sets it (CLOCK_BOOTTIME).
struct SHEDLOCK_EXPORT clock {
    using duration = std::chrono::microseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;
    static time_point now() noexcept;
};

struct options {
    // The lease ends then, even if nobody releases. Must be given; 1 ms at least.
    std::chrono::microseconds at_most{};
    // Kept that long, even if released earlier.
    std::chrono::microseconds at_least{};
    // A thread, one for all locks of the client, extends the lease whenever a third of at_most has passed. It opens a
    // connection of its own then, and uses the client's while the server grants none.
    bool keep_alive = false;
    // The instant the schedule meant: at most one acquisition per name and tick.
    std::optional<instant> tick{};
    // Instead of a tick: the period of the schedule. The tick is then the server's shedlock_tick(every, zone), as it is
    // when the call is made.
    std::optional<std::chrono::microseconds> every{};
    // The time zone of every, as the server knows it (Europe/Berlin): its days are local days. Not without every.
    // Default: empty, UTC
    std::string zone{};
    // A tick counts when its run is done: one whose last run failed, or was never released, is still due. Needs a tick.
    bool retry = false;
    // Who, for people; by default program@host:pid. Eight random digits are put before it, by which the client finds
    // its own acquisition again when a reply was lost.
    std::string holder{};
};

// Why an acquire was refused. By the server's clock.
struct SHEDLOCK_EXPORT refusal {
    enum class reason {
        held,      // somebody has it
        kept,      // released, but within its at_least
        paused,    // by an administrator
        had_run,   // the tick has had its run
        undecided, // a transaction that is not decided yet has it, or it came free at that moment
    };
    using time = instant;

    reason why = reason::undecided;
    std::string name;            // of several, one that was in the way
    std::string holder{};        // for had_run and kept: who had it last; for paused: by whom, and the reason given
    std::optional<time> since{}; // when it was acquired
    std::optional<time> until{}; // at the latest; nothing: no end is known
    std::chrono::microseconds held_for{};

    [[nodiscard]] std::string to_text() const; // for people
};

// What nobody is there to catch: trouble in keep-alive and in destructors.
struct event {
    enum class kind {
        extend_failing,   // keep-alive could not extend the lease, or any lease, and goes on trying until the deadlines
        extend_recovered, // and then it could
        lost,             // the lease is not ours any more, or about to end: the work under it must stop
        not_released,     // nobody could be told: it ends by itself
        release_unclear,  // it is free, but perhaps not by us: the reply to the first request was lost
        // For the first of the calls that wait for a server that cannot be reached, whether for this lock or another:
        acquire_failing,   // acquire with a wait goes on trying, less and less often
        acquire_recovered, // and then it could ask
    };
    kind what;
    names lock;       // empty: several locks, or there was no memory for it
    std::string text; // for people; it names the lock, or how many there are
};

// What a client and its locks have done, for metrics. What went wrong is an event, or thrown.
struct activity {
    enum class kind {
        acquired,
        refused,
        extended,  // by keep-alive, too
        released,  // by us; as done also if another owner of the token had completed it
        completed, // lock::completed() was called
    };
    kind what;
    names const &lock;                      // while the callback runs
    std::optional<shedlock::token> token{}; // none if refused
    std::optional<instant> tick{};          // of the acquisition, if it had one. None if only the token is known
    std::optional<outcome> how{};           // of released
    std::chrono::microseconds took{};       // the call, its waiting included; of keep-alive, the request
    std::chrono::microseconds held_for{};   // since it was acquired; zero if only the token is known
};

// Of the functions in the database.
struct edition {
    std::string name; // extension or portable
    std::string version;
};

struct client_settings {
    // How long a call may take, its waiting for other callers included; an acquire may take its wait besides. When the
    // server has not answered by then, the connection is cut. One that broke is opened again within this time. Opening
    // cannot be interrupted: a call does not wait for it any longer, but the last owner of a client and its locks does,
    // for connect_timeout at most. That is this time for all hosts together, 2 s each at least, unless you set it.
    std::chrono::milliseconds timeout = std::chrono::seconds{5};
    // Called by any thread, perhaps by several at once; must not throw. Be brief, and extend no lock in it: keep-alive
    // waits for it. It is called no more when the last of the client and its locks is gone, unless that was destroyed
    // in a callback. By default a line on stderr.
    std::function<void(event const &)> on_event{};
    // Called the same way, by the thread that has done it. Nothing is allocated for it. Default: empty, nobody listens
    std::function<void(activity const &)> on_activity{};
};

// ---- Lock ----

namespace internal {
struct core;
struct limits;
struct tool_access;
class lease;
} // namespace internal

// An acquisition of ours. Move-only; moved-from, released, completed or detached it is inert: held() is false,
// release() and completed() do nothing, extend() and the statements throw usage_error. May outlive its client. held(),
// deadline() and stop_token() may be called by any thread while another uses the lock, unless that moves or destroys
// it; all else by one thread at a time.
class SHEDLOCK_EXPORT lock {
public:
    lock(lock &&) noexcept;
    lock &operator=(lock &&) noexcept; // releases what it had
    // Releases; as failed when an exception ends its scope, held() is false, or complete_statement() was called. Never
    // throws: what went wrong goes to on_event, and the lease ends by itself. Waits for the server half as long as
    // client_settings::timeout, and half of that after each time that it did not answer: many locks together take no
    // longer than one call.
    ~lock();

    // Whether the lease can be trusted now, by our own clock, without asking the server. Once false it stays so, even
    // if the lease is extended. False, too, once keep-alive or extend() has learned that the lock was released as done
    // by somebody else who has the token (shedlock_complete_token): others may have it. Of several names, those that
    // are not done yet are still kept.
    [[nodiscard]] bool held() const noexcept;
    // Until when: counted from before the request was sent, and a little (min(at_most / 10, 6 s) + at_most / 1000) less
    // than the server's lock_until, for clocks that run differently and for stopping the work.
    [[nodiscard]] clock::time_point deadline() const noexcept;
    // Requested at the deadline, or as soon as keep-alive learns that the lock is lost; not by a release, nor because
    // the lock turns out to be released as done. Callbacks run on a thread of the library, which blocks all signals.
    // One that takes long delays no other lock's.
    [[nodiscard]] std::stop_token stop_token() const noexcept;

    [[nodiscard]] shedlock::token token() const;
    [[nodiscard]] shedlock::names const &names() const;
    // options.tick, or what the server computed for options.every.
    [[nodiscard]] std::optional<instant> tick() const;

    // The lease lasts for at_most from now, and is kept for at_least from now if that is given. From now on keep-alive
    // extends by at_most, too. Throws lock_lost, with SQLSTATE SL002 if the lock was released as done before;
    // connection_error or in_doubt when it is not known to have happened. Then the shorter of the two leases is
    // trusted. And the request may still be carried out, even after later ones: so no later extend is trusted for
    // longer than its at_most, and keep-alive extends as often as that needs.
    void extend(std::chrono::microseconds at_most, std::optional<std::chrono::microseconds> at_least = std::nullopt);

    // Throws lock_lost if the lease had ended or been taken over, connection_error if the server could not be told:
    // then the lease ends by itself. If the lock was released as done before, that is as good, and stays so whatever
    // the outcome. The lock is inert in any case.
    void release(outcome = outcome::done);

    // Statements for transactions of the application, by any driver; for libpqxx there are shedlock::guard(lock, tx)
    // and shedlock::commit(lock, tx) in <shedlock/pqxx.hpp>. Each is one line of ASCII. SQLSTATE SL001, from the
    // statement or from the commit, means that the lock was lost, and that nothing was committed.
    //
    // From this statement on, the transaction commits only if no other acquisition of these locks has happened since
    // ours.
    [[nodiscard]] std::string guard_statement() const;
    // The same, and the commit releases the lock as done. Execute it last, and call completed() when the commit has
    // succeeded. If it failed, the lock is still held, and another transaction may complete it.
    //
    // From this call on, the work is done only if such a commit has succeeded, which the client cannot see. So the
    // destructor and client::run release as failed, which changes nothing after the commit. Keep-alive goes on, in case
    // the commit fails. But what it learns may be due to the commit, so it reports neither trouble nor loss, and
    // requests no stop; held() is then false.
    [[nodiscard]] std::string complete_statement();
    // The transaction has committed: the lock is inert from now on.
    void completed() noexcept;

    // Gives the acquisition away without releasing it, to whoever uses the token from now on. Ends keep-alive.
    shedlock::token detach();

private:
    friend class client;
    lock(std::shared_ptr<internal::core>, std::shared_ptr<internal::lease>) noexcept;
    internal::lease &require() const;
    void end() noexcept;
    void release_quietly() noexcept;
    bool give_back(outcome);
    void tell_unreleased(std::exception const &) const noexcept;

    std::shared_ptr<internal::core> core_;
    std::shared_ptr<internal::lease> lease_;
};

// ---- Client ----

// A connection, opened when it is first needed and again whenever it broke; a second one while leases are extended, a
// third one while somebody waits for a lock. Nothing depends on their sessions, so they may go through PgBouncer in any
// pooling mode. Any thread may call anything at any time; requests wait for each other, but not for each other's waits.
// Moved-from, everything throws usage_error.
//
// Everything throws connection_error, usage_error (arguments are checked by the server) and error.
class SHEDLOCK_EXPORT client {
public:
    // A libpq connection string or URI; PG* variables and service files say what it leaves out. With several hosts, the
    // one that takes writes is used (target_session_attrs=read-write unless you say otherwise).
    explicit client(std::string const &connection = {}, client_settings settings = {});

    // Asked for the connection string whenever a connection is opened: for credentials that change. Called by threads
    // of the library, perhaps by several at once; what it throws is told as connection_error.
    template <std::invocable Source>
    requires std::convertible_to<std::invoke_result_t<Source &>, std::string>
    explicit client(Source source, client_settings settings = {}) : core_{make_core(std::move(source), settings)} {}
    client(client &&) noexcept;
    client &operator=(client &&) noexcept;
    ~client();

    // The lock, or nothing: refused, and if you ask why, that is told; it costs the server a look at the whole table.
    // Never waits for another holder or transaction. Throws in_doubt.
    [[nodiscard]] std::optional<lock> try_acquire(names const &, options const &, refusal *why = nullptr);

    // Waits until granted, or wait has passed, or stop is requested. The server wakes who waits: one connection, and
    // next to no load, for all who wait through this client. Where it cannot (behind a pooler; up to PostgreSQL 16
    // without shared_preload_libraries), asks every 50 to 100 ms. Also waits for a server that cannot be reached:
    // connection_error is thrown only when wait has passed. A tick that has had its run is refused at once; with retry,
    // one whose run is known to be done.
    [[nodiscard]] std::optional<lock> acquire(names const &, options const &, std::chrono::microseconds wait,
                                              std::stop_token stop = {}, refusal *why = nullptr);

    // Runs work(lock) under the lock and releases it: true. Refused: false. An exception of work's own passes through,
    // and the lock is released as failed. If the lock was not held until the end of the work, it is released as failed,
    // too, and lock_lost is thrown, unless it was released as done before. If it was held, but the server could not be
    // told, that is an event (not_released).
    template <std::invocable<lock &> Work> [[nodiscard]] bool run(names const &what, options const &how, Work &&work)
    {
        auto acquired = try_acquire(what, how);
        if (!acquired)
            return false;
        std::invoke(std::forward<Work>(work), *acquired);
        finish(*acquired);
        return true;
    }

    // For acquisitions of which only the token is known. They throw what lock::extend and lock::release throw.
    void extend(names const &, token, std::chrono::microseconds at_most,
                std::optional<std::chrono::microseconds> at_least = std::nullopt);
    void release(names const &, token, outcome = outcome::done);

    // For administrators. force_release: true if somebody held it; the old holder's token is lost. pause: false if
    // somebody still holds it after wait, or it is paused already; throws in_doubt. resume: false if it was not paused.
    bool force_release(std::string const &name);
    bool pause(std::string const &name, std::optional<std::string> const &reason = std::nullopt,
               std::chrono::microseconds wait = {});
    bool resume(std::string const &name);

    // What the database has now: it may be replaced while we are connected.
    [[nodiscard]] shedlock::edition edition();

private:
    friend struct internal::tool_access;
    std::optional<lock> acquire(names const &, options const &, internal::limits const &, refusal *why);
    // No constructor: {} would fit that as well as a string.
    static std::shared_ptr<internal::core> make_core(std::function<std::string()>, client_settings const &);
    internal::core &require() const;
    static void finish(lock &);
    std::shared_ptr<internal::core> core_;
};

} // namespace shedlock
