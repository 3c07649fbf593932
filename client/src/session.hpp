// A connection to a database with our functions, the extension's or the portable edition's. It is opened for the first
// request, and again after it broke. Any thread may ask at any time; requests wait for each other.
#pragma once

#include "connection.hpp"
#include "source.hpp"

#include <atomic>
#include <future>

namespace shedlock::internal {

// The time at which only a quarter of the time from now to `until` is left. A request that is sent later may get no
// answer in time.
clock::time_point latest_request(clock::time_point until) noexcept;

// The functions are older than this client: they have no such function, argument or column. Nothing has happened.
class outdated : public usage_error {
public:
    using usage_error::usage_error;
};

// Returns ask(false) or, if the functions are too old for that, ask(true), which asks for less.
template <std::invocable<bool> Ask> auto ask_older(const Ask &ask)
try {
    return ask(false);
} catch (const outdated &) {
    return ask(true);
}

class session {
public:
    using source = internal::source;

    // patience: how long a request may take if it has no `until`.
    session(source, std::chrono::milliseconds patience, bool to_write = true, bool connects_patiently = false);
    ~session(); // waits until a connection that is being opened is open, or has failed

    // Runs one statement as a transaction of its own. @extschema@ in it is replaced with the functions' schema, and
    // @lock_timeout@ with a number of milliseconds that ends before `until`. The time until `until` includes waiting
    // for other requests, opening the connection and waiting for the answer. If there is no answer by then, the
    // connection is closed. Nothing is sent when less than a quarter of the time is left. `before` is called
    // immediately before sending. Throws reply_lost; connection_error when the request was not sent or the server
    // accepts no writes; usage_error when the functions are missing, too old (outdated) or too new; otherwise the error
    // that the server reported, and then nothing has happened. If there is no answer in time, and `unanswered_on` is
    // given, it gets the connection.
    reply ask(std::string_view sql, const fields &, clock::time_point until, const std::stop_token & = {},
              const std::function<void()> &before = {}, std::unique_ptr<connection> *unanswered_on = nullptr);
    reply ask(std::string_view sql, const fields &values) { return ask(sql, values, time_limit()); }
    shedlock::edition edition();
    // From now on until there is a connection, the time that opening one takes does not count. Otherwise a request
    // would give up while libpq is still trying the second of two addresses whose hosts do not answer.
    void connect_patiently() noexcept { connects_patiently_ = true; }
    [[nodiscard]] bool connects_patiently() const noexcept { return connects_patiently_; }
    // The lock ends with the connection as it is now. No other one is opened: once it is lost, requests throw
    // lock_lost.
    void pin();
    [[nodiscard]] bool is_pinned() const noexcept { return is_pinned_; }
    // Returns when the connection is lost, or a stop is requested.
    void await_loss(const std::stop_token &);
    bool try_to_open(clock::time_point until, const std::stop_token &);
    void close();                     // until the next request; does nothing during a request
    [[nodiscard]] bool is_occupied(); // by a request, now

    [[nodiscard]] std::chrono::milliseconds patience() const noexcept { return patience_; }
    [[nodiscard]] clock::time_point time_limit() const noexcept { return later(clock::now(), patience_); }

    // Whether the latest connection leads directly to the server. False before the first one, and behind a pooler,
    // whose few connections must not be spent on waiting.
    [[nodiscard]] bool is_direct() const noexcept { return is_direct_; }

    // The time limit for one of several requests that together must take no longer than the patience. The first gets
    // half of it. After each request that got no answer, or whose row was still locked at its time limit, the next one
    // gets half as long.
    [[nodiscard]] clock::time_point brief_limit() const noexcept;
    void count_busy(bool to_the_end) noexcept { busy_ = to_the_end ? busy_ + 1 : 0; }

    // The statement as ask() sends it, with the schema where the functions were last found. Sends nothing.
    std::string in_schema(std::string_view sql) const;

private:
    void open(clock::time_point &until, const std::stop_token &); // moves `until` if it connects patiently
    void find_functions(clock::time_point until, const std::stop_token &);
    reply send(const std::string &sql, const fields &, clock::time_point until, const std::stop_token &,
               std::unique_ptr<connection> *unanswered_on = nullptr);
    [[nodiscard]] std::string schema() const;
    [[nodiscard]] std::string within(std::string_view sql, clock::time_point until) const;
    [[noreturn]] void give_up(const std::string &why); // because the time is over

    const source source_;
    const std::chrono::milliseconds patience_;
    const bool to_write_;
    std::atomic<int> silences_ = 0; // requests in a row that got no answer in time
    std::atomic<int> busy_ = 0;     // requests in a row that found their rows locked
    std::atomic<bool> is_direct_ = false;
    std::atomic<bool> is_pinned_ = false;
    std::atomic<bool> connects_patiently_;

    mutable std::mutex schema_mutex_; // never held during a wait
    std::string schema_;              // quoted

    timed_mutex turn_;    // for what follows
    std::string lacking_; // the beginning of outdated's message
    std::string refusal_; // why the last attempt to connect failed
    std::unique_ptr<connection> connection_;
    std::future<std::unique_ptr<connection>> opening_;
};

} // namespace shedlock::internal
