#include "acquisition.hpp"

#include "aftermath.hpp"
#include "literal.hpp"
#include "outage.hpp"
#include "protocol.hpp"
#include "refusal.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <new>
#include <random>
#include <unistd.h>

namespace shedlock::internal {

namespace {

using sql = details::sql;

std::string program_at_host()
{
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return std::string{program_invocation_short_name} + '@' + host + ':' + std::to_string(::getpid());
}

// Random digits, by which we recognise our row. They come first, because the server cuts the end of the holder's text
// if the column is too narrow for it.
std::string random_mark()
{
    static const char digits[] = "0123456789abcdef";
    std::random_device random;
    std::string mark;
    for (int i = 0; i < 8; ++i)
        mark += digits[random() % 16];
    return mark + ' ';
}

// One call of acquire, which may send several requests.
class acquiring {
public:
    acquiring(session &session, waiting &waiting, outage &outage, aftermath &aftermath, const names &names,
              const options &options, const limits &limits, refusal *why)
        : session_{session}, caller_{waiting, names}, outage_{outage}, aftermath_{aftermath}, limits_{limits},
          names_{names}, options_{options}, refusal_{why}, mark_{random_mark()}, name_{names_literal(names)},
          arguments_{sql::acquire_arguments(
              options, text_literal("holder", mark_ + (options.holder.empty() ? program_at_host() : options.holder)),
              limits.ends_with_session)},
          tick_{options.tick}
    {
        sql::require_one_tick(options);
    }

    // No caller wants the lock any more, whatever the server does with a request that got no reply.
    ~acquiring()
    {
        if (is_granted_ || (!unanswered_ && !in_doubt_))
            return;
        try {
            aftermath_.take({names_, mark_, std::move(unanswered_), session_.is_direct()});
        } catch (const std::exception &) { // no thread, or no memory
        }
    }
    acquiring(const acquiring &) = delete;
    acquiring &operator=(const acquiring &) = delete;

    std::optional<grant> ask_until_the_end()
    {
        const auto &end = limits_.end;
        const auto &stop = limits_.stop;
        for (;;) {
            const bool is_last = clock::now() >= end || stop.stop_requested();
            bool is_refused = false;
            asked_ = clock::now();
            try {
                auto granted = in_doubt_ ? find_out() : ask(is_last);
                reached();
                if (granted) {
                    is_granted_ = true;
                    return granted;
                }
                if (!in_doubt_ && (is_last || tick_has_run())) {
                    if (refusal_ && !is_explained_)
                        explain(look());
                    return std::nullopt;
                }
                is_refused = !in_doubt_;
            } catch (const std::exception &) {
                failed();
            }
            if (in_doubt_ && clock::now() >= doubt_ends_)
                throw in_doubt{"it is not known whether " + names_.to_text() +
                               " was acquired; if so, it is free again after at_most. " + why_};
            if (is_refused)
                caller_.wait(end, stop);
            else if (in_doubt_)
                rest(doubt_ends_);
            else
                backoff_.rest(server_end_.value_or(end), stop);
        }
    }

private:
    std::optional<grant> ask(bool is_last = false)
    {
        auto statement =
            call("shedlock_acquire_token", names_, arguments_) + ", " + sql::in_microseconds("tick") + sql::due(tick());
        const bool explains = refusal_ && is_last;
        if (explains) // in the same statement, after the attempt
            statement = "SELECT * FROM (" + statement +
                        " OFFSET 0) AS asked (setting, token, tick) LEFT JOIN LATERAL (" + locks_query(names_) +
                        " WHERE asked.token IS NULL) AS seen ON true";
        auto answer = session_.ask(
            statement, {name_}, time_limit(), {}, [this] { require_session(); }, &unanswered_);
        const auto first = answer.rows.at(0);
        if (first[2])
            tick_.emplace(std::chrono::microseconds{to_number(*first[2])});
        if (const auto granted = granted_by(answer.rows)) {
            if (limits_.ends_with_session)
                keep_session(); // any failure leaves the acquire in doubt: that session cannot be replaced
            return answer.notices.empty() ? grant{*granted, answer.sent, false, tick_}
                                          : confirm(*granted, answer.notice_text());
        }
        if (explains) {
            for (auto &row : answer.rows)
                row.erase(row.begin(), row.begin() + 3);
            explain(answer.rows);
        }
        return std::nullopt;
    }

