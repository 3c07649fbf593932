#include "protocol.hpp"

#include "literal.hpp"

#include <algorithm>
#include <new>
#include <random>
#include <unistd.h>

namespace shedlock::internal {

namespace {

using namespace std::chrono_literals;

// Every statement begins so, for its own transaction: what the server has to say beside must reach us, whatever
// client_min_messages was set to, perhaps by a stranger behind the same pooler.
std::string call(std::string const &function, names const &names, std::string const &other_arguments)
{
    return "SELECT pg_catalog.set_config('client_min_messages', 'warning', true), @extschema@." + function +
           "($1::" + type_of(names) + ", " + other_arguments + ')';
}

std::string program_at_host()
{
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return std::string{program_invocation_short_name} + '@' + host + ':' + std::to_string(::getpid());
}

// Random digits, by which we find our row again. In front, for of a narrow column the end of locked_by is cut.
std::string random_mark()
{
    static char const digits[] = "0123456789abcdef";
    std::random_device random;
    std::string mark;
    for (int i = 0; i < 8; ++i)
        mark += digits[random() % 16];
    return mark + ' ';
}

token to_token(libpqxx::field const &field)
{
    return token{field.as<std::int64_t>()};
}

// One call of acquire, which may send several requests.
class acquiring {
public:
    acquiring(session &session, names const &names, options const &options)
        : session_{session}, names_{names}, options_{options}, mark_{random_mark()},
          arguments_{names_literal(names), interval_literal(options.at_most), interval_literal(options.at_least),
                     options.retry ? "true" : "false",
                     text_literal("holder", mark_ + (options.holder.empty() ? program_at_host() : options.holder))},
          tick_{options.tick}
    {
        if (options.tick && options.every)
            throw usage_error{"give a tick, or every, from which the server computes it; not both", "22023"};
    }

    std::optional<grant> until(clock::time_point end, std::stop_token const &stop)
    {
        for (;;) {
            try {
                if (auto granted = in_doubt_ ? find_out() : ask())
                    return granted;
                if (!in_doubt_ && (clock::now() >= end || stop.stop_requested() || tick_has_run()))
                    return std::nullopt;
            } catch (reply_lost const &failure) {
                begin_doubt(failure.what());
            } catch (std::bad_alloc const &) { // perhaps while the reply was read
                begin_doubt("out of memory");
            } catch (in_doubt const &) {
                throw;
            } catch (connection_error const &) {
                if (!in_doubt_ && (clock::now() >= end || stop.stop_requested()))
                    throw;
            } catch (lock_lost const &) {
                throw;
            } catch (error const &failure) { // cancelled, say, while finding out
                if (!in_doubt_)
                    throw;
                why_ = failure.what();
            }
            if (in_doubt_ && clock::now() >= doubt_ends_)
                throw in_doubt{"it is not known whether " + names_.to_text() +
                               " was acquired; if so, it is free again after at_most. " + why_};
            rest(in_doubt_ ? doubt_ends_ : end, in_doubt_ ? std::stop_token{} : stop);
        }
    }

private:
    std::optional<grant> ask()
    {
        auto const sent = clock::now();
        auto const answer =
            session_.ask(call("shedlock_acquire_token", names_,
                              "at_most => $2::pg_catalog.interval, at_least => $3::pg_catalog.interval, tick => tick,"
                              " retry => $4::pg_catalog.bool, holder => $5::pg_catalog.text") +
                             ", (extract(epoch FROM tick) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8"
                             " FROM (SELECT " +
                             tick() + " AS tick) AS due",
                         arguments_);
        auto const token = answer.rows[0][1];
        if (auto const tick = answer.rows[0][2]; !tick.is_null())
            tick_.emplace(std::chrono::microseconds{tick.as<std::int64_t>()});
        if (token.is_null())
            return std::nullopt;
        return answer.notice.empty() ? grant{to_token(token), sent, false} : confirm(to_token(token), answer.notice);
    }

    // An answer has fixed it. Until then it is that of the moment of the call, however long nobody has answered.
    std::string tick() const
    {
        if (tick_)
            return '\'' + timestamp_literal(*tick_) + "'::pg_catalog.timestamptz";
        if (!options_.every)
            return "NULL::pg_catalog.timestamptz";
        return "@extschema@.shedlock_tick('" + interval_literal(*options_.every) +
               "'::pg_catalog.interval, at => pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) '" +
               interval_literal(clock::now() - called_) + "'::pg_catalog.interval)";
    }

    void begin_doubt(std::string const &why)
    {
        if (!std::exchange(in_doubt_, true))
            doubt_ends_ = clock::now() + session_.patience();
        why_ = why;
    }

    // The row knows, once the transaction is decided of which we have no news. While it is not, we are refused,
    // although the row that we see is free, or not there.
    std::optional<grant> find_out()
    {
        auto const rows = look();
        if (!rows.empty() && std::string_view{rows[0][2].c_str()}.starts_with(mark_))
            return confirm(to_token(rows[0][0]), why_); // lock_lost if its lease has ended meanwhile
        if (rows.empty() || std::string_view{rows[0][1].c_str()} == "free")
            return ask();
        in_doubt_ = false; // somebody else has it: refused
        return std::nullopt;
    }

