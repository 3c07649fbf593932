#include "acquire_request.hpp"

#include "literal.hpp"
#include "refusal.hpp"

#include <algorithm>
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

// It comes first in the holder's text, because the server cuts the end of that if the column is too narrow for it.
std::string random_mark()
{
    static const char digits[] = "0123456789abcdef";
    std::random_device random;
    std::string mark;
    for (int i = 0; i < 8; ++i)
        mark += digits[random() % 16];
    return mark + ' ';
}

instant to_instant(const std::optional<std::string> &microseconds)
{
    return instant{std::chrono::microseconds{to_number(microseconds.value())}};
}

} // namespace

acquire_request::acquire_request(session &session, const names &names, const options &options, bool ends_with_session)
    : mark{random_mark()}, session_{session}, names_{names}, options_{options},
      ends_with_session_{ends_with_session}, name_{names_literal(names)},
      arguments_{sql::acquire_arguments(
          options, text_literal("holder", mark + (options.holder.empty() ? program_at_host() : options.holder)),
          ends_with_session)},
      tick_{options.tick}
{
    sql::require_one_tick(options);
}

acquire_request::answer acquire_request::ask(refusal *why, clock::time_point until,
                                             std::unique_ptr<connection> *unanswered_on)
{
    const auto asked = call("shedlock_acquire_token", names_, arguments_) + ", " + sql::in_microseconds("tick") +
                       ", tick" + sql::due(tick_sql());
    const auto send = [&](const std::string &statement) {
        return session_.ask(
            statement, {name_}, until, {}, [this] { require_session(); }, unanswered_on);
    };
    const auto explained = [&](bool older) { // in the same statement, after the attempt
        return send(
            "SELECT * FROM (" + asked + " OFFSET 0) AS asked (setting, token, microseconds, tick) LEFT JOIN LATERAL (" +
            rows_of_asked(has_tick() ? "asked.tick" : "", older) + " WHERE asked.token IS NULL) AS seen ON true");
    };
    auto reply = why ? ask_older(explained) : send(asked);
    if (const auto &tick = reply.rows.at(0)[2])
        tick_ = to_instant(tick);
    const auto granted = granted_by(reply.rows);
    if (!granted && why) {
        for (auto &row : reply.rows)
            row.erase(row.begin(), row.begin() + 4);
        *why = explain(reply.rows);
    }
    return {granted, reply.sent, reply.notice_text()};
}

void acquire_request::require_session() const
{
    if (ends_with_session_ && !session_.is_direct())
        throw usage_error{"the lock cannot end with the session, because there is a pooler in between, whose "
                          "sessions live on"};
}

std::vector<fields> acquire_request::look(clock::time_point until, const std::optional<instant> &tick)
try {
    return ask_older([&](bool older) {
        return session_.ask(rows_of_asked(tick ? sql::constant(*tick) : "", older), {name_}, until).rows;
    });
} catch (const reply_lost &failure) {
    throw connection_error{failure.what(), failure.sqlstate()};
}

std::string acquire_request::rows_of_asked(const std::string &tick, bool older) const
{
    return locks_query(names_, {tick, options_.retry, options_.start_within}, older);
}

refusal acquire_request::explain(const std::vector<fields> &rows) const
{
    auto told = refusal_of(rows, names_);
    if (told.why == refusal::reason::late)
        told.until = *tick_ + *options_.start_within;
    return told;
}

void acquire_request::learn_tick(const fields &own_row)
{
    if (has_schedule() && !tick_)
        tick_ = to_instant(own_row[seen::last_tick]);
}

std::optional<instant> acquire_request::tick_now(clock::time_point until)
{
    if (!has_schedule())
        return std::nullopt;
    const auto reply = session_.ask("SELECT " + sql::in_microseconds(tick_of_schedule({})), {}, until);
    return to_instant(reply.rows.at(0)[0]);
}

// The first answer fixes the tick. Until then it is computed for the moment of the call, however long that answer
// takes.
std::string acquire_request::tick_sql() const
{
    if (tick_)
        return sql::constant(*tick_);
    return has_schedule() ? tick_of_schedule(clock::now() - called_) : "NULL::pg_catalog.timestamptz";
}

bool acquire_request::has_schedule() const
{
    return sql::has_schedule(options_);
}

std::string acquire_request::tick_of_schedule(clock::duration ago) const
{
    return sql::tick(options_, "@extschema@.shedlock_tick", ago);
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
