#include "aftermath.hpp"

#include "acquire_request.hpp"
#include "literal.hpp"
#include "protocol.hpp"
#include "refusal.hpp"
#include "thread.hpp"

#include <algorithm>

namespace shedlock::internal {

aftermath::aftermath(session::source source, std::chrono::milliseconds patience) : own_{std::move(source), patience}
{
}

aftermath::~aftermath()
{
    if (!thread_.joinable())
        return;
    thread_.request_stop();
    std::unique_lock hold{mutex_};
    changed_.wait_for(hold, std::min<clock::duration>(own_.patience(), std::chrono::seconds{5}),
                      [this] { return is_idle_ && all_.empty(); });
    hurry_.request_stop();
}

void aftermath::take(given_up one)
{
    const std::lock_guard hold{mutex_};
    if (!thread_.joinable())
        thread_ = quietly([this] { return std::jthread{[this](const std::stop_token &end) { work(end); }}; });
    all_.push_back(std::move(one));
    changed_.notify_all();
}

void aftermath::work(const std::stop_token &end)
{
    on_library_thread = true;
    std::unique_lock hold{mutex_};
    while (changed_.wait(hold, end, [this] { return !all_.empty(); })) {
        auto one = std::move(all_.front());
        all_.pop_front();
        is_idle_ = false;
        hold.unlock();
        try {
            settle(std::move(one));
        } catch (const std::exception &) { // the lease ends by itself
        }
        own_.close();
        hold.lock();
        is_idle_ = true;
        changed_.notify_all();
    }
}

void aftermath::settle(given_up one)
{
    const auto until = own_.time_limit();
    std::optional<token> granted;
    if (one.over) {
        if (one.is_direct)
            cancel(one.over->backend(), until);
        try {
            granted = granted_by(one.over->await(latest_request(until), hurry_.get_token()).rows);
        } catch (const error &) { // an earlier request may have been granted, as when this one was refused
        }
        one.over.reset(); // a pooler forgets a request that it has not passed on
    }
    if (!granted) {
        const auto rows = own_.ask(locks_query(one.names), {names_literal(one.names)}, until, hurry_.get_token()).rows;
        if (const auto *const row = row_with_mark(rows, one.mark))
            granted = to_token(row->at(seen::token));
    }
    if (granted)
        release_late(own_, one.names, *granted, outcome::failed, until, hurry_.get_token());
}

// Over a connection of our own, which is encrypted and has time limits, as libpq's PQcancel does not before version 17.
// If that process does something else by now, it is left alone.
void aftermath::cancel(int backend, clock::time_point until)
try {
    own_.ask("SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity"
             " WHERE pid OPERATOR(pg_catalog.=) $1::pg_catalog.int4 AND state OPERATOR(pg_catalog.=) 'active'"
             " AND pg_catalog.strpos(query, 'shedlock_acquire_token') OPERATOR(pg_catalog.>) 0",
             {std::to_string(backend)}, until, hurry_.get_token());
} catch (const error &) { // the reply may come all the same
}

} // namespace shedlock::internal