    pqxx::result look()
    {
        return session_
            .ask("SELECT token, state, holder, last_outcome FROM @extschema@.shedlock_locks"
                 " WHERE name OPERATOR(pg_catalog.=) $1::pg_catalog.text",
                 {names_.list().front()})
            .rows;
    }

    // The row is ours, but it may be so here only: the backend may have been terminated, or its wait for the
    // synchronous standby cancelled, when it had committed. (A notice says so, but in any language; so any notice
    // counts.) A fail-over would then forget the lock. An extend that gets through without a word is on the standby,
    // and so is what was written before.
    grant confirm(token number, std::string const &why)
    {
        auto const end = clock::now() + session_.patience();
        try {
            return {number,
                    persist(end, [&] { return extend(session_, names_, number, options_.at_most, std::nullopt); }),
                    true};
        } catch (lock_lost const &) {
            throw;
        } catch (error const &) {
            try {
                release(session_, names_, number, outcome::failed, clock::now());
            } catch (error const &) { // it ends by itself
            }
            throw in_doubt{"it is not certain that " + names_.to_text() + " was acquired: " + why};
        }
    }

    // It is no use to wait for a tick that has had its run; with retry, of one that was done. The view and its table
    // are locked one after the other, and by DROP EXTENSION perhaps the other way round: whom the server chooses to end
    // such a deadlock has learned nothing.
    bool tick_has_run()
    try {
        if (!tick_)
            return false;
        auto const rows = look();
        return !rows.empty() && !rows[0][0].is_null() &&
               rows[0][0].as<std::int64_t>() >= tick_->time_since_epoch().count() &&
               (!options_.retry || std::string_view{rows[0][3].c_str()} == "done");
    } catch (error const &failure) {
        if (failure.sqlstate() != "40P01")
            throw;
        return false;
    }

    session &session_;
    names const &names_;
    options const &options_;
    std::string const mark_;
    libpqxx::parameters const arguments_;
    decltype(options::tick) tick_;
    clock::time_point const called_ = clock::now();

    bool in_doubt_ = false;
    std::string why_;
    clock::time_point doubt_ends_;
};

} // namespace

bool rest(clock::time_point until, std::stop_token const &stop)
{
    static thread_local std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<int> between{50, 100};
    return sleep_until(std::min(until, clock::now() + std::chrono::milliseconds{between(random)}), stop);
}

std::optional<grant> acquire(session &session, names const &names, options const &options, clock::time_point until,
                             std::stop_token const &stop)
{
    return acquiring{session, names, options}.until(until, stop);
}

clock::time_point extend(session &session, names const &names, token token, std::chrono::microseconds at_most,
                         std::optional<std::chrono::microseconds> at_least,
                         std::optional<std::chrono::milliseconds> patience)
{
    auto const sent = clock::now();
    auto const answer = session.ask(
        call("shedlock_extend_token", names, "$2::pg_catalog.int8, $3::pg_catalog.interval, $4::pg_catalog.interval"),
        {names_literal(names), std::to_string(static_cast<std::int64_t>(token)), interval_literal(at_most),
         at_least ? std::optional{interval_literal(*at_least)} : std::nullopt},
        patience);
    if (!answer.rows[0][1].as<bool>())
        throw lock_lost{answer.notice, "SL001"};
    if (!answer.notice.empty())
        throw in_doubt{"it is not certain that " + names.to_text() +
                       " was extended. The server said: " + answer.notice};
    return sent;
}

std::string release(session &session, names const &names, token token, outcome how, clock::time_point until)
{
    for (tries mine{until, names.to_text() + " was released", tries::after_lost_reply::once_more};; rest(until))
        try {
            auto const answer =
                session.ask(call("shedlock_release_token", names, "$2::pg_catalog.int8, $3::pg_catalog.bool"),
                            {names_literal(names), std::to_string(static_cast<std::int64_t>(token)),
                             how == outcome::done ? "true" : "false"});
            if (answer.rows[0][1].as<bool>())
                return {};
            if (mine.lost_a_reply())
                return answer.notice;
            throw lock_lost{answer.notice, "SL001"};
        } catch (error const &) {
            mine.failed();
        }
}

void tries::failed()
try {
    throw;
} catch (reply_lost const &) {
    bool const is_first = !std::exchange(lost_a_reply_, true);
    if (clock::now() >= until_ && !(is_first && first_ == after_lost_reply::once_more))
        throw;
} catch (connection_error const &) {
    if (clock::now() >= until_)
        throw;
} catch (lock_lost const &) {
    throw;
} catch (error const &failure) {
    if (!lost_a_reply_)
        throw;
    if (clock::now() >= until_)
        throw in_doubt{"it is not known whether " + what_ + ". " + failure.what()};
}

} // namespace shedlock::internal