    void require_session() const
    {
        if (limits_.ends_with_session && !session_.is_direct())
            throw usage_error{"the lock cannot end with the session, because there is a pooler in between, whose "
                              "sessions live on"};
    }

    // The server must notice that this host has died, while it waits for us as well as while it sends.
    void keep_session()
    {
        session_.pin();
        const auto at_most = [](const std::string &name, const char *limit) {
            return "pg_catalog.set_config('" + name + "', LEAST(NULLIF(pg_catalog.current_setting('" + name +
                   "'), '0')::pg_catalog.int4, " + limit + ")::pg_catalog.text, false)";
        };
        try {
            session_.ask("SELECT " + at_most("tcp_keepalives_idle", "10") + ", " +
                             at_most("tcp_keepalives_interval", "5") + ", " + at_most("tcp_keepalives_count", "3") +
                             ", " + at_most("tcp_user_timeout", "25000") +
                             ", pg_catalog.set_config('idle_session_timeout', '0', false)",
                         {}, time_limit());
        } catch (const error &failure) {
            begin_doubt(failure.what());
            throw in_doubt{"it is not certain that " + names_.to_text() + " was acquired: " + why_};
        }
    }

    // The tick, as SQL. The first answer fixes it. Until then it is computed for the moment of the call, however long
    // that answer takes.
    std::string tick() const
    {
        if (tick_)
            return sql::constant(*tick_);
        return options_.every ? tick_of(clock::now() - called_) : "NULL::pg_catalog.timestamptz";
    }

    // The tick of `every` at a time in the past.
    std::string tick_of(clock::duration ago) const { return sql::tick(options_, "@extschema@.shedlock_tick", ago); }

    void reached() noexcept
    {
        server_end_.reset();
        backoff_.reset();
        outage_.end(names_);
    }

    // Called in an exception handler. Returns if the call should try again; otherwise throws what the caller should
    // get.
    void unreached(const connection_error &failure)
    {
        if (!server_end_)
            server_end_ = limits_.server ? later(asked_, *limits_.server) : limits_.end;
        if (clock::now() >= *server_end_ || limits_.stop.stop_requested())
            throw;
        over_ = std::max(over_, later(*server_end_, session_.patience()));
        outage_.begin(names_, failure);
    }

    // The same, for any exception.
    void failed()
    try {
        throw;
    } catch (const reply_lost &failure) {
        begin_doubt(failure.what());
    } catch (const std::bad_alloc &) { // perhaps while the reply was read
        begin_doubt("out of memory");
    } catch (const in_doubt &) {
        throw;
    } catch (const connection_error &failure) {
        if (!in_doubt_)
            unreached(failure);
    } catch (const lock_lost &) {
        throw;
    } catch (const error &failure) { // while finding out: the statement was cancelled, for example
        if (!in_doubt_)
            throw;
        why_ = failure.what();
    }

    void begin_doubt(const std::string &why)
    {
        if (!std::exchange(in_doubt_, true)) {
            doubt_ends_ = limits_.ends_with_session ? clock::now() : time_limit(); // that session is lost
            latest_tick_ = tick_;
        }
        why_ = why;
    }

    // The rows show whether the locks are ours, once the transaction whose reply was lost is over. Until then we are
    // refused, although the rows that we see are free, or there are none.
    std::optional<grant> find_out()
    {
        const auto rows = look();
        if (const auto *const ours = row_with_mark(rows, mark_)) {
            if (options_.every && !tick_) // the lost reply contained it
                tick_.emplace(std::chrono::microseconds{to_number(ours->at(seen::last_tick).value())});
            return confirm(to_token(ours->at(seen::token)), why_); // lock_lost if its lease has ended meanwhile
        }
        const bool is_free = std::ranges::all_of(rows, [](const auto &row) { return row[seen::state] == "free"; });
        if (is_free)
            if (auto granted = ask())
                return granted;
        // These rows were read before ask(), and our mark was not in them, so a run in them is not ours. If another
        // caller has a lock, or has had the tick, the lost request was refused, too.
        in_doubt_ = is_free && !has_run(rows, latest_tick());
        return std::nullopt;
    }

