#include "acquisition.hpp"

#include "acquire_request.hpp"
#include "aftermath.hpp"
#include "outage.hpp"
#include "protocol.hpp"
#include "refusal.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <new>

namespace shedlock::internal {

namespace {

// One call of acquire, which may send several requests.
class acquiring {
public:
    acquiring(session &session, waiting &waiting, outage &outage, aftermath &aftermath, const names &names,
              const options &options, const limits &limits, refusal *why)
        : session_{session}, caller_{waiting, names}, outage_{outage}, aftermath_{aftermath}, names_{names},
          at_most_{options.at_most}, limits_{limits}, refusal_{why}, request_{session, names, options,
                                                                              limits.ends_with_session}
    {
    }

    // No caller wants the lock any more, whatever the server does with a request that got no reply.
    ~acquiring()
    {
        if (!unanswered_ && !doubt_)
            return;
        try {
            aftermath_.take({names_, request_.mark, std::move(unanswered_), session_.is_direct()});
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
            if (stop.stop_requested())
                over_ = std::min(over_, later(clock::now(), session_.patience()));
            const bool is_last = clock::now() >= end || stop.stop_requested();
            const bool explains = is_last && !doubt_;
            bool is_refused = false;
            asked_ = clock::now();
            try {
                auto granted = doubt_ ? find_out() : ask(explains ? refusal_ : nullptr);
                reached();
                if (granted) {
                    doubt_.reset();
                    unanswered_.reset();
                    return granted;
                }
                if (!doubt_ && (is_last || tick_is_over())) {
                    if (!explains)
                        explain();
                    return std::nullopt;
                }
                is_refused = !doubt_;
            } catch (const std::exception &) {
                failed();
            }
            if (doubt_ && clock::now() >= doubt_->end)
                throw in_doubt{"it is not known whether " + names_.to_text() +
                               " was acquired; if so, it is free again after at_most. " + doubt_->why};
            if (doubt_) {
                rest(doubt_->end);
            } else if (is_refused) {
                caller_.wait(std::min(end, late_), stop);
                if (stop.stop_requested()) { // another request could be granted, and use up the tick
                    explain();
                    return std::nullopt;
                }
            }
        }
    }

private:
    // From a lost reply until it is known whether that request was granted.
    struct doubt {
        std::string why;
        clock::time_point end;              // then the call gives up
        std::optional<instant> latest_tick; // see latest_tick()
    };

    std::optional<grant> ask(refusal *why = nullptr)
    {
        const auto answer = request_.ask(why, time_limit(), &unanswered_);
        if (!answer.token)
            return std::nullopt;
        if (limits_.ends_with_session)
            keep_session(); // any failure leaves the acquire in doubt: that session cannot be replaced
        return answer.notices.empty() ? grant{*answer.token, answer.sent, false, request_.tick()}
                                      : confirm(*answer.token, answer.notices);
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
            throw in_doubt{"it is not certain that " + names_.to_text() + " was acquired: " + doubt_->why};
        }
    }

    void reached() noexcept
    {
        server_end_.reset();
        backoff_.reset();
        outage_.end(names_);
    }

    // Called in an exception handler. Returns, after a pause, if the call should go on; otherwise throws what the
    // caller should get.
    void unreached(const connection_error &failure)
    {
        if (!server_end_)
            server_end_ = limits_.server ? later(asked_, *limits_.server) : limits_.end;
        if (clock::now() >= *server_end_ || limits_.stop.stop_requested())
            throw;
        over_ = std::max(over_, later(*server_end_, session_.patience()));
        outage_.begin(names_, failure);
        backoff_.rest(*server_end_, limits_.stop);
        if (limits_.stop.stop_requested())
            throw;
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
        if (!doubt_)
            unreached(failure);
    } catch (const lock_lost &) {
        throw;
    } catch (const error &failure) { // while finding out: the statement was cancelled, for example
        if (!doubt_)
            throw;
        doubt_->why = failure.what();
    }

    void begin_doubt(const std::string &why)
    {
        if (!doubt_) // a lock that ends with its session is lost with it
            doubt_ = {"", limits_.ends_with_session ? clock::now() : time_limit(), request_.tick()};
        doubt_->why = why;
    }

    // The rows show whether the locks are ours, once the transaction whose reply was lost is over. Until then we are
    // refused, although the rows that we see are free, or there are none.
    std::optional<grant> find_out()
    {
        const auto rows = look(latest_tick());
        if (const auto *const ours = row_with_mark(rows, request_.mark)) {
            request_.learn_tick(*ours);
            return confirm(to_token(ours->at(seen::token)), doubt_->why); // lock_lost if its lease has ended meanwhile
        }
        const bool is_free = std::ranges::all_of(rows, [](const auto &row) { return row[seen::state] == "free"; });
        if (is_free)
            if (auto granted = ask())
                return granted;
        // These rows were read before ask(), and our mark was not in them, so a run in them is not ours. If another
        // caller has a lock, or has had the tick, the lost request was refused, too. (That it is too late now does not
        // say so: it may have been granted in time, and not be visible yet.)
        if (!is_free || had_run(rows))
            doubt_.reset();
        return std::nullopt;
    }

    // The latest tick for which the lost request can have asked. Its tick was computed on the server, from the
    // moment of the call and the time that the request took to get there.
    const std::optional<instant> &latest_tick()
    {
        if (!doubt_->latest_tick)
            doubt_->latest_tick = request_.tick_now(time_limit());
        return doubt_->latest_tick;
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
                                      [&] { return extend(session_, names_, number, at_most_, {}, half); });
            return {number, sent, true, request_.tick()};
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

    void explain()
    {
        if (refusal_)
            *refusal_ = request_.explain(look(request_.tick()));
    }

    std::vector<fields> look(const std::optional<instant> &tick) { return request_.look(time_limit(), tick); }

    // If so, it is useless to wait for it. Otherwise notes until when it is not.
    bool tick_is_over()
    {
        if (!request_.tick())
            return false;
        const auto asked = clock::now();
        const auto rows = look(request_.tick());
        if (const auto left = late_in(rows))
            late_ = later(asked, *left);
        return is_not_due(rows);
    }

    // The time limit of the next request: the session's patience, but not beyond the whole call's time.
    clock::time_point time_limit() const { return std::min(session_.time_limit(), over_); }

    session &session_;
    waiting::caller caller_;
    outage &outage_;
    aftermath &aftermath_;
    backoff backoff_;
    const names &names_;
    const std::chrono::microseconds at_most_;
    const limits limits_;
    refusal *const refusal_;
    acquire_request request_;

    clock::time_point late_ = clock::time_point::max(); // when it will be too late for the tick
    clock::time_point asked_{};                         // when the latest request began
    std::optional<clock::time_point> server_end_;       // until when to wait for a server that could not be reached
    std::unique_ptr<connection> unanswered_;            // that of the latest request that got no reply in time
    std::optional<doubt> doubt_;
    // When the whole call must return.
    clock::time_point over_ =
        session_.connects_patiently() ? clock::time_point::max() : later(limits_.end, session_.patience());
};

} // namespace

std::optional<grant> acquire(session &session, waiting &waiting, outage &outage, aftermath &aftermath,
                             const names &names, const options &options, const limits &limits, refusal *why)
{
    return acquiring{session, waiting, outage, aftermath, names, options, limits, why}.ask_until_the_end();
}

} // namespace shedlock::internal
