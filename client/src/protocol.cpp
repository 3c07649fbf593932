#include "protocol.hpp"

#include "literal.hpp"

#include <algorithm>
#include <random>

namespace shedlock::internal {

using namespace std::chrono_literals;

void rest(clock::time_point until, const std::stop_token &stop)
{
    static thread_local std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<int> between{50, 100};
    sleep_until(std::min(until, clock::now() + std::chrono::milliseconds{between(random)}), stop);
}

namespace {

[[noreturn]] void raise_busy(const names &names, const char *participle)
{
    throw busy{names.to_text() + " was not " + participle + ": " + row_is_busy, "55P03"};
}

reply ask_to_release(session &session, const names &names, token token, outcome how, clock::time_point until,
                     bool nowait, std::string_view detail, const std::stop_token &stop = {})
{
    return ask_older([&](bool older) { // which keep no detail
        return session.ask(call("shedlock_release_token", names,
                                std::string{"$2::pg_catalog.int8, $3::pg_catalog.bool, nowait => "} +
                                    (nowait ? "true" : "false") + details::sql::detail(older ? "" : detail),
                                !nowait),
                           {names_literal(names), token_literal(token), how == outcome::done ? "true" : "false"}, until,
                           stop);
    });
}

// Whether it was refused because that acquisition has been released as done.
bool was_done(const reply &answer)
{
    return std::ranges::any_of(answer.notices,
                               [](const auto &one) { return one.sqlstate == sqlstate::released_as_done; });
}

// When several names are refused because one of them has been released as done, the others are still ours. So each is
// asked for by itself. This happens when a program completes one name after the other.

clock::time_point extend_each(session &session, const names &names, token token, std::chrono::microseconds at_most,
                              std::optional<std::chrono::microseconds> at_least, clock::time_point until)
{
    std::optional<clock::time_point> sent;
    std::optional<lock_lost> done;
    for (const auto &name : names.list())
        try {
            const auto now = extend(session, name, token, at_most, at_least, until);
            sent = sent.value_or(now);
        } catch (const lock_lost &failure) {
            if (failure.sqlstate() != sqlstate::released_as_done)
                throw;
            done = failure;
        } catch (const busy &failure) {
            if (!sent)
                throw;
            throw connection_error{failure.what()}; // some are extended
        }
    if (!sent)
        throw *done;
    return *sent;
}

released release_each(session &session, const names &names, token token, outcome how, clock::time_point until,
                      clock::time_point over, std::string_view detail)
{
    released all{.was_done = true};
    std::optional<lock_lost> lost;
    for (const auto &name : names.list())
        try {
            const auto one = release(session, name, token, how, until, over, detail);
            all.was_done = all.was_done && one.was_done;
            all.unclear += one.unclear;
        } catch (const lock_lost &failure) {
            lost = failure;
        }
    if (lost)
        throw *lost;
    return all;
}

extended extend_each(session &session, const extension &what, std::chrono::microseconds lock_wait,
                     clock::time_point until, const std::stop_token &stop)
{
    const std::vector<names> all{what.names.list().begin(), what.names.list().end()};
    std::vector<extension> each;
    for (const auto &name : all)
        each.push_back({name, what.token, what.at_most});
    bool is_some = false;
    extended done;
    for (const auto &one : extend_all(session, each, lock_wait, until, stop).each) {
        if (one.is_busy)
            done.is_busy = true;
        else if (!one.refused)
            is_some = true;
        else if (one.refused->sqlstate == sqlstate::released_as_done)
            done.refused = one.refused;
        else
            return one;
    }
    if (is_some || done.is_busy)
        done.refused.reset();
    return done;
}

} // namespace

void release_late(session &session, const names &names, token token, outcome how, clock::time_point over,
                  const std::stop_token &stop)
{
    ask_to_release(session, names, token, how, over, false, {}, stop);
}

clock::time_point extend(session &session, const names &names, token token, std::chrono::microseconds at_most,
                         std::optional<std::chrono::microseconds> at_least, clock::time_point until,
                         const std::function<void()> &before)
{
    const auto answer =
        session.ask(call("shedlock_extend_token", names,
                         "$2::pg_catalog.int8, $3::pg_catalog.interval, $4::pg_catalog.interval, nowait => true"),
                    {names_literal(names), token_literal(token), interval_literal(at_most),
                     at_least ? std::optional{interval_literal(*at_least)} : std::nullopt},
                    until, {}, before);
    const auto &is_extended = answer.rows.at(0)[1];
    if (!is_extended)
        raise_busy(names, "extended");
    if (is_extended != "t") {
        if (was_done(answer) && names.list().size() > 1)
            return extend_each(session, names, token, at_most, at_least, until);
        throw lock_lost{answer.notice_text(), was_done(answer) ? sqlstate::released_as_done : sqlstate::lost};
    }
    if (!answer.notices.empty())
        throw in_doubt{"it is not certain that " + names.to_text() +
                       " was extended. The server said: " + answer.notice_text()};
    return answer.sent;
}

extensions extend_all(session &session, const std::vector<extension> &all, std::chrono::microseconds lock_wait,
                      clock::time_point until, const std::stop_token &stop)
{
    std::vector<std::string> lists, tokens, at_mosts;
    for (const auto &one : all) {
        lists.push_back(array_literal(one.names.list()));
        tokens.push_back(token_literal(one.token));
        at_mosts.push_back(interval_literal(one.at_most));
    }
    const auto in_ms = std::chrono::ceil<std::chrono::milliseconds>(lock_wait).count();
    const auto answer = session.ask(
        "SELECT pg_catalog.set_config('client_min_messages', 'warning', true),"
        " pg_catalog.set_config('lock_timeout', $4, true),"
        " @extschema@.shedlock_extend_token(one.names::pg_catalog.text[], one.token, one.at_most, "
        "NULL::pg_catalog.interval, nowait => true)"
        " FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.int8[]),"
        " pg_catalog.unnest($3::pg_catalog.interval[])) AS one (names, token, at_most)",
        {array_literal(lists), array_literal(tokens), array_literal(at_mosts), std::to_string(in_ms)}, until, stop);
    // Each lock that was refused has a notice, in this order; any further notice is about the transaction.
    extensions done{answer.sent, {}};
    std::size_t said = 0;
    for (const auto &row : answer.rows)
        done.each.push_back(
            {.is_busy = !row[2], .refused = row[2] == "f" ? std::optional{answer.notices.at(said++)} : std::nullopt});
    if (said < answer.notices.size())
        throw in_doubt{"PostgreSQL said: " + answer.notices.back().text};
    for (std::size_t i = 0; i < all.size(); ++i)
        if (auto &one = done.each[i];
            one.refused && one.refused->sqlstate == sqlstate::released_as_done && all[i].names.list().size() > 1)
            one = extend_each(session, all[i], lock_wait, until, stop);
    return done;
}

released release(session &session, const names &names, token token, outcome how, clock::time_point until,
                 clock::time_point over, std::string_view detail)
{
    for (tries mine{until, over, names.to_text() + " was released"};; mine.rest())
        try {
            const auto answer = ask_to_release(session, names, token, how, over, true, detail);
            const auto &is_released = answer.rows.at(0)[1];
            if (!is_released)
                raise_busy(names, "released");
            if (is_released == "t")
                return {};
            if (was_done(answer))
                return names.list().size() > 1 ? release_each(session, names, token, how, until, over, detail)
                                               : released{.was_done = true};
            if (mine.may_have_happened())
                return {.unclear = answer.notice_text()};
            throw lock_lost{answer.notice_text(), sqlstate::lost};
        } catch (const error &) {
            mine.failed();
        }
}

void tries::failed()
try {
    throw;
} catch (const busy &failure) {
    pause_ = std::clamp<clock::duration>(2 * pause_, 20ms, 200ms); // short at first, because most transactions are
    if (later(clock::now(), pause_) >= latest_)
        give_up(failure);
} catch (const reply_lost &failure) {
    const bool is_first = !std::exchange(may_have_happened_, true);
    if (clock::now() >= (is_first ? over_ : until_))
        give_up(failure);
} catch (const in_doubt &) {
    may_have_happened_ = true;
    if (clock::now() >= until_)
        throw;
} catch (const connection_error &failure) {
    if (clock::now() >= until_)
        give_up(failure);
} catch (const lock_lost &) {
    throw;
} catch (const error &failure) {
    if (!may_have_happened_ || clock::now() >= until_)
        give_up(failure);
}

// Must be called in the handler of this failure.
void tries::give_up(const error &failure) const
{
    if (!may_have_happened_)
        throw;
    throw in_doubt{"it is not known whether " + what_ + ". " + failure.what(), failure.sqlstate()};
}

void tries::rest() const
{
    if (pause_ > 0ms)
        sleep_until(later(clock::now(), pause_), {});
    else
        internal::rest(until_);
}

} // namespace shedlock::internal