    // The latest tick for which the lost request can have asked. Its tick was computed on the server, from the
    // moment of the call and the time that the request took to get there.
    std::optional<instant> latest_tick()
    {
        if (options_.every && !latest_tick_) {
            const auto answer = session_.ask("SELECT " + sql::in_microseconds(tick_of({})), {}, time_limit());
            latest_tick_.emplace(std::chrono::microseconds{to_number(answer.rows.at(0)[0].value())});
        }
        return latest_tick_;
    }

    // This only reads, so a lost reply leaves nothing in doubt.
    std::vector<fields> look()
    try {
        return session_.ask(locks_query(names_), {name_}, time_limit()).rows;
    } catch (const reply_lost &failure) {
        throw connection_error{failure.what(), failure.sqlstate()};
    }

    void explain(const std::vector<fields> &rows)
    {
        *refusal_ = refusal_of(rows, names_, tick_, options_.retry);
        is_explained_ = true;
    }

    // The row is ours, but perhaps only on this server: the backend may have been terminated, or its wait for the
    // synchronous standby cancelled, after the commit. (A notice says so, but in the server's language, so any notice
    // counts.) A fail-over would then forget the lock. An extend that succeeds without a notice is on the standby, and
    // so is everything that was written before.
    grant confirm(token number, const std::string &why)
    {
        const auto end = time_limit();
        const auto half = clock::now() + (end - clock::now()) / 2; // the other half is for a release
        try {
            const auto sent = persist(half, names_.to_text() + " was extended",
                                      [&] { return extend(session_, names_, number, options_.at_most, {}, half); });
            return {number, sent, true, tick_};
        } catch (const lock_lost &) {
            throw;
        } catch (const error &) {
            try {
                release_late(session_, names_, number, outcome::failed, end);
            } catch (const error &) { // then it ends by itself
            }
            throw in_doubt{"it is not certain that " + names_.to_text() + " was acquired: " + why};
        }
    }

    // Whether the tick is not due any more, for one of the names.
    bool has_run(const std::vector<fields> &rows, const std::optional<instant> &tick) const
    {
        return std::ranges::any_of(rows, [&](const auto &row) { return has_had_run(row, tick, options_.retry); });
    }

    // If so, it is useless to wait for it.
    bool tick_has_run() { return tick_ && has_run(look(), tick_); }

    // The time limit of the next request: the session's patience, but not beyond the whole call's time.
    clock::time_point time_limit() const { return std::min(session_.time_limit(), over_); }

    session &session_;
    waiting::caller caller_;
    outage &outage_;
    aftermath &aftermath_;
    backoff backoff_;
    const limits limits_;
    clock::time_point asked_{};                   // when the latest request began
    std::optional<clock::time_point> server_end_; // until when to wait for a server that could not be reached
    const names &names_;
    const options &options_;
    refusal *const refusal_;
    bool is_explained_ = false;
    const std::string mark_;
    const std::string name_;
    const std::string arguments_;
    std::optional<instant> tick_;
    const clock::time_point called_ = clock::now();
    // When the whole call must return.
    clock::time_point over_ = later(limits_.end, session_.patience());

    bool is_granted_ = false;
    bool in_doubt_ = false;
    std::string why_;
    clock::time_point doubt_ends_;
    std::optional<instant> latest_tick_;     // see latest_tick()
    std::unique_ptr<connection> unanswered_; // that of the latest request that got no reply in time
};

} // namespace

std::optional<grant> acquire(session &session, waiting &waiting, outage &outage, aftermath &aftermath,
                             const names &names, const options &options, const limits &limits, refusal *why)
{
    return acquiring{session, waiting, outage, aftermath, names, options, limits, why}.ask_until_the_end();
}

std::optional<token> granted_by(const std::vector<fields> &rows)
{
    const auto &field = rows.at(0).at(1);
    return field ? std::optional{to_token(field)} : std::nullopt;
}

token to_token(const std::optional<std::string> &field)
{
    return token{to_number(field.value())};
}

} // namespace shedlock::internal
